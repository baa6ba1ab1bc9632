"""Output of commands: one JSON object on stdout, or lines for people. With `--json`, progress goes to stderr.

All that a command prints goes through `console`, `print_json` and `agentlearn.text.printing`. A text is printed as one
line: line breaks, control characters, and what reorders or hides text, are written as escapes. Texts of several lines
are made by `agentlearn.text.block`, which sets each line apart from lines of ours.
"""

import json
import logging
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

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


def print_json_error(code: str, message: str) -> None:
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
