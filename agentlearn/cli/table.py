"""Rows of text as aligned lines: the first column left-aligned, the others right-aligned."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from agentlearn.text import visible_line

if TYPE_CHECKING:
    from rich.console import Console

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
