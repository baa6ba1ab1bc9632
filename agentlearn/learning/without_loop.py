"""Event loops of our own, and what a call from Python has besides: a twin without a loop, and messages for Python."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import wraps
from importlib import import_module
from typing import Any, ParamSpec, TypeVar, cast

from agentlearn.config.defaults import python_words
from agentlearn.errors import AgentlearnError, ConfigError
from agentlearn.types.value import Value

P = ParamSpec("P")
R = TypeVar("R")


def run_in_own_loop(main: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine in a new event loop and return its result, as `asyncio.run` does.

    The loop is one of `uvloop` where that is installed, which takes less CPU time. A loop that an application runs
    stays as it is, and so does asyncio's policy.
    """
    new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None
    if sys.platform != "win32":
        with suppress(ImportError):  # uvloop is missing or cannot be imported: asyncio's own is used
            new_loop = import_module("uvloop").new_event_loop
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)


def in_python_words(
    settings: type[Value],
) -> Callable[[Callable[P, Coroutine[Any, Any, R]]], Callable[P, Coroutine[Any, Any, R]]]:
    """Return a decorator for an async function whose errors and notes name arguments of Python, not options.

    settings: whose fields the arguments are.
    """

    def decorate(call: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R]]:
        @wraps(call)
        async def called(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                result = await call(*args, **kwargs)
            except AgentlearnError as error:
                error.message = python_words(error.message, settings)
                error.args = (error.message,)
                raise
            texts = {name: getattr(result, name, ()) for name in ("notes", "warnings")}
            changed = {name: tuple(python_words(one, settings) for one in said) for name, said in texts.items() if said}
            if not isinstance(result, Value) or not changed:
                return result
            report = result.model_copy(update=changed)
            own = vars(result).keys() - type(result).model_fields.keys()
            vars(report).update({name: vars(result)[name] for name in own})
            return cast("R", report)

        return called

    return decorate


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
        raise ConfigError(f"an event loop is running here, as in a notebook; write: await {awaited}(...)")

    waiting.__name__ = waiting.__qualname__ = f"{awaited}_sync"
    waiting.__module__ = call.__module__
    waiting.__doc__ = f"`{awaited}` for programs without an event loop. Raises ConfigError inside one."
    return waiting
