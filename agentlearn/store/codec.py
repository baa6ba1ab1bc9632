"""Convert values to database rows and back, without side effects. Both directions of a type are next to each other.

A value that is read back equals the value that was saved. Times come back in UTC. Values that cannot be stored are
refused here, before the write is queued.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, Field, TypeAdapter
from pydantic_core import PydanticSerializationError

from agentlearn.errors import StoreDamaged, StoreError
from agentlearn.models.call_context import CallRecord
from agentlearn.types.experience import Experience, KeptFile, Library, Origin, Withheld
from agentlearn.types.group import Summary, SummaryStep
from agentlearn.types.ids import RunId, content_hash
from agentlearn.types.operation import (
    Applied,
    End,
    Ended,
    Feedback,
    Folded,
    LessonDecision,
    Operation,
    Proposal,
    Quarantined,
    Rejected,
)
from agentlearn.types.run_event import RunEvent, RunFailure, RunInputs
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Failure, ModelTurn, PromptRef, Step, Trajectory, Treatment, Usage, Verdict
from agentlearn.types.value import Author, Value

T = TypeVar("T")
V = TypeVar("V", bound=BaseModel)

_SIGN = "\u241b"
_UNSAFE = re.compile(f"[\x00{_SIGN}\ud800-\udfff]")
_ESCAPED = re.compile(f"{_SIGN}([0-9a-f]{{4}})")
_SURROGATE = re.compile("[\ud800-\udfff]")


def escape(text: str) -> str:
    """The text in a form that the database can store."""
    if text.isascii() and "\x00" not in text:
        return text
    return _UNSAFE.sub(lambda match: f"{_SIGN}{ord(match[0]):04x}", text)


def unescape(text: str) -> str:
    """The original of a text escaped by `escape`."""
    if text.isascii():
        return text
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)


def _to_json(adapter: TypeAdapter[T], value: T) -> str:
    """The value as JSON. Lone surrogates are kept; `escape` handles them."""
    try:
        return adapter.dump_json(value).decode()
    except PydanticSerializationError:  # pydantic writes UTF-8, which has no lone surrogates
        return json.dumps(adapter.dump_python(value, mode="json"), ensure_ascii=False, separators=(",", ":"))


def _from_json(adapter: TypeAdapter[T], text: str) -> T:
    """The value in JSON written by `_to_json`. Raises pydantic.ValidationError."""
    if text.isascii() or not _SURROGATE.search(text):
        return adapter.validate_json(text)
    decoded: Any = json.loads(text)
    return adapter.validate_python(decoded)


def error_line(error: BaseException | None) -> str:
    """First line of an error's message, without a final full stop, for use inside a sentence."""
    return str(error).partition("\n")[0].rstrip(".")


def sql_string(text: object) -> str:
    """The text (or path) as a quoted SQL string."""
    escaped = str(text).replace("'", "''")
    return f"'{escaped}'"


class _TableRow(NamedTuple):
    """One row of a table, by column. `GroupCommit` adds the column `seq`."""

    table: str
    values: dict[str, object]


RowGroup = tuple[_TableRow, ...]
"""Rows that are stored together or not at all."""


def row(table: str, **values: object) -> _TableRow:
    """The row with storable values. Raises StoreError for a number that is not finite or a time without a time zone."""
    return _TableRow(table, {column: _storable(value, table, column) for column, value in values.items()})


def unfit_number(unit: RowGroup) -> str | None:
    """A sentence about the first integer that does not fit into 64 bits; None when all fit."""
    for table, values in unit:
        for column, value in values.items():
            if isinstance(value, int) and not -(2**63) <= value < 2**63:
                return f"{column} of a {table} is {value}, which does not fit into 64 bits"
    return None


def _storable(value: object, table: str, column: str) -> object:
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, tuple):
        return [_storable(item, table, column) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise StoreError(f"{column} of a {table} is {value}; store a finite number, or None if it is unknown")
    if isinstance(value, datetime) and value.tzinfo is None:
        raise StoreError(f"{column} of a {table} is {value.isoformat()!r} without a time zone; use datetime.now(UTC)")
    return value


MESSAGES_FORMAT = "pydantic-ai/2"
"""Format tag of the message JSON stored with a trajectory: the framework and its major version."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def time_of(microseconds: int) -> datetime:
    """The UTC time for microseconds since 1970. (DuckDB needs the package pytz to return a TIMESTAMPTZ directly.)"""
    return _EPOCH + timedelta(microseconds=microseconds)


@cache
def _adapter(of: Any) -> TypeAdapter[Any]:
    return TypeAdapter(of)


def _json(of: Any, value: Any) -> str | None:
    """The value as JSON of that type; None for None and for an empty tuple."""
    return _to_json(_adapter(of), value) if value else None


def from_json(of: Any, text: str | None) -> Any:
    """The value in JSON of that type; None for None."""
    return _from_json(_adapter(of), text) if text else None


_Steps = tuple[Step, ...]
_Prompts = tuple[PromptRef, ...]
_PARSED = {"operation": Operation, "refusal": Rejected, "prompts": _Prompts}
"""Columns of a proposal that hold JSON."""
_PLAIN = tuple(
    name
    for name in Trajectory.model_fields
    if name not in {"treatment", "steps", "failure", "verdict", "usage", "prompts"}
)
"""Fields of a trajectory that are columns."""


_COLUMNS: dict[type[BaseModel], dict[str, tuple[str, Callable[[Any], Any] | None]]] = {
    CallRecord: {"at": ("recorded_at", time_of)},
    Feedback: {
        "by": ("who", None),
        "at": ("given_at", time_of),
        "personal": ("personal", lambda text: from_json(dict[str, int], text) or {}),
        "given": ("given", lambda text: text or ""),
    },
    LessonDecision: {"at": ("at", time_of)},
    Proposal: {name: (name, partial(from_json, of)) for name, of in _PARSED.items()},
    Summary: {
        "library": ("library_version", None),
        "steps": ("steps", partial(from_json, tuple[SummaryStep, ...])),
        "prompts": ("prompts", partial(from_json, _Prompts)),
    },
    Treatment: {"library": ("library_version", None)},
}
"""For fields whose column has another name or another form: the column, and what makes the field of it."""


def value_from_row(of: type[V], found: Mapping[str, Any]) -> V:
    """The value of that class in a row."""
    fields: dict[str, Any] = {}
    for name in of.model_fields:
        column, read = _COLUMNS.get(of, {}).get(name, (name, None))
        if column in found:
            fields[name] = found[column] if read is None else read(found[column])
    return of(**fields)


def task_rows(tasks: Sequence[Task]) -> RowGroup:
    """One row per task."""
    return tuple(row("task", **(task.model_dump() | {"extra": task.extra})) for task in tasks)


def trajectory_rows(trajectory: Trajectory, messages: bytes) -> RowGroup:
    """The rows of one rollout: metadata, text and steps. messages: UTF-8. Raises StoreError for other bytes."""
    try:
        text = messages.decode()
    except UnicodeDecodeError as error:
        raise StoreError(f"the messages of rollout {trajectory.id!r} are not UTF-8: {error}") from error
    treatment, failure, verdict = trajectory.treatment, trajectory.failure, trajectory.verdict
    metadata = row(
        "trajectory",
        **{name: getattr(trajectory, name) for name in _PLAIN},
        **treatment.model_dump(exclude={"library"}),
        **trajectory.usage.model_dump(),
        library_version=treatment.library,
        outcome=trajectory.outcome,
        failure_code=failure and failure.code,
        failure_message=failure and failure.message,
        failure_boundary=failure and failure.boundary,
        verdict=verdict and verdict.status,
        reward=verdict and verdict.reward,
        reason=verdict and verdict.reason,
        prompts=_to_json(_adapter(_Prompts), trajectory.prompts),
    )
    body = row(
        "trajectory_body",
        rollout=trajectory.id,
        format=MESSAGES_FORMAT,
        steps=_to_json(_adapter(_Steps), trajectory.steps),
        messages=text,
    )
    return (metadata, body, *(_step_row(trajectory.id, ordinal, one) for ordinal, one in enumerate(trajectory.steps)))


def _step_row(rollout: str, ordinal: int, step: Step) -> _TableRow:
    turn = step if isinstance(step, ModelTurn) else None
    return row(
        "step",
        rollout=rollout,
        ordinal=ordinal,
        **{name: getattr(step, name, None) for name in ("kind", "call", "tool", "ok", "error", "seconds", "finish")},
        asked=tuple(call.tool for call in turn.tool_calls) if turn else (),
        tokens_in=turn and turn.usage.tokens_in,
        tokens_cached=turn and turn.usage.tokens_cached,
        tokens_out=turn and turn.usage.tokens_out,
    )


def trajectory_from_row(found: Mapping[str, Any]) -> Trajectory:
    """The trajectory in a row of metadata joined with the column `steps`."""
    failure = verdict = None
    if found["failure_code"] is not None:
        failure = Failure(
            code=found["failure_code"], message=found["failure_message"], boundary=found["failure_boundary"]
        )
    if found["verdict"] is not None:
        verdict = Verdict(status=found["verdict"], reward=found["reward"], reason=found["reason"])
    return Trajectory(
        **{name: found[name] for name in _PLAIN if name != "started_at"},
        started_at=time_of(found["started_at"]),
        treatment=value_from_row(Treatment, found),
        steps=from_json(_Steps, found["steps"]),
        failure=failure,
        verdict=verdict,
        usage=value_from_row(Usage, found),
        prompts=from_json(_Prompts, found["prompts"]),
    )


def proposal_rows(run: RunId, phase: str, batch: int, ended: Sequence[Ended]) -> RowGroup:
    """One row per proposal of a batch, with its outcome."""
    return tuple(
        row(
            "proposal",
            run=run,
            phase=phase,
            batch=batch,
            **one.proposal.model_dump(exclude={"operation", "refusal", "prompts"}),
            op=one.proposal.operation and one.proposal.operation.op,
            operation=_json(Operation, one.proposal.operation),
            refusal=_json(Rejected, one.proposal.refusal),
            ended=one.end.end,
            ending=_to_json(_adapter(End), one.end),
            experience=one.end.experience if isinstance(one.end, Applied) else None,
            folded_into=one.end.into if isinstance(one.end, Folded) else (),
            code=one.end.code if isinstance(one.end, Rejected | Quarantined) else None,
            flags=one.flags,
            prompts=_to_json(_adapter(_Prompts), one.proposal.prompts),
        )
        for one in ended
    )


def ended_from_row(found: Mapping[str, Any]) -> Ended:
    """The proposal in a row, with its outcome."""
    return Ended(
        proposal=value_from_row(Proposal, found), end=from_json(End, found["ending"]), flags=tuple(found["flags"])
    )


def library_rows(library: Library, run: RunId | None, at: datetime) -> RowGroup:
    """The row of a library version and one row for each of its experiences."""
    version = row(
        "library_version",
        version=library.version,
        parent=library.parent,
        experiences=tuple(library.by_id),
        joined=library.joined,
        withheld=_json(tuple[Withheld, ...], library.withheld),
        saved_at=at,
        run=run,
        document=library.document or None,
        files=_json(tuple[KeptFile, ...], library.files),
    )
    held = (*library.experiences, *(one.experience for one in library.withheld))
    return (
        version,
        *(
            row(
                "experience",
                id=one.id,
                lesson=one.lesson,
                tags=one.tags,
                origin=one.origin.kind,
                parents=one.origin.parents,
                library_version=one.origin.library,
                strangers=_json(tuple[Author, ...], one.origin.strangers),
            )
            for one in held
        ),
    )


def experience_from_row(found: Mapping[str, Any]) -> Experience:
    """The experience in a row."""
    origin = Origin(
        kind=found["origin"],
        parents=found["parents"],
        library=found["library_version"],
        strangers=from_json(tuple[Author, ...], found["strangers"]) or (),
    )
    return Experience(id=found["id"], lesson=found["lesson"], tags=found["tags"], origin=origin)


def document_rows(run: RunId, document: RunInputs | RunFailure) -> RowGroup:
    """The row of a document of a run: its inputs, or the reason why it ended early."""
    kind, at = ("failure", [document.at.isoformat()]) if isinstance(document, RunFailure) else ("ground", [])
    body = _to_json(_adapter(type(document)), document)
    return (row("blob", hash=content_hash(kind, run, *at), kind=kind, name=run, body=body),)


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
    user: str = ""
    personal: dict[str, int] = Field(default_factory=dict[str, int])


class FeedbackEntry(Value):
    """Feedback on a rollout that may not be in the store yet, or on an episode."""

    kind: Literal["feedback"] = "feedback"
    feedback: Feedback


class DecisionEntry(Value):
    """What a person decided, appended by any process while another one may have the store open."""

    kind: Literal["decision"] = "decision"
    decision: LessonDecision


class RolloutEntry(Value):
    """A finished rollout as an entry of the journal."""

    kind: Literal["rollout"] = "rollout"
    trajectory: Trajectory
    messages: str


class SummaryEntry(Value):
    """A summary as an entry of the journal."""

    kind: Literal["summary"] = "summary"
    summary: Summary


def request_key(call: str) -> str:
    """The hash under which the request of a model call is stored."""
    return content_hash("request", call)


EntryValue = Annotated[
    CallRecord | RolloutEntry | SummaryEntry | LiveRunEntry | LibraryEntry | LiveEntry | FeedbackEntry | DecisionEntry,
    Field(discriminator="kind"),
]
"""What the journal can hold."""


def encode_entry(value: EntryValue) -> bytes:
    """The bytes of an entry of the journal."""
    return escape(_to_json(_adapter(EntryValue), value)).encode()


def entry_rows(content: bytes) -> RowGroup:
    """The rows of an entry written by `encode_entry`. Raises StoreDamaged."""
    try:
        value: EntryValue = _from_json(_adapter(EntryValue), unescape(content.decode()))
    except (UnicodeDecodeError, ValueError) as error:
        raise StoreDamaged(f"an entry of the journal cannot be read: {error}") from error
    return rows_of_entry(value)


def rows_of_entry(value: EntryValue) -> RowGroup:
    """The rows of an entry. Raises StoreError for values that cannot be stored."""
    match value:
        case CallRecord():
            call = row("journal", **value.model_dump(exclude={"at", "asked"}), recorded_at=value.at)
            asked = row("blob", hash=request_key(value.id), kind="request", name=value.run, body=value.asked)
            return (call, asked) if value.asked else (call,)
        case RolloutEntry():
            return trajectory_rows(value.trajectory, value.messages.encode())
        case SummaryEntry():
            summary = value.summary
            steps = _to_json(_adapter(tuple[SummaryStep, ...]), summary.steps)
            prompts = _to_json(_adapter(_Prompts), summary.prompts)
            values = summary.model_dump(exclude={"steps", "library", "prompts"})
            return (row("summary", **values, steps=steps, library_version=summary.library, prompts=prompts),)
        case LiveRunEntry():
            return (row("run_event", **value.event.model_dump(exclude={"at"}), happened_at=value.event.at),)
        case LibraryEntry():
            return library_rows(value.library, None, value.at)
        case LiveEntry():
            # the rows of a rollout come first
            found = {
                "episode": value.episode,
                "user_name": value.user,
                "personal": _json(dict[str, int], value.personal),
            }
            live = row("live", rollout=value.trajectory.id, name=value.task.domain, **found)
            return (*trajectory_rows(value.trajectory, value.messages.encode()), live, *task_rows([value.task]))
        case FeedbackEntry():
            given = value.feedback
            values = given.model_dump(exclude={"by", "at", "personal"})
            personal = _json(dict[str, int], given.personal)
            return (row("feedback", **values, who=given.by, personal=personal, given_at=given.at),)
        case DecisionEntry():
            return (row("decision", **value.decision.model_dump(exclude={"at"}), decided_at=value.decision.at),)
