"""Parser for the accessibility snapshots that Playwright writes for models; returns the lines of an observation.

A snapshot is a narrow kind of YAML: one element per line, children indented by two spaces. A grammar is needed because
names and texts come from the page: only a mark outside all quotes is a real mark.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from agentlearn_web.observation import ElementLine
from agentlearn_web.reading.page_text import joined_surrogates

_ELEMENT = re.compile(r'(?P<role>[A-Za-z][\w-]*)(?P<name> "(?:[^"\\]|\\.)*")?(?P<marks>(?: \[[^\[\]"]*\])*)', re.DOTALL)
_QUOTED_KEY = re.compile(r"'((?:[^']|'')*)'", re.DOTALL)
_PROPERTY = re.compile(r"/(\w+): (.*)", re.DOTALL)
_MARK = re.compile(r" \[([^\]]*)\]")
_REF = re.compile(r"(?:f\d+)?e\d+")
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_NOISE = frozenset({"active", "box", "cursor", "ref"})

_STRUCTURE = frozenset({
    "article", "banner", "blockquote", "caption", "cell", "code", "columnheader", "complementary", "contentinfo",
    "definition", "deletion", "document", "emphasis", "figure", "form", "group", "heading", "insertion", "list",
    "listitem", "main", "navigation", "paragraph", "region", "row", "rowgroup", "rowheader", "search", "separator",
    "strong", "subscript", "superscript", "table", "term", "text", "time",
})  # fmt: skip
"""Roles that only structure a page. Elements with these roles, and generic elements with children, get a ref only if
the page shows a pointer cursor over them."""
_OFTEN_CLICKABLE = frozenset({"cell", "columnheader", "heading", "listitem", "rowheader"})
"""Structural roles that scripts often make clickable."""


@dataclass(slots=True)
class _Node:
    role: str
    name: str = ""
    marks: tuple[str, ...] = ()
    ref: str = ""
    has_pointer: bool = False
    """Whether the page shows a pointer cursor over it."""
    url: str = ""
    text: str = ""
    children: list["_Node"] = field(default_factory=list["_Node"])

    @property
    def is_wrapper(self) -> bool:
        """Whether it is generic and has no content of its own."""
        says = self.name or self.text or self.url or self.marks
        return self.role == "generic" and not says and not self.has_pointer

    def descendants(self) -> Iterator["_Node"]:
        """Yield what is below it, in order."""
        for one in self.children:
            yield one
            yield from one.descendants()

    def unwrapped(self) -> list["_Node"]:
        """Return its children without generic wrappers that have one child or none and no content."""
        kept: list[_Node] = []
        for node in self.children:
            node.children = node.unwrapped()
            *about, last = node.children or [_Node("")]
            if about and last.role == "text" and all(one.role.startswith("/") for one in about) and not node.text:
                node.text, node.children = last.text, [one for one in about if one.text]  # a field's value
            kept += node.children if node.is_wrapper and len(node.children) < 2 else [node]
        return kept

    def is_actionable(self, *, scripted: bool) -> bool:
        """Return whether it gets a ref. A click on a leaf also reaches its ancestors, so those need no ref.

        A column header always gets one, because a click on a button in it does not sort. scripted: whether the page has
        scripts. A generic element then gets one too if it has text of its own and nothing else to click.
        """
        if not self.ref or self.has_pointer:
            return bool(self.ref)
        below = self.descendants()
        if self.role == "generic":
            says = scripted and any(one.role == "text" for one in self.children)
            others = (one.has_pointer or (one.ref and one.role not in _STRUCTURE) for one in below)
            return not self.children or (says and not any(others))
        if scripted and self.role in _OFTEN_CLICKABLE:
            return self.role == "columnheader" or not any(one.is_actionable(scripted=True) for one in below)
        return self.role not in _STRUCTURE

    def lines(self, tab: str, depth: int, *, scripted: bool, every_ref: bool) -> Iterator[ElementLine]:
        """Yield the lines of what is below it."""
        for node in self.children:
            shows_ref = node.ref and (every_ref or node.is_actionable(scripted=scripted))
            yield ElementLine(
                depth=depth,
                role=node.role,
                name=node.name,
                marks=node.marks,
                ref=f"{tab}:{node.ref}" if shows_ref else "",
                url=node.url,
                text=node.text,
            )
            yield from node.lines(tab, depth + 1, scripted=scripted, every_ref=every_ref)


def parse_snapshot(
    snapshot: str, tab: str, *, scripted: bool = False, every_ref: bool = False
) -> tuple[ElementLine, ...]:
    """Return the lines of a page. snapshot: from `page.aria_snapshot(mode="ai")`. tab: its id, a prefix of all refs.

    scripted: whether the page has scripts, which can make any element clickable. every_ref: whether the lines keep also
    the refs that are of no use for most acts.
    Never fails: text outside the grammar becomes a line of text. Left out: wrappers with one child or none, and refs of
    elements that only structure the page.
    """
    root = _parse_tree(snapshot)
    root.children = root.unwrapped()
    root = root.children[0] if len(root.children) == 1 and root.children[0].is_wrapper else root
    return tuple(root.lines(tab, 0, scripted=scripted, every_ref=every_ref))


def bare_ref(ref: str) -> str:
    """Return the ref without its tab, as Playwright knows it: `e5` for `t2:e5`."""
    return ref.partition(":")[2]


def refs_in(snapshot: str) -> frozenset[str]:
    """Return the bare refs of all elements of a snapshot."""
    return frozenset(node.ref for node in _parse_tree(snapshot).descendants() if node.ref)


def _parse_tree(snapshot: str) -> _Node:
    """Return a node with the elements of a snapshot below it."""
    root = _Node("")
    path: list[tuple[int, _Node]] = [(-1, root)]
    for line in snapshot.split("\n"):  # not splitlines: other line breaks can occur inside a line of YAML
        content = line.lstrip(" ")
        if not content:
            continue
        depth = (len(line) - len(content)) // 2
        while path[-1][0] >= depth:
            path.pop()
        parent = path[-1][1]
        if not content.startswith("- "):
            parent.children.append(_Node("text", text=joined_surrogates(content)))
        elif (found := _PROPERTY.fullmatch(content[2:])) is not None:
            if found[1] == "url":
                parent.url = _parse_scalar(found[2])
            else:
                parent.children.append(_Node(f"/{found[1]}", text=_parse_scalar(found[2])))
        else:
            node = _parse_element(content[2:])
            parent.children.append(node)
            path.append((depth, node))
    return root


def _parse_element(line: str) -> _Node:
    """Parse a line after its dash: `button "Go" [disabled] [ref=e5]: text`. The part before the colon may be quoted."""
    if (quoted := _QUOTED_KEY.match(line)) is not None:
        key, rest = quoted[1].replace("''", "'"), line[quoted.end() :]
    else:
        found = _ELEMENT.match(line)
        key, rest = (found[0], line[found.end() :]) if found else ("", line)
    element, name = _ELEMENT.fullmatch(key), ""
    try:
        if element is not None and element["name"]:  # a JSON string
            name = joined_surrogates(json.loads(element["name"], strict=False))
    except ValueError:
        element = None
    if element is None or not (rest in {"", ":"} or rest.startswith(": ")):
        return _Node("text", text=joined_surrogates(line))
    marks = _MARK.findall(element["marks"])
    known = dict(mark.partition("=")[::2] for mark in marks)
    ref = known.get("ref", "")
    return _Node(
        role=element["role"],
        name=name,
        marks=tuple(mark for mark in marks if mark.partition("=")[0] not in _NOISE),
        ref=ref if _REF.fullmatch(ref) else "",
        has_pointer=known.get("cursor") == "pointer",
        text=_parse_scalar(rest[2:]),
    )


def _parse_scalar(line: str) -> str:
    """Return a value that is plain or in double quotes."""

    def unescaped(found: re.Match[str]) -> str:
        digits = found[1] or found[2]
        return chr(int(digits, 16)) if digits else _ESCAPED.get(found[3], found[3])

    if len(line) < 2 or not (line.startswith('"') and line.endswith('"')):
        return joined_surrogates(line)
    return joined_surrogates(_ESCAPE.sub(unescaped, line[1:-1]))
