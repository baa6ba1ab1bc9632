"""Marks lines of a snapshot by how their text looks to a person: not visible, struck out, or a cell that spans.

A line counts as visible if its words stand anywhere on the page where a person can see them, so a second, invisible
copy changes nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from agentlearn_web.observation import NOT_VISIBLE, PARTLY_VISIBLE, ElementLine
from agentlearn_web.reading.line_positions import PlacedLine, line_words
from agentlearn_web.reading.page_text import PageText, SpanningCell, TextRun, dense

STRUCK = "struck"
"""Mark of a line whose words are all struck out. Other struck words stand between `~~`."""
_MOST_LABEL_CHARS = 80
"""Longest name without a visible counterpart that is taken for a label, such as that of a button with a picture."""
_MOST_UNSEEN_CHARS = 25
"""Longest text outside the document that is taken for a decoration by the page's style."""
_CELL_ROLES = frozenset({"cell", "gridcell", "columnheader", "rowheader"})
_CELLS_AHEAD = 50
_VALUE_ROLES = frozenset({"textbox", "searchbox", "spinbutton", "slider", "combobox", "option", "progressbar", "meter"})
"""Roles whose text is a value, which is no text of the document."""


def mark_lines(placed: Sequence[PlacedLine], page: PageText) -> Iterator[PlacedLine]:
    """Yield the lines with their marks."""
    cell = 0
    for one in placed:
        line, marks = one.line, _look(one, page)
        if line.role in _CELL_ROLES and page.cells:
            at = _cell_index(line, page.cells, cell)
            if at is not None:
                cell = at + 1
                marks += _span(page.cells[at])
        shown = _with_struck_words(one, page) if STRUCK not in marks else line
        if marks:
            shown = shown.model_copy(update={"marks": (*line.marks, *marks)})
        yield replace(one, line=shown)


def _look(one: PlacedLine, page: PageText) -> tuple[str, ...]:
    words = line_words(one.line)
    if not words:
        return (NOT_VISIBLE,) if one.line.text and dense(one.line.text) in page.unseen_values else ()
    if not one.is_placed:
        return (NOT_VISIBLE,) if dense(words) in page.unseen_values or not _is_label(one.line) else ()
    if one.line.text and len(one.line.name) > _MOST_LABEL_CHARS and dense(one.line.name) not in page.seen:
        return (PARTLY_VISIBLE,)
    if page.is_plain:
        return ()
    runs = page.runs_between(one.begin, one.end)
    struck = (STRUCK,) if one.line.role != "deletion" and all(run.struck for run in runs) else ()
    if not any(run.hidden for run in runs) or dense(words) in page.seen:
        return struck
    if all(run.hidden and run.label for run in runs) and len(words) <= _MOST_LABEL_CHARS:
        return struck
    return (NOT_VISIBLE if all(run.hidden for run in runs) else PARTLY_VISIBLE, *struck)


def _is_label(line: ElementLine) -> bool:
    """Return whether words that are not in the text of the document are a short label or a value."""
    if line.text:
        return line.role in _VALUE_ROLES or len(line.text) <= _MOST_UNSEEN_CHARS
    return len(line.name) <= _MOST_LABEL_CHARS


def _with_struck_words(one: PlacedLine, page: PageText) -> ElementLine:
    """Return the line with `~~` around the words that are struck out, if only some are."""
    if page.is_plain or not one.is_placed or one.line.role == "deletion":
        return one.line
    runs = page.runs_between(one.begin, one.end)
    if not any(run.struck for run in runs) or sum(len(dense(run.text)) for run in runs) != one.end - one.begin:
        return one.line
    words = " ".join("".join(map(_struck, runs)).split())
    return one.line.model_copy(update={"text" if one.line.text else "name": words})


def _struck(run: TextRun) -> str:
    return f" ~~{run.text.strip()}~~ " if run.struck else run.text


def _cell_index(line: ElementLine, cells: Sequence[SpanningCell], first: int) -> int | None:
    """Return which cell of the document a line shows. Both follow the reading order."""
    words = dense(line_words(line))
    ahead = range(first, min(first + _CELLS_AHEAD, len(cells)))
    return next((at for at in ahead if cells[at].dense == words[: len(cells[at].dense) or 1]), None)


def _span(cell: SpanningCell) -> tuple[str, ...]:
    named = (("rowspan", cell.rows), ("colspan", cell.columns))
    return tuple(f"{name}={count}" for name, count in named if count > 1)
