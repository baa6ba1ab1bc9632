"""What goes into the store comes out equal, whatever texts a model wrote and whatever numbers are finite."""

import asyncio
import json
import tempfile
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from agentlearn.models.call_context import CallRecord
from agentlearn.store import ProposalRow, Store, StoreReader, open_store, read_store
from agentlearn.store.text import escape, unescape
from agentlearn.types.experience import Experience, Library, Origin
from agentlearn.types.group import Summary, SummaryStep
from agentlearn.types.ids import RunId
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
usages = st.builds(Usage, requests=counts, tokens_in=counts, tokens_cached=counts, tokens_out=counts)
lessons = st.sampled_from(["When adding, carry.", "Wenn zwei Züge …", "在计数时检查边界", "␛d800 is no escape"])

steps = st.builds(
    ModelTurn,
    call=st.none() | ids,
    text=texts,
    thinking=texts,
    tool_calls=st.lists(st.builds(ToolCall, id=texts, tool=texts, arguments=texts), max_size=2).map(tuple),
    usage=usages,
    seconds=reals,
    finish=texts,
) | st.builds(ToolResult, call=texts, tool=texts, content=texts, ok=st.booleans(), error=texts, seconds=reals)

prompts = st.lists(st.builds(PromptRef, name=texts, version=small, sha256=texts), max_size=2).map(tuple)
trajectories = st.builds(
    Trajectory,
    id=ids,
    run=ids,
    phase=texts,
    batch=small,
    task=ids,
    g=small,
    attempt=small,
    seed=counts,
    treatment=st.builds(
        Treatment,
        model=texts,
        library=ids,
        masked=st.lists(ids, max_size=2).map(tuple),
        arm=texts,
        weights_step=st.none() | small,
        temperature=st.none() | st.floats(0, 2),
    ),
    steps=st.lists(steps, max_size=4).map(tuple),
    answer=st.none() | texts,
    failure=st.none()
    | st.builds(Failure, code=texts, message=texts, boundary=st.sampled_from(["endpoint", "tool", "deadline"])),
    verdict=st.none()
    | st.builds(
        Verdict, status=st.sampled_from(["correct", "undecided", "partial"]), reward=st.none() | reals, reason=texts
    ),
    usage=usages,
    cost_usd=st.none() | reals,
    started_at=times,
    seconds=reals,
    prompts=prompts,
    isolation=texts,
)
records = st.builds(
    CallRecord,
    id=ids,
    run=ids,
    stage=st.sampled_from(["rollout", "compare", "solve"]),
    unit=texts,
    ordinal=small,
    kind=st.sampled_from(["model", "tool"]),
    name=texts,
    ok=st.booleans(),
    error=texts,
    response=texts,
    request_hash=texts,
    tokens_in=counts,
    tokens_cached=counts,
    tokens_out=counts,
    cost_usd=st.none() | reals,
    attempts=small,
    seconds=reals,
    at=times,
)
operations = (
    st.builds(Add, lesson=lessons, tags=st.lists(texts, max_size=2).map(tuple))
    | st.builds(Modify, target=ids, lesson=lessons)
    | st.builds(Merge, targets=st.lists(ids, min_size=2, max_size=3).map(tuple), lesson=lessons)
    | st.builds(Delete, target=ids)
)
refusals = st.builds(Rejected, code=texts, reason=texts)
ends = (
    st.builds(Applied, experience=st.none() | ids)
    | st.builds(Folded, into=st.lists(ids, min_size=1, max_size=2).map(tuple))
    | st.builds(Dropped, reason=texts)
    | refusals
    | st.builds(Quarantined, code=texts, reason=texts)
)
endings = st.builds(
    Ended,
    proposal=st.builds(
        Proposal,
        id=ids,
        stage=st.sampled_from(["compare", "consolidate"]),
        ordinal=small,
        operation=st.none() | operations,
        refusal=st.none() | refusals,
        raw=texts,
        task=st.none() | ids,
        evidence=st.lists(ids, max_size=3).map(tuple),
        rests_on=st.lists(ids, max_size=3).map(tuple),
        prompts=prompts,
    ),
    end=ends,
    flags=st.lists(texts, max_size=2).map(tuple),
)
experiences = st.builds(
    Experience,
    id=ids,
    lesson=lessons,
    tags=st.lists(texts, max_size=2).map(tuple),
    origin=st.builds(
        Origin,
        kind=st.sampled_from(["add", "modify", "merge", "person", "import"]),
        parents=st.lists(ids, max_size=2).map(tuple),
        library=st.none() | ids,
    ),
)
libraries = st.builds(
    Library,
    parent=st.none() | ids,
    experiences=st.lists(experiences, max_size=4, unique_by=lambda one: one.id).map(tuple),
)
summaries = st.builds(
    Summary,
    id=ids,
    run=ids,
    rollout=ids,
    steps=st.lists(st.builds(SummaryStep, text=texts, used=st.lists(ids, max_size=2).map(tuple)), max_size=3).map(
        tuple
    ),
    raw=texts,
    library=ids,
    prompts=prompts,
)
events = st.builds(
    RunEvent,
    run=ids,
    domain=texts,
    kind=st.sampled_from(["learn", "solve", "eval", "train"]),
    state=st.sampled_from(["done", "failed"]),
    model=texts,
    simulated=st.booleans(),
    seed=counts,
    settings=texts,
    package_version=texts,
    at=times,
    report=texts,
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
@settings(max_examples=12)
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
@settings(max_examples=8)
def test_the_journal(journal: list[CallRecord]) -> None:
    async def save(store: Store) -> None:
        for record in journal:
            await store.record(record)

    def check(reader: StoreReader) -> None:
        for record in journal:
            assert record in reader.calls(record.run, record.unit)

    round_trip(save, check)


@given(several(endings, lambda ended: ended.proposal.id), several(summaries, lambda one: one.id), ids, texts)
@settings(max_examples=8)
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
@settings(max_examples=8)
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
@settings(max_examples=8)
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
