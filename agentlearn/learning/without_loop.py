"""Calling an async function of this library from a program without an event loop."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from agentlearn.errors import ConfigError
from agentlearn.learning.own_loop import run_in_own_loop

P = ParamSpec("P")
R = TypeVar("R")


def without_loop(call: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, R]:
    """Return the async function as one that waits for its result. It is named like it, with `_sync` at the end.

    Inside a running event loop, as in a notebook, it raises ConfigError, which says what to await.
    """
    awaited: str = getattr(call, "__name__", "")

    def waiting(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return run_in_own_loop(call(*args, **kwargs))
        raise ConfigError(
            f"an event loop is running here, as in a notebook; write: await {awaited}(...)", code="running_loop"
        )

    waiting.__name__ = waiting.__qualname__ = f"{awaited}_sync"
    waiting.__module__ = call.__module__
    waiting.__doc__ = f"`{awaited}` for programs without an event loop. Raises ConfigError inside one."
    return waiting
