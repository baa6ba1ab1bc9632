"""One session: a child of the zygote that runs cells until its socket closes."""

import builtins
import gc
import os
import random
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NoReturn

from agentlearn.sandbox.inside.cell import run_cell
from agentlearn.sandbox.inside.config import SandboxLimits
from agentlearn.sandbox.inside.confine import SOCKET_FD, PreparedSession, seal, settle
from agentlearn.sandbox.inside.frames import read_frame, write_frame
from agentlearn.sandbox.inside.output import Output, Stream

INT_DIGITS = 100_000
"""Digits of an integer that may be printed: past CPython's 4,300, which competition answers meet; still fast."""


@dataclass(frozen=True)
class Order:
    """What the zygote's parent asks for when it opens a session."""

    id: int
    seed: int


def live(order: Order, place: PreparedSession, limits: SandboxLimits) -> NoReturn:
    """Be the session. Never returns into the zygote's loop, whatever happens."""
    code, socket_fd = 1, place.socket_fd
    try:
        try:
            settle(place, limits)
            socket_fd = SOCKET_FD
            _seed(order.seed)
            seal(place)
        except OSError as error:
            write_frame(socket_fd, {"failed": str(error)})
            return os._exit(code)
        write_frame(SOCKET_FD, {"ready": True})
        _answer_calls(limits)
        code = 0
    finally:
        os._exit(code)


def _seed(seed: int) -> None:
    """Seed what draws; a module that was not warmed cannot have drawn."""
    random.seed(seed)
    if (numpy_random := sys.modules.get("numpy.random")) is not None:
        numpy_random.seed(seed % 2**32)
    if (sympy_random := sys.modules.get("sympy.core.random")) is not None:
        sympy_random.seed(seed)


def _answer_calls(limits: SandboxLimits) -> None:
    output = Output(1, kept_bytes=4 * limits.output_chars)
    stdout, stderr = Stream(output, 1), Stream(output, 2)
    sys.__stdout__, sys.__stderr__ = stdout, stderr  # pyright: ignore[reportAttributeAccessIssue, reportConstantRedefinition]
    scope = _fresh_scope()
    sys.set_int_max_str_digits(INT_DIGITS)
    gc.enable()
    while (call := read_frame(SOCKET_FD)) is not None:
        sys.stdout, sys.stderr = stdout, stderr
        status, error = run_cell(call["code"], scope, call["call"])
        text, size = output.take(limits.output_chars)
        write_frame(
            SOCKET_FD,
            {"call": call["call"], "status": status, "stdout": text, "stdout_bytes": size, "error": error},
        )


def _fresh_scope() -> dict[str, Any]:
    """The globals of a new `__main__`, so that pickling and dataclasses find what the code defines."""
    main = ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    return main.__dict__
