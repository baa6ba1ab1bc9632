"""Event loops of our own: of the command line, and of functions that a program calls without a loop.

They are those of `uvloop` where it is installed, which takes less CPU time. A loop that an application runs stays as it
is, and so does asyncio's policy.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from importlib import import_module
from typing import Any, TypeVar, cast

R = TypeVar("R")

_LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def run_in_own_loop(main: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine in a new event loop and return its result, as `asyncio.run` does."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(main)


def _loop_factory() -> _LoopFactory | None:
    """Return what makes a new loop of uvloop; None, for asyncio's own, where it is missing or cannot be imported."""
    if sys.platform == "win32":
        return None
    try:
        return cast("_LoopFactory", import_module("uvloop").new_event_loop)
    except ImportError:
        return None
