"""The snapshot of a page as a walk shows it: its lines, their places in the page's text, and their pages."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any, Self

from agentlearn_web.observation import NOT_VISIBLE, PARTLY_VISIBLE, PRE, ElementLine, format_line
from agentlearn_web.reading.line_positions import PageLines, PlacedLine
from agentlearn_web.reading.page_text import PageText, dense

_CONTEXT_FRACTION = 4
"""A page's context takes at most 1/4 of the page."""
_MAX_NAME_CHARS = 60
"""Most characters of an ancestor's name in a context."""
_MIN_CHARS = 200
"""Smallest page size in characters, whatever the budget."""


@dataclass(frozen=True, slots=True)
class _SnapshotPage:
    """One page of a snapshot."""

    context: tuple[ElementLine, ...]
    """Ancestors of the page's first line: shortened, without refs, marked `continued`."""
    lines: tuple[ElementLine, ...]
    """The page's own lines. Each line of a snapshot is on exactly one page."""

    @property
    def shown(self) -> tuple[ElementLine, ...]:
        """The context and the lines, as they are shown."""
        return self.context + self.lines


def _split_pages(lines: Sequence[ElementLine], budget: int) -> tuple[_SnapshotPage, ...]:
    """Split lines into one or more pages of at most `budget` characters, counted as `format_line` writes them.

    A budget below 200 counts as 200. A line longer than a page is shortened and says how many characters are left out.
    """
    max_chars = max(budget, _MIN_CHARS)
    pages: list[_SnapshotPage] = []
    context: tuple[ElementLine, ...] = ()
    own: list[ElementLine] = []
    ancestors: list[ElementLine] = []
    used = 0
    for line in lines:
        while ancestors and ancestors[-1].depth >= line.depth:
            ancestors.pop()
        size = _size(line)
        if own and used + size > max_chars:
            pages.append(_SnapshotPage(context, tuple(own)))
            context, own = _context(ancestors, max_chars // _CONTEXT_FRACTION), []
            used = sum(map(_size, context))
        fitted = line if used + size <= max_chars else _shorten_line(line, max_chars - used - 1)
        own.append(fitted)
        used += _size(fitted)
        ancestors.append(line)
    return (*pages, _SnapshotPage(context, tuple(own)))


def _split_long_lines(placed: Iterable[PlacedLine], budget: int) -> Iterator[PlacedLine]:
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


def _shorten_line(line: ElementLine, max_chars: int) -> ElementLine:
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
        name = line.name if len(line.name) <= _MAX_NAME_CHARS else f"{line.name[:_MAX_NAME_CHARS]}…"
        short = ElementLine(depth=line.depth, role=line.role, name=name, marks=("continued",))
        if (max_chars := max_chars - _size(short)) < 0:
            break
        chosen.append(short)
    return tuple(reversed(chosen))


@dataclass(frozen=True)
class ShownSnapshot:
    """The last shown snapshot of a tab. Made by `ShownSnapshot.compose` or `ShownSnapshot.of_text`."""

    document: int
    """Number of the tab's document from which it was taken."""
    placed: tuple[PlacedLine, ...] = ()
    pages: tuple[_SnapshotPage, ...] = (_SnapshotPage((), ()),)
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

    @classmethod
    def compose(
        cls,
        document: int,
        lines: Sequence[ElementLine],
        text: PageText,
        page_chars: int,
        *,
        truncated: int = 0,
        changes: int = 0,
        every_ref: Sequence[ElementLine] = (),
    ) -> Self:
        """Return the snapshot of a page from its elements and its text. every_ref: see `PageLines.read`."""
        fields = {"document": document, "text": text, "truncated": truncated, "changes": changes}
        return cls._paged(PageLines(text).read(lines, every_ref), page_chars, **fields)

    @classmethod
    def of_text(cls, document: int, text: PageText, page_chars: int, *, changes: int = 0) -> Self:
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
        fields = {"document": document, "text": text, "changes": changes, "is_plain": True}
        return cls._paged(PageLines(text).place(tuple(lines)), page_chars, **fields)

    @classmethod
    def _paged(cls, placed: Iterable[PlacedLine], page_chars: int, **fields: Any) -> Self:
        """Return the snapshot with these fields, its lines split into pages."""
        kept = tuple(_split_long_lines(placed, page_chars))
        pages = _split_pages([one.line for one in kept], page_chars)
        fitted = (line for page in pages for line in page.lines)
        shown = tuple(PlacedLine(line, one.begin, one.end) for line, one in zip(fitted, kept, strict=True))
        return cls(placed=shown, pages=pages, **fields)
