"""Entries of the journal: what each kind holds, its bytes, and the rows that it becomes in the database.

Stores append calls, rollouts and summaries; recorders of live traffic append the others, from any process and without
the store's lock.
"""

from datetime import datetime
from functools import cache
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from agentlearn.errors import StoreDamaged
from agentlearn.models.call_context import CallRecord
from agentlearn.store.codec import (
    RowGroup,
    call_rows,
    feedback_rows,
    library_rows,
    row,
    run_rows,
    summary_rows,
    task_rows,
    trajectory_rows,
)
from agentlearn.store.text import escape, from_json, to_json, unescape
from agentlearn.types.experience import Library
from agentlearn.types.group import Summary
from agentlearn.types.operation import Feedback
from agentlearn.types.run_event import RunEvent
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory
from agentlearn.types.value import Value


class LiveRunEntry(Value):
    """The run of a recorder in one process, appended with its first record."""

    kind: Literal["live_run"] = "live_run"
    event: RunEvent


class LibraryEntry(Value):
    """A library that was shown, appended before the first rollout that saw it."""

    kind: Literal["library"] = "library"
    library: Library
    at: datetime


class LiveEntry(Value):
    """A recorded rollout, with its task."""

    kind: Literal["live"] = "live"
    trajectory: Trajectory
    messages: str
    task: Task
    episode: str = ""


class FeedbackEntry(Value):
    """Feedback on a rollout that may not be in the store yet, or on an episode."""

    kind: Literal["feedback"] = "feedback"
    feedback: Feedback


class RolloutEntry(Value):
    """A finished rollout as an entry of the journal."""

    kind: Literal["rollout"] = "rollout"
    trajectory: Trajectory
    messages: str


class SummaryEntry(Value):
    """A summary as an entry of the journal."""

    kind: Literal["summary"] = "summary"
    summary: Summary


EntryValue = Annotated[
    CallRecord | RolloutEntry | SummaryEntry | LiveRunEntry | LibraryEntry | LiveEntry | FeedbackEntry,
    Field(discriminator="kind"),
]
"""What the journal can hold."""


@cache
def _adapter() -> TypeAdapter[EntryValue]:
    return TypeAdapter(EntryValue)


def encode_entry(value: EntryValue) -> bytes:
    """The bytes of an entry of the journal."""
    return escape(to_json(_adapter(), value)).encode()


def entry_rows(content: bytes) -> RowGroup:
    """The rows of an entry written by `encode_entry`. Raises StoreDamaged."""
    try:
        value: EntryValue = from_json(_adapter(), unescape(content.decode()))
    except (UnicodeDecodeError, ValueError) as error:
        raise StoreDamaged(f"an entry of the journal cannot be read: {error}") from error
    return rows_of_entry(value)


def rows_of_entry(value: EntryValue) -> RowGroup:
    """The rows of an entry. Raises StoreError for values that cannot be stored."""
    match value:
        case CallRecord():
            return call_rows(value)
        case RolloutEntry():
            return trajectory_rows(value.trajectory, value.messages.encode())
        case SummaryEntry():
            return summary_rows(value.summary)
        case LiveRunEntry():
            return run_rows(value.event)
        case LibraryEntry():
            return library_rows(value.library, None, value.at)
        case LiveEntry():
            # the rows of a rollout come first
            live = row("live", rollout=value.trajectory.id, name=value.task.domain, episode=value.episode)
            return (*trajectory_rows(value.trajectory, value.messages.encode()), live, *task_rows([value.task]))
        case FeedbackEntry():
            return feedback_rows(value.feedback)
