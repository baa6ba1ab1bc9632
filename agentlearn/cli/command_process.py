"""The process of one command: it reacts to signals from the first line on, and its end prints nothing of its own."""

import atexit
import gc
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn, cast

from agentlearn.cli.stop_signals import SIGNALS

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
            from agentlearn.cli.ending import report_bug

            status = report_bug(error)
    _leave(status)


def _said(line: str, status: int) -> int:
    """Print a line on stderr, and return the status."""
    from agentlearn.printing import print_line

    with suppress(OSError, ValueError):
        print_line(line, to_stderr=True)
    return status


def _status(arguments: Sequence[str]) -> int:
    from agentlearn.plugins import tolerate_unreadable_packages

    tolerate_unreadable_packages()
    from agentlearn.errors import MissingExtra
    from agentlearn.installed import require_learn
    from agentlearn.printing import guard_streams

    guard_streams()
    try:
        require_learn("the command agentlearn")
    except MissingExtra as missing:
        from agentlearn.cli.ending import Ending, report_ending

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
    from agentlearn.cli.ending import flush_output

    status = flush_output(status)
    run_exit_functions = cast("Callable[[], None]", vars(atexit)["_run_exitfuncs"])
    with suppress(BaseException):
        run_exit_functions()
    os._exit(flush_output(status))
