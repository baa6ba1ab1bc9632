"""Convert values to database rows and back, without side effects. Both directions of a type are next to each other.

A value that is read back equals the value that was saved. Times come back in UTC. Values that cannot be stored are
refused here, before the write is queued.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from agentlearn.errors import StoreError
from agentlearn.models.call_context import CallRecord
from agentlearn.store.text import escape, from_json, to_json
from agentlearn.types.author import Author
from agentlearn.types.experience import Experience, Library, Origin, Withheld
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
from agentlearn.types.trajectory import (
    Failure,
    ModelTurn,
    PromptRef,
    Step,
    ToolResult,
    Trajectory,
    Treatment,
    Usage,
    UserTurn,
    Verdict,
)


class TableRow(NamedTuple):
    """One row of a table, by column. `GroupCommit` adds the column `seq`."""

    table: str
    values: dict[str, object]


RowGroup = tuple[TableRow, ...]
"""Rows that are stored together or not at all."""


def row(table: str, **values: object) -> TableRow:
    """The row with storable values. Raises StoreError for a number that is not finite or a time without a time zone."""
    return TableRow(table, {column: _storable(value, table, column) for column, value in values.items()})


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
        raise StoreError(
            f"{column} of a {table} is {value}; store a finite number, or None if it is unknown",
            code="not_finite",
        )
    if isinstance(value, datetime) and value.tzinfo is None:
        raise StoreError(
            f"{column} of a {table} is {value.isoformat()!r} without a time zone; use datetime.now(UTC)",
            code="no_time_zone",
        )
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


def run_rows(event: RunEvent) -> RowGroup:
    """The row of a run event."""
    values = event.model_dump(exclude={"at"})
    return (row("run_event", **values, happened_at=event.at),)


def task_rows(tasks: Sequence[Task]) -> RowGroup:
    """One row per task."""
    return tuple(row("task", **(task.model_dump() | {"extra": task.extra})) for task in tasks)


def task_from_row(found: Mapping[str, Any]) -> Task:
    """The task in a row."""
    return Task(**_fields(Task, found))


def trajectory_rows(trajectory: Trajectory, messages: bytes) -> RowGroup:
    """The rows of one rollout: metadata, text and steps. messages: UTF-8. Raises StoreError for other bytes."""
    try:
        text = messages.decode()
    except UnicodeDecodeError as error:
        raise StoreError(f"the messages of rollout {trajectory.id!r} are not UTF-8: {error}") from error
    body = row(
        "trajectory_body",
        rollout=trajectory.id,
        format=MESSAGES_FORMAT,
        steps=to_json(_adapter(tuple[Step, ...]), trajectory.steps),
        messages=text,
    )
    return (_metadata_row(trajectory), body, *_step_rows(trajectory))


def _metadata_row(trajectory: Trajectory) -> TableRow:
    treatment, usage = trajectory.treatment, trajectory.usage
    failure, verdict = trajectory.failure, trajectory.verdict
    return row(
        "trajectory",
        id=trajectory.id,
        run=trajectory.run,
        phase=trajectory.phase,
        batch=trajectory.batch,
        task=trajectory.task,
        g=trajectory.g,
        attempt=trajectory.attempt,
        seed=trajectory.seed,
        model=treatment.model,
        library_version=treatment.library,
        masked=treatment.masked,
        offered=trajectory.offered,
        arm=treatment.arm,
        weights_step=treatment.weights_step,
        temperature=treatment.temperature,
        outcome=trajectory.outcome,
        failure_code=failure and failure.code,
        failure_message=failure and failure.message,
        failure_boundary=failure and failure.boundary,
        verdict=verdict and verdict.status,
        reward=verdict and verdict.reward,
        reason=verdict and verdict.reason,
        answer=trajectory.answer,
        requests=usage.requests,
        tokens_in=usage.tokens_in,
        tokens_cached=usage.tokens_cached,
        tokens_out=usage.tokens_out,
        cost_usd=trajectory.cost_usd,
        started_at=trajectory.started_at,
        seconds=trajectory.seconds,
        prompts=_prompts_json(trajectory.prompts),
        isolation=trajectory.isolation,
    )


def _step_rows(trajectory: Trajectory) -> Iterator[TableRow]:
    for ordinal, step in enumerate(trajectory.steps):
        turn = step if isinstance(step, ModelTurn) else None
        result = step if isinstance(step, ToolResult) else None
        usage = turn and turn.usage
        yield row(
            "step",
            rollout=trajectory.id,
            ordinal=ordinal,
            kind=step.kind,
            call=None if isinstance(step, UserTurn) else step.call,
            tool=result and result.tool,
            ok=result and result.ok,
            error=result and result.error,
            asked=tuple(call.tool for call in turn.tool_calls) if turn else (),
            tokens_in=usage and usage.tokens_in,
            tokens_cached=usage and usage.tokens_cached,
            tokens_out=usage and usage.tokens_out,
            seconds=None if isinstance(step, UserTurn) else step.seconds,
            finish=turn and turn.finish,
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
        id=found["id"],
        run=found["run"],
        phase=found["phase"],
        batch=found["batch"],
        task=found["task"],
        g=found["g"],
        attempt=found["attempt"],
        seed=found["seed"],
        treatment=Treatment(
            model=found["model"],
            library=found["library_version"],
            masked=tuple(found["masked"]),
            arm=found["arm"],
            weights_step=found["weights_step"],
            temperature=found["temperature"],
        ),
        offered=None if found["offered"] is None else tuple(found["offered"]),
        steps=from_json(_adapter(tuple[Step, ...]), found["steps"]),
        answer=found["answer"],
        failure=failure,
        verdict=verdict,
        usage=Usage(**_fields(Usage, found)),
        cost_usd=found["cost_usd"],
        started_at=time_of(found["started_at"]),
        seconds=found["seconds"],
        prompts=_prompts_of(found),
        isolation=found["isolation"],
    )


def call_rows(record: CallRecord) -> RowGroup:
    """The row of a journal entry."""
    values = record.model_dump(exclude={"at"})
    return (row("journal", **values, recorded_at=record.at),)


def feedback_rows(feedback: Feedback) -> RowGroup:
    """The row of a piece of feedback."""
    values = feedback.model_dump(exclude={"by", "at"})
    return (row("feedback", **values, who=feedback.by, given_at=feedback.at),)


def feedback_from_row(found: Mapping[str, Any]) -> Feedback:
    """The feedback in a row."""
    fields = {name: found[name] for name in Feedback.model_fields if name not in {"by", "at"}}
    return Feedback(**fields, by=found["who"], at=time_of(found["given_at"]))


def call_from_row(found: Mapping[str, Any]) -> CallRecord:
    """The journal entry in a row."""
    return CallRecord(**_fields(CallRecord, found), at=time_of(found["recorded_at"]))


def summary_rows(summary: Summary) -> RowGroup:
    """The row of a summary."""
    steps = to_json(_adapter(tuple[SummaryStep, ...]), summary.steps)
    values = summary.model_dump(exclude={"steps", "library", "prompts"})
    prompts = _prompts_json(summary.prompts)
    return (row("summary", **values, steps=steps, library_version=summary.library, prompts=prompts),)


def summary_from_row(found: Mapping[str, Any]) -> Summary:
    """The summary in a row."""
    return Summary(
        id=found["id"],
        run=found["run"],
        rollout=found["rollout"],
        steps=from_json(_adapter(tuple[SummaryStep, ...]), found["steps"]),
        raw=found["raw"],
        library=found["library_version"],
        prompts=_prompts_of(found),
    )


def proposal_rows(run: RunId, phase: str, batch: int, ended: Sequence[Ended]) -> RowGroup:
    """One row per proposal of a batch, with its outcome."""
    return tuple(_proposal_row(run, phase, batch, one) for one in ended)


def _proposal_row(run: RunId, phase: str, batch: int, ended: Ended) -> TableRow:
    proposal, end = ended.proposal, ended.end
    return row(
        "proposal",
        id=proposal.id,
        run=run,
        phase=phase,
        batch=batch,
        stage=proposal.stage,
        ordinal=proposal.ordinal,
        op=proposal.operation and proposal.operation.op,
        operation=proposal.operation and to_json(_adapter(Operation), proposal.operation),
        refusal=proposal.refusal and to_json(_adapter(Rejected), proposal.refusal),
        raw=proposal.raw,
        task=proposal.task,
        evidence=proposal.evidence,
        rests_on=proposal.rests_on,
        ended=end.end,
        ending=to_json(_adapter(End), end),
        experience=end.experience if isinstance(end, Applied) else None,
        folded_into=end.into if isinstance(end, Folded) else (),
        code=end.code if isinstance(end, Rejected | Quarantined) else None,
        flags=ended.flags,
        prompts=_prompts_json(proposal.prompts),
    )


def ended_from_row(found: Mapping[str, Any]) -> Ended:
    """The proposal in a row, with its outcome."""
    proposal = Proposal(
        id=found["id"],
        stage=found["stage"],
        ordinal=found["ordinal"],
        operation=found["operation"] and from_json(_adapter(Operation), found["operation"]),
        refusal=found["refusal"] and from_json(_adapter(Rejected), found["refusal"]),
        raw=found["raw"],
        task=found["task"],
        evidence=tuple(found["evidence"]),
        rests_on=tuple(found["rests_on"]),
        prompts=_prompts_of(found),
    )
    return Ended(proposal=proposal, end=from_json(_adapter(End), found["ending"]), flags=tuple(found["flags"]))


def decision_rows(decision: LessonDecision) -> RowGroup:
    """The row of a decision."""
    return (row("decision", **decision.model_dump(exclude={"at"}), decided_at=decision.at),)


def decision_from_row(found: Mapping[str, Any]) -> LessonDecision:
    """The decision in a row."""
    return LessonDecision(
        **{name: found[name] for name in LessonDecision.model_fields if name != "at"}, at=time_of(found["at"])
    )


def library_rows(library: Library, run: RunId | None, at: datetime) -> RowGroup:
    """The row of a library version and one row for each of its experiences."""
    version = row(
        "library_version",
        version=library.version,
        parent=library.parent,
        experiences=tuple(library.by_id),
        joined=library.joined,
        withheld=to_json(_adapter(tuple[Withheld, ...]), library.withheld) if library.withheld else None,
        saved_at=at,
        run=run,
    )
    held = (*library.experiences, *(one.experience for one in library.withheld))
    return (version, *(_experience_row(experience) for experience in held))


def withheld_of(found: Mapping[str, Any]) -> tuple[Withheld, ...]:
    """The withheld lessons in the row of a library version."""
    return from_json(_adapter(tuple[Withheld, ...]), found["withheld"]) if found["withheld"] else ()


def _experience_row(experience: Experience) -> TableRow:
    return row(
        "experience",
        id=experience.id,
        lesson=experience.lesson,
        tags=experience.tags,
        origin=experience.origin.kind,
        parents=experience.origin.parents,
        library_version=experience.origin.library,
        strangers=to_json(_adapter(tuple[Author, ...]), authors) if (authors := experience.origin.strangers) else None,
    )


def experience_from_row(found: Mapping[str, Any]) -> Experience:
    """The experience in a row."""
    origin = Origin(
        kind=found["origin"],
        parents=tuple(found["parents"]),
        library=found["library_version"],
        strangers=from_json(_adapter(tuple[Author, ...]), found["strangers"]) if found["strangers"] else (),
    )
    return Experience(id=found["id"], lesson=found["lesson"], tags=tuple(found["tags"]), origin=origin)


def _prompts_json(prompts: tuple[PromptRef, ...]) -> str:
    return to_json(_adapter(tuple[PromptRef, ...]), prompts)


def _prompts_of(found: Mapping[str, Any]) -> tuple[PromptRef, ...]:
    return from_json(_adapter(tuple[PromptRef, ...]), found["prompts"])


def prompt_rows(ref: PromptRef, text: str) -> RowGroup:
    """The row that holds a prompt's text."""
    return (row("blob", hash=ref.sha256, kind="prompt", name=ref.label, body=text),)


RUN_INPUTS = "ground"
"""The stored `kind` of run inputs; their `name` is the run id."""


def run_inputs_rows(run: RunId, run_inputs: RunInputs) -> RowGroup:
    """The row of a run's inputs."""
    identity = content_hash(RUN_INPUTS, run)
    return (row("blob", hash=identity, kind=RUN_INPUTS, name=run, body=to_json(_adapter(RunInputs), run_inputs)),)


RUN_FAILURE = "failure"
"""The stored `kind` of the reason why a run ended early; its `name` is the run id."""


def run_failure_rows(run: RunId, failure: RunFailure) -> RowGroup:
    """The row of the reason why a run ended early."""
    identity = content_hash(RUN_FAILURE, run, failure.at.isoformat())
    return (row("blob", hash=identity, kind=RUN_FAILURE, name=run, body=to_json(_adapter(RunFailure), failure)),)


def run_failure_from_row(found: Mapping[str, Any]) -> RunFailure:
    """The reason in a row."""
    return from_json(_adapter(RunFailure), found["body"])


def run_inputs_from_row(found: Mapping[str, Any]) -> RunInputs:
    """The run inputs in a row."""
    return from_json(_adapter(RunInputs), found["body"])


def _fields(of: type[Task | Usage | CallRecord], found: Mapping[str, Any]) -> dict[str, Any]:
    """The columns that are fields of the class."""
    return {name: found[name] for name in of.model_fields if name in found}


def metric_rows(run: RunId, step: int, values: Mapping[str, float]) -> RowGroup:
    """One row per finite number. Infinite numbers and NaN are left out."""
    return tuple(
        row("metric", run=run, step=step, name=name, value=float(value))
        for name, value in sorted(values.items())
        if math.isfinite(value)
    )
