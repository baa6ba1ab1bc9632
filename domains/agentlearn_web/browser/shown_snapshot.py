"""Snapshots of a page, parsed from Playwright's, as a walk shows them: lines, their places in the text, and pages."""

import json
import re
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, groupby, islice, takewhile
from typing import Any, Self

from agentlearn_web.observation import NEW, NOT_VISIBLE, PARTLY_VISIBLE, PRE, ElementLine, format_line
from agentlearn_web.reading.line_positions import PageLines, PlacedLine
from agentlearn_web.reading.page_text import PageText, dense, joined_surrogates

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
_ON_TOP = frozenset({
    "alert", "alertdialog", "dialog", "listbox", "log", "menu", "menuitem", "option", "status", "tooltip", "tree",
})  # fmt: skip
"""Roles of what a page shows over its other parts, or says by itself."""
EDITABLE = "editable"
"""Mark of an element in which a person can write, although its role does not say so."""
PagedLine = tuple[int, ElementLine]
"""A line with the number of the page on which it stands."""
_CLOSED = "closed"
"""Mark of a line that a view leaves out: one of several controls in a row that a person cannot see."""
_LEAST_CLOSED = 5
"""Fewest controls in a row that are left out."""
_MORE_CHARS = 15
"""How much longer the line for many closed ones can be than the line for one."""
_LISTED = frozenset({"gridcell", "menuitem", "menuitemcheckbox", "menuitemradio", "option", "treeitem"})
_LISTS = frozenset({"combobox", "listbox"})
_PRESSED = frozenset({"button", "link"})
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
    box: str = ""
    """Where it lies, if the snapshot says so: `8,81,120,54`."""
    url: str = ""
    text: str = ""
    children: list["_Node"] = field(default_factory=list["_Node"])

    @property
    def is_wrapper(self) -> bool:
        """Whether it is generic and has no content of its own."""
        return self.role == "generic" and not self.says and not self.marks and not self.has_pointer

    @property
    def says(self) -> bool:
        """Whether it has a name, a text or an address."""
        return bool(self.name or self.text or self.url)

    def descendants(self) -> Iterator["_Node"]:
        """Yield what is below it, in order."""
        for one in self.children:
            yield one
            yield from one.descendants()

    def unwrapped(self) -> list["_Node"]:
        """Return its children without generic wrappers that have one child or none and no content."""
        kept: list[_Node] = []
        for node in self.children:
            unseen = node.role in _PRESSED and NOT_VISIBLE in node.marks
            if unseen and not any(one.says for one in (node, *node.descendants())):
                continue
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
        if not self.ref or self.has_pointer or EDITABLE in self.marks:
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
    snapshot: str,
    tab: str,
    *,
    scripted: bool = False,
    every_ref: bool = False,
    editors: Collection[str] = (),
    gone: Collection[str] = (),
) -> tuple[ElementLine, ...]:
    """Return the lines of a page. snapshot: from `page.aria_snapshot(mode="ai")`. tab: its id, a prefix of all refs.

    scripted: whether the page has scripts, which can make any element clickable. every_ref: whether the lines keep also
    the refs that are of no use for most acts. editors: boxes of what a person can write in. gone: roles and boxes of
    the controls that nobody sees; those that say nothing are left out.
    Never fails: text outside the grammar becomes a line of text. Left out: wrappers with one child or none, and refs of
    elements that only structure the page.
    """
    root = _parse_tree(snapshot)
    _mark_editors(root, editors)
    _mark_gone(root, Counter(gone))
    root.children = root.unwrapped()
    root = root.children[0] if len(root.children) == 1 and root.children[0].is_wrapper else root
    return tuple(root.lines(tab, 0, scripted=scripted, every_ref=every_ref))


def _mark_gone(root: _Node, gone: Mapping[str, int]) -> None:
    """Mark the controls with these roles and boxes, of several with the same ones the innermost."""
    nodes = list(root.descendants()) if gone else []
    main = next((node.ref.rpartition("e")[0] for node in nodes if node.ref), "")
    found = dict[str, list[_Node]]()
    for node in nodes:
        if node.ref.rpartition("e")[0] in {main, ""}:
            found.setdefault(f"{node.role},{node.box}", []).append(node)
    for node in chain.from_iterable(found.get(key, [])[-count:] for key, count in gone.items()):
        for one in (node, *(node.descendants() if node.role in _LISTS else ())):
            closes = one.role in _LISTED or one.role in _PRESSED
            one.marks += () if NOT_VISIBLE in one.marks else (NOT_VISIBLE, *([_CLOSED] if closes else []))


def _mark_editors(root: _Node, editors: Collection[str]) -> None:
    """Make text fields of the elements with these boxes, each of one with the box and without a role of its own.

    The snapshot leaves out an element with only one in it, which then stands for the editor.
    """
    nodes = [node for node in root.descendants() if node.box] if editors else []
    frames = [node.ref.rpartition("e")[0] for node in nodes]
    for editor in editors:
        left, top, width, height = map(int, editor.removeprefix("f").split(","))
        for frame in {one for one in frames if (one == frames[0]) is not editor.startswith("f")}:
            here = [node for node, one in zip(nodes, frames, strict=True) if one == frame]
            same = [node for node in here if node.box == editor.removeprefix("f")]
            if not same and (frame == frames[0] or len(set(frames)) == 2):
                boxes = ((node, [int(one) for one in node.box.split(",")]) for node in here)
                same = [
                    node
                    for node, (x, y, wide, high) in boxes
                    if left <= x and top <= y and x + wide <= left + width and y + high <= top + height
                ][:1]
            if same and all(node.role != "textbox" for node in same):
                chosen = next((node for node in same if node.role == "generic"), same[-1])
                if chosen.role in {"generic", "paragraph"}:
                    chosen.role = "textbox"
                else:
                    chosen.marks += (EDITABLE,)


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
        box=known.get("box", ""),
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
        return tuple(line for _, line in _without_closed((0, one) for one in self.context + self.lines))


def split_pages(lines: Sequence[ElementLine], budget: int) -> tuple[_SnapshotPage, ...]:
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
        size = _size(line, own[-1:])
        if own and used + size > max_chars:
            pages.append(_SnapshotPage(context, tuple(own)))
            context, own = _context(ancestors, max_chars // _CONTEXT_FRACTION), []
            used = sum(map(_size, context))
        if used + size <= max_chars:
            fitted = line
        else:
            fitted = _shorten_line(line, max_chars - used - 1)
            size = _size(fitted, own[-1:])
        used += size
        own.append(fitted)
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


def _size(line: ElementLine, before: Sequence[ElementLine] = ()) -> int:
    """Return the characters of a line with its line break. before: the line before it, if there is one."""
    if _CLOSED in line.marks:
        return 0 if before and _CLOSED in before[-1].marks else len(format_line(_closed_line([line]))) + _MORE_CHARS
    return len(format_line(line)) + 1


def _closed_line(lines: Sequence[ElementLine]) -> ElementLine:
    """Return the line that stands for closed ones."""
    roles = [line.role for line in lines if line.ref or line.role in _LISTED]
    kind = roles[0] if len({*roles}) == 1 else "element"
    text = f"{len(roles)} {kind}s, closed" if kind in _LISTED else f"{len(roles)} {kind}s"
    return ElementLine(depth=lines[0].depth, role="text", marks=(NOT_VISIBLE,), text=text)


def _without_closed(lines: Iterable[PagedLine]) -> Iterator[PagedLine]:
    """Yield the lines, one in place of closed ones in a row."""
    for is_closed, run in groupby(lines, key=lambda one: _CLOSED in one[1].marks):
        kept = list(run)
        yield from [(kept[0][0], _closed_line([line for _, line in kept]))] if is_closed else kept


def _with_closed(placed: Iterable[PlacedLine]) -> Sequence[PlacedLine]:
    """Return the lines, those closed that hold at least `_LEAST_CLOSED` unseen controls in a row, and no others."""
    kept, runs = list(placed), [list[int]()]
    for number, one in enumerate(kept):
        if _CLOSED in one.line.marks:
            runs[-1].append(number)
        elif one.line.ref or one.line.role in _LISTS or (one.line.words and NOT_VISIBLE not in one.line.marks):
            runs.append([])
    for run in runs:
        for number in range(run[0], run[-1] + 1) if run else ():
            others = [mark for mark in kept[number].line.marks if mark not in {_CLOSED, NOT_VISIBLE}]
            hides = [NOT_VISIBLE] if NOT_VISIBLE in kept[number].line.marks else []
            marks = (*others, *hides, *([_CLOSED] if len(run) >= _LEAST_CLOSED else []))
            kept[number] = replace(kept[number], line=kept[number].line.model_copy(update={"marks": marks}))
    return kept


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
    once_seen: frozenset[tuple[object, ...]] = frozenset()
    """Lines that a person can no longer see, for example behind a menu, and could see before."""
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
    def unmarked(self) -> Sequence[tuple[object, ...]]:
        """Each line without its ref and its marks, and whether a person can see it."""
        return [(NOT_VISIBLE in one.marks, one.role, one.name, one.url, one.text) for one in self.lines]

    def after(self, before: "ShownSnapshot") -> "ShownSnapshot":
        """Return the snapshot as the one that follows another one of the same document."""
        seen = {line[1:] for line in before.unmarked if not line[0]} | before.once_seen
        return replace(self, once_seen=frozenset(line[1:] for line in self.unmarked if line[0] and line[1:] in seen))

    def is_like(self, before: "ShownSnapshot") -> bool:
        """Return whether a person sees the same: the same lines in the same states."""
        old, now = ([(one.depth, {*one.marks} - {NEW}) for one in view.lines] for view in (before, self))
        return self.unmarked == before.unmarked and old == now

    def new_since(self, before: "ShownSnapshot") -> frozenset[int]:
        """Return the numbers of the lines that the snapshot before did not have, or had less often.

        A line is the same as one of before whatever its ref and its marks, unless a person could not see it. Of equal
        lines, those with a ref of before are the old ones, or else the first ones. A line without words is new only if
        there was none of its kind.
        """
        now, old = self.unmarked, list[tuple[object, ...]]()
        for line in before.unmarked:
            old.append((line[0] and line[1:] not in before.once_seen, *line[1:]))
        first = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(now, old, strict=False)))
        ends = zip(reversed(now[first:]), reversed(old[first:]), strict=False)
        last = len(now) - sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], ends))
        left, kinds, new = Counter(old[first : len(old) - len(now) + last]), set(old), set[int]()
        for number in sorted(range(first, last), key=lambda number: self.lines[number].ref not in before.refs):
            line = now[number]
            left[line] -= 1
            if left[line] < 0 and (any(line[2:]) or line not in kinds) and not line[0]:
                new.add(number)
        return frozenset(new)

    def opened(self, new: Collection[int], page: int, most_chars: int) -> tuple[Sequence[int], int]:
        """Return the numbers of the lines to show of what is new on other pages than `page`, and the page to show.

        What stands below a new line belongs to it. Dialogs, menus and messages come first. Where neither all of it nor
        these take at most `most_chars`, the page to show is that of the longest new part.
        """
        parts: list[list[int]] = []
        for number, line in enumerate(self.lines):
            is_next = parts and number == parts[-1][-1] + 1
            if is_next and (number in new or line.depth > self.lines[parts[-1][0]].depth):
                parts[-1].append(number)
            elif number in new:
                parts.append([number])

        def size(numbers: Iterable[int]) -> int:
            return sum(_size(self.lines[one]) for one in numbers)

        on_top = [part for part in parts if any(self.lines[one].role in _ON_TOP for one in part)]
        rest = [part for part in parts if part not in on_top]
        for chosen in (on_top + rest, on_top):
            kept = [one for one in chain.from_iterable(chosen) if self.page_numbers[one] != page]
            if kept and size(kept) <= most_chars:
                return kept, page
        if not kept and all(self.page_numbers[one] == page for one in new):
            return (), page
        return (), self.page_numbers[max(on_top or parts, key=size)[0]]

    def lines_at(self, numbers: Iterable[int]) -> tuple[PagedLine, ...]:
        """Return the lines of these numbers with their pages, each run of them below its nearest named ancestors."""
        made, last, out = list[PagedLine](), -2, 0
        for number in numbers:
            line = self.lines[number]
            if number != last + 1:
                above, depth = list[ElementLine](), line.depth
                for one in reversed(self.lines[:number]):
                    if one.depth < depth:
                        above.append(one)
                        depth = one.depth
                context = _context(above[::-1], _MIN_CHARS)
                made += [
                    (self.page_numbers[number], one.model_copy(update={"depth": at})) for at, one in enumerate(context)
                ]
                out = line.depth - len(context)
            made.append((self.page_numbers[number], line.model_copy(update={"depth": max(line.depth - out, 0)})))
            last = number
        return tuple(_without_closed(made))

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
        tab: str = "",
    ) -> Self:
        """Return the snapshot of a page from its elements and its text. every_ref: see `PageLines.read`."""
        fields = {"document": document, "text": text, "truncated": truncated, "changes": changes}
        return cls._paged(_with_closed(PageLines(text, tab).read(lines, every_ref)), page_chars, **fields)

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
        pages = split_pages([one.line for one in kept], page_chars)
        fitted = (line for page in pages for line in page.lines)
        shown = tuple(PlacedLine(line, one.begin, one.end) for line, one in zip(fitted, kept, strict=True))
        return cls(placed=shown, pages=pages, **fields)
