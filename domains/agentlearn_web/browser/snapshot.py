"""Parser for the accessibility snapshots that Playwright writes for models; returns the lines of an observation.

A snapshot is a narrow kind of YAML: one element per line, children indented by two spaces. A grammar is needed because
names and texts come from the page: only a mark outside all quotes is a real mark.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from agentlearn_web.observation import ElementLine

_ELEMENT = re.compile(r'(?P<role>[A-Za-z][\w-]*)(?P<name> "(?:[^"\\]|\\.)*")?(?P<marks>(?: \[[^\[\]"]*\])*)', re.DOTALL)
_QUOTED_KEY = re.compile(r"'((?:[^']|'')*)'", re.DOTALL)
_PROPERTY = re.compile(r"/(\w+): (.*)", re.DOTALL)
_MARK = re.compile(r" \[([^\]]*)\]")
_REF = re.compile(r"(?:f\d+)?e\d+")
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_SURROGATE = re.compile("[\ud800-\udfff]")
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


def parse_snapshot(
    snapshot: str, tab: str, *, scripted: bool = False, every_ref: bool = False
) -> tuple[ElementLine, ...]:
    """Return the lines of a page. snapshot: from `page.aria_snapshot(mode="ai")`. tab: its id, a prefix of all refs.

    scripted: whether the page has scripts, which can make any element clickable. every_ref: whether the lines keep also
    the refs that are of no use for most acts.
    Never fails: text outside the grammar becomes a line of text. Left out: wrappers with one child or none, and refs of
    elements that only structure the page.
    """
    nodes = _without_wrappers(_parse_tree(snapshot))
    nodes = nodes[0].children if len(nodes) == 1 and _is_wrapper(nodes[0]) else nodes
    return tuple(_lines(nodes, tab, 0, scripted=scripted, every_ref=every_ref))


def bare_ref(ref: str) -> str:
    """Return the ref without its tab, as Playwright knows it: `e5` for `t2:e5`."""
    return ref.partition(":")[2]


def refs_in(snapshot: str) -> frozenset[str]:
    """Return the bare refs of all elements of a snapshot."""
    return frozenset(_refs(_parse_tree(snapshot)))


def _refs(nodes: Iterable[_Node]) -> Iterator[str]:
    for node in nodes:
        if node.ref:
            yield node.ref
        yield from _refs(node.children)


def _parse_tree(snapshot: str) -> list[_Node]:
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
            parent.children.append(_Node("text", text=_without_surrogates(content)))
        elif (found := _PROPERTY.fullmatch(content[2:])) is not None:
            if found[1] == "url":
                parent.url = _parse_scalar(found[2])
            else:
                parent.children.append(_Node(f"/{found[1]}", text=_parse_scalar(found[2])))
        else:
            node = _parse_element(content[2:])
            parent.children.append(node)
            path.append((depth, node))
    return root.children


def _parse_element(line: str) -> _Node:
    """Parse a line after its dash: `button "Go" [disabled] [ref=e5]: text`. The part before the colon may be quoted."""
    if (quoted := _QUOTED_KEY.match(line)) is not None:
        key, rest = quoted[1].replace("''", "'"), line[quoted.end() :]
    else:
        found = _ELEMENT.match(line)
        key, rest = (found[0], line[found.end() :]) if found else ("", line)
    element = _ELEMENT.fullmatch(key)
    name = _parse_name(element["name"]) if element is not None else None
    if element is None or name is None or not (rest in {"", ":"} or rest.startswith(": ")):
        return _Node("text", text=_without_surrogates(line))
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


def _parse_name(line: str | None) -> str | None:
    """Return a name written as a JSON string; None if it is not valid JSON."""
    try:
        return _without_surrogates(json.loads(line, strict=False)) if line else ""
    except ValueError:
        return None


def _parse_scalar(line: str) -> str:
    """Return a value that is plain or in double quotes."""
    if len(line) < 2 or not (line.startswith('"') and line.endswith('"')):
        return _without_surrogates(line)
    return _without_surrogates(_ESCAPE.sub(_unescaped, line[1:-1]))


def _unescaped(found: re.Match[str]) -> str:
    digits = found[1] or found[2]
    return chr(int(digits, 16)) if digits else _ESCAPED.get(found[3], found[3])


def _without_surrogates(text: str) -> str:
    """Return the text without lone surrogates, which cannot be encoded. Surrogate pairs are joined."""
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _without_wrappers(nodes: Iterable[_Node]) -> list[_Node]:
    """Return the nodes without generic wrappers that have one child or none and no content."""
    kept: list[_Node] = []
    for node in nodes:
        node.children = _without_wrappers(node.children)
        *about, last = node.children or [_Node("")]
        if about and last.role == "text" and all(one.role.startswith("/") for one in about) and not node.text:
            node.text, node.children = last.text, [one for one in about if one.text]  # a field's value
        if _is_wrapper(node) and len(node.children) < 2:
            kept += node.children
        else:
            kept.append(node)
    return kept


def _is_wrapper(node: _Node) -> bool:
    says = node.name or node.text or node.url or node.marks
    return node.role == "generic" and not says and not node.has_pointer


def _lines(nodes: Iterable[_Node], tab: str, depth: int, *, scripted: bool, every_ref: bool) -> Iterator[ElementLine]:
    for node in nodes:
        yield ElementLine(
            depth=depth,
            role=node.role,
            name=node.name,
            marks=node.marks,
            ref=f"{tab}:{node.ref}" if node.ref and (every_ref or _is_actionable(node, scripted=scripted)) else "",
            url=node.url,
            text=node.text,
        )
        yield from _lines(node.children, tab, depth + 1, scripted=scripted, every_ref=every_ref)


def _is_clickable_text(node: _Node) -> bool:
    """Return whether a generic element of a page with scripts has text of its own and nothing else to click."""
    return any(one.role == "text" for one in node.children) and not any(
        one.has_pointer or (one.ref and one.role not in _STRUCTURE) for one in _descendants(node)
    )


def _descendants(node: _Node) -> Iterator[_Node]:
    for one in node.children:
        yield one
        yield from _descendants(one)


def _is_actionable(node: _Node, *, scripted: bool) -> bool:
    """Return whether a node gets a ref. A click on a leaf also reaches its ancestors, so those need no ref.

    A column header always gets one, because a click on a button in it does not sort.
    """
    if not node.ref or node.has_pointer:
        return bool(node.ref)
    if node.role == "generic":
        return not node.children or (scripted and _is_clickable_text(node))
    if scripted and node.role in _OFTEN_CLICKABLE:
        return node.role == "columnheader" or not any(_is_actionable(one, scripted=True) for one in _descendants(node))
    return node.role not in _STRUCTURE
