"""Event loops of our own: of the command line, and of functions that a program calls without a loop.

They are those of `uvloop` where it is installed, which takes less CPU time. A loop that an application runs stays as it
is, and so does asyncio's policy.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from importlib import import_module
from typing import Any, TypeVar

R = TypeVar("R")


def run_in_own_loop(main: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine in a new event loop and return its result, as `asyncio.run` does."""
    new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None
    if sys.platform != "win32":
        with suppress(ImportError):  # uvloop is missing or cannot be imported: asyncio's own is used
            new_loop = import_module("uvloop").new_event_loop
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)
