"""How a command ends that did not succeed: its code, sentence and exit status, and the line that says what to do."""

import errno
import os
import sys
from contextlib import suppress
from typing import NamedTuple, Self

from agentlearn.cli.output import print_error, print_json_error
from agentlearn.cli.stop_signals import SIGNALS
from agentlearn.errors import AgentlearnError, Interrupted, StoreError, root_cause
from agentlearn.printing import print_line

_INTERRUPTED = "interrupted"
_STORED = "interrupted; what was finished is stored"
_NEXT_STEPS = {
    errno.ENOSPC: ("disk_full", "free some space and run the command again"),
    errno.EDQUOT: ("disk_full", "free some of your quota and run the command again"),
    errno.EFBIG: ("file_too_large", "raise the limit on the size of files (ulimit -f) and run the command again"),
    errno.EMFILE: ("too_many_files", "raise the limit on open files (ulimit -n) or give a smaller --concurrency"),
    errno.ENFILE: ("too_many_files", "close other programs; this machine has no more open files to give"),
    errno.EROFS: ("read_only", "choose a folder on a disk that can be written"),
    errno.EACCES: ("no_permission", "correct the permissions of that file or folder, or choose another"),
    errno.EPERM: ("no_permission", "correct the permissions of that file or folder, or choose another"),
    errno.ENOENT: ("file_gone", "check that the file or folder still exists and run the command again"),
    errno.EIO: ("input_output", "check the disk or the terminal and run the command again"),
}
"""Code and next step for errors of the machine, by their number."""


class Ending(NamedTuple):
    """Why a command did not succeed."""

    code: str
    message: str
    """One sentence; empty when nobody reads our output any more."""
    status: int
    """Exit status."""
    notes: tuple[str, ...] = ()
    """Lines to print last, such as the command that resumes the run."""

    def with_notes_of(self, error: BaseException) -> Self:
        """Return the ending with the lines that were added to the error."""
        return self._replace(notes=tuple(getattr(error, "__notes__", ())))


def ending_of(error: BaseException) -> Ending | None:
    """Return how a command ends that raised this error; None for an error in agentlearn itself."""
    found = _ending(root_cause(error))
    return None if found is None else found.with_notes_of(error)


def _ending(error: BaseException) -> Ending | None:
    stopped = SIGNALS.first is not None
    match error:
        case SystemExit():
            return None
        case Interrupted():
            return Ending(error.code, error.message, SIGNALS.status)
        case AgentlearnError() if isinstance(error, StoreError) or not stopped:
            return Ending(error.code, error.message, error.exit_status)
        case KeyboardInterrupt():
            return Ending("interrupted", _STORED if hasattr(error, "__notes__") else _INTERRUPTED, SIGNALS.status)
        case _ if stopped:  # what fails after a signal fails because of it
            return Ending("interrupted", _INTERRUPTED, SIGNALS.status)
        case OSError() if error.errno in _NEXT_STEPS:
            code, next_step = _NEXT_STEPS[error.errno]
            where = "" if error.filename is None else f" {str(error.filename)!r}"
            return Ending(code, f"the machine refused{where}: {error.strerror or error}; {next_step}", 1)
        case _:
            return None


def report_ending(ending: Ending, *, json: bool) -> int:
    """Print the sentence, and the notes as the last lines. Return the exit status."""
    with suppress(OSError, ValueError):
        if ending.message:
            print_error(ending.message)
    with suppress(OSError, ValueError):
        if json and ending.message:
            print_json_error(ending.code, ending.message)
            sys.stdout.flush()
    for note in ending.notes:
        _print_last(note, to_stderr=json or not ending.message)
    return ending.status


def _print_last(line: str, *, to_stderr: bool) -> None:
    try:
        print_line(line, to_stderr=to_stderr)
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            print_line(line, to_stderr=True)


def flush_output(status: int) -> int:
    """Write what is still buffered. Return the exit status: 1 where a success could not be written."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except BrokenPipeError:
            status = status or 1
        except (OSError, ValueError) as error:
            status = status or 1
            with suppress(OSError):
                os.write(2, f"agentlearn: the output cannot be written: {error}\n".encode())
    return status
