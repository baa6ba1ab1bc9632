"""Tasks for a program of the user's own: a function of the task and the lessons that returns its answer."""

import asyncio
import hashlib
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from agentlearn.domain.base import RolloutContext, Work, Worked
from agentlearn.domain.custom import CustomTasks
from agentlearn.domain.objects.judged_output import AnswerOf, OutputTasks, data_type
from agentlearn.errors import ConfigError
from agentlearn.types.task import Task
from agentlearn.types.trajectory import PromptRef

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
