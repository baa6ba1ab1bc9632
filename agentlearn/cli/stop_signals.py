"""The process of one command: on Ctrl-C, SIGTERM or SIGHUP it ends orderly, on a second one at once.

Where nothing else has been arranged, a signal raises StopSignal in the main thread. Commands that run an event loop
arrange something else (see `interrupt`), because an error that is raised between two steps of a loop breaks the loop.
"""

import atexit
import gc
import logging
import os
import select
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from types import FrameType
from typing import NoReturn, cast

from agentlearn.errors import StopSignal
from agentlearn.text import visible_line
from agentlearn.text.printing import results_descriptor

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_REPEAT_S = 1.0
"""SIGTERM and SIGHUP are often sent twice, by a supervisor and by the kernel. Repeats within this time are one."""
SLOW_END_S = 15.0
"""Longest time for closing what a command opened before its work began."""
END_S = 3.0
"""Longest time for closing everything after a second signal."""
_SHOW_CURSOR = b"\x1b[?25h"


def nothing_to_say() -> str:
    """Return no line."""
    return ""


class _StopSignals:
    """The signals that this process has got, and what is done when one arrives."""

    def __init__(self) -> None:
        self.first: int | None = None
        """Number of the first signal; None while none has arrived."""
        self.count = 0
        self.last_words: Callable[[], str] = nothing_to_say
        """Returns the line to print when the process must end in the middle of its work."""
        self._first_at = 0.0
        self._again = False
        self._owns_process = False
        self._reaction: Callable[[], None] | None = None

    @property
    def status(self) -> int:
        """Exit status of a command that was stopped: 128 and the number of the signal."""
        return 128 + (self.first or signal.SIGINT)

    def take_process(self) -> None:
        """React to the signals until the process ends. Only for a process that runs nothing but one command."""
        self._owns_process = True
        sys.unraisablehook = self._swallowed
        for number in NUMBERS:
            # `nohup` has SIGHUP ignored. A shell also has SIGINT ignored for `command &`, where `kill -INT` means us.
            if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._arrived)

    def ignore(self) -> None:
        """Ignore all further signals: the process is about to end."""
        for number in NUMBERS:
            signal.signal(number, signal.SIG_IGN)

    @contextmanager
    def handled_by(self, reaction: Callable[[], None]) -> Generator[None]:
        """Call `reaction` for each signal in the block, and raise nothing there. It must be quick and safe anywhere."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {} if self._owns_process else {number: signal.getsignal(number) for number in NUMBERS}
        outer, self._reaction = self._reaction, reaction
        if not self._owns_process:
            self.first, self.count = None, 0
        for number in before:
            signal.signal(number, self._arrived)
        try:
            yield
        finally:
            self._reaction = outer
            for number, was in before.items():
                signal.signal(number, was)

    def end_within(self, seconds: float) -> None:
        """End the process after this time, whatever it does then."""
        if self._owns_process:
            timer = threading.Timer(seconds, self.end_now)
            timer.daemon = True
            timer.start()

    def end_now(self) -> None:
        """End the process in the middle of its work, with the last line."""
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):
                if stream.isatty():
                    os.write(stream.fileno(), _SHOW_CURSOR)
        with suppress(Exception):
            last_words = visible_line(self.last_words())  # it holds arguments of the command
            os.write(2, f"agentlearn: ended at once by a signal\n{last_words}".rstrip().encode() + b"\n")
        os._exit(self.status)

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:  # output that nobody can read any more goes to nowhere, so that printing goes on
            for stream in {0, 1, 2, results_descriptor()}:
                with suppress(OSError):
                    if _is_dead(stream):
                        null = os.open(os.devnull, os.O_RDWR)
                        os.dup2(null, stream)
                        if null > 2:
                            os.close(null)
        if not self._again and not self._counts(number):
            return
        self._again = False
        if self.count > 2:
            self.end_now()
        if self._reaction is not None:
            self._reaction()
        elif self._initialises_extension(frame):
            self._deliver_again(number)
        else:
            raise StopSignal(number)

    @staticmethod
    def _initialises_extension(frame: FrameType | None) -> bool:
        """Whether a module written in C is being imported: some of them abort the process at an error from outside."""
        while frame is not None:
            if isinstance(frame.f_locals.get("self"), ExtensionFileLoader):
                return True
            frame = frame.f_back
        return False

    def _deliver_again(self, number: int) -> None:
        """Let the signal arrive again soon, without counting it twice."""
        self._again = True
        threading.Timer(0.01, signal.pthread_kill, (threading.main_thread().ident, number)).start()

    def _counts(self, number: int) -> bool:
        """Count the signal, and return True, unless it repeats the first one."""
        now = time.monotonic()
        if self.first is None:
            self.first, self._first_at = number, now
            if self._owns_process:
                warnings.simplefilter("ignore")  # about work that is being given up
                logging.getLogger("asyncio").setLevel(logging.CRITICAL + 1)
                threading.excepthook = lambda _: None
        elif number != signal.SIGINT and now - self._first_at < _REPEAT_S:
            return False
        self.count += 1
        return True

    def _swallowed(self, args: "sys.UnraisableHookArgs") -> None:
        """Deliver a StopSignal again that was raised where Python drops errors, as in `__del__`."""
        if isinstance(args.exc_value, StopSignal):
            self._deliver_again(args.exc_value.number)
        elif self.first is None:
            sys.__unraisablehook__(args)


def nobody_reads() -> bool:
    """Whether the other end of stdout or stderr is closed."""
    return _is_dead(results_descriptor()) or _is_dead(2)


def _is_dead(stream: int) -> bool:
    poll = select.poll()
    poll.register(stream, 0)
    return any(events & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, events in poll.poll(0))


SIGNALS = _StopSignals()
"""The signals of this process."""


_COLLECT_AFTER = (10_000, 10, 10)
"""When Python collects garbage. By default it looks after 700 new objects, which takes a tenth of a run's CPU time."""


def run_command(arguments: Sequence[str]) -> NoReturn:
    """Run one command in this process and end the process with its exit status."""
    try:
        SIGNALS.take_process()
        gc.set_threshold(*_COLLECT_AFTER)
        _open_missing_streams()
        status = _status(arguments)
    except KeyboardInterrupt:  # before the command began, or while its end was printed
        status = _said("agentlearn: interrupted", SIGNALS.status)
    except SystemExit as end:  # a command chose its status, perhaps with a message
        status = (end.code or 0) if isinstance(end.code, int | None) else _said(str(end.code), 1)
    except BaseException as error:  # noqa: BLE001  an error in agentlearn itself
        if SIGNALS.first is not None:  # or caused by a signal: some imports turn it into another error
            with suppress(OSError):
                os.write(2, b"agentlearn: interrupted\n")
            status = SIGNALS.status
        else:
            from agentlearn.cli.output import report_bug

            status = report_bug(error)
    _leave(status)


def _said(line: str, status: int) -> int:
    """Print a line on stderr, and return the status."""
    from agentlearn.text.printing import print_line

    with suppress(OSError, ValueError):
        print_line(line, to_stderr=True)
    return status


def _status(arguments: Sequence[str]) -> int:
    from agentlearn.plugins import tolerate_unreadable_packages

    tolerate_unreadable_packages()
    from agentlearn.errors import MissingExtra
    from agentlearn.plugins import require_learn
    from agentlearn.text.printing import guard_streams

    guard_streams()
    try:
        require_learn("the command agentlearn")
    except MissingExtra as missing:
        from agentlearn.cli.output import Ending, report_ending

        return report_ending(Ending(missing.code, missing.message, missing.exit_status), json="--json" in arguments)
    from agentlearn.cli.app import run

    return run(arguments)


def _open_missing_streams() -> None:
    """Open the standard streams that are closed, so that no file of ours gets their numbers."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  open until the end


def _leave(status: int) -> NoReturn:
    """End the process without the interpreter's own shutdown.

    Everything that matters is closed by now. The shutdown would wait for threads that wait for a network, and extension
    modules print lines such as "nanobind: leaked" there.
    """
    SIGNALS.ignore()
    from agentlearn.cli.output import flush_output

    status = flush_output(status)
    run_exit_functions = cast("Callable[[], None]", vars(atexit)["_run_exitfuncs"])
    with suppress(BaseException):
        run_exit_functions()
    os._exit(flush_output(status))
