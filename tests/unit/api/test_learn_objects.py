"""`learn` with an agent or a function, tasks and a reward of the user's own."""

import asyncio
import inspect
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from pydantic import BaseModel
from pydantic_ai.models.function import FunctionModel

from agentlearn import (
    LearnReport,
    LearnSettings,
    LibraryStore,
    Task,
    Trajectory,
    library_of,
    open_store,
    read_store,
    run_learning,
)
from agentlearn.cli.app import run as command
from agentlearn.config.solve_options import LearnOptions
from agentlearn.domain.base import Work
from agentlearn.errors import AgentlearnError, AllFailed, BudgetExceeded, ConfigError, DataError
from agentlearn.learning.callbacks import Callbacks
from agentlearn.learning.lessons.run_learning import learn, learn_sync
from agentlearn.rollout.recorded_run import FIRST
from tests.support.desk import LESSON, TICKETS, Ticket, desk_agent, desk_model, reply, right_team, right_text
from tests.support.loose_options import LOOSE

SMALL: dict[str, Any] = {"group_size": 3, "epochs": 1, "evaluate": False, "batch_size": 8, "validation_rollouts": 0}
WITHOUT_PARAMETER = {"store", "private_addresses", "given", "agent", "deps", "served_at"}
"""Fields of the settings that say where and how the run was started, and what the command line names by words."""


def outcomes(report: LearnReport) -> dict[str, int]:
    """The rollouts by how they count, those without any left out."""
    return {name: count for name, count in report.rollouts.items() if count}


def test_an_agent_learns_from_tasks_and_a_reward_of_its_own(tmp_path: Path) -> None:
    report = learn_sync(desk_agent(), TICKETS, reward=right_team, store=tmp_path, seed=1, epochs=1, group_size=3)
    assert [one.lesson for one in report.learned.experiences] == [LESSON]
    assert report.after is not None
    assert report.after.mean == 1.0
    assert report.library.name == "support"
    assert LibraryStore(tmp_path / "libraries").load(report.library.reference) == report.learned


def test_a_report_that_was_read_from_json_has_no_lessons_and_is_equal(tmp_path: Path) -> None:
    report = learn_sync(desk_agent(), TICKETS, reward=right_team, store=tmp_path, **SMALL)
    read = LearnReport.model_validate_json(report.model_dump_json())
    assert read == report
    with pytest.raises(ConfigError, match=f"support@{report.library.version[:12]}") as refused:
        _ = read.learned
    assert refused.value.code == "bad_config"


def a_function(task: Task, lessons: str) -> str:
    """Answer in a thread."""
    return "billing" if LESSON in lessons or len(task.problem) % 2 else "it"


async def an_async_function(task: Task, lessons: str) -> str:
    """Answer in the event loop."""
    return a_function(task, lessons)


async def a_function_with_model(task: Task, lessons: str, work: Work) -> str:
    """Answer with the model that the run records."""
    return (await desk_agent(output_type=str).run(task.problem, model=work.model, instructions=lessons)).output


class AProgram:
    """A program with a method in place of a function."""

    async def __call__(self, task: Task, lessons: str) -> str:
        return a_function(task, lessons)


@pytest.mark.parametrize("program", [a_function, an_async_function, a_function_with_model, AProgram()])
def test_a_function_learns(tmp_path: Path, program: Any) -> None:
    report = learn_sync(
        program, TICKETS[:4], reward=right_text, model=desk_model(), store=tmp_path, library="own", **SMALL
    )
    assert outcomes(report) == {"ok": 12}
    assert report.library.name == "own"


def test_a_function_without_any_model_is_told_which_one_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="add model=") as refused:
        learn_sync(a_function, TICKETS, reward=right_text, store=tmp_path)
    assert refused.value.code == "bad_config"
    assert list(tmp_path.iterdir()) == []


async def raises(task: Task, lessons: str) -> str:
    """Break on half of the tasks."""
    if "1" in task.problem:
        raise RuntimeError("the service is away")
    return "billing"


async def gives_nothing(task: Task, lessons: str) -> None:
    """Return no answer."""


async def hangs(task: Task, lessons: str) -> str:
    """Wait for ever on one task."""
    if "Invoice 1 " in task.problem:
        await asyncio.Event().wait()
    return "billing"


@pytest.mark.parametrize(
    ("program", "changes", "expected"),
    [
        (raises, {}, {"ok": 9, "undecided": 3}),
        (gives_nothing, {}, {"ok": 12}),
        (hangs, {"rollout_deadline_s": 0.2}, {"ok": 9, "undecided": 3}),
    ],
)
def test_a_function_that_breaks_is_a_stored_result_and_the_run_goes_on(
    tmp_path: Path, program: Any, changes: dict[str, Any], expected: dict[str, int]
) -> None:
    report = learn_sync(program, TICKETS[:4], reward=right_text, model=desk_model(), store=tmp_path, **SMALL, **changes)
    found = outcomes(report)
    assert sum(found.values()) == 12
    assert found.get("ok") == expected["ok"]


def reward_that_raises(task: Task, ticket: Ticket) -> bool:
    """Break."""
    raise KeyError(task.problem)


def reward_of_nonsense(task: Task, ticket: Ticket) -> Any:
    """Return no reward."""
    return object()


def reward_too_large(task: Task, ticket: Ticket) -> float:
    """Return a reward above 1."""
    return 5.0


@pytest.mark.parametrize("reward", [reward_of_nonsense, reward_too_large])
def test_a_reward_that_gives_no_reward_is_refused_before_the_first_call(
    tmp_path: Path, reward: Callable[[Task, Ticket], Any]
) -> None:
    with pytest.raises(ConfigError, match="before the first model call, the reward"):
        learn_sync(desk_agent(), TICKETS[:4], reward=reward, store=tmp_path, **SMALL)
    assert not (tmp_path / "journal").exists()


def test_a_run_whose_first_ten_rollouts_fail_for_one_reason_ends_and_can_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(AllFailed, match=r"the first 10 rollouts are undecided .* raised KeyError") as caught:
        learn_sync(desk_agent(), TICKETS, reward=reward_that_raises, store=tmp_path, **SMALL)
    assert caught.value.exit_status == 1
    with read_store(tmp_path) as reader:
        (run,) = reader.runs(limit=5)
        assert run.state == "interrupted"
        assert [one.outcome for one in reader.trajectories(run.run)] == ["undecided"] * FIRST
    report = learn_sync(desk_agent(), TICKETS, reward=right_team, store=tmp_path, resume=run.run, **SMALL)
    assert set(outcomes(report)) == {"ok"}


def test_a_few_undecided_rollouts_do_not_end_a_run(tmp_path: Path) -> None:
    report = learn_sync(desk_agent(), TICKETS[:3], reward=reward_that_raises, store=tmp_path, **SMALL)
    assert outcomes(report) == {"undecided": 9}


def test_a_reward_sees_the_trajectory_and_the_fields_of_the_task(tmp_path: Path) -> None:
    seen: list[tuple[object, int]] = []

    def reward(task: Task, ticket: Ticket, trajectory: Trajectory) -> float:
        seen.append((task.fields["limit"], len(trajectory.steps)))
        return 0.5

    tasks = [{"problem": problem, "answer": answer, "limit": 7} for problem, answer in TICKETS[:2]]
    report = learn_sync(desk_agent(), tasks, reward=reward, store=tmp_path, **SMALL)
    assert outcomes(report) == {"ok": 6}
    assert len(seen) == 6 + 2  # the reward is tried on a made-up output for each task
    assert all(limit == 7 and steps > 0 for limit, steps in seen)


def test_a_tool_that_raises_fails_its_rollout_only(tmp_path: Path) -> None:
    agent = desk_agent()
    agent.instructions(lambda: 1 / 0)
    report = learn_sync(agent, TICKETS[:3], reward=right_team, store=tmp_path, **SMALL)
    assert sum(outcomes(report).values()) == 9
    assert "ok" not in outcomes(report)
    with read_store(tmp_path) as reader:
        found = {one.failure.code for one in reader.finished(report.run, "epoch-1", 1).values() if one.failure}
    assert found == {"agent_raised"}


@dataclass(frozen=True)
class Row:
    """A task as an object."""

    problem: str
    answer: str


class Model(BaseModel):
    """A task as a model."""

    problem: str
    answer: str


class Frame:
    """A data frame like that of Polars."""

    columns = ("problem", "answer")

    def to_dicts(self) -> list[dict[str, str]]:
        return [dict(zip(self.columns, one, strict=True)) for one in TICKETS]


def pandas_frame() -> Any:
    """Return a data frame of pandas."""
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(TICKETS, columns=["problem", "answer"])


async def asynchronously() -> AsyncIterator[tuple[str, str]]:
    """Yield the tasks."""
    for one in TICKETS:
        yield one


FORMS: dict[str, Callable[[], Any]] = {
    "pairs": lambda: TICKETS,
    "mappings": lambda: [{"problem": one, "answer": two} for one, two in TICKETS],
    "tasks": lambda: [Task.of("other", *one) for one in TICKETS],
    "objects": lambda: [Row(*one) for one in TICKETS],
    "models": lambda: [Model(problem=one, answer=two) for one, two in TICKETS],
    "generator": lambda: (one for one in TICKETS),
    "async iterator": asynchronously,
    "frame": Frame,
    "pandas": pandas_frame,
    "doubled": lambda: TICKETS * 2,
}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_tasks_in_every_form_are_the_same_tasks(tmp_path: Path, form: str) -> None:
    report = learn_sync(desk_agent(), FORMS[form](), reward=right_team, store=tmp_path, **SMALL | {"group_size": 1})
    assert report.tasks["train"] == len(TICKETS)
    with read_store(tmp_path) as reader:
        rows = reader.finished(report.run, "epoch-1", 1).values()
    assert len({one.task for one in rows}) == len(TICKETS)


class Hostile:
    """A value whose text breaks."""

    def __repr__(self) -> str:
        return "x" * 10_000


@pytest.mark.parametrize(
    ("tasks", "code"),
    [
        ([("What?", "1"), ("What?", "2")], "bad_data"),
        ([{"problem": "What?", "answer": "1", "secret": Hostile()}], "bad_data"),
        ([3], "bad_data"),
        ({"problem": "What?"}, "bad_config"),
        (7, "bad_config"),
        ([], "bad_config"),
    ],
)
def test_bad_tasks_are_refused_in_one_short_sentence(tmp_path: Path, tasks: Any, code: str) -> None:
    with pytest.raises((ConfigError, DataError)) as refused:
        learn_sync(desk_agent(), tasks, reward=right_team, store=tmp_path, **SMALL)
    assert refused.value.code == code
    assert len(str(refused.value)) < 400
    assert "\n" not in str(refused.value)


def test_deps_are_opened_and_closed_for_every_rollout_also_for_one_that_fails(tmp_path: Path) -> None:
    opened, closed = list[str](), list[str]()

    @asynccontextmanager
    async def desk(task: Task) -> AsyncGenerator[str]:
        opened.append(task.id)
        try:
            yield task.problem
        finally:
            closed.append(task.id)

    @contextmanager
    def plain_desk(task: Task) -> Iterator[str]:
        opened.append(task.id)
        try:
            yield task.problem
        finally:
            closed.append(task.id)

    agent = desk_agent(deps_type=str)

    @agent.instructions
    def instructions(context: Any) -> str:
        if "1" in context.deps:
            raise RuntimeError("no such customer")
        return context.deps

    for deps in (desk, plain_desk):
        opened.clear()
        closed.clear()
        learn_sync(agent, TICKETS[:3], reward=right_team, deps=deps, store=tmp_path, **SMALL)
        assert len(opened) == 9
        assert sorted(opened) == sorted(closed)


def test_deps_are_closed_when_the_run_is_cancelled(tmp_path: Path) -> None:
    opened, closed = list[str](), list[str]()

    @asynccontextmanager
    async def desk(task: Task) -> AsyncGenerator[None]:
        opened.append(task.id)
        try:
            yield
        finally:
            closed.append(task.id)

    async def waits(messages: Any, info: Any) -> Any:
        started.set()
        await asyncio.Event().wait()

    async def work() -> None:
        running = asyncio.create_task(
            learn(desk_agent(), TICKETS, reward=right_team, deps=desk, model=FunctionModel(waits), store=tmp_path)
        )
        await started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    started = asyncio.Event()
    asyncio.run(work())
    assert opened
    assert sorted(opened) == sorted(closed)


@pytest.mark.slow
def test_an_application_learns_in_the_store_that_it_holds_and_writes_to_meanwhile(tmp_path: Path) -> None:
    async def work() -> tuple[list[LearnReport], int]:
        async with open_store(tmp_path) as store:

            async def write() -> int:
                for number in range(50):
                    await store.save_tasks([Task.of("other", f"written meanwhile {number}", None)])
                return 50

            first = learn(desk_agent(), TICKETS, reward=right_team, store=store, library="one", **SMALL)
            second = learn(desk_agent(), TICKETS, reward=right_team, store=store, library="two", seed=5, **SMALL)
            *reports, written = await asyncio.gather(first, second, write())
            await store.save_tasks([Task.of("other", "the store is still open", None)])
            return [one for one in reports if isinstance(one, LearnReport)], int(str(written))

    reports, written = asyncio.run(work())
    assert written == 50
    assert len({one.run for one in reports}) == 2
    assert LibraryStore(tmp_path / "libraries").names() == ("one", "two")
    for one in reports:
        assert sum(one.rollouts.values()) == 24


class Stops(Callbacks):
    """Lets a run do two of its batches."""

    def opened(self, call_context: Any, *others: Any) -> None:
        self.call_context = call_context

    def rollout_done(self, *_: Any) -> None:
        self.call_context.stop(BudgetExceeded("enough"))


@pytest.mark.slow
def test_an_interrupted_run_goes_on_where_it_stopped_and_only_from_the_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = list[int]()

    def counted(messages: Any, info: Any) -> Any:
        calls.append(1)
        return reply(messages, info)

    agent = desk_agent()

    def again(store: Path, **more: Any) -> LearnReport:
        model = FunctionModel(counted, model_name="desk")
        return learn_sync(agent, TICKETS, reward=right_team, model=model, store=store, concurrency=1, **SMALL, **more)

    with pytest.raises(AgentlearnError):
        again(tmp_path / "a", callbacks=Stops())
    stopped_after = len(calls)
    with read_store(tmp_path / "a") as reader:
        (row,) = reader.runs(limit=3)
    assert command(["learn", "--resume", row.run, "--store", str(tmp_path / "a")]) == 2
    said = capsys.readouterr().err
    assert "was started by a program with objects of its own" in said
    assert len(said.splitlines()) == 1
    resumed = again(tmp_path / "a", resume=row.run)
    together = len(calls)
    calls.clear()
    whole = again(tmp_path / "b")
    assert resumed.learned.experiences == whole.learned.experiences
    assert 0 < stopped_after < len(calls)
    assert together <= len(calls) + 2


@pytest.mark.slow
def test_a_name_learns_as_the_command_does_also_where_a_library_of_its_name_exists(tmp_path: Path) -> None:
    given: dict[str, Any] = {"limit": 2, "group_size": 2, "epochs": 1, "evaluate": False, "seed": 0}
    for store in ("a", "b"):
        LibraryStore(tmp_path / store / "libraries").publish("math", library_of(["A lesson from before."]))
    settings = LearnSettings(domain="math", model="sim:novice", store=tmp_path / "b", **given)
    asked = asyncio.run(run_learning(settings))
    report = learn_sync("math", model="sim:novice", store=tmp_path / "a", **given)
    assert report.library.version == asked.library.version
    assert report.rollouts == asked.rollouts
    with read_store(tmp_path / "a") as reader:
        stored = LearnSettings.model_validate_json(reader.run(report.run).settings)
    assert stored.given == ()
    assert stored.model_copy(update={"store": settings.store}) == settings


def test_settings_in_one_object_are_those_of_keyword_arguments_which_win(tmp_path: Path) -> None:
    def stored(name: str, **given: Any) -> LearnSettings:
        report = learn_sync(desk_agent(), TICKETS[:4], reward=right_team, library="own", **given)
        with read_store(tmp_path / name) as reader:
            return LearnSettings.model_validate_json(reader.run(report.run).settings)

    one = LearnSettings.model_validate({"domain": "x", **SMALL, "seed": 3, "store": tmp_path / "a"})
    by_object, by_words = stored("a", settings=one, seed=4), stored("b", store=tmp_path / "b", **SMALL, seed=4)
    assert by_object.model_copy(update={"store": by_words.store}) == by_words


def test_the_options_are_the_settings_that_have_no_parameter() -> None:
    parameters = set(inspect.signature(learn).parameters) | {"domain", "data", "test_data", "name"}
    fields = LearnSettings.model_fields
    assert set(LearnOptions.__annotations__) == set(fields) - parameters - WITHOUT_PARAMETER
    hints, meant = get_type_hints(LearnOptions), get_type_hints(LearnSettings)
    assert [name for name in hints if name not in LOOSE and hints[name] != meant[name]] == []


def test_in_a_running_event_loop_the_sync_function_says_what_to_await(tmp_path: Path) -> None:
    async def work() -> None:
        with pytest.raises(ConfigError, match=r"write: await learn\(\.\.\.\)") as refused:
            learn_sync(desk_agent(), TICKETS, reward=right_team, store=tmp_path)
        assert refused.value.code == "bad_config"

    asyncio.run(work())


@pytest.mark.parametrize(("option", "value"), [("tools", "python"), ("instructions", "Be kind.")])
def test_options_for_tasks_of_a_file_are_refused_for_an_agent(tmp_path: Path, option: str, value: str) -> None:
    given: Any = {option: value}
    with pytest.raises(ConfigError, match=f"{option}='") as refused:
        learn_sync(desk_agent(), TICKETS, reward=right_team, store=tmp_path, **given)
    assert refused.value.code == "bad_config"


def test_two_sources_of_tasks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="other tasks are given too"):
        learn_sync("tasks.csv", TICKETS, reward="exact", store=tmp_path)


def test_a_slow_function_in_a_thread_does_not_hold_up_the_others(tmp_path: Path) -> None:
    def slow(task: Task, lessons: str) -> str:
        time.sleep(0.01)
        return "billing"

    report = learn_sync(slow, TICKETS[:4], reward=right_text, model=desk_model(), store=tmp_path, **SMALL)
    assert outcomes(report) == {"ok": 12}
