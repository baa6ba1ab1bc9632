"""Output of commands: one JSON object on stdout, or lines for people. With `--json`, progress goes to stderr.

All that a command prints goes through `console`, `print_json` and `agentlearn.printing`. A text is printed as one line:
line breaks, control characters, and what reorders or hides text, are written as escapes. Texts of several lines are
made by `agentlearn.text.block`, which sets each line apart from lines of ours.
"""

import json
import logging
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agentlearn.printing import MAX_LINE, print_line, unguarded
from agentlearn.text import Block, block, number_text, visible, visible_json, visible_line, wrapped

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    from agentlearn.types.value import Value

_LEVELS = ("debug", "info", "warning", "error")


class _Output:
    """What this process has printed for the present command."""

    json_printed = False


def restart_output() -> None:
    """Forget the output of an earlier command in this process."""
    _Output.json_printed = False


def print_json(value: "Value | Mapping[str, Any]") -> None:
    """Print exactly one JSON object on stdout."""
    plain = value if isinstance(value, Mapping) else value.model_dump(mode="json")
    print_line(Block(visible_json(json.dumps(plain, ensure_ascii=False, allow_nan=False))))
    _Output.json_printed = True


def print_plan(lines: Iterable[tuple[str, str]]) -> None:
    """Print what a run would do, as pairs of label and text."""
    out = console()
    for label, words in lines:
        out.print(f"  {label.ljust(16)}{words}")


def print_json_error(code: str, message: str) -> None:
    """Print an error as the one JSON object on stdout, unless the command has already printed its result."""
    if not _Output.json_printed:
        print_json({"error": {"code": code, "message": message}})


def print_error(message: str) -> None:
    """Print an error as one line on stderr."""
    print_line(f"agentlearn: {message}", to_stderr=True)


def console(*, to_stderr: bool = False, wrap: bool = False) -> "Console":
    """A console for lines, without markup, emoji codes and highlighting. wrap: break lines at the terminal's width."""
    from rich.console import Console

    class Lines(Console):
        def print(self, *objects: Any, **options: Any) -> None:
            """Print the objects; each text is one line, or several on a terminal where it is too wide for one."""
            width = self.width if self.is_terminal else None
            super().print(*(one if wrap else _printable(one, width) for one in objects), **options)

        def render(self, renderable: "RenderableType", options: "ConsoleOptions | None" = None) -> "Iterable[Segment]":
            """Render an object. This is the last step before colours are added, so nothing gets past it."""
            return (_guarded(one) for one in super().render(renderable, options))

        def on_broken_pipe(self) -> None:
            """Raise an ordinary error; rich would end the process from inside a task."""
            raise BrokenPipeError

    stream = unguarded(sys.stderr if to_stderr else sys.stdout)
    return Lines(file=stream, stderr=to_stderr, markup=False, emoji=False, highlight=False, soft_wrap=not wrap)


def _printable(printed: Any, width: int | None) -> Any:
    """A text as one line or as a block, broken between words where a terminal has `width` columns."""
    from rich.text import Text

    if isinstance(printed, Text):  # what other packages print during a live view; rich has read its colours
        return visible(printed.plain)
    if not isinstance(printed, str):
        return printed
    text = printed if isinstance(printed, Block) else visible_line(printed, MAX_LINE)
    return text if width is None else wrapped(text, width)


def _guarded(segment: "Segment") -> "Segment":
    """A segment whose text is visible, and which is no link. Rich's own cursor movements are left as they are."""
    if segment.control:
        return segment
    style = segment.style.update_link(None) if segment.style and segment.style.link else segment.style
    text = visible(segment.text)
    return segment if text == segment.text and style is segment.style else segment._replace(text=text, style=style)


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
        raise ConfigError(f"--log {level!r} is not a level; give {', '.join(_LEVELS)}", code="bad_log_level")
    logging.basicConfig(handlers=(_LogLines(),), level=logging.WARNING)
    logging.getLogger("agentlearn").setLevel(level.upper())


def score_words(value: float | None) -> str:
    """A score with two decimals, or more where it would look like 0 or 1 and is not; `-` when there is none."""
    return "-" if value is None else number_text(value)


def change_words(mean: float | None, ci: tuple[float, float] | None, p: float | None = None) -> str:
    """A difference with its interval and its p-value, as far as they are known."""
    interval = "" if ci is None else f" [{number_text(ci[0], sign=True)}, {number_text(ci[1], sign=True)}]"
    chance = "" if p is None else f"   p {'< 0.001' if p < 0.001 else f'= {p:.3f}'}"
    return ("-" if mean is None else number_text(mean, sign=True)) + interval + chance


def count_words(number: int, noun: str) -> str:
    """A number with its noun in the singular or plural: `1 task`, `2 families`."""
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{number:,} {noun if number == 1 else plural}"


def proposal_words(applied: int, merged: int, unused: int, refused: int, waiting: int = 0) -> str:
    """How the proposals of a batch, an epoch or a run ended. waiting: those that wait for a person."""
    quarantined = f", {waiting} quarantined" if waiting else ""
    return f"proposals: {applied} applied, {merged} merged into them, {unused} not used, {refused} refused{quarantined}"


def made_words(drawn: int, planned: int, skipped: int) -> str:
    """How many of the planned rollouts were made, and how many visits were skipped; empty when all were made."""
    if drawn >= planned:
        return ""
    left_out = f"   skipped {count_words(skipped, 'task')} that were all right when last seen" if skipped else ""
    return f"{drawn:,} of {planned:,} planned rollouts{left_out}"


def clock_time(seconds: float) -> str:
    """A duration as minutes and seconds, with hours if there are any: `00:09`, `1:02:03`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"


_GAP = "  "


def print_table(out: "Console", rows: Sequence[Sequence[str]], *, label: int = 0, indent: int = 0) -> None:
    """Print a table whose first row is its header; in several parts where a terminal is too narrow for all columns."""
    columns = out.width - indent if out.is_terminal else None
    for header, *lines in parts_of_table(rows, label=label, columns=columns):
        out.print(" " * indent + header, style="dim")
        for line in lines:
            out.print(" " * indent + line)


def parts_of_table(
    rows: Sequence[Sequence[str]], *, label: int = 0, columns: int | None = None
) -> Iterator[tuple[str, ...]]:
    """The lines of a table, a line per row; all rows have the same number of cells.

    label: smallest width of the first column. columns: where the table is wider, it comes in several parts, each with
    the first column and as many of the others as there is room for.
    """
    rows = [[visible_line(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    widths[0] = max(label, widths[0])
    start = 1
    while start < len(widths) or start == 1:
        end, width = start, widths[0]
        while end < len(widths) and (end == start or columns is None or width + len(_GAP) + widths[end] <= columns):
            width += len(_GAP) + widths[end]
            end += 1
        yield tuple(
            _GAP.join((row[0].ljust(widths[0]), *(row[one].rjust(widths[one]) for one in range(start, end))))
            for row in rows
        )
        start = max(end, start + 1)


def aligned(rows: Sequence[Sequence[str]], *, label: int = 0) -> tuple[str, ...]:
    """One line per row; all rows have the same number of cells. label: smallest width of the first column."""
    return next(parts_of_table(rows, label=label))
