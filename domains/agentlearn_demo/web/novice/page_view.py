"""A page as the simulated solver reads it: links by name, tables by row, teasers, and links to the next page."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from agentlearn_web.observation import ElementLine, ParsedObservation

T = TypeVar("T")


class NotOnPage(Exception):
    """Raised when a page does not contain what the walk needs."""


@dataclass(frozen=True, slots=True)
class PageView:
    """The parts of one page that the solver has seen so far."""

    url: str
    lines: tuple[ElementLine, ...]
    page: int = 1
    pages: int = 1
    """Number of pages of the snapshot."""

    @property
    def has_more(self) -> bool:
        """Whether the snapshot has further pages."""
        return self.page < self.pages

    def updated(self, seen: ParsedObservation) -> "PageView":
        """Return the view after another observation: more of the same page, or a new page."""
        if seen.url == self.url and seen.page == self.page + 1:
            return replace(self, lines=self.lines + seen.lines, page=seen.page)
        return first_view(seen)

    def links(self, prefix: str = "") -> list[ElementLine]:
        """Return the clickable links whose names start with `prefix`, in order."""
        return [line for line in self.lines if line.role == "link" and line.ref and line.name.startswith(prefix)]

    def link(self, name: str) -> ElementLine:
        """Return the first link with exactly that name. Raises NotOnPage."""
        return require(next((line for line in self.links() if line.name == name), None))

    def has_link(self, name: str) -> bool:
        """Return whether there is a link with exactly that name."""
        return any(line.name == name for line in self.links())

    def first_link(self, prefix: str) -> ElementLine:
        """Return the first link whose name starts with `prefix`. Raises NotOnPage."""
        return require(next(iter(self.links(prefix)), None))

    def link_about(self, word: str) -> ElementLine:
        """Return the first link whose name contains the word but is not equal to it. Raises NotOnPage."""
        names = ((line, line.name.casefold()) for line in self.links())
        return require(next((line for line, name in names if word in name and name != word), None))

    def control(self, role: str, name: str) -> ElementLine:
        """Return the button or field with that name. Raises NotOnPage."""
        named = (line for line in self.lines if line.role == role and line.name == name and line.ref)
        return require(next(named, None))

    def has_button(self, name: str) -> bool:
        """Return whether there is a button with that name."""
        return any(line.role == "button" and line.name == name for line in self.lines)

    def search_box(self) -> ElementLine:
        """Return the search box. Raises NotOnPage."""
        return require(next((line for line in self.lines if line.role == "searchbox" and line.ref), None))

    def is_result(self) -> bool:
        """Return whether this is a page of search results."""
        return any(line.role == "heading" and line.name == "Search results" for line in self.lines)

    def text_after(self, link: ElementLine) -> str:
        """Return the words between a link and the next link."""
        at = self.lines.index(link)
        return " ".join(_until_link(self.lines[at + 1 :]))

    def texts(self) -> Iterator[str]:
        """Yield the words of each line."""
        return filter(None, (line.text or line.name for line in self.lines))

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the rows of all tables as tuples of cells."""
        for at, line in enumerate(self.lines):
            if line.role == "row":
                yield tuple(_cells(_descendants(self.lines, at)))

    def row(self, first: str) -> tuple[str, ...] | None:
        """Return the first row of at least two cells that starts with that cell; None if there is none."""
        return next((row for row in self.rows() if len(row) > 1 and row[0] == first), None)

    def field(self, name: str) -> str:
        """Return the value next to that name in a table of names and values. Raises NotOnPage."""
        return require(self.row(name))[1]


def first_view(seen: ParsedObservation) -> PageView:
    """Return the view of a page that is seen for the first time."""
    return PageView(seen.url, seen.lines, seen.page, seen.pages)


def require(thing: T | None) -> T:
    """Return the thing. Raises NotOnPage if it is None."""
    if thing is None:
        raise NotOnPage
    return thing


def _until_link(lines: Sequence[ElementLine]) -> Iterator[str]:
    for line in lines:
        if line.role == "link":
            return
        if words := line.text or line.name:
            yield words


def _descendants(lines: Sequence[ElementLine], at: int) -> list[ElementLine]:
    inside: list[ElementLine] = []
    for line in lines[at + 1 :]:
        if line.depth <= lines[at].depth:
            break
        inside.append(line)
    return inside


def _cells(inside: Sequence[ElementLine]) -> Iterator[str]:
    top = min((line.depth for line in inside), default=0)
    for at, line in enumerate(inside):
        if line.depth == top:
            nested = (one.name or one.text for one in _descendants(inside, at))
            yield line.name or line.text or " ".join(filter(None, nested))
