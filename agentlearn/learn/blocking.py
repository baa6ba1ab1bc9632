"""Running a coroutine for programs without an event loop."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from agentlearn.errors import ConfigError

T = TypeVar("T")


def run_blocking(name: str, start: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Return what the coroutine returns. name: the coroutine function, for the error.

    Raises ConfigError where an event loop is running, as in a notebook. Nothing is started then.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(start())
    raise ConfigError(
        f"{name}_sync() cannot wait here, because an event loop is running, as in a notebook; write 'await {name}(…)'",
        code="running_loop",
    )
