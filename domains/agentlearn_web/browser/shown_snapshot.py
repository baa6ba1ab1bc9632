"""The snapshot of a page as a walk shows it: its lines, their places in the page's text, and their pages."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice

from agentlearn_web.observation import NOT_VISIBLE, PARTLY_VISIBLE, PRE, SCROLLS, ElementLine, format_line
from agentlearn_web.reading.line_positions import (
    PlacedLine,
    mark_lines,
    place_lines,
    with_line_breaks,
    with_spaces,
    with_values,
)
from agentlearn_web.reading.page_text import PageText, dense

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


_BORDER = "separator"
"""Role of a line between two parts. If it has a value, a person can move it."""


@dataclass(frozen=True)
class ShownSnapshot:
    """The last shown snapshot of a tab. Made by `compose_snapshot` or `text_snapshot`."""

    document: int
    """Number of the tab's document from which it was taken."""
    placed: tuple[PlacedLine, ...] = ()
    pages: tuple[SnapshotPage, ...] = (SnapshotPage((), ()),)
    truncated: int = 0
    """Number of characters that were left out at the end."""
    text: PageText = field(default_factory=PageText)
    changes: int = 0
    """Number of changes that the document had had."""
    is_plain: bool = False
    """Whether it shows plain text without refs, because the browser gave no snapshot of the elements."""

    def marked(self, numbers: Container[int], mark: str) -> "ShownSnapshot":
        """Return the snapshot with a mark on the lines of these numbers."""

        def with_mark(number: int, line: ElementLine) -> ElementLine:
            return line.model_copy(update={"marks": (*line.marks, mark)}) if number in numbers else line

        lines = tuple(with_mark(number, line) for number, line in enumerate(self.lines))
        placed = tuple(replace(one, line=line) for one, line in zip(self.placed, lines, strict=True))
        left = iter(lines)
        pages = tuple(replace(page, lines=tuple(islice(left, len(page.lines)))) for page in self.pages)
        return replace(self, placed=placed, pages=pages)

    @cached_property
    def lines(self) -> tuple[ElementLine, ...]:
        """All lines. Each is on exactly one page."""
        return tuple(one.line for one in self.placed)

    @cached_property
    def refs(self) -> Mapping[str, ElementLine]:
        """The lines that have a ref, by ref."""
        return {line.ref: line for line in self.lines if line.ref}

    def page_of(self, ref: str) -> int:
        """Return the number of the page that contains a ref; 0 if there is none."""
        holds = (n for n, page in enumerate(self.pages, 1) if any(line.ref == ref for line in page.lines))
        return next(holds, 0) if ref else 0

    @cached_property
    def page_numbers(self) -> tuple[int, ...]:
        """The page number of each line."""
        return tuple(n for n, page in enumerate(self.pages, 1) for _ in page.lines)


def needs_every_ref(text: PageText) -> bool:
    """Return whether a page has parts that scroll by themselves, or borders between two parts that can be moved."""
    return bool(text.scrollers) or any(one.role == _BORDER and one.value for one in text.shown_values)


def compose_snapshot(
    document: int,
    lines: Sequence[ElementLine],
    text: PageText,
    page_chars: int,
    *,
    truncated: int = 0,
    changes: int = 0,
    every_ref: Sequence[ElementLine] = (),
) -> ShownSnapshot:
    """Return the snapshot of a page from its elements and its text.

    every_ref: the same elements, each with its ref. What scrolls by itself is then shown with one of them, and so is a
    separator with a value: it is a border that can be moved.
    """
    found = [with_spaces(one, text) for one in place_lines(with_values(lines, text), text)]
    _mark_scrollers(found, every_ref, text)
    for number, (one, known) in enumerate(zip(found, every_ref, strict=False)):
        if one.line.role == _BORDER and one.line.text:
            found[number] = replace(one, line=one.line.model_copy(update={"ref": known.ref}))
    spaced = _without_repeated(found)
    placed = with_line_breaks(tuple(mark_lines(tuple(spaced), text)), text)
    return _paged(document, placed, text, page_chars, truncated, changes, is_plain=False)


def _mark_scrollers(placed: list[PlacedLine], every_ref: Sequence[ElementLine], text: PageText) -> None:
    """Mark in each part that scrolls by itself the first line with a ref, or else give its first line a ref."""
    for first, last in text.scrollers if every_ref else ():
        begin, end = text.dense_starts[first], text.dense_starts[last]
        inside = [number for number, one in enumerate(placed) if begin <= one.begin < one.end <= end]
        with_ref = (number for number in inside if placed[number].line.ref)
        number = next(with_ref, next((number for number in inside if every_ref[number].ref), None))
        if number is not None:
            line = placed[number].line
            marks = line.marks if SCROLLS in line.marks else (*line.marks, SCROLLS)
            shown = line.model_copy(update={"ref": every_ref[number].ref, "marks": marks})
            placed[number] = replace(placed[number], line=shown)


def _without_repeated(placed: Iterable[PlacedLine]) -> Iterator[PlacedLine]:
    """Yield the lines without texts that only repeat the name of the element around them."""
    before: PlacedLine | None = None
    for one in placed:
        repeats = before is not None and one.line.depth > before.line.depth and one.line.text == before.line.name
        if one.line.role == "text" and repeats:
            continue
        yield (before := one)


def text_snapshot(document: int, text: PageText, page_chars: int, *, changes: int = 0) -> ShownSnapshot:
    """Return a snapshot that shows only the text of a page, line by line."""
    lines = (
        ElementLine(
            role="pre" if block.pre else "heading" if block.heading else "text",
            name=line if block.heading else "",
            text="" if block.heading else line,
            marks=(NOT_VISIBLE,) if block.hidden else (),
        )
        for line, block in text.plain_lines()
    )
    return _paged(document, place_lines(tuple(lines), text), text, page_chars, 0, changes, is_plain=True)


def _paged(
    document: int,
    placed: Iterable[PlacedLine],
    text: PageText,
    page_chars: int,
    truncated: int,
    changes: int,
    *,
    is_plain: bool,
) -> ShownSnapshot:
    kept = tuple(split_long_lines(placed, page_chars))
    pages = split_pages([one.line for one in kept], page_chars)
    fitted = (line for page in pages for line in page.lines)
    shown = tuple(PlacedLine(line, one.begin, one.end) for line, one in zip(fitted, kept, strict=True))
    return ShownSnapshot(document, shown, pages, truncated, text, changes, is_plain)
