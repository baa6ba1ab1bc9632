"""A small sound domain, and others that break one promise each."""

import itertools
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pydantic_ai import Agent, ModelRetry, TextOutput, ToolOutput

from agentlearn.data import read_tasks
from agentlearn.domain.base import Answer, Domain, RolloutContext
from agentlearn.errors import ConfigError, DataError, VerifierError
from agentlearn.types.task import Split, Task
from agentlearn.types.trajectory import PromptRef, Trajectory, Verdict

BROKEN: list[tuple[type, str, str]] = []
"""Classes of domains, the one promise that each breaks, and words that must be said of it."""


def breaks(promise: str, words: str) -> Callable[[type], type]:
    """Enter a class as breaking that promise."""

    def enter(kind: type) -> type:
        BROKEN.append((kind, promise, words))
        return kind

    return enter


def answer_of(text: str) -> Answer:
    """All of the text."""
    return Answer(text=text, answer=text)


def refuse(text: str) -> Answer:
    """Ask again, whatever was said."""
    raise ModelRetry("Say something else.")


class Sound(Domain):
    """Doubles numbers; breaks nothing."""

    name = "doubles"
    description = "doubling numbers"

    def tasks(self, split: Split, *, seed: int, limit: int | None = None) -> Sequence[Task]:
        first = {"train": 1, "validation": 100, "test": 200}[split]
        return [self.task(n, split) for n in range(first, first + (4 if limit is None else min(limit, 4)))]

    def task(self, n: int, split: Split = "train") -> Task:
        return Task.of(self.name, f"Double {n}.", str(2 * n), family="double", split=split)

    def read(self, path: Path, *, split: Split = "train", limit: int | None = None) -> Sequence[Task]:
        return read_tasks(path, domain=self.name, split=split, limit=limit)

    def agent(self) -> Agent[Any, Any]:
        return Agent(output_type=TextOutput(answer_of), instructions="Double it.")

    def prompts(self) -> tuple[PromptRef, ...]:
        return (PromptRef(name="double", version=1, sha256="0" * 64),)

    def question(self, task: Task) -> str:
        return task.problem

    @asynccontextmanager
    async def open(self, context: RolloutContext) -> AsyncGenerator[None]:
        yield

    def verify(self, task: Task, trajectory: Trajectory) -> Any:
        if trajectory.answer is None:
            return Verdict(status="no_answer", reward=0.0)
        right = self.answer_key(trajectory.answer) == task.answer
        return Verdict(status="correct" if right else "incorrect", reward=float(right))

    def answer_key(self, answer: str) -> str | None:
        return answer.strip()


@breaks("members", "Nothing is not an instance of a subclass of agentlearn.Domain")
class Nothing:
    pass


@breaks("members", "NameOnly has no 'description'; see docs/domains.md")
class NameOnly(Sound):
    description = property()  # pyright: ignore[reportAssignmentType]


@breaks("members", "'page_seen' is not a member of a domain; did you mean 'pages_seen'?")
class PageSeen(Sound):
    def page_seen(self, trajectory: Trajectory) -> Sequence[str]:
        return ()


@breaks("members", "'pages' is not a member of a domain; did you mean 'pages_seen'?")
class Pages(Sound):
    def pages(self, trajectory: Trajectory) -> Sequence[str]:
        return ()


@breaks("members", "'max_open_rollout' is not a member of a domain; did you mean 'max_open_rollouts'?")
class MaxOpenRollout(Sound):
    max_open_rollout = 3


@breaks("members", "'with_judges' is not a member of a domain; did you mean 'with_judge'?")
class WithJudges(Sound):
    def with_judges(self, judge: Any) -> Any:
        return self


@breaks("members", "max_open_rollouts is 3, but must be a method: `max_open_rollouts()`")
class LimitOutright(Sound):
    max_open_rollouts: Any = 3


@breaks("members", "rollout_shape takes (tokens, data), but is called as `rollout_shape(data=None)`")
class ShapeOfTwo(Sound):
    def rollout_shape(self, tokens: Any, data: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return None


@breaks("members", "read takes (path), but is called as `read(path, *, split='train', limit=None)`")
class ReadsWithoutSplit(Sound):
    def read(self, path: Path) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return ()


@breaks("members", "replayable is 'no', not of builtins.bool")
class ReplayableOfText(Sound):
    replayable: Any = "no"


@breaks("members", "rewards is ('exact', 2), not a tuple of names")
class RewardsOfNumbers(Sound):
    rewards: Any = ("exact", 2)


@breaks("members", "it sets 'rewards', so it needs `with_reward(reward)`")
class RewardsWithoutChoice(Sound):
    rewards = ("one", "two")


@breaks("members", "it sets 'uses_judge', so it needs `with_judge(judge)`")
class JudgeWithoutModel(Sound):
    uses_judge = True


@breaks("members", "it has 'with_judge', which is never called unless 'uses_judge' is set")
class JudgeNeverCalled(Sound):
    def with_judge(self, judge: Any) -> Any:
        return self


@breaks("optional", "max_open_rollouts() gave '3'; return a number of at least 1, or None for no limit")
class LimitOfText(Sound):
    def max_open_rollouts(self) -> Any:
        return "3"


@breaks("optional", "what rollout_shape returns is 7, not of agentlearn.domain.base.RolloutShape")
class ShapeOfNumber(Sound):
    def rollout_shape(self, data: str | None = None) -> Any:
        return 7


@breaks("optional", "pages_seen must return several texts")
class OnePage(Sound):
    def pages_seen(self, trajectory: Trajectory) -> Any:
        return "a page"


@breaks("members", "threshold is '1', not of numbers.Real")
class ThresholdOfText(Sound):
    threshold: Any = "1"


@breaks("members", "name and description must not be empty")
class Nameless(Sound):
    name = ""


@breaks("members", "the description must be one line")
class Talkative(Sound):
    description = "doubling\nnumbers"


@breaks("members", "it sets 'runs_code', so it needs `with_sandbox(sandbox)`")
class CodeWithoutSandbox(Sound):
    runs_code = True


@breaks("tasks", "there is no task in the train split")
class NoTasks(Sound):
    def tasks(self, split: Split, *, seed: int, limit: int | None = None) -> Sequence[Task]:
        # The promises after this one are tried on some task, so a limited question is answered.
        return [] if split == "train" and limit == 40 else super().tasks(split, seed=seed, limit=limit)


@breaks("tasks", "the same split and seed gave other tasks the second time")
class OtherTasks(Sound):
    def __init__(self) -> None:
        self.count = itertools.count(1)

    def tasks(self, split: Split, *, seed: int, limit: int | None = None) -> Sequence[Task]:
        if split != "train" or limit != 40:
            return super().tasks(split, seed=seed, limit=limit)
        return [self.task(next(self.count))]


@breaks("tasks", "with limit=1 it did not give one task")
class Unlimited(Sound):
    def tasks(self, split: Split, *, seed: int, limit: int | None = None) -> Sequence[Task]:
        return super().tasks(split, seed=seed)


@breaks("tasks", "a task is 'Double 1.', not of agentlearn.types.task.Task")
class BareTasks(Sound):
    def __init__(self) -> None:
        self.count = itertools.count(1)

    def tasks(self, split: Split, *, seed: int, limit: int | None = None) -> Any:
        tasks = super().tasks(split, seed=seed, limit=limit)
        # Bare at first only: the promises after this one are tried on tasks.
        return [task.problem for task in tasks] if next(self.count) <= 3 else tasks


@breaks("tasks", "task 'Double 1.' is of domain 'halves', not 'doubles'")
class TasksOfAnother(Sound):
    def task(self, n: int, split: Split = "train") -> Task:
        return Task.of("halves", f"Double {n}.", str(2 * n), split=split)


@breaks("tasks", "task 'Double 1.' of the train split says 'test'")
class TasksOfAnotherSplit(Sound):
    def task(self, n: int, split: Split = "train") -> Task:
        return super().task(n, "test")


@breaks("splits", "task 'Double 1.' is in 'train' and in 'test'")
class OneSplitInAnother(Sound):
    def tasks(self, split: Split, *, seed: int, limit: int | None = None) -> Sequence[Task]:
        tasks = super().tasks(split, seed=seed, limit=limit)
        return [*tasks, self.task(1, "test")] if split == "test" else tasks


@breaks("read", "read('missing.jsonl') raised no DataError, though the file is missing")
class ReadsNothing(Sound):
    def read(self, path: Path, *, split: Split = "train", limit: int | None = None) -> Sequence[Task]:
        return super().read(path, split=split, limit=limit) if path.exists() else []


@breaks("read", "FileNotFoundError: ")
class ReadsWithoutCare(Sound):
    def read(self, path: Path, *, split: Split = "train", limit: int | None = None) -> Sequence[Task]:
        path.read_text()
        return super().read(path, split=split, limit=limit)


@breaks("read", "read('cut.jsonl') raised no DataError, though the file is cut")
class SkipsLines(Sound):
    def read(self, path: Path, *, split: Split = "train", limit: int | None = None) -> Sequence[Task]:
        return super().read(path, split=split, limit=1)


@breaks("read", "line 2 is broken, but the message names no line: the file is broken")
class NamesNoLine(Sound):
    def read(self, path: Path, *, split: Split = "train", limit: int | None = None) -> Sequence[Task]:
        raise DataError("the file is broken")


@breaks("agent", "the agent has the model TestModel")
class OwnModel(Sound):
    def agent(self) -> Agent[Any, Any]:
        from pydantic_ai.models.test import TestModel

        agent = super().agent()
        agent.model = TestModel()
        return agent


@breaks("agent", "what the agent returns is '2', not of agentlearn.domain.base.Answer")
class AnswersInText(Sound):
    def agent(self) -> Agent[Any, Any]:
        return Agent(output_type=str, instructions="Double it.")


@breaks("agent", "RuntimeError: no tools today")
class OpensNothing(Sound):
    @asynccontextmanager
    async def open(self, context: RolloutContext) -> AsyncGenerator[None]:
        raise RuntimeError("no tools today")
        yield


@breaks("prompts", "a prompt is 'double/v1', not of agentlearn.types.trajectory.PromptRef")
class PromptsByName(Sound):
    def prompts(self) -> Any:
        return ("double/v1",)


@breaks("prompts", "the prompt 'double' has no sha256 of its words")
class PromptWithoutHash(Sound):
    def prompts(self) -> tuple[PromptRef, ...]:
        return (PromptRef(name="double", version=1, sha256="none"),)


@breaks("prompts", "prompts() gave something else the second time")
class OtherPrompts(Sound):
    def __init__(self) -> None:
        self.count = itertools.count(1)

    def prompts(self) -> tuple[PromptRef, ...]:
        return (PromptRef(name="double", version=next(self.count), sha256="0" * 64),)


@breaks("question", "the question of task 'Double 1.' is None, not of builtins.str")
class NoQuestion(Sound):
    def question(self, task: Task) -> Any:
        return None if task.problem == "Double 1." and self.asked() else task.problem

    def asked(self) -> bool:
        """Whether the agent's promise, which asks a question too, is behind us."""
        self.times = getattr(self, "times", 0) + 1
        return self.times > 1


@breaks("question", "the question of task 'Double 2.' is empty")
class EmptyQuestion(Sound):
    def question(self, task: Task) -> str:
        return " " if task.problem == "Double 2." else task.problem


@breaks("right", "the expected answer '2' is judged incorrect: ")
class GoldIsWrong(Sound):
    def verify(self, task: Task, trajectory: Trajectory) -> Any:
        verdict = super().verify(task, trajectory)
        return Verdict(status="incorrect", reward=0.0) if verdict.status == "correct" else verdict

    def answer_key(self, answer: str) -> str | None:
        return None


@breaks("wrong", "every answer is right: '4', '6', '8', 'an answer that nobody expects'")
class EverythingIsRight(Sound):
    def verify(self, task: Task, trajectory: Trajectory) -> Any:
        return Verdict(status="correct", reward=1.0) if trajectory.answer else super().verify(task, trajectory)


@breaks("no answer", "a rollout without an answer is judged 'incorrect', not 'no_answer'")
class SilenceIsWrong(Sound):
    def verify(self, task: Task, trajectory: Trajectory) -> Any:
        if trajectory.answer is None:
            return Verdict(status="incorrect", reward=0.0)
        return super().verify(task, trajectory)


@breaks("verify", "the answer '2' is judged ")
class ChangesItsMind(Sound):
    def __init__(self) -> None:
        self.count = itertools.count(1)

    def verify(self, task: Task, trajectory: Trajectory) -> Any:
        verdict = super().verify(task, trajectory)
        return verdict.model_copy(update={"reason": f"judged for the {next(self.count)}th time"})


@breaks("answer key", "the key of '2' is '#2', which has another key itself")
class UnsettledKey(Sound):
    def verify(self, task: Task, trajectory: Trajectory) -> Any:
        if trajectory.answer is None:
            return super().verify(task, trajectory)
        right = trajectory.answer.strip() == task.answer
        return Verdict(status="correct" if right else "incorrect", reward=float(right))

    def answer_key(self, answer: str) -> str | None:
        return f"#{answer.strip()}"


@breaks("answer key", "' 2 ' is as right as '2', but has another key")
class KeyWithSpaces(UnsettledKey):
    def answer_key(self, answer: str) -> str | None:
        return answer


@breaks("answer key", "'2' has the key of '4', but is not right for it")
class OneKeyForAll(UnsettledKey):
    def answer_key(self, answer: str) -> str | None:
        return "one"


class Torn(Sound):
    """Gives verdicts that contradict themselves: every promise about judging breaks."""

    def verify(self, task: Task, trajectory: Trajectory) -> Any:
        return Verdict(status="undecided", reward=0.0)


class Mute(Sound):
    """Gives something that is no verdict."""

    def verify(self, task: Task, trajectory: Trajectory) -> Any:
        return True


class Raises(Sound):
    """Its verifier always breaks."""

    def verify(self, task: Task, trajectory: Trajectory) -> Any:
        raise VerifierError("the judge fell asleep")


class Silent(Sound):
    """Has no tasks of its own."""

    def tasks(self, split: Split, *, seed: int, limit: int | None = None) -> Sequence[Task]:
        raise ConfigError("give them with --data FILE")


class Structured(Sound):
    """Its agent hands in a structured answer."""

    def agent(self) -> Agent[Any, Any]:
        return Agent(output_type=ToolOutput(Answer), instructions="Double it.")


class Unpleased(Sound):
    """Its agent takes nothing for an answer."""

    def agent(self) -> Agent[Any, Any]:
        return Agent(output_type=TextOutput(refuse), instructions="Double it.")
