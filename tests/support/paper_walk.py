"""A walk without a browser: a site's HTML is turned into the lines that a browser's accessibility tree would give."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from html.parser import HTMLParser
from itertools import product
from random import Random
from urllib.parse import urlencode, urljoin, urlsplit

from agentlearn.types.task import Task
from agentlearn_demo.sim.skills import Conversation, FollowedLessons, Skills, ToolExchange, ToolUse
from agentlearn_demo.web.site import SEARCH, GeneratedSite
from agentlearn_demo.web.tasks import all_sites
from agentlearn_web.observation import ElementLine, PageObservation, TabLine, format_line, render_observation

TOOLS = ("open", "click", "type", "back", "find", "more", "tabs", "answer")
BUDGET = 6_000
NONCE = "x7"
HOSTS: dict[str, GeneratedSite] = {one.host: one for one in all_sites()}

_ROLES = {
    "a": "link", "article": "article", "button": "button", "footer": "contentinfo", "h1": "heading", "h2": "heading",
    "h3": "heading", "header": "banner", "li": "listitem", "main": "main", "nav": "navigation", "ol": "list",
    "option": "option", "p": "paragraph", "select": "combobox", "table": "table", "tbody": "rowgroup", "td": "cell",
    "th": "columnheader", "thead": "rowgroup", "tr": "row", "ul": "list",
}  # fmt: skip
_NAMED = frozenset({"button", "cell", "columnheader", "heading", "link", "option", "rowheader"})
_VOID = frozenset({"br", "hr", "input", "meta"})


@dataclass
class _Node:
    tag: str
    attributes: dict[str, str]
    children: "list[_Node | str]" = field(default_factory=list)

    def text(self) -> str:
        words = (child if isinstance(child, str) else child.text() for child in self.children)
        return " ".join(" ".join(words).split())


class _Tree(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = _Node("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = _Node(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(node)
        if tag not in _VOID:
            self.open.append(node)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> ends <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.open[-1].children.append(data)


def tree(html: str) -> _Node:
    """The parsed document. Fails if an element is not closed."""
    parser = _Tree()
    parser.feed(html)
    parser.close()
    assert parser.open == [parser.root]
    return parser.root


def nodes(html: str, tag: str) -> list[_Node]:
    """Every element with that name, in order."""
    return nodes_in(tree(html), tag)


def nodes_in(node: _Node, tag: str) -> list[_Node]:
    """Every element with that name inside an element, including itself, in order."""
    found = [inner for child in node.children if not isinstance(child, str) for inner in nodes_in(child, tag)]
    return [node, *found] if node.tag == tag else found


def leads(html: str) -> Iterator[str]:
    """Targets of all links of a page, and of all choices of its forms except the search."""
    for a in nodes(html, "a"):
        yield a.attributes["href"]
    for form in nodes(html, "form"):
        if form.attributes["action"] != SEARCH:
            assert form.attributes["method"] == "get"
            lists = [(one.attributes["name"], nodes_in(one, "option")) for one in nodes_in(form, "select")]
            for options in product(*(options for _, options in lists)):
                sent = [(name, option.text()) for (name, _), option in zip(lists, options, strict=True)]
                yield f"{form.attributes['action']}?{urlencode(sent)}"


@lru_cache(maxsize=512)
def page_lines(html: str, tab: str = "t1") -> tuple[ElementLine, ...]:
    """The body of a page as lines of an observation."""
    lines: list[ElementLine] = []

    def add(node: _Node, depth: int, label: str) -> None:
        role = _role(node)
        if role is None:
            caption = _caption(node) if node.tag == "label" else label
            for child in node.children:
                add_child(child, depth, caption)
            return
        plain = all(isinstance(child, str) for child in node.children)
        words = node.text() if plain else ""
        named = role in _NAMED
        name = node.attributes.get("aria-label") or (label if role in {"searchbox", "combobox"} else words * named)
        lines.append(
            ElementLine(
                depth=depth,
                role=role,
                name=name,
                ref=f"{tab}:e{len(lines) + 1}",
                url=node.attributes.get("href", ""),
                text="" if named else words,
            )
        )
        for child in () if plain else node.children:
            add_child(child, depth + 1, label)

    def add_child(child: "_Node | str", depth: int, label: str) -> None:
        if isinstance(child, str):
            lines.append(ElementLine(depth=depth, role="text", text=" ".join(child.split())))
        else:
            add(child, depth, label)

    body = nodes(html, "body")[0]
    for child in body.children:
        add_child(child, 0, "")
    return tuple(lines)


def _caption(label: _Node) -> str:
    return " ".join(child.strip() for child in label.children if isinstance(child, str))


def _role(node: _Node) -> str | None:
    if node.tag == "th" and node.attributes.get("scope") == "row":
        return "rowheader"
    if node.tag == "input":
        return "searchbox"
    if node.attributes.get("role"):
        return node.attributes["role"]
    return _ROLES.get(node.tag)


@dataclass
class PaperWalk:
    """The actions of a walk on the generated sites. Each returns the text that a model would read."""

    budget: int = BUDGET
    change: Callable[[str], str] = str
    """Function applied to the HTML of every page before it is shown."""
    url: str = "about:blank"
    visited: list[str] = field(default_factory=list)
    _pages: list[tuple[ElementLine, ...]] = field(default_factory=list)
    _at: int = 0
    _title: str = ""
    _html: str = ""
    _chosen: dict[str, str] = field(default_factory=dict)

    def act(self, use: ToolUse) -> str:
        """The result of a tool call. Fails if it names a ref that was not shown."""
        arguments = dict(use.arguments)
        match use.tool:
            case "open":
                return self._open(str(arguments["url"]))
            case "click":
                line = self._line(str(arguments["ref"]))
                if line.role == "button":
                    return self._open(urljoin(self.url, self._submitted(line.name)))
                assert line.role == "link", line
                return self._open(urljoin(self.url, line.url))
            case "type":
                line = self._line(str(arguments["ref"]))
                if line.role == "combobox":
                    if arguments["text"] not in self._options(line.name):
                        return self._view("no_option")
                    self._chosen[line.name] = str(arguments["text"])
                    return self._view()
                assert line.role == "searchbox"
                assert arguments["submit"] is True
                return self._open(urljoin(self.url, f"/search?{urlencode({'q': arguments['text']})}"))
            case "more":
                self._at += 1
                return self._view()
            case _:
                raise AssertionError(use)

    def _submitted(self, button: str) -> str:
        """The address to which a form is submitted."""
        form = next(one for one in nodes(self._html, "form") if nodes_in(one, "button")[0].text() == button)
        sent: list[tuple[str, str]] = []
        for label in nodes_in(form, "label"):
            caption = _caption(label)
            value = self._chosen.get(caption) or self._options(caption)[0]
            sent.append((nodes_in(label, "select")[0].attributes["name"], value))
        return f"{form.attributes['action']}?{urlencode(sent)}"

    def _options(self, caption: str) -> list[str]:
        """The options of the list with that label."""
        label = next(one for one in nodes(self._html, "label") if _caption(one) == caption)
        return [option.text() for option in nodes_in(label, "option")]

    def _line(self, ref: str) -> ElementLine:
        shown = [line for part in self._pages[: self._at + 1] for line in part if line.ref == ref]
        assert len(shown) == 1, f"{ref} was not shown"
        return shown[0]

    def _open(self, url: str) -> str:
        parts = urlsplit(url)
        html = self.change(HOSTS[parts.netloc].respond(parts.path, parts.query)[1])
        self.url, self._html, self._chosen = url, html, {}
        self.visited.append(url)
        self._pages, self._at = _cut(page_lines(html), self.budget), 0
        self._title = html.partition("<title>")[2].partition("</title>")[0]
        return self._view()

    def _view(self, status: str = "ok") -> str:
        tabs = (TabLine(id="t1", url=self.url, title=self._title),)
        shown = PageObservation(
            status=status, tab="t1", tabs=tabs, page=self._at + 1, pages=len(self._pages), lines=self._pages[self._at]
        )
        return render_observation(shown, NONCE)


def _cut(lines: Sequence[ElementLine], budget: int) -> list[tuple[ElementLine, ...]]:
    pages: list[list[ElementLine]] = [[]]
    size = 0
    for line in lines:
        length = len(format_line(line)) + 1
        if pages[-1] and size + length > budget:
            pages.append([])
            size = 0
        pages[-1].append(line)
        size += length
    return [tuple(part) for part in pages]


@dataclass(frozen=True)
class Walked:
    """A finished walk."""

    answer: str
    url: str
    turns: tuple[ToolExchange, ...]
    traps: tuple[tuple[str, ...], ...]
    """The traps of each turn, including the answer."""
    said: tuple[str, ...]
    visited: tuple[str, ...]


def question(task: Task) -> str:
    """The user message of a task."""
    return f"Start page: {task.start}\n\n{task.problem}"


def walked(
    skills: Skills, task: Task, flaws: frozenset[str] = frozenset(), *, walk: PaperWalk | None = None, seed: int = 0
) -> Walked:
    """The walk of a solver that falls into exactly these traps."""
    walk = walk or PaperWalk()
    turns: tuple[ToolExchange, ...] = ()
    traps: list[tuple[str, ...]] = []
    said: list[str] = []
    for number in range(12):
        situation = skills.recognise(Conversation("", question(task), TOOLS, turns))
        assert situation is not None
        assert situation.family == task.family
        traps.append(situation.traps)
        act = situation.act(flaws & set(situation.traps), FollowedLessons(), Random(seed * 100 + number))
        assert isinstance(act, ToolUse)
        said.append(act.text)
        if act.tool == "answer":
            given = (str(act.arguments["answer"]), str(act.arguments["url"]))
            return Walked(*given, turns, tuple(traps), tuple(said), tuple(walk.visited))
        turns = (*turns, ToolExchange(act.tool, act.arguments, walk.act(act)))
    raise AssertionError(f"no answer after {len(turns)} turns: {[(one.tool, dict(one.arguments)) for one in turns]}")
