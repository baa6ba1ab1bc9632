"""Ctrl-C, once and twice: first an orderly end, then an end at once."""

import asyncio
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager


@contextmanager
def on_interrupt(finish: Callable[[], bool]) -> Generator[None]:
    """In the running loop, let the first Ctrl-C call `finish`; one that it returns False for cancels this task.

    What a cancelled task ends with is KeyboardInterrupt.
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
