"""Run a command's coroutine so that the first signal ends it in good order and the second ends it at once.

The signals are Ctrl-C, SIGTERM and SIGHUP.
"""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

from agentlearn.cli.stop_signals import END_S, SIGNALS, SLOW_END_S, nothing_to_say
from agentlearn.errors import Interrupted, StopSignal
from agentlearn.learning.without_loop import run_in_own_loop

R = TypeVar("R")


class _InterruptibleProgress(Protocol):
    """The progress display of a run that can be interrupted."""

    @property
    def call_context(self) -> object | None:
        """None until the run has started."""
        ...

    def interrupt(self) -> bool:
        """Ask the run to stop in good order. Return False when it is already stopping or has not started."""
        ...

    def how_to_go_on(self) -> str:
        """Return the line that says how to continue the run; empty when it has not started."""
        ...

    def __enter__(self) -> object: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


def run_to_end(run: Callable[[], Coroutine[Any, Any, R]], progress: _InterruptibleProgress, *, name: str = "run") -> R:
    """Run the coroutine with its progress shown, and return its result. name: what it is called in messages.

    Raises Interrupted when a signal came before the run had started.
    """
    with progress:
        SIGNALS.last_words = progress.how_to_go_on
        try:
            return run_async(run, progress.interrupt)
        except KeyboardInterrupt:
            if progress.call_context is not None:
                raise
            raise Interrupted(f"interrupted before the {name} started; nothing was done") from None
        finally:
            SIGNALS.last_words = nothing_to_say


def run_async(work: Callable[[], Coroutine[Any, Any, R]], finish: Callable[[], bool] | None = None) -> R:
    """Run the coroutine in a new event loop. On a signal call `finish`; when it returns False, cancel the coroutine.

    Without `finish`, the first signal cancels. A cancelled coroutine ends with StopSignal.
    """
    stopping = _Stopping[R](finish)
    with SIGNALS.handled_by(stopping.arrived):
        run_in_own_loop(stopping.run(work))
    if not stopping.results:
        raise StopSignal(SIGNALS.first or signal.SIGINT)
    return stopping.results[0]


class _Stopping(Generic[R]):
    """Brings signals into the event loop. Those that come before the loop runs wait for it."""

    def __init__(self, finish: Callable[[], bool] | None) -> None:
        self._finish = finish
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self._waiting = False
        self._cancelled = False
        self._ended = False
        self.results: list[R] = []
        """What the work returned; empty when it was cancelled by a signal."""

    async def run(self, work: Callable[[], Coroutine[Any, Any, R]]) -> None:
        """Await the work and keep its result. Raises what the work raises, unless a signal cancelled it."""
        self._task, self._loop = asyncio.current_task(), asyncio.get_running_loop()
        try:
            if not self._waiting:
                self.results.append(await work())
        except asyncio.CancelledError:
            if not self._cancelled:
                raise
        finally:
            self._ended = True

    def arrived(self) -> None:
        """Called by the signal handler, between any two steps of the main thread."""
        if self._loop is None:
            self._waiting = True
        elif not self._ended:
            self._loop.call_soon_threadsafe(self._stop)
        elif SIGNALS.count > 1:
            SIGNALS.end_within(END_S)

    def _stop(self) -> None:
        if self._ended or self._finishes():
            return
        assert self._task is not None
        self._cancelled = True
        self._task.cancel()
        SIGNALS.end_within(SLOW_END_S if SIGNALS.count == 1 else END_S)

    def _finishes(self) -> bool:
        with suppress(OSError):  # nobody may read what is printed
            return self._finish is not None and self._finish()
        return True
