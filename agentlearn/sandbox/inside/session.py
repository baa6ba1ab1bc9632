"""One session: a child of the zygote that runs cells, as a notebook does, until its socket closes.

Output of a session: in one file, so that it survives a kill; past a size limit only the end is kept, in memory.

Descriptors 1 and 2 of a session are this file (a memfd), so text printed by C code appears in the right order.
"""

import ast
import builtins
import contextlib
import faulthandler
import gc
import io
import linecache
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType, ModuleType
from typing import Any, Literal, NoReturn

from agentlearn.sandbox.inside.config import FrameReader, SandboxLimits, reply_bytes, write_frame
from agentlearn.sandbox.inside.isolation import SOCKET_FD, PreparedSession

FIRST_LINES = 4
LAST_LINES = 10
MOST_FRAMES = 2_000
ERROR_CHARS = 2_000
CELL_PREFIX = "<cell "
"""How the file names of cells begin."""

CellStatus = Literal["ok", "error", "oom"]


def run_cell(code: str, scope: dict[str, Any], number: int) -> tuple[CellStatus, str]:
    """Run code in a scope and print the value of a final expression. Returns the status and the shortened traceback."""
    name = f"{CELL_PREFIX}{number}>"
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    try:
        tree, final = ast.parse(code, name), None
        if tree.body and isinstance(last := tree.body[-1], ast.Expr):
            tree.body.pop()
            final = compile(ast.Expression(last.value), name, "eval", dont_inherit=True)
        exec(compile(tree, name, "exec", dont_inherit=True), scope)  # noqa: S102  running code is the tool's purpose
        if final is not None and (value := eval(final, scope)) is not None:  # noqa: S307
            print(repr(value))  # noqa: T201  as a notebook does
    except MemoryError as error:
        return "oom", _traceback_text(error)
    except BaseException as error:  # noqa: BLE001  SystemExit and KeyboardInterrupt end the cell, not the session
        return "error", _traceback_text(error)
    return "ok", ""


def _traceback_text(error: BaseException) -> str:
    """The traceback starting at the cell, shortened in the middle, without paths of this machine."""
    trace = error.__traceback__
    while trace is not None and not trace.tb_frame.f_code.co_filename.startswith(CELL_PREFIX):
        trace = trace.tb_next
    try:
        formatted = traceback.TracebackException(type(error), error, trace, limit=MOST_FRAMES, compact=True)
        text = "".join(formatted.format())
        for root in sorted({*sys.path, *map(os.path.realpath, sys.path)}, key=len, reverse=True):
            text = text.replace(root + os.sep, "") if len(root) > 1 else text
        lines = text.splitlines()
    except Exception as broken:  # noqa: BLE001  the exception is untrusted and may raise when formatted
        lines = [f"{type(error).__name__} (and {type(broken).__name__} while it was being described)"]
    if len(lines) > FIRST_LINES + LAST_LINES:
        lines = [*lines[:FIRST_LINES], "  …", *lines[-LAST_LINES:]]
    return "\n".join(lines)[-ERROR_CHARS:].encode("utf-8", "backslashreplace").decode()


_TIMERS = {
    signal.SIGALRM: signal.ITIMER_REAL,
    signal.SIGVTALRM: signal.ITIMER_VIRTUAL,
    signal.SIGPROF: signal.ITIMER_PROF,
}
_Handlers = dict[signal.Signals, Callable[[int, FrameType | None], Any]]


def _end_timers() -> _Handlers:
    """End all timers and trace functions, and ignore the timers' signals. Returns the handlers, to be set again.

    Otherwise a handler could raise an exception between two calls, where nothing expects one.
    """
    sys.settrace(None)
    sys.setprofile(None)
    handlers: _Handlers = {}
    for number, timer in _TIMERS.items():
        signal.setitimer(timer, 0)
        if callable(handler := signal.getsignal(number)):
            handlers[number] = handler
            for _ in range(3):
                with contextlib.suppress(BaseException):  # `signal` first runs the handlers of signals that have come
                    signal.signal(number, signal.SIG_IGN)
                    break
    faulthandler.cancel_dump_traceback_later()
    for thread in threading.enumerate() if threading.active_count() > 1 else ():
        if isinstance(thread, threading.Timer):
            thread.cancel()
    return handlers


def _threads_with_code() -> frozenset[int]:
    """System ids of the threads that run code of an earlier call; a worker of a pool that waits for work does not."""
    if threading.active_count() == 1:
        return frozenset()
    frames = sys._current_frames()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    return frozenset(
        thread.native_id
        for thread in threading.enumerate()
        if thread is not threading.main_thread() and thread.native_id and _runs_cell(frames.get(thread.ident or 0))
    )


def _runs_cell(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith(CELL_PREFIX):
            return True
        frame = frame.f_back
    return False


FILE_ROOM_BYTES = 1 << 18
"""Size up to which output goes to the file; of later output only the end is kept, in memory."""


_WRITE_S = 0.1
"""Longest time that a call waits for the last write of a thread of an earlier call."""


class CellOutput:
    """Output of one call. Keeps the first and the last `kept_bytes`."""

    def __init__(self, fd: int, *, kept_bytes: int) -> None:
        self._fd = fd
        self._kept_bytes = kept_bytes
        self._room = FILE_ROOM_BYTES
        self._tail = bytearray()
        self._tail_bytes = 0
        self._silent: frozenset[int] = frozenset()
        self._writing: set[int] = set()
        """System ids of the threads that are in `write`. Not a lock, which a fork could leave closed for ever."""

    def begin(self, silent: frozenset[int]) -> None:
        """Start the output of a call. silent: system ids of threads of earlier calls, whose text is dropped."""
        self._silent = silent
        deadline = time.monotonic() + _WRITE_S
        while self._writing & silent and time.monotonic() < deadline:  # they have passed the test for silence before
            time.sleep(0)
        os.ftruncate(self._fd, 0)
        self._room, self._tail, self._tail_bytes = FILE_ROOM_BYTES, bytearray(), 0

    def write(self, chunk: bytes) -> None:
        """Add printed bytes."""
        thread = threading.get_native_id()
        self._writing.add(thread)
        try:
            if thread not in self._silent:
                self._add(chunk)
        finally:
            self._writing.discard(thread)

    def _add(self, chunk: bytes) -> None:
        size = len(chunk)
        if size <= self._room:
            os.write(self._fd, chunk)
            self._room -= size
            return
        if self._room:
            os.write(self._fd, chunk[: self._room])
            chunk = chunk[self._room :]
            self._room = 0
        self._tail_bytes += len(chunk)
        self._tail += chunk[-self._kept_bytes :]
        if len(self._tail) > 2 * self._kept_bytes:
            del self._tail[: -self._kept_bytes]

    def take(self, limit_chars: int) -> tuple[str, int]:
        """Return the text printed since `begin`, shortened to the limit, and its full size in bytes."""
        head, tail, stored_bytes = read_ends(self._fd, self._kept_bytes)
        total = stored_bytes + self._tail_bytes
        tail = (tail if stored_bytes > self._kept_bytes else b"") + bytes(self._tail)
        return cut_middle(head, tail[-self._kept_bytes :], total, limit_chars), total


class _NeverClosed(io.IOBase):
    """An unbuffered stream of a session, on which `close` does nothing."""

    def __init__(self, output: CellOutput, fd: int) -> None:
        self._output = output
        self._fd = fd

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        """Do nothing: later calls print too."""


class _Stream(_NeverClosed, io.TextIOBase):
    """`sys.stdout` and `sys.stderr` of a session."""

    def __init__(self, output: CellOutput, fd: int) -> None:
        super().__init__(output, fd)
        self.buffer = _Bytes(output, fd)

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return "utf-8"

    @property
    def errors(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return "backslashreplace"

    def write(self, s: str, /) -> int:
        self._output.write(s.encode("utf-8", "backslashreplace"))
        return len(s)


class _Bytes(_NeverClosed, io.RawIOBase):
    """`sys.stdout.buffer` of a session."""

    def write(self, chunk: "bytes | bytearray | memoryview", /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        taken = bytes(chunk)
        self._output.write(taken)
        return len(taken)


def read_ends(fd: int, kept_bytes: int) -> tuple[bytes, bytes, int]:
    """The first `kept_bytes` of a file, at most `kept_bytes` of the end of the rest, and the file's size."""
    size = os.fstat(fd).st_size
    head = os.pread(fd, kept_bytes, 0) if size else b""
    tail = os.pread(fd, kept_bytes, max(kept_bytes, size - kept_bytes)) if size > kept_bytes else b""
    return head, tail, size


def cut_middle(head: bytes, tail: bytes, total: int, limit_chars: int) -> str:
    """The text if it has at most `limit_chars` characters, else its start and end around a line that marks the gap.

    head, tail: start and end of the output, without overlap. total: full size of the output in bytes.
    """
    if len(head) + len(tail) >= total:
        text = (head + tail).decode("utf-8", "replace")
        if len(text) <= limit_chars:
            return text
        first, last = text[: limit_chars // 2], text[-(limit_chars // 2) :]
    else:
        first = head.decode("utf-8", "replace")[: limit_chars // 2]
        last = (head + tail).decode("utf-8", "replace")[-(limit_chars // 2) :]
    return f"{first}\n[… cut: {total} bytes were printed in all …]\n{last}"


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
            prepared.confine_process(limits)
            socket_fd = SOCKET_FD
            random.seed(order.seed)  # and the generators of the modules that are preloaded
            if (numpy_random := sys.modules.get("numpy.random")) is not None:
                numpy_random.seed(order.seed % 2**32)
            if (sympy_random := sys.modules.get("sympy.core.random")) is not None:
                sympy_random.seed(order.seed)
            prepared.confine_syscalls()
        except OSError as error:
            write_frame(socket_fd, {"failed": str(error)})
            return os._exit(code)
        write_frame(SOCKET_FD, {"ready": True, "pid": os.getpid()})
        _answer_calls(limits)
        code = 0
    finally:
        os._exit(code)


def _answer_calls(limits: SandboxLimits) -> None:
    output = CellOutput(1, kept_bytes=4 * limits.output_chars)
    stdout, stderr = _Stream(output, 1), _Stream(output, 2)
    sys.__stdout__, sys.__stderr__ = stdout, stderr  # pyright: ignore[reportAttributeAccessIssue, reportConstantRedefinition]
    main = ModuleType("__main__")  # where pickling and dataclasses find the names that the code defines
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    sys.set_int_max_str_digits(INT_DIGITS)
    sys.path.insert(0, "")  # modules that the code writes into its directory
    gc.enable()
    calls = FrameReader(SOCKET_FD)
    handlers, most_bytes = _end_timers(), reply_bytes(limits.output_chars)
    while (call := calls.read()) is not None:
        sys.stdout, sys.stderr = stdout, stderr
        output.begin(_threads_with_code())
        for number, handler in handlers.items():
            signal.signal(number, handler)
        try:
            status, error = run_cell(call["code"], main.__dict__, call["call"])
        except BaseException as late:  # noqa: BLE001  a handler raised after the code had ended
            status, error = "error", type(late).__name__
        sys.settrace(None)
        handlers = _end_timers()
        text, size = output.take(limits.output_chars)
        reply = {"call": call["call"], "status": status, "stdout": text, "stdout_bytes": size, "error": error}
        write_frame(SOCKET_FD, reply, most_bytes=most_bytes)
