"""Run a command's coroutine so that the first Ctrl-C ends it in good order and the second ends it at once."""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Protocol, TypeVar

from agentlearn.errors import Interrupted

R = TypeVar("R")


class InterruptibleProgress(Protocol):
    """The progress display of a run that can be interrupted."""

    @property
    def call_context(self) -> object | None:
        """None until the run has started."""
        ...

    def interrupt(self) -> bool:
        """Ask the run to stop in good order. Return False when it is already stopping or has not started."""
        ...

    def __enter__(self) -> object: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


def run_to_end(run: Callable[[], Coroutine[Any, Any, R]], progress: InterruptibleProgress, *, name: str = "run") -> R:
    """Run the coroutine with its progress shown, and return its result. name: what it is called in messages.

    Raises Interrupted when Ctrl-C came before the run had started.
    """

    async def interruptible() -> R:
        with on_interrupt(progress.interrupt):
            return await run()

    with progress:
        try:
            return asyncio.run(interruptible())
        except KeyboardInterrupt:
            if progress.call_context is not None:
                raise
            raise Interrupted(f"interrupted before the {name} started; nothing was done") from None


@contextmanager
def on_interrupt(finish: Callable[[], bool]) -> Generator[None]:
    """In the running event loop, call `finish` on Ctrl-C; when it returns False, cancel the current task.

    A cancelled task ends with KeyboardInterrupt.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def interrupted() -> None:
        if not finish():
            task.cancel()

    loop.add_signal_handler(signal.SIGINT, interrupted)
    try:
        yield
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        loop.remove_signal_handler(signal.SIGINT)
