"""How a run starts and ends: its events in the store, and its end when the first rollouts all stay undecided.

Until one rollout is decided, at most `FIRST` are under way or have failed alike. So a reward with a fault that only
real answers show costs ten rollouts and not all. What the agent itself fails at counts as 0 and is decided.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from agentlearn.errors import AgentlearnError, AllFailed, EndpointError, only_stops, root_cause
from agentlearn.models.call_context import CallContext
from agentlearn.plugins import version
from agentlearn.store import Store
from agentlearn.text import clock, storable
from agentlearn.text.log import get_log
from agentlearn.text.secret_values import without_keys
from agentlearn.types.ids import RunId
from agentlearn.types.run_event import RunEvent, RunFailure, RunKind
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory
from agentlearn.types.value import Value

_T = TypeVar("_T")


@dataclass(slots=True)
class _RecordedRun:
    """A run that has started."""

    event: RunEvent
    """The event that was stored when it started."""
    call_context: CallContext | None
    report: Value | None = None
    """Stored as JSON with the event `done`; None: no report."""

    async def until_stopped(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Return the work's result. Raises the reason when the run is stopped through its call context."""
        return await work if self.call_context is None else await self.call_context.until_stopped(work)


def started_event(
    run: RunId, kind: RunKind, *, domain: str, model: str, simulated: bool, seed: int, settings: str
) -> RunEvent:
    """Return the first event of a run. settings: JSON."""
    return RunEvent(
        run=run,
        domain=domain,
        kind=kind,
        state="running",
        model=model,
        simulated=simulated,
        seed=seed,
        settings=settings,
        package_version=version(),
        at=clock.now(),
    )


@asynccontextmanager
async def recorded_run(
    store: Store, event: RunEvent, *, call_context: CallContext | None = None, resumed: bool = False
) -> AsyncGenerator[_RecordedRun]:
    """Store the run's start, and its end when the block ends.

    The end is `done` with the report, `interrupted` where the run can be resumed as it is, else `failed`. Of an
    exception group the root cause is raised.
    """
    log = get_log(run=event.run)
    await store.save_run(event)
    log.info("run.resumed" if resumed else "run.started", kind=event.kind, domain=event.domain)
    run = _RecordedRun(event, call_context)
    try:
        yield run
    except BaseException as error:
        cause = root_cause(error)
        state = "interrupted" if only_stops(cause) else "failed"
        ended = event.model_copy(update={"state": state, "at": clock.now()})
        await asyncio.shield(_save_end(store, ended, cause))
        log.info(f"run.{state}")
        if cause is error:
            raise
        raise cause from error
    report = "" if run.report is None else run.report.model_dump_json()
    await store.save_run(event.model_copy(update={"state": "done", "at": clock.now(), "report": report}))
    log.info("run.done")


async def _save_end(store: Store, event: RunEvent, cause: BaseException) -> None:
    """Store that a run ends early, and why."""
    match cause:
        case AgentlearnError():
            code, message = cause.code, cause.message
        case asyncio.CancelledError() | KeyboardInterrupt():
            code, message = "interrupted", "it was interrupted"
        case _:
            code, message = type(cause).__name__, f"{type(cause).__name__}: {cause}"
    await store.save_run_failure(event.run, RunFailure(at=event.at, code=code, message=storable(without_keys(message))))
    await store.save_run(event)


FIRST = 10
"""Number of undecided rollouts with one cause that end a run in which none is decided."""


class _EndedRollout(Protocol):
    """A rollout that has ended."""

    @property
    def trajectory(self) -> Trajectory: ...

    @property
    def cause(self) -> str:
        """What left it undecided, see `cause_of`; empty when it is decided, or when its task alone is the cause."""
        ...


_E = TypeVar("_E", bound=_EndedRollout)


def cause_of(error: BaseException) -> str:
    """Return what two errors with one cause share: the code, and the type and place of the exception in user code."""
    if isinstance(error, EndpointError):
        return error.code
    if isinstance(error, AgentlearnError):
        return error.code if error.__cause__ is None else f"{error.code} {cause_of(error.__cause__)}"
    at, place = error.__traceback__, ""
    while at is not None:
        place, at = f" {Path(at.tb_frame.f_code.co_filename).name}:{at.tb_lineno}", at.tb_next
    return type(error).__name__ + place


@dataclass(slots=True)
class FirstRollouts:
    """Lets rollouts start, and knows when to end the run."""

    go_on: str
    """What to do when the cause has been corrected, to complete a sentence."""
    whose: str = ""
    """Whose rollouts these are, where a run has several kinds: the name of an arm."""
    holds_back: bool = True
    """Whether rollouts wait for the first result. False for a service that waits for a fixed number of calls."""
    decided: bool = False
    """Whether a rollout has been decided. Then nothing is counted any more."""
    _under_way: int = 0
    _alike: Counter[str] = field(default_factory=Counter[str])
    """Undecided rollouts by cause."""
    _waiting: list["asyncio.Future[None]"] = field(default_factory=list["asyncio.Future[None]"])

    async def make(self, rollout: Callable[[], Awaitable[_E]]) -> _E:
        """Make the rollout when it may start, and count it. Store it, then call `refuse`."""
        await self._turn()
        self._under_way += 1
        try:
            finished = await rollout()
        finally:
            self._under_way -= 1
            self._wake()
        self._count(finished.trajectory, finished.cause)
        return finished

    def known(self, trajectory: Trajectory) -> None:
        """Take note of a rollout that was made before."""
        self.decided = self.decided or trajectory.outcome != "undecided"

    def refuse(self, finished: _EndedRollout, task: Task) -> None:
        """Raise AllFailed when this undecided rollout is one of ten with the same cause. Call it once it is stored."""
        if self.decided or self._alike[finished.cause] < FIRST or finished.trajectory.outcome != "undecided":
            return
        trajectory, of = finished.trajectory, f" of {self.whose}" if self.whose else ""
        raise AllFailed(
            f"the first {FIRST} rollouts{of} are undecided for one and the same reason: {_reason(trajectory)} (rollout"
            f" {trajectory.id[:8]}, task {task.source or task.id!r}); once that is corrected, {self.go_on}"
        )

    async def _turn(self) -> None:
        while self.holds_back and not self.decided:
            if self._under_way + max(self._alike.values(), default=0) < FIRST:
                return
            waiting = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            await waiting

    def _count(self, trajectory: Trajectory, cause: str) -> None:
        if self.decided:
            return
        if trajectory.outcome != "undecided":
            self.decided = True
        elif cause:
            self._alike[cause] += 1
        self._wake()

    def _wake(self) -> None:
        for one in self._waiting:
            if not one.done():
                one.set_result(None)
        self._waiting.clear()


def _reason(trajectory: Trajectory) -> str:
    """Return why a rollout is undecided, in one sentence without its end."""
    if trajectory.failure is not None:
        return trajectory.failure.message.rstrip(".")
    reason = "" if trajectory.verdict is None else trajectory.verdict.reason
    return reason.rstrip(".") or "the verifier could not decide"
