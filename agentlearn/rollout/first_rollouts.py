"""The first rollouts of a run: a run whose rollouts all stay undecided for one reason ends after ten of them.

Until one rollout is decided, at most `FIRST` are under way or have failed alike. So a reward with a fault that only
real answers show costs ten rollouts and not all. What the agent itself fails at counts as 0 and is decided.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from agentlearn.errors import AgentlearnError, AllFailed, EndpointError
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory

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
