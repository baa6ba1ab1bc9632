"""Entries of the journal that recorders of live traffic append, from any process and without the store's lock."""

from datetime import datetime
from typing import Literal

from agentlearn.types.experience import Library
from agentlearn.types.feedback import Feedback
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
