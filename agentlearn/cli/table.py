"""Rows of text as aligned lines: the first column to the left, figures to the right."""

from collections.abc import Sequence

_GAP = "  "


def aligned(rows: Sequence[Sequence[str]], *, label: int = 0) -> tuple[str, ...]:
    """A line per row, all of which have as many cells. label: the least width of the first column."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    widths[0] = max(label, widths[0])
    return tuple(_joined(row, widths) for row in rows)


def _joined(cells: Sequence[str], widths: Sequence[int]) -> str:
    first = cells[0].ljust(widths[0])
    return _GAP.join((first, *(cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True))))
