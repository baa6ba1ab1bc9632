"""The process of one command: it reacts to signals from the first line on, and its end prints nothing of its own."""

import atexit
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, cast

from agentlearn.cli.stop_signals import SIGNALS


def run_command(arguments: Sequence[str]) -> NoReturn:
    """Run one command in this process and end the process with its exit status."""
    SIGNALS.take_process()
    _open_missing_streams()
    try:
        status = _status(arguments)
    except KeyboardInterrupt:  # before the command began, or while its end was printed
        from agentlearn.printing import print_line

        with suppress(OSError, ValueError):
            print_line("agentlearn: interrupted", to_stderr=True)
        status = SIGNALS.status
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001  an error in agentlearn itself: printed as Python prints it
        sys.excepthook(*cast("Any", sys.exc_info()))
        status = 1
    _leave(status)


def _status(arguments: Sequence[str]) -> int:
    from agentlearn.plugins import tolerate_unreadable_packages

    tolerate_unreadable_packages()
    from agentlearn.cli.app import run
    from agentlearn.printing import guard_streams

    guard_streams()
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
    from agentlearn.cli.ending import flush_output

    status = flush_output(status)
    run_exit_functions = cast("Callable[[], None]", vars(atexit)["_run_exitfuncs"])
    with suppress(BaseException):
        run_exit_functions()
    os._exit(flush_output(status))
