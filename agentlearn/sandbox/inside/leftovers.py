"""What a call leaves behind that would act in a later call: timers, trace functions, threads that run its code."""

import contextlib
import faulthandler
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from agentlearn.sandbox.inside.cell import CELL_PREFIX

_TIMERS = {
    signal.SIGALRM: signal.ITIMER_REAL,
    signal.SIGVTALRM: signal.ITIMER_VIRTUAL,
    signal.SIGPROF: signal.ITIMER_PROF,
}
_Handlers = dict[signal.Signals, Callable[[int, FrameType | None], Any]]


def end_timers() -> _Handlers:
    """End all timers and trace functions, and ignore the timers' signals. Returns the handlers, for `set_handlers`.

    Otherwise a handler could raise an exception between two calls, where nothing expects one.
    """
    sys.settrace(None)
    sys.setprofile(None)
    handlers: _Handlers = {}
    for number, timer in _TIMERS.items():
        signal.setitimer(timer, 0)
        if callable(handler := signal.getsignal(number)):
            handlers[number] = handler
            _ignore(number)
    faulthandler.cancel_dump_traceback_later()
    for thread in threading.enumerate() if threading.active_count() > 1 else ():
        if isinstance(thread, threading.Timer):
            thread.cancel()
    return handlers


def set_handlers(handlers: _Handlers) -> None:
    """Set the handlers that `end_timers` returned."""
    for number, handler in handlers.items():
        signal.signal(number, handler)


def threads_with_code() -> frozenset[int]:
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


def _ignore(number: signal.Signals) -> None:
    for _ in range(3):
        with contextlib.suppress(BaseException):  # `signal` first runs the handlers of signals that have come
            signal.signal(number, signal.SIG_IGN)
            return
