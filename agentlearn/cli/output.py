"""What a command prints: one JSON object on stdout or lines for people, and how it ends where it fails.

With `--json`, progress goes to stderr. All that a command prints goes through `console`, `print_json` and
`agentlearn.text.printing`. A text is printed as one line: line breaks, control characters, and what reorders or hides
text, are written as escapes. Texts of several lines are made by `agentlearn.text.block`, which sets each line apart
from lines of ours.
"""

import errno
import json
import logging
import os
import shlex
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TextIO

from agentlearn.cli.stop_signals import SIGNALS
from agentlearn.errors import AgentlearnError, Interrupted, StopSignal, StoreError, root_cause
from agentlearn.plugins import GROUP_OF_COMMANDS, cause_words, loaded_packages, plugin_fault
from agentlearn.text import Block, block, visible, visible_json, visible_line, wrapped
from agentlearn.text.printing import MAX_LINE, columns_of, print_line, unguarded

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    from agentlearn.types.value import Value


_LEVELS = ("debug", "info", "warning", "error")


_SECRET = "--api-key"  # noqa: S105  the name of an option


class _Output:
    """The present command of this process, and what it has printed."""

    arguments: tuple[str, ...] = ()
    json_printed = False
    results: "TextIO | None" = None
    """Where JSON goes; None: to stdout."""


HELP_ALL = "--help-all"
"""Shows the help of a command with every option."""


def restart_output(arguments: Sequence[str], results: "TextIO | None" = None) -> None:
    """Begin the output of a command, and keep its arguments. results: where its JSON goes; None: to stdout."""
    _Output.arguments, _Output.json_printed, _Output.results = tuple(arguments), False, results


def same_command(*left_out: str) -> str:
    """Return the present command as a line for a shell, without some flags and without the API key."""
    kept, value_follows = list[str](), False
    for one in _Output.arguments:
        if value_follows:
            value_follows = False
        elif one == _SECRET:
            value_follows = True
        elif one not in left_out and not one.startswith(f"{_SECRET}="):
            kept.append(one)
    return shlex.join(["agentlearn", *kept])


def print_json(value: "Value | Mapping[str, Any]") -> None:
    """Print exactly one JSON object on stdout."""
    plain = value if isinstance(value, Mapping) else value.model_dump(mode="json")
    text = Block(visible_json(json.dumps(plain, ensure_ascii=False, allow_nan=False)))
    print_line(text, stream=_Output.results)
    _Output.json_printed = True


def print_result(document: "Value | Mapping[str, Any]", lines: Iterable[str], *, json: bool) -> None:
    """Print the result of a command: with `--json` the document, else the lines."""
    if json:
        print_json(document)
        return
    out = console()
    for line in lines:
        out.print(line)


def plan_lines(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """What a run would do, from pairs of label and text, as lines to print."""
    return [f"  {label.ljust(16)}{words}" for label, words in pairs]


def _print_json_error(code: str, message: str) -> None:
    """Print an error as the one JSON object on stdout, unless the command has already printed its result."""
    if not _Output.json_printed:
        print_json({"error": {"code": code, "message": message}})


def console(*, to_stderr: bool = False, wrap: bool = False) -> "Console":
    """A console for lines, without markup, emoji codes and highlighting. wrap: break lines at the terminal's width."""
    from rich.console import Console
    from rich.text import Text

    class Lines(Console):
        def print(self, *objects: Any, **options: Any) -> None:
            """Print the objects; each text is one line, or several where it is too wide for one."""
            super().print(*(one if wrap else self._printable(one) for one in objects), **options)

        def render(self, renderable: "RenderableType", options: "ConsoleOptions | None" = None) -> "Iterable[Segment]":
            """Render an object, with visible texts that are no links: the last step before colours are added."""
            for one in super().render(renderable, options):
                if one.control:  # Rich's own cursor movements
                    yield one
                    continue
                style = one.style.update_link(None) if one.style and one.style.link else one.style
                text = visible(one.text)
                yield one if text == one.text and style is one.style else one._replace(text=text, style=style)

        def on_broken_pipe(self) -> None:
            """Raise an ordinary error; rich would end the process from inside a task."""
            raise BrokenPipeError

        def _printable(self, printed: Any) -> Any:
            """A text as one line or as a block, broken between words where there are too few columns."""
            if isinstance(printed, Text):  # what other packages print during a live view; rich has read its colours
                return visible(printed.plain)
            if not isinstance(printed, str):
                return printed
            text = printed if isinstance(printed, Block) else visible_line(printed, MAX_LINE)
            columns = columns_of(self)
            return text if columns is None else wrapped(text, columns)

    stream = unguarded(sys.stderr if to_stderr else sys.stdout)
    return Lines(file=stream, stderr=to_stderr, markup=False, emoji=False, highlight=False, soft_wrap=not wrap)


class _LogLines(logging.Handler):
    """Prints each event as one line on stderr; a traceback below it is indented."""

    def emit(self, record: logging.LogRecord) -> None:
        print_line(record.getMessage(), to_stderr=True)
        if record.exc_info is not None:
            print_line(block(logging.Formatter().formatException(record.exc_info), "  ", "  "), to_stderr=True)


def show_logs(level: str) -> None:
    """Send log events of this level and above to stderr. Raises ConfigError when the level is unknown."""
    from agentlearn.errors import ConfigError

    if level.lower() not in _LEVELS:
        raise ConfigError(f"--log {level!r} is not a level; give {', '.join(_LEVELS)}")
    logging.basicConfig(handlers=(_LogLines(),), level=logging.WARNING)
    logging.getLogger("agentlearn").setLevel(level.upper())


UNREAD = 128 + signal.SIGPIPE
"""Exit status of a command whose output nobody reads any more, as of other programs before `| head -1`."""
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
    errno.EAGAIN: ("too_many_processes", "raise the limit on processes (ulimit -u) or close other programs"),
    errno.ENOMEM: ("out_of_memory", "close other programs or give a smaller --concurrency"),
    errno.EIO: ("input_output", "check the disk or the terminal and run the command again"),
}
"""Code and next step for errors of the machine, by their number."""
_BAD_PATHS = {
    errno.ENAMETOOLONG: "give a shorter name",
    errno.ELOOP: "give a path whose links end at a file or folder",
    errno.ENOTDIR: "give a path whose folders are folders",
    errno.EISDIR: "give a file",
    errno.ENXIO: "give a file",
}
"""Next step for paths that no file can have, by the number of the error."""
_MAX_PATH = 120
"""Most characters of a path in a sentence."""
DEBUG = "AGENTLEARN_LOG"
"""Environment variable: with the value `debug`, every error is printed with its traceback."""
_OF_THE_MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.EROFS, errno.EIO}
"""Errors that are the machine's, also in the code of another package."""
_ISSUES = "https://github.com/agentlearn/agentlearn-lib/issues"


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
    cause, stopped = root_cause(error), SIGNALS.first is not None
    found = (None if stopped else _plugin_ending(cause)) or _own_ending(cause, stopped=stopped)
    return None if found is None else found.with_notes_of(error)


def _own_ending(error: BaseException, *, stopped: bool) -> Ending | None:
    """Return the ending for an error that no other package raised. stopped: whether a signal has arrived."""
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
        case OSError() if error.errno in _NEXT_STEPS or error.errno in _BAD_PATHS:
            path, where = str(error.filename), ""
            if error.filename is not None:
                whole = len(path) <= _MAX_PATH
                where = f" {path!r}" if whole else f" {path[:_MAX_PATH]!r}… ({len(path):,} characters)"
            bad_path = ("bad_path", _BAD_PATHS.get(error.errno or 0, ""))
            code, next_step = _NEXT_STEPS.get(error.errno or 0, bad_path)
            words = f"the machine refused{where}: {error.strerror or error}; {next_step}"
            return Ending(code, words, 2 if code == "bad_path" else 1)
        case ValueError() if str(error).startswith("embedded null"):
            return Ending("bad_path", "a path or an argument holds a NUL character; leave it out", 2)
        case _:
            return None


def _plugin_ending(error: BaseException) -> Ending | None:
    """Return the ending for an error that the code of another package raised; None for any other."""
    if isinstance(error, AgentlearnError | StopSignal) or (fault := plugin_fault(error)) is None:
        return None
    if isinstance(error, OSError) and error.errno in _OF_THE_MACHINE:
        return None
    plugin = fault.plugin
    if isinstance(error, SystemExit) and plugin.group == GROUP_OF_COMMANDS:
        return None  # a command may choose its exit status
    return Ending(
        "plugin_failed",
        f"the {fault.kind} {plugin.name!r} of the package {plugin.package!r} failed: {cause_words(error)}"
        f" ({fault.place}); correct it or tell its authors, {DEBUG}=debug shows the traceback",
        1,
    )


def print_traceback(error: BaseException) -> None:
    """Print the traceback on stderr, without the notes, which are printed last."""
    import traceback

    notes = vars(error).pop("__notes__", None)
    with suppress(Exception):
        print_line(block("".join(traceback.format_exception(error)).rstrip()), to_stderr=True)
    if notes is not None:
        error.__notes__ = notes


def report_bug(error: BaseException) -> int:
    """Print an error in agentlearn itself, where to report it, and the notes as the last lines. Return the status."""
    print_traceback(error)
    others = " and ".join(repr(name) for name in loaded_packages())
    whose = f"agentlearn, or of the package {others}," if others else "agentlearn"
    line = f"this is a bug of {whose} and not of yours; please report it with the lines above: {_ISSUES}"
    return report_ending(Ending("bug", line, 1).with_notes_of(error), json="--json" in sys.argv)


def report_ending(ending: Ending, *, json: bool) -> int:
    """Print the sentence, and the notes as the last lines. Return the exit status."""
    with suppress(OSError, ValueError):
        if ending.message:
            print_line(f"agentlearn: {ending.message}", to_stderr=True)
    with suppress(OSError, ValueError):
        if json and ending.message:
            _print_json_error(ending.code, ending.message)
            sys.stdout.flush()
    for note in ending.notes:
        try:
            print_line(note, to_stderr=json or not ending.message)
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                print_line(note, to_stderr=True)
    return ending.status


def print_waiting(arguments: Sequence[str]) -> None:
    """Print as the last line how many things wait for a decision in the store of a command, if any do."""
    if not arguments or {"--help", "-h", "--version"} & set(arguments):
        return
    given = [one for one in arguments if one == "--store" or one.startswith("--store=")]
    store = os.environ.get("AGENTLEARN_STORE") or ".agentlearn"
    if given:
        store = given[-1].partition("=")[2] or arguments[min(len(arguments) - 1, arguments.index(given[-1]) + 1)]
    if not (Path(store) / "libraries").is_dir():
        return
    from agentlearn.library.store import things_waiting  # here: most commands have no libraries to look at

    if number := things_waiting(Path(store) / "libraries"):
        wait = "thing waits" if number == 1 else "things wait"
        from agentlearn.config.defaults import command_words  # here: most commands have nothing to say

        with suppress(OSError, ValueError):
            command = command_words("review", store=Path(store))
            print_line(f"{number:,} {wait} for your decision: {command}", to_stderr=True)


def flush_output(status: int) -> int:
    """Write what is still buffered. Return the exit status: another than 0 where a success could not be written."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except BrokenPipeError:
            status = status or UNREAD
        except (OSError, ValueError) as error:
            status = status or 1
            with suppress(OSError):
                os.write(2, f"agentlearn: the output cannot be written: {error}\n".encode())
    return status
