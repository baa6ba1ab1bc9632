"""What goes into the store comes out equal, whatever texts a model wrote and whatever numbers are finite."""

import asyncio
import json
import tempfile
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from agentlearn.models.call_context import CallRecord
from agentlearn.store import ProposalRow, Store, StoreReader, open_store, read_store
from agentlearn.store.codec import escape, unescape
from agentlearn.types.experience import Experience, Library, Origin
from agentlearn.types.group import Summary, SummaryStep
from agentlearn.types.ids import CallId, ExperienceId, LibraryVersion, ProposalId, RolloutId, RunId, TaskId
from agentlearn.types.operation import (
    Add,
    Applied,
    Delete,
    Dropped,
    Ended,
    Folded,
    Merge,
    Modify,
    Proposal,
    Quarantined,
    Rejected,
)
from agentlearn.types.run_event import RunEvent
from agentlearn.types.task import Task
from agentlearn.types.trajectory import (
    Failure,
    ModelTurn,
    PromptRef,
    ToolCall,
    ToolResult,
    Trajectory,
    Treatment,
    Usage,
    Verdict,
)

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

any_characters = st.characters(exclude_categories=())
texts = st.text(any_characters, max_size=30) | st.text(
    st.sampled_from("\x00\ud83d\ude00\udfff\u241bd800 \\u\"\n'"), max_size=12
)
ids = st.text(any_characters, min_size=1, max_size=8)
counts = st.integers(0, 2**62)
small = st.integers(0, 2**31 - 1)
reals = st.floats(allow_nan=False, allow_infinity=False)
zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
# hypothesis wants its limits without a zone; whatever the zone, these exist in UTC
earliest, latest = datetime(1, 1, 3), datetime(9999, 12, 29)  # noqa: DTZ001
times = st.datetimes(earliest, latest, timezones=zones)
lessons = st.sampled_from(["When adding, carry.", "Wenn zwei Züge …", "在计数时检查边界", "␛d800 is no escape"])
some_ids = st.lists(ids, max_size=2).map(tuple)
IDS = (RunId, TaskId, RolloutId, CallId, LibraryVersion, ExperienceId, ProposalId)
KNOWN: dict[Any, st.SearchStrategy[Any]] = {
    **dict.fromkeys(IDS, ids),
    **{kind | None: st.none() | ids for kind in IDS},
    str: texts,
    bool: st.booleans(),
    int: small,
    float: reals,
    datetime: times,
    str | None: st.none() | texts,
    int | None: st.none() | small,
    float | None: st.none() | reals,
}


def every(model: type[M], **given: Any) -> st.SearchStrategy[M]:
    """Any value of a model: its fields of simple types hold anything, if they are not given."""
    fields = {name: KNOWN[one.annotation] for name, one in model.model_fields.items() if one.annotation in KNOWN}
    return st.builds(model, **(fields | given))


def several_of(model: type[M], **given: Any) -> st.SearchStrategy[tuple[M, ...]]:
    return st.lists(every(model, **given), max_size=2).map(tuple)


usages = st.builds(Usage, requests=counts, tokens_in=counts, tokens_cached=counts, tokens_out=counts)
prompts = several_of(PromptRef)
trajectories = every(
    Trajectory,
    seed=counts,
    treatment=every(Treatment, masked=some_ids, temperature=st.none() | st.floats(0, 2)),
    steps=st.lists(every(ModelTurn, tool_calls=several_of(ToolCall), usage=usages) | every(ToolResult), max_size=4).map(
        tuple
    ),
    failure=st.none() | every(Failure, boundary=st.sampled_from(["endpoint", "tool", "deadline"])),
    verdict=st.none() | every(Verdict, status=st.sampled_from(["correct", "undecided", "partial"])),
    usage=usages,
    prompts=prompts,
)
records = every(
    CallRecord,
    stage=st.sampled_from(["rollout", "compare", "solve"]),
    kind=st.sampled_from(["model", "tool"]),
    tokens_in=counts,
    tokens_cached=counts,
    tokens_out=counts,
)
operations = (
    every(Add, lesson=lessons, tags=st.lists(texts, max_size=2).map(tuple))
    | every(Modify, lesson=lessons)
    | every(Merge, targets=st.lists(ids, min_size=2, max_size=3).map(tuple), lesson=lessons)
    | every(Delete)
)
folded = every(Folded, into=st.lists(ids, min_size=1, max_size=2).map(tuple))
endings = every(
    Ended,
    proposal=every(
        Proposal,
        stage=st.sampled_from(["compare", "consolidate"]),
        operation=st.none() | operations,
        refusal=st.none() | every(Rejected),
        evidence=some_ids,
        rests_on=some_ids,
        prompts=prompts,
    ),
    end=every(Applied) | folded | every(Dropped) | every(Rejected) | every(Quarantined),
    flags=st.lists(texts, max_size=2).map(tuple),
)
experiences = every(
    Experience,
    lesson=lessons,
    tags=st.lists(texts, max_size=2).map(tuple),
    origin=every(Origin, kind=st.sampled_from(["add", "modify", "merge", "person", "import"]), parents=some_ids),
)
libraries = st.builds(
    Library,
    parent=st.none() | ids,
    experiences=st.lists(experiences, max_size=4, unique_by=lambda one: one.id).map(tuple),
)
summaries = every(Summary, id=ids, steps=several_of(SummaryStep, used=some_ids), prompts=prompts)
events = every(
    RunEvent,
    kind=st.sampled_from(["learn", "solve", "eval", "train"]),
    state=st.sampled_from(["done", "failed"]),
    seed=counts,
)
tasks = st.builds(
    Task.of,
    texts,
    st.text(min_size=1, max_size=30),
    st.none() | texts,
    family=texts,
    split=st.sampled_from(["train", "test"]),
    source=texts,
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
messages = json_values.map(lambda value: json.dumps(value, ensure_ascii=False).encode())


def several(values: st.SearchStrategy[T], key: Callable[[T], object]) -> st.SearchStrategy[list[T]]:
    """Up to six values with different keys."""
    return st.lists(values, max_size=6, unique_by=key)


def round_trip(save: Callable[[Store], Coroutine[None, None, None]], check: Callable[[StoreReader], None]) -> None:
    """Save and check, and check again in the next opening, behind a checkpoint."""

    async def write(directory: Path) -> None:
        async with open_store(directory) as store:
            await save(store)
            check(store)

    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(write(Path(directory)))
        with read_store(Path(directory)) as reader:
            check(reader)


@given(texts)
def test_every_text_has_a_storable_form_and_comes_back(text: str) -> None:
    escaped = escape(text)
    escaped.encode()
    assert "\x00" not in escaped
    assert unescape(escaped) == text


@given(texts, texts)
def test_different_texts_are_stored_differently(one: str, other: str) -> None:
    assert (escape(one) == escape(other)) == (one == other)


@given(several(st.tuples(trajectories, messages), lambda pair: pair[0].id))
@settings(max_examples=8)
def test_trajectories(pairs: list[tuple[Trajectory, bytes]]) -> None:
    async def save(store: Store) -> None:
        async with asyncio.TaskGroup() as group:
            for trajectory, body in pairs:
                group.create_task(store.save_trajectory(trajectory, body))

    def check(reader: StoreReader) -> None:
        for trajectory, body in pairs:
            assert reader.trajectory(trajectory.id) == trajectory
            assert reader.messages(trajectory.id) == body

    round_trip(save, check)


@given(several(records, lambda record: record.id))
@settings(max_examples=5)
def test_the_journal(journal: list[CallRecord]) -> None:
    async def save(store: Store) -> None:
        for record in journal:
            await store.record(record)

    def check(reader: StoreReader) -> None:
        for record in journal:
            assert record.model_copy(update={"asked": ""}) in reader.calls(record.run, record.unit)
            assert reader.asked(record.id) == record.asked

    round_trip(save, check)


@given(several(endings, lambda ended: ended.proposal.id), several(summaries, lambda one: one.id), ids, texts)
@settings(max_examples=5)
def test_proposals_and_summaries(ended: list[Ended], told: list[Summary], run: str, phase: str) -> None:
    async def save(store: Store) -> None:
        await store.save_proposals(RunId(run), phase, 3, ended)
        for summary in told:
            await store.save_summary(summary)

    def check(reader: StoreReader) -> None:
        found = reader.proposals(RunId(run))
        assert len(found) == len(ended)
        assert all(ProposalRow(phase, 3, one, RunId(run)) in found for one in ended)
        assert all(summary in reader.summaries(summary.run) for summary in told)

    round_trip(save, check)


@given(several(libraries, lambda library: library.version), several(tasks, lambda task: task.id))
@settings(max_examples=5)
def test_libraries_and_tasks(versions: list[Library], run_inputs: list[Task]) -> None:
    first: dict[str, Experience] = {}  # an id names one experience for ever
    for library in versions:
        first = library.by_id | first
    versions = [
        Library(parent=library.parent, experiences=tuple(first[one] for one in library.by_id)) for library in versions
    ]

    async def save(store: Store) -> None:
        await store.save_tasks(run_inputs)
        for library in versions:
            await store.save_version(library, run=None)

    def check(reader: StoreReader) -> None:
        assert all(reader.library(library.version) == library for library in versions)
        assert all(reader.task(task.id) == task for task in run_inputs)

    round_trip(save, check)


@given(several(events, lambda event: event.run), texts)
@settings(max_examples=5)
def test_runs_and_prompts(history: list[RunEvent], prompt: str) -> None:
    async def save(store: Store) -> None:
        await store.save_prompt(PromptRef(name="p", version=1, sha256="ab"), prompt)
        for event in history:
            await store.save_run(event)

    def check(reader: StoreReader) -> None:
        assert reader.prompt("ab") == prompt
        for event in history:
            found = reader.run(event.run)
            kept = {name: getattr(found, name) for name in RunEvent.model_fields}
            assert RunEvent(**kept) == event
            assert found.started_at == event.at

    round_trip(save, check)
