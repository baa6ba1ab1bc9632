"""Printing for every command and every child process: whole lines without anything that a terminal would obey.

`console` of the command line writes what has colours or moves. Everything else comes through here: `print_line` for
lines of ours, and `guard_streams` for what Python and other packages write to stdout and stderr.
"""

import os
import sys
import warnings
from collections.abc import Generator, Iterable
from contextlib import AbstractContextManager, contextmanager, redirect_stdout, suppress
from io import TextIOWrapper
from typing import Any, Protocol, TextIO, cast

from agentlearn.text import Block, visible, visible_line, wrapped

MAX_LINE = 4_000
"""Largest number of characters of a printed line. Lines of a block have no limit."""


def print_line(text: str, *, to_stderr: bool = False, stream: TextIO | None = None) -> None:
    """Print one line on stdout or stderr at once. Only a `Block` has line breaks of its own.

    Where there are too few columns, the line is broken between words. stream: print it there.
    """
    line = text if isinstance(text, Block) else visible_line(text, MAX_LINE)
    out = stream or (sys.stderr if to_stderr else sys.stdout)
    columns = _stream_columns(out)
    out.write(f"{line if columns is None else wrapped(line, columns)}\n")
    out.flush()


def stdout_for_results() -> AbstractContextManager[object]:
    """Inside the block, what a user's own code prints goes to stderr: stdout is for the result."""
    return redirect_stdout(sys.stderr)


class _Results:
    """Where results go, while everything else that is written to stdout goes to stderr."""

    descriptor = 1


def results_descriptor() -> int:
    """The descriptor of stdout, as this process was given it."""
    return _Results.descriptor


@contextmanager
def only_results_on_stdout() -> Generator[TextIO]:
    """Yield the stream for results. What else is written to stdout inside the block goes to stderr.

    That holds for this process, for libraries that write to the descriptor itself, and for child processes.
    """
    results, kept = sys.stdout, None
    with suppress(OSError, ValueError, AttributeError):
        if unguarded(results).fileno() == 1:
            results.flush()
            kept = _Results.descriptor = os.dup(1)
            os.dup2(2, 1)
            results = _GuardedStream(os.fdopen(kept, "w", encoding="utf-8", errors="backslashreplace", closefd=False))
    try:
        with stdout_for_results():
            yield cast("TextIO", results)
    finally:
        with suppress(OSError, ValueError):
            results.flush()
        if kept is not None:
            os.dup2(kept, 1)
            _Results.descriptor = 1
            os.close(kept)


def is_seen_on_stderr() -> bool:
    """Whether stderr is a terminal."""
    stream: TextIO | None = sys.stderr  # None in a process without streams
    return stream is not None and stream.isatty()


class _Console(Protocol):
    """A console of rich."""

    is_terminal: Any
    width: Any


def columns_of(out: _Console) -> int | None:
    """Columns for what a console prints: those of the variable COLUMNS or of its terminal; None: no limit."""
    return out.width if out.is_terminal or _given_columns() is not None else None


def _stream_columns(stream: TextIO) -> int | None:
    """The same for a stream."""
    if (given := _given_columns()) is not None or not stream.isatty():
        return given
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):
        return None


def _given_columns() -> int | None:
    given = os.environ.get("COLUMNS", "")
    return int(given) or None if given.isdecimal() else None


def ask_line(question: str, *, given: str = "") -> str:
    """Print a question on stderr and read one line from stdin. The answer is empty at the end of the input.

    given: an answer that the person can change, where the terminal can do that.
    """
    prompt = f"{visible_line(question, MAX_LINE)} "
    if given:
        import readline  # here: input() edits lines from now on

        def insert() -> None:
            readline.insert_text(visible_line(given))
            readline.set_startup_hook()

        readline.set_startup_hook(insert)
    else:
        sys.stderr.write(prompt)
        sys.stderr.flush()
    try:
        return input(prompt if given else "").strip()
    except EOFError:
        return ""


def ask_key(question: str, keys: str) -> str:
    """Print a question on stderr and wait for one of these keys. The last of them stands for the end of the input."""
    import termios
    import tty

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal, termios.TCSADRAIN)  # keeps keys that were pressed ahead
        print_line(question, to_stderr=True)
        while True:
            key = os.read(terminal, 1).decode(errors="replace").lower()
            if key in {"", "\x04"}:
                return keys[-1]
            if key in keys:
                return key
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def is_a_terminal() -> bool:
    """Whether a person reads stdout and can press keys."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))


class _GuardedStream:
    """A text stream that writes escapes for what a terminal would obey. Rich's consoles write past it."""

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        """Write the text. A carriage return at its beginning is kept: progress bars start with it."""
        start = "\r" if text.startswith("\r") and not text.startswith("\r\n") else ""
        self.rich_proxied_file.write(start + visible(text[len(start) :]))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write all texts."""
        for one in lines:
            self.write(one)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


def unguarded(stream: TextIO) -> TextIO:
    """The stream that a guard, or another stream around it, writes to."""
    while (inner := getattr(stream, "rich_proxied_file", None)) is not None:
        stream = inner
    return stream


def guard_streams() -> None:
    """Guard stdout and stderr of this process, and write each warning of Python as one line."""
    os.environ.setdefault("PYTHON_COLORS", "0")  # else Python colours tracebacks, and the guard would show its codes

    def warning_line(message: Warning | str, kind: type[Warning], file: str, line: int, _: str | None = None) -> str:
        return visible_line(f"{file}:{line}: {kind.__name__}: {message}", MAX_LINE) + "\n"

    warnings.formatwarning = warning_line
    for name in ("stdout", "stderr"):
        stream: TextIO | _GuardedStream | None = getattr(sys, name)
        if stream is not None and not isinstance(stream, _GuardedStream):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
            setattr(sys, name, _GuardedStream(stream))
