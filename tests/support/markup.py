"""Parses HTML with the standard library, for tests of code that writes HTML."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

from agentlearn.pages.figure import TAGS

ATTRIBUTES = frozenset(
    {"aria-hidden", "aria-label", "aria-labelledby", "charset", "class", "content", "cx", "cy", "d", "data-value"}
    | {"dx", "dy", "height", "href", "http-equiv", "id", "lang", "name", "open", "overflow", "r", "rel", "role"}
    | {"scope", "tabindex", "text-anchor", "transform", "viewbox", "width", "x", "x1", "x2"}
    | {"y", "y1", "y2"}
)
"""Every attribute that our pages use, in lower case."""
LINES = frozenset(
    {"div", "dl", "figcaption", "h1", "h2", "h3", "header", "li", "p", "pre", "section", "summary", "svg", "tr"}
)
"""Elements that end a line of the text."""
VOID = frozenset({"link", "meta", "img", "input", "circle", "line", "path"})


@dataclass
class Read(HTMLParser):
    """A parsed page: its start tags in order, its text, and the text inside each kind of element."""

    page: str
    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    inside: dict[str, list[str]] = field(default_factory=dict)
    comments: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._open: list[str] = []
        self._flow: list[str] = []
        self.feed(self.page)
        self.close()
        assert self._open == [], f"left open: {self._open}"

    @property
    def text(self) -> str:
        return "".join(self.texts)

    @property
    def lines(self) -> str:
        """The text of the page, with a line for each paragraph, row and drawing."""
        lines = (" ".join(line.split()) for line in "".join(self._flow).split("\f"))
        return "\n".join(line for line in lines if line)

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.tags]

    def attributes(self, name: str) -> list[str]:
        """All values of an attribute."""
        return [values[name] or "" for _, values in self.tags if name in values]

    def assert_ours(self) -> None:
        """Check that the page contains only elements and attributes that our renderer writes."""
        assert set(self.names) <= TAGS
        assert {name for _, values in self.tags for name in values} <= ATTRIBUTES
        assert self.comments == []
        assert all(target == "data:," or target.startswith("#") for target in self.attributes("href"))
        assert self.names.count("script") == 1
        assert self.names.count("style") == 1

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), f"an attribute given twice: {attrs}"
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID or (tag == "path" and self.get_starttag_text()[-2:] != "/>"):
            self._open.append(tag)
            self.inside.setdefault(tag, []).append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open.pop() == tag
        self._flow.append("\f" if tag in LINES else " ")

    def handle_data(self, data: str) -> None:
        for tag in set(self._open):
            self.inside[tag][-1] += data
        if not {"script", "style"} & set(self._open):
            self.texts.append(data)
            self._flow.append(data)

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)
