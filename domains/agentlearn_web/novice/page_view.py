"""A page as the simulated solver reads it: links by their names, tables by their rows, teasers, what comes next."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from agentlearn_web.observation import ElementLine, ParsedObservation

T = TypeVar("T")


class NotOnPage(Exception):
    """Raised where a page does not hold what the walk needs."""


@dataclass(frozen=True, slots=True)
class PageView:
    """What has been seen of one page so far."""

    url: str
    lines: tuple[ElementLine, ...]
    page: int = 1
    pages: int = 1
    """Of the snapshot."""

    @property
    def has_more(self) -> bool:
        """Whether the snapshot goes on."""
        return self.page < self.pages

    def updated(self, seen: ParsedObservation) -> "PageView":
        """The view after another look: more of the same page, or another page."""
        if seen.url == self.url and seen.page == self.page + 1:
            return replace(self, lines=self.lines + seen.lines, page=seen.page)
        return first_view(seen)

    def links(self, prefix: str = "") -> list[ElementLine]:
        """Links that can be clicked and whose names begin with that, in order."""
        return [line for line in self.lines if line.role == "link" and line.ref and line.name.startswith(prefix)]

    def link(self, name: str) -> ElementLine:
        """The first link of exactly that name. Raises Lost."""
        return require(next((line for line in self.links() if line.name == name), None))

    def has_link(self, name: str) -> bool:
        """Whether there is a link of exactly that name."""
        return any(line.name == name for line in self.links())

    def first_link(self, prefix: str) -> ElementLine:
        """The first link whose name begins with that. Raises Lost."""
        return require(next(iter(self.links(prefix)), None))

    def link_about(self, word: str) -> ElementLine:
        """The first link whose name has the word in it, but is not the word alone. Raises Lost."""
        names = ((line, line.name.casefold()) for line in self.links())
        return require(next((line for line, name in names if word in name and name != word), None))

    def control(self, role: str, name: str) -> ElementLine:
        """The button or field of that name. Raises Lost."""
        named = (line for line in self.lines if line.role == role and line.name == name and line.ref)
        return require(next(named, None))

    def has_button(self, name: str) -> bool:
        """Whether there is a button of that name."""
        return any(line.role == "button" and line.name == name for line in self.lines)

    def search_box(self) -> ElementLine:
        """Where words to search for are typed. Raises Lost."""
        return require(next((line for line in self.lines if line.role == "searchbox" and line.ref), None))

    def is_result(self) -> bool:
        """Whether it is a page of search results."""
        return any(line.role == "heading" and line.name == "Search results" for line in self.lines)

    def text_after(self, link: ElementLine) -> str:
        """The words between a link and the one after it."""
        at = self.lines.index(link)
        return " ".join(_until_link(self.lines[at + 1 :]))

    def texts(self) -> Iterator[str]:
        """The words of each line."""
        return filter(None, (line.text or line.name for line in self.lines))

    def rows(self) -> Iterator[tuple[str, ...]]:
        """The rows of all tables, cell by cell."""
        for at, line in enumerate(self.lines):
            if line.role == "row":
                yield tuple(_cells(_descendants(self.lines, at)))

    def row(self, first: str) -> tuple[str, ...] | None:
        """The first row with two cells or more that begins with that cell."""
        return next((row for row in self.rows() if len(row) > 1 and row[0] == first), None)

    def field(self, name: str) -> str:
        """What a table of names and values says to that name. Raises Lost."""
        return require(self.row(name))[1]


def first_view(seen: ParsedObservation) -> PageView:
    """The view of a page that comes into sight."""
    return PageView(seen.url, seen.lines, seen.page, seen.pages)


def require(thing: T | None) -> T:
    """The thing. Raises Lost where there is none."""
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
