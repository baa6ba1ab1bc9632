"""A reward that a program gives is tried before the first call, whatever its agent or function returns."""

import asyncio
import functools
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent

from agentlearn import Answer, Domain, Task, Verdict
from agentlearn.domain.custom import judged_tasks
from agentlearn.domain.objects import OutputTasks, agent_tasks, program_tasks, reward_from, tasks_from
from agentlearn.domain.reward_trial import try_reward
from agentlearn.errors import ConfigError

TEXTS = [(f"What is {number} + 1?", str(number + 1)) for number in range(8)]


class Bill(BaseModel):
    """A structured output."""

    total: float
    city: str | None = None


BILLS: list[tuple[str, object]] = [(f"Bill {number}?", {"total": number, "city": "Bonn"}) for number in range(8)]


def unannotated(task: Any, lessons: Any):
    """Say nothing about what it returns."""
    return "1"


def gives_text(task: Task, lessons: str) -> str:
    """Return a text."""
    return "1"


KINDS: dict[str, tuple[Any, Sequence[Any]]] = {
    "agent of text": (Agent(), TEXTS),
    "agent of a model": (Agent(output_type=Bill), BILLS),
    "agent of numbers": (Agent(output_type=int), TEXTS),
    "program": (unannotated, TEXTS),
    "program of text": (gives_text, TEXTS),
}


def tried(what: Any, tasks: Sequence[Any], reward: Any, **given: Any) -> tuple[str, ...]:
    """Return the notes of a trial."""

    async def trial() -> tuple[str, ...]:
        judged = judged_tasks("mine", reward_from(reward))
        make: Callable[..., OutputTasks] = agent_tasks if hasattr(what, "output_type") else program_tasks
        return await try_reward(make(what, judged, **given), await tasks_from(tasks, judged))

    return asyncio.run(trial())


def typo(task: Task, output: Any) -> Any:
    return nobody_defined_this(output)  # noqa: F821  # pyright: ignore[reportUndefinedVariable, reportUnknownVariableType]


def no_such_field(task: Task, output: Any) -> Any:
    return output == task.anwser  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]


def forgets_return(task: Task, output: Any) -> Any:
    output == task.answer  # noqa: B015  # pyright: ignore[reportUnusedExpression]


def gives_points(task: Task, output: Any) -> Any:
    return 5


def gives_points_given(points: int, task: Task, output: Any) -> Any:
    return points


def is_swapped(output: Any, given: Any) -> Any:
    return output == given.answer


async def later(task: Task, output: Any) -> Any:
    return None


def awaits_nothing(task: Task, output: Any) -> Any:
    return later(task, output), "why"


class Scorer:
    """A reward with a method."""

    async def __call__(self, task: Task, output: Any) -> Any:
        return 2


BROKEN = {
    "typo": (typo, "raised NameError"),
    "no such field": (no_such_field, "raised AttributeError: 'Task' object has no attribute 'anwser'"),
    "no return": (forgets_return, "gave None"),
    "points": (gives_points, "gave 5"),
    "swapped": (is_swapped, "first two parameters are the wrong way round"),
    "async": (later, "gave None"),
    "not awaited": (awaits_nothing, "await what is async"),
    "object": (Scorer(), "gave 2"),
    "partial": (functools.partial(gives_points_given, 7), "gave 7"),
}


def test_a_broken_reward_is_refused_for_every_kind_of_output(subtests: pytest.Subtests) -> None:
    for kind in KINDS:
        for broken in BROKEN:
            with subtests.test(repr((kind, broken))):
                reward, words = BROKEN[broken]
                with pytest.raises(ConfigError) as caught:
                    tried(*KINDS[kind], reward)
                assert str(caught.value).startswith("before the first model call, the reward ")
                assert words in str(caught.value)


def same(task: Task, output: Any) -> bool:
    return str(output) == task.answer


def same_total(task: Task, output: Bill) -> bool:
    return output.total == json.loads(task.answer or "")["total"]


def needs_a_mapping(task: Task, output: Any) -> bool:
    return output["total"] == json.loads(task.answer or "")["total"]


def needs_a_city(task: Task, output: Bill) -> bool:
    return "bonn" in output.city.lower()  # pyright: ignore[reportOptionalMemberAccess]


@pytest.mark.parametrize(
    ("what", "tasks", "reward", "notes"),
    [
        (Agent(), TEXTS, same, 0),
        (Agent(output_type=int), TEXTS, same, 0),
        (Agent(output_type=Bill), BILLS, same_total, 0),
        (gives_text, TEXTS, same, 0),
        (unannotated, BILLS, needs_a_mapping, 1),  # it may well return a mapping
        (Agent(output_type=Bill), BILLS, needs_a_city, 1),  # the made-up output has none
    ],
)
def test_a_reward_that_may_be_right_is_not_refused(what: Any, tasks: Sequence[Any], reward: Any, notes: int) -> None:
    found = tried(what, tasks, reward)
    assert len(found) == notes
    assert all(note.startswith("tried without a real rollout, the reward ") for note in found)


def no_parameter() -> dict[str, str]:
    return {}


@pytest.mark.parametrize(
    ("deps", "words"),
    [(None, "needs deps of type dict, and none are given"), (no_parameter, "it is called with one argument, the task")],
)
def test_deps_that_are_forgotten_or_cannot_be_made_are_refused(deps: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        tried(Agent(deps_type=dict), TEXTS, same, deps=deps)


class Sums(Domain):
    """A domain of the user's own."""

    name = "sums"
    description = "sums"
    threshold = 1.0

    def __init__(self, judge: Callable[[Task, Any], Any]) -> None:
        self.judge = judge

    def tasks(self, split: Any, *, seed: int, limit: int | None = None) -> Sequence[Task]:
        """Return none."""
        return ()

    def read(self, path: Any, *, split: Any = "train", limit: int | None = None) -> Sequence[Task]:
        """Return none."""
        return ()

    def agent(self) -> Any:
        """Return an agent."""
        return Agent(output_type=Answer)

    def prompts(self) -> tuple[Any, ...]:
        """Return none."""
        return ()

    def question(self, task: Task) -> str:
        """Return the problem."""
        return task.problem

    def open(self, context: Any) -> Any:
        """Open nothing."""
        raise NotImplementedError

    def answer_key(self, answer: str) -> str | None:
        """Return none."""
        return None

    def verify(self, task: Task, trajectory: Any) -> Any:
        """Judge."""
        return self.judge(task, trajectory)


def misspells(task: Task, trajectory: Any) -> Any:
    return trajectory.anwser


def compares(task: Task, trajectory: Any) -> Any:
    return trajectory.answer == task.answer


@pytest.mark.parametrize(
    ("judge", "words"),
    [(misspells, "verify of the domain 'sums' raised AttributeError"), (compares, "gave True; return a Verdict")],
)
def test_the_verifier_of_a_domain_object_is_tried(judge: Callable[[Task, Any], Any], words: str) -> None:
    tasks = [Task.of("sums", problem, answer) for problem, answer in TEXTS]
    with pytest.raises(ConfigError, match=words):
        asyncio.run(try_reward(Sums(judge), tasks))
    right = Sums(lambda task, trajectory: Verdict(status="correct", reward=1.0))
    assert asyncio.run(try_reward(right, tasks)) == ()
    needs_steps = Sums(lambda task, trajectory: trajectory.steps[7])
    (note,) = asyncio.run(try_reward(needs_steps, tasks))
    assert note.startswith("tried without a real rollout, verify of the domain 'sums' raised IndexError")
