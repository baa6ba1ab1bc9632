"""The snapshot of a page as a walk shows it: its lines, their places in the page's text, and their pages."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from agentlearn_web.browser.paging import SnapshotPage, split_long_lines, split_pages
from agentlearn_web.observation import NOT_VISIBLE, ElementLine
from agentlearn_web.reading.line_marks import mark_lines
from agentlearn_web.reading.line_positions import PlacedLine, place_lines
from agentlearn_web.reading.page_text import PageText
from agentlearn_web.reading.preformatted import with_line_breaks
from agentlearn_web.reading.values import with_values


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


def compose_snapshot(
    document: int,
    lines: Sequence[ElementLine],
    text: PageText,
    page_chars: int,
    *,
    truncated: int = 0,
    changes: int = 0,
) -> ShownSnapshot:
    """Return the snapshot of a page from its elements and its text."""
    placed = with_line_breaks(tuple(mark_lines(tuple(place_lines(with_values(lines, text), text)), text)), text)
    return _paged(document, placed, text, page_chars, truncated, changes, is_plain=False)


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
