"""Rows of text as aligned lines: the first column left-aligned, the others right-aligned."""

from collections.abc import Sequence

from agentlearn.text import visible_line

_GAP = "  "


def aligned(rows: Sequence[Sequence[str]], *, label: int = 0) -> tuple[str, ...]:
    """One line per row; all rows have the same number of cells. label: smallest width of the first column."""
    rows = [[visible_line(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    widths[0] = max(label, widths[0])
    return tuple(_line(row, widths) for row in rows)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first = cells[0].ljust(widths[0])
    return _GAP.join((first, *(cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True))))
