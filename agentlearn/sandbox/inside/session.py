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
from agentlearn.sandbox.inside.confine import SOCKET_FD, PreparedSession, confine_process, confine_syscalls
from agentlearn.sandbox.inside.frames import FrameReader, reply_bytes, write_frame
from agentlearn.sandbox.inside.leftovers import end_timers, set_handlers, threads_with_code
from agentlearn.sandbox.inside.output import Output, Stream

INT_DIGITS = 100_000
"""Most digits of a printed integer. CPython's limit of 4,300 is too small for some competition answers."""


@dataclass(frozen=True)
class Order:
    """A request of the zygote's parent to open a session."""

    id: int
    """Number of the session, chosen by the parent."""
    seed: int
    """Seed of the session's random generators."""


def run_session(order: Order, prepared: PreparedSession, limits: SandboxLimits) -> NoReturn:
    """Run the session in this process, then exit. Never returns to the zygote's loop."""
    code, socket_fd = 1, prepared.socket_fd
    try:
        try:
            confine_process(prepared, limits)
            socket_fd = SOCKET_FD
            _seed(order.seed)
            confine_syscalls(prepared)
        except OSError as error:
            write_frame(socket_fd, {"failed": str(error)})
            return os._exit(code)
        write_frame(SOCKET_FD, {"ready": True, "pid": os.getpid()})
        _answer_calls(limits)
        code = 0
    finally:
        os._exit(code)


def _seed(seed: int) -> None:
    """Seed the random generators of the modules that are preloaded."""
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
    sys.path.insert(0, "")  # modules that the code writes into its directory
    gc.enable()
    calls = FrameReader(SOCKET_FD)
    handlers, most_bytes = end_timers(), reply_bytes(limits.output_chars)
    while (call := calls.read()) is not None:
        sys.stdout, sys.stderr = stdout, stderr
        output.begin(threads_with_code())
        set_handlers(handlers)
        try:
            status, error = run_cell(call["code"], scope, call["call"])
        except BaseException as late:  # noqa: BLE001  a handler raised after the code had ended
            status, error = "error", type(late).__name__
        sys.settrace(None)
        handlers = end_timers()
        text, size = output.take(limits.output_chars)
        reply = {"call": call["call"], "status": status, "stdout": text, "stdout_bytes": size, "error": error}
        write_frame(SOCKET_FD, reply, most_bytes=most_bytes)


def _fresh_scope() -> dict[str, Any]:
    """The globals of a new `__main__`, where pickling and dataclasses find the names that the code defines."""
    main = ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    return main.__dict__
