"""Tasks for an agent of the user's own: any pydantic-ai agent, with its own output type, deps and tools."""

import asyncio
import hashlib
import inspect
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from inspect import isawaitable, isroutine, signature
from typing import TYPE_CHECKING, Any, TypeVar

from agentlearn.domain.base import RolloutContext, Work, Worked
from agentlearn.domain.custom import CustomTasks
from agentlearn.domain.objects.judged_output import AnswerOf, OutputTasks, data_type
from agentlearn.errors import ConfigError
from agentlearn.types.task import Task
from agentlearn.types.trajectory import PromptRef

if TYPE_CHECKING:
    from pydantic_ai.agent import AbstractAgent

D = TypeVar("D")
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
) -> "AgentTasks":
    """Return a domain for the agent, whose tasks are read and judged as `judged` says.

    Raises ConfigError when the agent needs deps and none are given, or when they cannot be made from a task.
    """
    _refuse_bad_deps(agent, deps)
    return AgentTasks(judged, text_of, given_agent=agent, deps=deps)


@dataclass(frozen=True)
class AgentTasks(OutputTasks):
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
        return data_type(self.given_agent.output_type)

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
            " deps=, a value or a function from a task to one",
            code="no_deps",
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
            " task: def deps(task): ...",
            code="bad_deps",
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


def program_tasks(program: Program, judged: CustomTasks, *, text_of: AnswerOf | None = None) -> "ProgramTasks":
    """Return a domain for the function, whose tasks are read and judged as `judged` says. Raises ConfigError."""
    return ProgramTasks(judged, text_of, program=program, sees_work=_sees_work(program))


@dataclass(frozen=True)
class ProgramTasks(OutputTasks):
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
        return None if said in {inspect.Signature.empty, None, Worked} else data_type(said)

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
        raise ConfigError(f"{self.name!r} is a function and has no agent", code="no_agent")

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
    raise ConfigError(
        f"the program {getattr(program, '__name__', program)!r} takes {signature}; write {_SIGNATURE}",
        code="bad_program",
    )
