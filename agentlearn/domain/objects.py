"""Domains made of the objects of a program: its tasks, its agent or function, its reward and its deps."""

import asyncio
import hashlib
import inspect
import json
from abc import ABC
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from functools import partial
from inspect import isawaitable, isroutine, signature
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, Protocol, SupportsIndex, Union, cast, get_origin

from pydantic import BaseModel, TypeAdapter
from pydantic_core import PydanticSerializationError
from typing_extensions import TypeVar

from agentlearn.answers.thoughts import split_thoughts
from agentlearn.domain.base import Answer, Domain, JudgeModel, RolloutContext, Work, Worked
from agentlearn.domain.custom import CustomTasks, Reward, find_reward
from agentlearn.domain.custom.judge import JudgeReward
from agentlearn.domain.custom.own_functions import call_object, load_object
from agentlearn.domain.custom.reward import FunctionReward, function_reward
from agentlearn.errors import ConfigError, DataError
from agentlearn.sandbox import CodeSandbox
from agentlearn.text import short_repr
from agentlearn.types.task import Split, Task
from agentlearn.types.trajectory import PromptRef, Trajectory, Verdict

if TYPE_CHECKING:
    from pydantic_ai.agent import AbstractAgent

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
    made_by: "Callable[[], OutputTasks] | None" = None
    """Makes it again in another process, where its tasks are not read; None: it is pickled as it is."""

    errors_are_failures = True
    replayable = False  # tools of a user's own may do something a second time

    def __post_init__(self) -> None:
        for name in ("name", "threshold", "uses_judge", "reasons_by"):
            object.__setattr__(self, name, getattr(self.judged, name))
        object.__setattr__(self, "description", f"judged by {self.judged.reward.name}")

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        """Send what makes it, if that is known: most agents cannot be pickled."""
        return super().__reduce_ex__(protocol) if self.made_by is None else (self.made_by, ())

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
        text = output_text(output)
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


def _data_type(given: Any) -> Any:
    """Return an output type that only holds data; None for functions, markers and everything else.

    Several types in a list are one of them.
    """
    if isinstance(given, list | tuple):
        kinds = [_data_type(one) for one in given]
        return None if not kinds or None in kinds else Union[tuple(kinds)]  # noqa: UP007  the types are values here
    if given is Any or given is object:
        return None
    known = isinstance(given, type) or get_origin(given) in {list, dict, tuple, set, Literal, Union, UnionType}
    return given if known else None


def output_text(output: Any) -> str:
    """Return an output as text: a text as it is, anything else as JSON. Raises ValueError for what JSON cannot hold."""
    if isinstance(output, Answer):
        return output.text
    if output is None or isinstance(output, str):
        return output or ""
    from pydantic import BaseModel, TypeAdapter

    if isinstance(output, BaseModel):
        return output.model_dump_json()
    return TypeAdapter(Any).dump_json(output).decode()


_FORMS = "a text, a pair (problem, answer), a mapping with 'problem' and 'answer', or a Task"


class DataFrame(Protocol):
    """A data frame of pandas, Polars or Arrow: anything with columns that can give its rows as mappings."""

    @property
    def columns(self) -> Any: ...


TaskGiven = Task | str | tuple[str, object] | Mapping[str, Any] | BaseModel | object
"""One task: a `Task`, its problem, its problem and expected answer, or named values such as `problem` and `answer`.

All other values of a mapping are kept in `Task.fields`, for the reward and the deps. The model does not see them.
"""
TasksGiven = Iterable[TaskGiven] | AsyncIterable[TaskGiven] | DataFrame
"""Tasks in order, or a data frame with a row for each."""


async def tasks_from(
    given: TasksGiven, judged: CustomTasks, *, split: Split = "train", limit: int | None = None
) -> tuple[Task, ...]:
    """Return the tasks, each once. limit: most tasks; later ones are not asked for.

    Raises DataError with the number of the bad task (from 0) and what to do.
    """
    kept = _Kept(judged, split, limit)
    if not isinstance(given, AsyncIterable):
        return kept.of(given)
    async for one in given:
        if not kept.add(one):
            break
    return tuple(kept.tasks.values())


def named_tasks(
    reference: str, judged: CustomTasks, *, split: Split = "train", limit: int | None = None
) -> tuple[Task, ...]:
    """Return the tasks at `module:name`, a list or a function without arguments that returns one, as `tasks_from`."""
    found: Any = load_object(reference, what="tasks")
    if callable(found):
        found = call_object(found, reference, what="tasks")
    if isinstance(found, AsyncIterable) or inspect.iscoroutine(found):
        if inspect.iscoroutine(found):
            found.close()
        raise ConfigError(f"the tasks {reference!r} are asynchronous; name a list, or a function that returns one")
    return _Kept(judged, split, limit).of(found)


@dataclass
class _Kept:
    """Tasks that were read from objects, each once."""

    judged: CustomTasks
    split: Split
    limit: int | None
    tasks: dict[str, Task] = field(default_factory=dict[str, Task])
    _first: dict[tuple[str, str, str], int] = field(default_factory=dict[tuple[str, str, str], int])
    _at: int = 0

    def add(self, given: Any) -> bool:
        """Read one task. Return whether more are wanted."""
        at, self._at = self._at, self._at + 1
        task = _task(given, at, self.judged, self.split)
        same = (" ".join(task.problem.split()), task.start, task.extra)
        if (before := self._first.setdefault(same, at)) != at and task.id not in self.tasks:
            raise DataError(
                f"tasks[{before}] and tasks[{at}] have the same problem with different answers; keep the right one"
            )
        self.tasks.setdefault(task.id, task)
        return self.limit is None or len(self.tasks) < self.limit

    def of(self, given: Any) -> tuple[Task, ...]:
        """Read the tasks of an iterable or a data frame."""
        for one in _rows(given):
            if not self.add(one):
                break
        return tuple(self.tasks.values())


def _rows(given: Any) -> Iterator[Any]:
    """Yield the tasks of an iterable, or the rows of a data frame. Raises ConfigError for anything else."""
    if isinstance(given, str | bytes | Mapping | BaseModel):
        raise ConfigError(f"{short_repr(given)} is one task and not several; put it into a list")
    if hasattr(given, "columns"):
        for method, arguments in (("to_dicts", ()), ("to_pylist", ()), ("to_dict", ("records",))):
            rows: Any = getattr(given, method, None)
            if callable(rows):
                return iter(cast("Iterable[Any]", rows(*arguments)))
    if not isinstance(given, Iterable):
        raise ConfigError(f"{short_repr(given)} holds no tasks; give a list, each entry {_FORMS}")
    return iter(given)


def _task(given: Any, at: int, judged: CustomTasks, split: Split) -> Task:
    if isinstance(given, Task):
        from agentlearn.data.row import is_spreadsheet_error

        if is_spreadsheet_error(given.answer):
            why = "is an error of a spreadsheet; give the value, or leave the task out"
            raise DataError(f"tasks[{at}] has the answer {given.answer!r}, which {why}")
        if given.domain == judged.name and given.split == split:
            return given
        kept = {name: getattr(given, name) for name in ("family", "source", "start", "path", "fields")}
        return Task.of(judged.name, given.problem, given.answer, split=split, **kept)
    match given:
        case str():
            named: Mapping[str, Any] = {"problem": given}
        case tuple() if len(given) == 2:
            named = {"problem": given[0], "answer": given[1]}
        case Mapping():
            named = {str(name): value for name, value in given.items()}
        case BaseModel():
            named = given.model_dump()
        case _ if is_dataclass(given) and not isinstance(given, type):
            named = asdict(given)
        case _:
            raise DataError(f"tasks[{at}] is {short_repr(given)}; give {_FORMS}")
    return _read(named, at, judged, split)


def _read(named: Mapping[str, Any], at: int, judged: CustomTasks, split: Split) -> Task:
    from agentlearn.data import ColumnChoice, Columns, SourceRow
    from agentlearn.data.reading import RowReader

    columns = judged.data_columns()
    if columns.chosen is None and "problem" in named:
        columns = Columns(chosen=ColumnChoice(problem="problem", answer="answer" if "answer" in named else ""))
    answers = {name: _plain_answer(value) for name, value in named.items() if name in {"answer", *columns.answer}}
    row = SourceRow(f"tasks#{at}", {**named, **answers})
    parsed = RowReader(columns, judged.reward.gold, judged.reward.needs_gold).read(row)
    read = {name for names in parsed.columns.values() for name in names.split("+")} | {"answer", "problem", "start"}
    start = str(named.get("start") or parsed.start)
    return Task.of(
        judged.name,
        parsed.problem,
        parsed.answer,
        family=parsed.family,
        split=split,
        source=f"tasks#{at}",
        start=start,
        fields={name: _json_value(value, at, name) for name, value in named.items() if name not in read},
    )


def _plain_answer(value: Any) -> Any:
    """Return an expected answer as the reader takes it: lists, mappings, objects and truth values as JSON."""
    if isinstance(value, str) or value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    return json.dumps(TypeAdapter(Any).dump_python(value, mode="json"), ensure_ascii=False)


def _json_value(value: Any, at: int, name: str) -> Any:
    try:
        plain = TypeAdapter(Any).dump_python(value, mode="json")
        json.dumps(plain, allow_nan=False)
    except (PydanticSerializationError, TypeError, ValueError) as error:
        raise DataError(
            f"tasks[{at}] has {short_repr(value)} in {name!r}, which is not JSON; leave it out, or give text or numbers"
        ) from error
    return plain


Out = TypeVar("Out", default=Any)
RewardResult = bool | float | tuple[bool | float, str] | Verdict
"""What a reward returns: right or wrong, a number from 0 to 1, either with the reason in words, or a verdict."""
RewardFunction = (
    Callable[[Task, Out], RewardResult | Awaitable[RewardResult]]
    | Callable[[Task, Out, Trajectory], RewardResult | Awaitable[RewardResult]]
)
"""Judges the output of a rollout. The third parameter is the record of the rollout: steps, tool calls, tokens."""
RewardGiven = RewardFunction[Out] | JudgeReward | str
"""A function, a `Rubric`, or the name of a reward: `exact`, `number`, `choice`, `contains`, `judge`, `module:name`."""


def reward_from(given: RewardGiven[Any] | None) -> Reward:
    """Return the reward that was given. Raises ConfigError."""
    if isinstance(given, str):
        return find_reward(given)
    if isinstance(given, JudgeReward):
        return given
    if given is None:
        raise ConfigError(
            "no reward was given; add reward=, a function (task, output) that returns True, False, a number from 0 to"
            " 1, or (number, 'why'), or a name such as 'exact'",
            code="no_reward",
        )
    name = getattr(given, "__name__", type(given).__name__)
    return function_reward(str(name), given)


D = TypeVar("D", default=Any)
Deps = (
    D
    | Callable[[Task], D | AbstractAsyncContextManager[D] | AbstractContextManager[D]]
    | Callable[[Task], Awaitable[D | AbstractAsyncContextManager[D] | AbstractContextManager[D]]]
)
"""What an agent's tools get: a value for all rollouts, or a function that makes one for each task.

The function may be async. It may return a context manager, which is closed when the rollout ends.
"""


def agent_tasks(
    agent: "AbstractAgent[Any, Any]", judged: CustomTasks, *, deps: Any = None, text_of: AnswerOf | None = None
) -> "_AgentTasks":
    """Return a domain for the agent, whose tasks are read and judged as `judged` says.

    Raises ConfigError when the agent needs deps and none are given, or when they cannot be made from a task.
    """
    _refuse_bad_deps(agent, deps)
    return _AgentTasks(judged, text_of, given_agent=agent, deps=deps)


@dataclass(frozen=True)
class _AgentTasks(OutputTasks):
    """Tasks for an agent of the user's own."""

    given_agent: Any = None
    deps: Any = None
    """A value, or a function from a task to one; see `Deps`."""

    def agent(self) -> Any:
        """Return the agent as it was given."""
        return self.given_agent

    @property
    def output_type(self) -> Any:
        """The agent's output type, if it only holds data."""
        return _data_type(self.given_agent.output_type)

    def prompts(self) -> tuple[PromptRef, ...]:
        """Return a reference to the agent: its name, and the hash of its output type. Its messages hold its texts."""
        schema = json.dumps(self.given_agent.output_json_schema(), sort_keys=True, default=str)
        digest = hashlib.sha256(schema.encode()).hexdigest()
        return (PromptRef(name=f"agent:{self.given_agent.name or self.name}", version=0, sha256=digest),)

    @asynccontextmanager
    async def open(self, context: RolloutContext) -> AsyncGenerator[object]:
        """Make the deps of one rollout; close them when it ends if they can be closed."""
        if not _makes(self.deps):
            yield self.deps
            return
        made: Any = self.deps(context.task)
        made = await made if isawaitable(made) else made
        if isinstance(made, AbstractAsyncContextManager):
            async with made as entered:
                yield entered
        elif isinstance(made, AbstractContextManager):
            with made as entered:
                yield entered
        else:
            yield made


def _makes(deps: Any) -> bool:
    """Whether deps are a function that makes them."""
    return isroutine(deps) or isinstance(deps, partial)


def _refuse_bad_deps(agent: "AbstractAgent[Any, Any]", deps: Any) -> None:
    wanted, name = agent.deps_type, agent.name or "agent"
    if deps is None and not _takes_none(wanted):
        raise ConfigError(
            f"the agent {name!r} needs deps of type {getattr(wanted, '__name__', wanted)}, and none are given; add"
            " --deps DEPS, a value or a function from a task to one"
        )
    if not _makes(deps) or not callable(deps):
        return
    try:
        parameters = signature(deps)
    except ValueError:  # built-in functions have none
        return
    try:
        parameters.bind(None)
    except TypeError as error:
        raise ConfigError(
            f"deps of the agent {name!r} is a function that takes {parameters}; it is called with one argument, the"
            " task: def deps(task): ..."
        ) from error


def _takes_none(wanted: Any) -> bool:
    """Whether None is a value of the type. A type that cannot be checked takes it."""
    try:
        return isinstance(None, wanted)
    except TypeError:
        return wanted is Any


Program = (
    Callable[[Task, str], Awaitable[Any]] | Callable[[Task, str, Work], Awaitable[Any]] | Callable[[Task, str], Any]
)
"""Works on one task, with the lessons as a block of text (empty when there are none), and returns the output.

The third parameter, if the function has one, is the `Work`: its `model` is a pydantic-ai model whose calls are recorded
and counted. A function that is not async runs in a thread.
"""
_SIGNATURE = "async def program(task, lessons): return 'the answer'"


def program_tasks(program: Program, judged: CustomTasks, *, text_of: AnswerOf | None = None) -> "_ProgramTasks":
    """Return a domain for the function, whose tasks are read and judged as `judged` says. Raises ConfigError."""
    return _ProgramTasks(judged, text_of, program=program, sees_work=_sees_work(program))


@dataclass(frozen=True)
class _ProgramTasks(OutputTasks):
    """Tasks for a function of the user's own."""

    program: Any = None
    sees_work: bool = False
    """Whether the function takes the `Work` as its third argument."""

    runs_itself = True

    @property
    def output_type(self) -> Any:
        """The type that the function says it returns; None: it says none."""
        try:
            said = inspect.signature(self.program, eval_str=True).return_annotation
        except (ValueError, TypeError, NameError, AttributeError, SyntaxError):  # names that are not there now
            return None
        return None if said in {inspect.Signature.empty, None, Worked} else _data_type(said)

    async def work(self, work: Work) -> Worked:
        """Call the function."""
        arguments = (work.task, work.lessons, *([work] if self.sees_work else []))
        if inspect.iscoroutinefunction(self.program) or inspect.iscoroutinefunction(type(self.program).__call__):
            output = await self.program(*arguments)
        else:
            output = await asyncio.to_thread(self.program, *arguments)
            output = await output if inspect.isawaitable(output) else output
        return output if isinstance(output, Worked) else Worked(output)

    def agent(self) -> Any:
        """Raise ConfigError, because a function has no agent."""
        raise ConfigError(f"{self.name!r} is a function and has no agent")

    def prompts(self) -> tuple[PromptRef, ...]:
        """Return a reference to the function: its name, and the hash of its source, where it has one."""
        try:
            source = inspect.getsource(self.program)
        except (OSError, TypeError):
            source = repr(type(self.program))
        name = getattr(self.program, "__name__", type(self.program).__name__)
        digest = hashlib.sha256(source.encode()).hexdigest()
        return (PromptRef(name=f"program:{name}", version=0, sha256=digest),)

    @asynccontextmanager
    async def open(self, context: RolloutContext) -> AsyncGenerator[object]:
        """Open nothing: the function opens what it needs."""
        yield None


def _sees_work(program: Program) -> bool:
    """Whether the function takes three arguments. Raises ConfigError when it takes neither two nor three."""
    try:
        signature = inspect.signature(program)
    except ValueError:  # built-in functions have none
        return False
    for count in (2, 3):
        try:
            signature.bind(*range(count))
        except TypeError:
            continue
        return count == 3
    raise ConfigError(f"the program {getattr(program, '__name__', program)!r} takes {signature}; write {_SIGNATURE}")
