"""A run at the door to its models: where its calls are recorded, what it may spend, and whether it may still ask.

A run that is stopped, by its budget, its user or a service that is gone, asks nothing more. Calls that are under way
are paid for: they come to their end and are recorded before the work is cancelled. Whoever resumes the run finds them.
"""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from agentlearn.errors import AgentlearnError, BudgetExceeded
from agentlearn.models.budget import Budget
from agentlearn.models.journal import Journal
from agentlearn.types.ids import RunId

if TYPE_CHECKING:
    from agentlearn.models.tracing import Tracing

T = TypeVar("T")

Tasks = WeakSet["asyncio.Task[Any]"]
_WORK: ContextVar[Tasks | None] = ContextVar("work", default=None)
"""The tasks of the work that the current task belongs to."""


@dataclass(slots=True)
class CallContext:
    """What all calls of one run share. Belongs to one event loop."""

    run: RunId
    journal: Journal
    budget: Budget
    tracing: "Tracing | None" = None
    """Where spans of its units go; None: nowhere."""
    in_flight: int = 0
    """Calls under way, from the request to its record."""
    stopped: AgentlearnError | None = None
    """Why nothing more is asked; None while the run goes on."""
    _attended: bool = False
    _quiet: asyncio.Event = field(default_factory=asyncio.Event)

    def stop(self, why: AgentlearnError) -> None:
        """Ask nothing more. Of several reasons the first counts."""
        if self.stopped is None:
            self.stopped = why
        self._hush()

    @asynccontextmanager
    async def asking(self) -> AsyncGenerator[None]:
        """One call. Raises the reason where the run was stopped or has reached its budget.

        Under `until_stopped` it does not raise but waits, to be cancelled: a raise would take calls under way with it.
        """
        if self.stopped is None:
            try:
                self.budget.check()
            except BudgetExceeded as reached:
                self.stop(reached)
        await self.hold()
        if self.stopped is not None:
            raise self.stopped
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1
            self._hush()

    async def hold(self) -> None:
        """Under `until_stopped`, in a run that was stopped: wait to be cancelled. Returns at once otherwise."""
        if self.stopped is not None and self._attended:
            await asyncio.Event().wait()

    async def until_stopped(self, work: Coroutine[Any, Any, T]) -> T:
        """The work's result; or, when the run is stopped, the reason, raised once no call is under way any more."""
        self._attended = True
        with _begun_here() as begun:
            working, quiet = asyncio.create_task(work), asyncio.create_task(self._quiet.wait())
            try:
                await asyncio.wait({working, quiet}, return_when=asyncio.FIRST_COMPLETED)
                if working.done():
                    return working.result()
            finally:
                await _cancelled(working, quiet)
                await _cancelled(*begun)  # pydantic-ai leaves a task behind when it is cancelled as a run begins
                self._attended = False
        assert self.stopped is not None
        raise self.stopped

    def _hush(self) -> None:
        if self.stopped is not None and not self.in_flight:
            self._quiet.set()


@contextmanager
def _begun_here() -> Generator[Tasks]:
    """All tasks that are begun in the block, and by those; whoever else uses the event loop is not concerned."""
    loop, tasks = asyncio.get_running_loop(), Tasks()
    before, token = loop.get_task_factory(), _WORK.set(tasks)

    def begin(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> Any:
        task: Any = asyncio.Task(work, loop=loop, **options) if before is None else before(loop, work, **options)
        if _WORK.get() is tasks:
            tasks.add(task)
        return task

    loop.set_task_factory(begin)
    try:
        yield tasks
    finally:
        _WORK.reset(token)
        if loop.get_task_factory() is begin:
            loop.set_task_factory(before)


async def _cancelled(*tasks: "asyncio.Task[Any]") -> None:
    """Return when every task has ended. What a task ends with while it is being cancelled is nobody's concern."""
    if not (going_on := [task for task in tasks if not task.done()]):
        return
    for task in going_on:
        task.cancel()
    await asyncio.wait(going_on)
    for task in going_on:
        if not task.cancelled():
            task.exception()  # asked for, or it would be reported as never retrieved
