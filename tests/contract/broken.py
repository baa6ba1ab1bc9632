"""A small sound domain, and others that break one promise each."""

# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

import itertools
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pydantic_ai import Agent, ModelRetry, TextOutput, ToolOutput
from pydantic_ai.models.test import TestModel

from agentlearn.data import read_tasks
from agentlearn.domain.base import Answer, Domain, RolloutContext
from agentlearn.errors import ConfigError, DataError, VerifierError
from agentlearn.types.task import Split, Task
from agentlearn.types.trajectory import PromptRef, Trajectory, Verdict

BROKEN: list[tuple[type, str, str]] = []
"""Classes of domains, the one promise that each breaks, and words that must be said of it."""


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


def broken(promise: str, words: str, **members: Any) -> None:
    """Enter a domain that is as the sound one but for these members, and breaks that promise with these words."""
    BROKEN.append((type("Odd", (Sound,), members), promise, words))


def counting(first: int = 1) -> Callable[[object], int]:
    """Count the calls with one object."""
    counts: defaultdict[object, itertools.count[int]] = defaultdict(lambda: itertools.count(first))
    return lambda of: next(counts[of])  # held, so no later object takes its place in memory


class Nothing:
    pass


BROKEN.append((Nothing, "members", "Nothing is not an instance of a subclass of agentlearn.Domain"))
broken("members", "Odd has no 'description'; see docs/domains.md", description=property())
broken("members", "'page_seen' is not a member of a domain; did you mean 'pages_seen'?", page_seen=lambda self, one: ())
broken("members", "'pages' is not a member of a domain; did you mean 'pages_seen'?", pages=lambda self, one: ())
broken(
    "members", "'max_open_rollout' is not a member of a domain; did you mean 'max_open_rollouts'?", max_open_rollout=3
)
broken(
    "members",
    "'with_judges' is not a member of a domain; did you mean 'with_judge'?",
    with_judges=lambda self, one: self,
)
broken("members", "max_open_rollouts is 3, but must be a method: `max_open_rollouts()`", max_open_rollouts=3)
broken(
    "members",
    "rollout_shape takes (tokens, data), but is called as `rollout_shape(data=None)`",
    rollout_shape=lambda self, tokens, data: None,
)
broken(
    "members",
    "read takes (path), but is called as `read(path, *, split='train', limit=None)`",
    read=lambda self, path: (),
)
broken("members", "replayable is 'no', not of builtins.bool", replayable="no")
broken("members", "rewards is ('exact', 2), not a tuple of names", rewards=("exact", 2))
broken("members", "it sets 'rewards', so it needs `with_reward(reward)`", rewards=("one", "two"))
broken("members", "it sets 'uses_judge', so it needs `with_judge(judge)`", uses_judge=True)
broken(
    "members",
    "it has 'with_judge', which is never called unless 'uses_judge' is set",
    with_judge=lambda self, judge: self,
)
broken("members", "threshold is '1', not of numbers.Real", threshold="1")
broken("members", "name and description must not be empty", name="")
broken("members", "the description must be one line", description="doubling\nnumbers")
broken("members", "it sets 'runs_code', so it needs `with_sandbox(sandbox)`", runs_code=True)
broken(
    "optional",
    "max_open_rollouts() gave '3'; return a number of at least 1, or None for no limit",
    max_open_rollouts=lambda self: "3",
)
broken(
    "optional",
    "what rollout_shape returns is 7, not of agentlearn.domain.base.RolloutShape",
    rollout_shape=lambda self, data=None: 7,
)
broken("optional", "pages_seen must return several texts", pages_seen=lambda self, trajectory: "a page")


def with_tasks(words: str, change: Callable[..., Any], promise: str = "tasks") -> None:
    """Enter a domain whose tasks are changed."""

    def tasks(self: Sound, split: Split, *, seed: int, limit: int | None = None) -> Any:
        return change(self, Sound.tasks(self, split, seed=seed, limit=limit), split, limit)

    broken(promise, words, tasks=tasks)


nth = counting()
# Later promises are tried on some task, so a limited question is answered, and tasks are bare at first only.
with_tasks(
    "there is no task in the train split",
    lambda self, tasks, split, limit: [] if split == "train" and limit == 40 else tasks,
)
with_tasks(
    "the same split and seed gave other tasks the second time",
    lambda self, tasks, split, limit: tasks if split != "train" or limit != 40 else [self.task(nth(self))],
)
with_tasks("with limit=1 it did not give one task", lambda self, tasks, split, limit: Sound.tasks(self, split, seed=0))
with_tasks(
    "a task is 'Double 1.', not of agentlearn.types.task.Task",
    lambda self, tasks, split, limit: [task.problem for task in tasks] if nth(self) <= 3 else tasks,
)
with_tasks(
    "task 'Double 1.' is in 'train' and in 'test'",
    lambda self, tasks, split, limit: [*tasks, self.task(1, "test")] if split == "test" else tasks,
    promise="splits",
)
broken(
    "tasks",
    "task 'Double 1.' is of domain 'halves', not 'doubles'",
    task=lambda self, n, split="train": Task.of("halves", f"Double {n}.", str(2 * n), split=split),
)
broken(
    "tasks",
    "task 'Double 1.' of the train split says 'test'",
    task=lambda self, n, split="train": Sound.task(self, n, "test"),
)


def with_read(words: str, before: Callable[[Path], object], *, first: bool = False) -> None:
    """Enter a domain that does something else before it reads, which may give the tasks; or reads one row only."""

    def read(self: Sound, path: Path, *, split: Split = "train", limit: int | None = None) -> Any:
        found = before(path)
        return found if isinstance(found, list) else Sound.read(self, path, split=split, limit=1 if first else limit)

    broken("read", words, read=read)


def damaged(path: Path) -> None:
    """Refuse whatever is read."""
    raise DataError("the file is broken")


with_read(
    "read('missing.jsonl') raised no DataError, though the file is missing", lambda path: None if path.exists() else []
)
with_read("FileNotFoundError: ", Path.read_text)
with_read("read('cut.jsonl') raised no DataError, though the file is cut", lambda path: None, first=True)
with_read("line 2 is broken, but the message names no line: the file is broken", damaged)


def with_own_model(self: Sound) -> Agent[Any, Any]:
    """Give an agent that has a model."""
    agent = Sound.agent(self)
    agent.model = TestModel()
    return agent


@asynccontextmanager
async def opens_nothing(self: Sound, context: RolloutContext) -> AsyncGenerator[None]:
    """Fail to open."""
    raise RuntimeError("no tools today")
    yield


broken("agent", "the agent has the model TestModel", agent=with_own_model)
broken(
    "agent",
    "what the agent returns is '2', not of agentlearn.domain.base.Answer",
    agent=lambda self: Agent(output_type=str, instructions="Double it."),
)
broken("agent", "RuntimeError: no tools today", open=opens_nothing)
broken(
    "prompts",
    "a prompt is 'double/v1', not of agentlearn.types.trajectory.PromptRef",
    prompts=lambda self: ("double/v1",),
)
broken(
    "prompts",
    "the prompt 'double' has no sha256 of its words",
    prompts=lambda self: (PromptRef(name="double", version=1, sha256="none"),),
)
broken(
    "prompts",
    "prompts() gave something else the second time",
    prompts=lambda self: (PromptRef(name="double", version=nth(self), sha256="0" * 64),),
)
broken(
    "question",
    "the question of task 'Double 1.' is None, not of builtins.str",  # asked once before, for the promise of the agent
    question=lambda self, task: None if task.problem == "Double 1." and nth(self) > 1 else task.problem,
)
broken(
    "question",
    "the question of task 'Double 2.' is empty",
    question=lambda self, task: " " if task.problem == "Double 2." else task.problem,
)


def with_verdict(promise: str, words: str, change: Callable[..., Verdict], **members: Any) -> None:
    """Enter a domain whose verdicts are changed."""

    def verify(self: Sound, task: Task, trajectory: Trajectory) -> Verdict:
        return change(self, trajectory, Sound.verify(self, task, trajectory))

    broken(promise, words, verify=verify, **members)


WRONG = Verdict(status="incorrect", reward=0.0)
with_verdict(
    "right",
    "the expected answer '2' is judged incorrect: ",
    lambda self, trajectory, verdict: WRONG if verdict.status == "correct" else verdict,
    answer_key=lambda self, answer: None,
)
with_verdict(
    "wrong",
    "every answer is right: '4', '6', '8', 'an answer that nobody expects'",
    lambda self, trajectory, verdict: Verdict(status="correct", reward=1.0) if trajectory.answer else verdict,
)
with_verdict(
    "no answer",
    "a rollout without an answer is judged 'incorrect', not 'no_answer'",
    lambda self, trajectory, verdict: WRONG if trajectory.answer is None else verdict,
)
with_verdict(
    "verify",
    "the answer '2' is judged ",
    lambda self, trajectory, verdict: verdict.model_copy(update={"reason": f"judged for the {nth(self)}th time"}),
)


def by_text(self: Sound, task: Task, trajectory: Trajectory) -> Any:
    """Judge without the answer key."""
    right = trajectory.answer is not None and trajectory.answer.strip() == task.answer
    verdict = Verdict(status="correct" if right else "incorrect", reward=float(right))
    return Sound.verify(self, task, trajectory) if trajectory.answer is None else verdict


for says, key in (
    ("the key of '2' is '#2', which has another key itself", lambda self, answer: f"#{answer.strip()}"),
    ("' 2 ' is as right as '2', but has another key", lambda self, answer: answer),
    ("'2' has the key of '4', but is not right for it", lambda self, answer: "one"),
):
    broken("answer key", says, verify=by_text, answer_key=key)


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
