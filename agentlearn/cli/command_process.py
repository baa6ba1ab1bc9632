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
        from agentlearn.printing import print_line

        with suppress(OSError, ValueError):
            print_line("agentlearn: interrupted", to_stderr=True)
        status = SIGNALS.status
    except SystemExit as end:
        status = _chosen_status(end)
    except BaseException as error:  # noqa: BLE001  an error in agentlearn itself
        status = _status_of_bug(error)
    _leave(status)


def _status(arguments: Sequence[str]) -> int:
    from agentlearn.plugins import tolerate_unreadable_packages

    tolerate_unreadable_packages()
    from agentlearn.printing import guard_streams

    guard_streams()
    if (status := _without_learn(arguments)) is not None:
        return status
    from agentlearn.cli.app import run

    return run(arguments)


def _without_learn(arguments: Sequence[str]) -> int | None:
    """Return the exit status where the extra `learn`, which every command needs, is not installed; None where it is."""
    from agentlearn.errors import MissingExtra
    from agentlearn.installed import require_learn

    try:
        require_learn("the command agentlearn")
    except MissingExtra as missing:
        from agentlearn.cli.ending import Ending, report_ending

        ending = Ending(missing.code, missing.message, missing.exit_status)
        return report_ending(ending, json="--json" in arguments)
    return None


def _chosen_status(end: SystemExit) -> int:
    """Return the exit status that a command chose. Print its message, if it ends with one."""
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    from agentlearn.printing import print_line

    with suppress(OSError, ValueError):
        print_line(str(end.code), to_stderr=True)
    return 1


def _status_of_bug(error: BaseException) -> int:
    """Report an error in agentlearn itself, unless a signal caused it: some imports turn it into another error."""
    if SIGNALS.first is not None:
        with suppress(OSError):
            os.write(2, b"agentlearn: interrupted\n")
        return SIGNALS.status
    from agentlearn.cli.ending import report_bug

    return report_bug(error)


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
