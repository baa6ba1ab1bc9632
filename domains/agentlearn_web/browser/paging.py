"""Splits a snapshot into pages of about equal size, between lines."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from agentlearn_web.observation import NOT_VISIBLE, PARTLY_VISIBLE, PRE, ElementLine, format_line
from agentlearn_web.reading.line_positions import PlacedLine
from agentlearn_web.reading.page_text import dense

_CONTEXT_FRACTION = 4
"""A page's context takes at most 1/4 of the page."""
_MAX_NAME_CHARS = 60
"""Most characters of an ancestor's name in a context."""
_MIN_CHARS = 200
"""Smallest page size in characters, whatever the budget."""


@dataclass(frozen=True, slots=True)
class SnapshotPage:
    """One page of a snapshot."""

    context: tuple[ElementLine, ...]
    """Ancestors of the page's first line: shortened, without refs, marked `continued`."""
    lines: tuple[ElementLine, ...]
    """The page's own lines. Each line of a snapshot is on exactly one page."""

    @property
    def shown(self) -> tuple[ElementLine, ...]:
        """The context and the lines, as they are shown."""
        return self.context + self.lines


def split_pages(lines: Sequence[ElementLine], budget: int) -> tuple[SnapshotPage, ...]:
    """Split lines into one or more pages of at most `budget` characters, counted as `format_line` writes them.

    A budget below 200 counts as 200. A line longer than a page is shortened and says how many characters are left out.
    """
    max_chars = max(budget, _MIN_CHARS)
    pages: list[SnapshotPage] = []
    context: tuple[ElementLine, ...] = ()
    own: list[ElementLine] = []
    ancestors: list[ElementLine] = []
    used = 0
    for line in lines:
        while ancestors and ancestors[-1].depth >= line.depth:
            ancestors.pop()
        size = _size(line)
        if own and used + size > max_chars:
            pages.append(SnapshotPage(context, tuple(own)))
            context, own = _context(ancestors, max_chars // _CONTEXT_FRACTION), []
            used = sum(map(_size, context))
        fitted = line if used + size <= max_chars else shorten_line(line, max_chars - used - 1)
        own.append(fitted)
        used += _size(fitted)
        ancestors.append(line)
    return (*pages, SnapshotPage(context, tuple(own)))


def split_long_lines(placed: Iterable[PlacedLine], budget: int) -> Iterator[PlacedLine]:
    """Yield the lines, those with a text longer than half a page in several parts. The first part keeps the ref."""
    most = max(budget, _MIN_CHARS) // 2
    for one in placed:
        text = one.line.text
        if len(text) <= most:
            yield one
            continue
        at = one.begin
        for number, part in enumerate(_parts(text, most)):
            line = one.line.model_copy(update={"text": part})
            if number:
                role = PRE if line.role == PRE else "text"
                seen = tuple(mark for mark in line.marks if mark in {NOT_VISIBLE, PARTLY_VISIBLE})
                line = ElementLine(depth=line.depth, role=role, marks=(*seen, "continued"), text=part)
            end = at + len(dense(part)) if one.is_placed else at
            yield PlacedLine(line, at, end)
            at = end


def _parts(text: str, most: int) -> Iterator[str]:
    """Yield the text in parts, cut at a space if there is one in the last quarter of a part."""
    while len(text) > most:
        at = text.rfind(" ", most - most // 4, most) + 1 or most
        yield text[:at]
        text = text[at:]
    if text.strip():
        yield text


def shorten_line(line: ElementLine, max_chars: int) -> ElementLine:
    """Return the line shortened to `max_chars` characters, as far as its name, text and address allow."""
    excess = len(format_line(line)) - max_chars
    if excess <= 0:
        return line
    for name in sorted(("text", "name", "url"), key=lambda name: -len(getattr(line, name))):
        value: str = getattr(line, name)
        left_out = f"… ({len(value)} characters left out)"
        kept = max(len(value) - excess - len(left_out), 0)
        while (
            kept and len(format_line(_with_cut(line, name, value, kept))) > max_chars
        ):  # quotes and such take room of their own
            kept -= min(kept, len(format_line(_with_cut(line, name, value, kept))) - max_chars)
        line = _with_cut(line, name, value, kept)
        excess = len(format_line(line)) - max_chars
        if excess <= 0:
            break
    return line


def _with_cut(line: ElementLine, name: str, value: str, kept: int) -> ElementLine:
    left_out = len(value) - kept
    shortened = f"{value[:kept]}… ({left_out} characters left out)" if name != "url" else f"{value[:kept]}…"
    return line.model_copy(update={name: shortened if left_out else value})


def _size(line: ElementLine) -> int:
    return len(format_line(line)) + 1  # its line break


def _context(ancestors: Iterable[ElementLine], max_chars: int) -> tuple[ElementLine, ...]:
    """Return the innermost ancestors that have a role or name worth showing, as many as fit."""
    chosen: list[ElementLine] = []
    for line in reversed(list(ancestors)):
        if line.role == "generic" and not line.name:
            continue
        short = ElementLine(depth=line.depth, role=line.role, name=_short(line.name), marks=("continued",))
        if (max_chars := max_chars - _size(short)) < 0:
            break
        chosen.append(short)
    return tuple(reversed(chosen))


def _short(words: str) -> str:
    return words if len(words) <= _MAX_NAME_CHARS else f"{words[:_MAX_NAME_CHARS]}…"
