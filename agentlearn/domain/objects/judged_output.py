"""What tasks for agents and for programs have in common: how tasks are read and how outputs are judged."""

from abc import ABC
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_origin

from agentlearn.answers.thoughts import split_thoughts
from agentlearn.domain.base import Answer, Domain, JudgeModel
from agentlearn.domain.custom import CustomTasks
from agentlearn.domain.custom.function_reward import FunctionReward
from agentlearn.sandbox.protocol import CodeSandbox
from agentlearn.types.task import Split, Task
from agentlearn.types.trajectory import Trajectory, Verdict

if TYPE_CHECKING:
    from agentlearn.data import ColumnChoice, Columns

AnswerOf = Callable[[Any], str | None]
"""Returns the answer in an output as text; None when it has none."""


@dataclass(frozen=True, slots=True)
class MadeUp:
    """An output that stands for one of a rollout, to try a reward on."""

    output: Any
    fits: bool
    """Whether it is surely of the type that rollouts give."""
    text: bool
    """Whether it is a text."""


@dataclass(frozen=True)
class OutputTasks(Domain, ABC):
    """Tasks whose rollouts end in an output of any type, judged by one reward."""

    judged: CustomTasks
    """Reads the tasks and judges texts."""
    text_of: AnswerOf | None = None
    """Returns the answer in an output; None: the output itself as text or as JSON."""

    errors_are_failures = True
    replayable = False  # tools of a user's own may do something a second time

    def __post_init__(self) -> None:
        for name in ("name", "threshold", "uses_judge", "reasons_by"):
            object.__setattr__(self, name, getattr(self.judged, name))
        object.__setattr__(self, "description", f"judged by {self.judged.reward.name}")

    def tasks(self, split: Split, *, seed: int, limit: int | None = None) -> Sequence[Task]:
        """Raise ConfigError: all tasks are given."""
        return self.judged.tasks(split, seed=seed, limit=limit)

    def read(self, path: Path, *, split: Split = "train", limit: int | None = None) -> Sequence[Task]:
        """Return the tasks of a file or another source."""
        return self.judged.read(path, split=split, limit=limit)

    def question(self, task: Task) -> str:
        """Return the problem as it is."""
        return task.problem

    def answer_of(self, output: Any) -> Answer:
        """Return the output as text, and the answer in it. A text is its own answer, without the model's thoughts."""
        text = text_of(output)
        if self.text_of is not None:
            return Answer(text=text, answer=self.text_of(output) or None)
        if not isinstance(output, str):
            return Answer(text=text, answer=text or None)
        spoken = split_thoughts(text)
        return Answer(text=text, answer=None if spoken.unfinished else spoken.said or None)

    @property
    def output_type(self) -> Any:
        """The type of all outputs, as far as it is known; None: it may be any."""
        return None

    async def made_up(self, answer: str, *, expected: bool) -> MadeUp | None:
        """Return an output like those of rollouts, without calling anything of the user's; None where none is known.

        answer: an expected answer or a wrong one. Where outputs are not texts, an expected answer has to be JSON of
        their type, and all wrong answers are one output with values that mean nothing.
        """
        kind = self.output_type
        if kind is None or kind is str:
            return MadeUp(answer, fits=kind is str, text=True)
        output = _read_as(kind, answer) if expected else await _sample(kind) if answer else None
        one_of_several = get_origin(kind) in {Union, UnionType}
        return None if output is None else MadeUp(output, fits=not one_of_several, text=False)

    def verify(self, task: Task, trajectory: Trajectory) -> Verdict | Awaitable[Verdict]:
        """Judge the answer as text."""
        return self.judged.verify(task, trajectory)

    def verify_output(self, task: Task, trajectory: Trajectory, output: Any) -> Verdict | Awaitable[Verdict]:
        """Judge the output itself, where the reward is a function."""
        reward = self.judged.reward
        if isinstance(reward, FunctionReward):
            return reward.judge_output(task, trajectory, output)
        return self.verify(task, trajectory)

    def answer_key(self, answer: str) -> str | None:
        """Return the reward's key for the answer; None when it has none."""
        return self.judged.answer_key(answer)

    def with_judge(self, judge: JudgeModel) -> "OutputTasks":
        """Return the same domain with a model that judges."""
        judged = self.judged.with_judge(judge)
        assert isinstance(judged, CustomTasks)
        return replace(self, judged=judged)

    def with_sandbox(self, sandbox: CodeSandbox) -> "OutputTasks":
        """Return the same domain: agents and programs bring their own tools."""
        return self

    def with_columns(self, columns: "ColumnChoice") -> "OutputTasks":
        """Return the same domain, which reads these columns of files."""
        return replace(self, judged=self.judged.with_columns(columns))

    def data_columns(self) -> "Columns":
        """Return the columns in which tasks are looked for."""
        return self.judged.data_columns()

    def running(self) -> AbstractAsyncContextManager[Domain]:
        """Start what the reward needs."""
        return self._running()

    @asynccontextmanager
    async def _running(self) -> AsyncGenerator[Domain]:
        async with self.judged.running() as judged:
            assert isinstance(judged, CustomTasks)
            yield self if judged is self.judged else replace(self, judged=judged)


def _read_as(kind: Any, text: str) -> Any:
    """Return the value of that type which the text is, as JSON or as it is; None when it is none."""
    from pydantic import PydanticUserError, TypeAdapter, ValidationError

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
    except PydanticUserError:
        return None
    for read in (adapter.validate_json, adapter.validate_python):
        try:
            return read(text)
        except ValidationError:
            continue
    return None


async def _sample(kind: Any) -> Any:
    """Return a value of that type with made-up content; None where pydantic-ai makes none."""
    from pydantic import PydanticUserError
    from pydantic_ai import Agent
    from pydantic_ai.exceptions import AgentRunError, UserError
    from pydantic_ai.models.test import TestModel

    try:
        agent: Agent[None, Any] = Agent(TestModel(call_tools=[]), output_type=kind)
        return (await agent.run("")).output
    except (AgentRunError, UserError, PydanticUserError, AssertionError):  # TestModel asserts what it can make
        return None


def data_type(given: Any) -> Any:
    """Return an output type that only holds data; None for functions, markers and everything else.

    Several types in a list are one of them.
    """
    if isinstance(given, list | tuple):
        kinds = [data_type(one) for one in given]
        return None if not kinds or None in kinds else Union[tuple(kinds)]  # noqa: UP007  the types are values here
    if given is Any or given is object:
        return None
    known = isinstance(given, type) or get_origin(given) in {list, dict, tuple, set, Literal, Union, UnionType}
    return given if known else None


def text_of(output: Any) -> str:
    """Return an output as text: a text as it is, anything else as JSON. Raises ValueError for what JSON cannot hold."""
    if isinstance(output, Answer):
        return output.text
    if output is None or isinstance(output, str):
        return output or ""
    from pydantic import BaseModel, TypeAdapter

    if isinstance(output, BaseModel):
        return output.model_dump_json()
    return TypeAdapter(Any).dump_json(output).decode()
