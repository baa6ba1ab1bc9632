"""Shows preformatted text (code, logs, JSON, CSV, plain text files) with the line breaks and spaces of the document."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from agentlearn_web.observation import NOT_VISIBLE, PRE, ElementLine
from agentlearn_web.reading.line_positions import PlacedLine
from agentlearn_web.reading.page_text import PageText, dense


@dataclass(frozen=True, slots=True)
class _PreText:
    begin: int
    end: int
    lines: tuple[str, ...]
    hidden: bool


def with_line_breaks(placed: Sequence[PlacedLine], page: PageText) -> Iterator[PlacedLine]:
    """Yield the lines, those of a preformatted text replaced by the lines of the document.

    Elements inside the text that can be acted on follow it.
    """
    texts = [text for text in _pre_texts(page) if len(text.lines) > 1]
    at = 0
    while at < len(placed):
        one = placed[at]
        while texts and one.is_placed and texts[0].end <= one.begin:
            texts.pop(0)
        inside = _lines_inside(placed, at, texts[0]) if texts and one.is_placed else 0
        if not inside:
            yield one
            at += 1
            continue
        yield from _replaced(placed[at : at + inside], texts.pop(0))
        at += inside


def _pre_texts(page: PageText) -> Iterator[_PreText]:
    numbered = enumerate(page.blocks)
    for number, group in groupby(numbered, key=lambda one: one[1].pre):
        blocks = list(group)
        if number:
            text = "\n".join(block.text.strip("\n") for _, block in blocks)
            begin, end = page.dense_starts[blocks[0][0]], page.dense_starts[blocks[-1][0] + 1]
            yield _PreText(begin, end, tuple(text.split("\n")), all(block.hidden for _, block in blocks))


def _lines_inside(placed: Sequence[PlacedLine], first: int, text: _PreText) -> int:
    """Return how many lines from `first` on show this text; 0 unless the first of them begins it."""
    if placed[first].begin != text.begin:
        return 0
    count, covered, head = 0, text.begin, placed[first].line
    for number, one in enumerate(placed[first:], start=1):
        if one.is_placed:
            if not text.begin <= one.begin < one.end <= text.end:
                break
            count, covered = number, max(covered, one.end)
        elif one.line.text or one.line.name:
            break
        elif one.line.depth > head.depth:
            count = number
    return count if covered == text.end else 0


def _replaced(inside: Sequence[PlacedLine], text: _PreText) -> Iterator[PlacedLine]:
    head, at = inside[0].line, text.begin
    is_container = head.role not in {"generic", "text"} or bool(head.ref)
    if is_container:
        yield replace(inside[0], line=head.model_copy(update={"name": "", "text": ""}), end=text.begin)
    depth = head.depth + is_container
    marks = (NOT_VISIBLE,) if text.hidden else ()
    for line in text.lines:
        end = at + len(dense(line))
        yield PlacedLine(ElementLine(depth=depth, role=PRE, marks=marks, text=line.rstrip()), at, end)
        at = end
    for one in inside[1:]:
        if one.line.ref:
            yield replace(one, line=one.line.model_copy(update={"depth": depth + 1}))
