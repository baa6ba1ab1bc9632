"""Finds the lines of an accessibility snapshot again in the text of the page. Both follow the reading order.

A line counts as visible if its words stand anywhere on the page where a person can see them, so a second, invisible
copy changes nothing.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import chain, groupby

from agentlearn_web.observation import NOT_VISIBLE, PARTLY_VISIBLE, PRE, SCROLLS, ElementLine
from agentlearn_web.reading.page_text import PageText, ShownValue, SpanningCell, TextRun, dense

_NEAR_CHARS = 4_000
"""How far ahead of the line before a line is expected."""
_BACK_CHARS = 200
"""How far behind the line before a line is looked for, because a label can be taken for a text."""
_MOST_SCANNED = 30_000_000
"""Most characters that are searched for lines that are not where they are expected."""
_LONG_CHARS = 12
"""Shortest words that are not expected twice near one place."""
_MOST_PLACES = 20
"""Most places of short words that are looked at."""


@dataclass(frozen=True, slots=True)
class PlacedLine:
    """A line, and where its words are in `PageText.dense`."""

    line: ElementLine
    begin: int = -1
    """-1 for a line without words, and for words that are not in the text of the document."""
    end: int = -1
    is_sure: bool = False
    """Whether its words can stand at no other place."""

    @property
    def is_placed(self) -> bool:
        """Whether its words are in the text of the document."""
        return self.begin >= 0


def line_words(line: ElementLine) -> str:
    """Return the words of a line: its text, or its name if it has no text. A property, like a placeholder, has none."""
    return "" if line.role.startswith("/") else line.text or line.name


_BORDER = "separator"
"""Role of a line between two parts. If it has a value, a person can move it."""


def needs_every_ref(text: PageText) -> bool:
    """Return whether a page has parts that scroll by themselves, or borders between two parts that can be moved."""
    return bool(text.scrollers) or any(one.role == _BORDER and one.value for one in text.shown_values)


def read_lines(
    lines: Sequence[ElementLine], text: PageText, every_ref: Sequence[ElementLine] = ()
) -> Iterator[PlacedLine]:
    """Yield the lines of a page as they are shown: with the values, spaces, marks and line breaks of its text.

    every_ref: the same elements, each with its ref. What scrolls by itself is then shown with one of them, and so is a
    separator with a value: it is a border that can be moved.
    """
    found = [_with_spaces(one, text) for one in place_lines(_with_values(lines, text), text)]
    _mark_scrollers(found, every_ref, text)
    for number, (one, known) in enumerate(zip(found, every_ref, strict=False)):
        if one.line.role == _BORDER and one.line.text:
            found[number] = replace(one, line=one.line.model_copy(update={"ref": known.ref}))
    return _with_line_breaks(tuple(_marked(tuple(_without_repeated(found)), text)), text)


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


def place_lines(lines: Sequence[ElementLine], page: PageText) -> Iterator[PlacedLine]:
    """Yield each line with its place in the text.

    Words stand where the line before ends, else where the next line follows them, else where they are found first.
    """
    text, cursor, scanned = page.dense, 0, 0
    wanted = [dense(line_words(line)) for line in lines]
    for number, (line, words) in enumerate(zip(lines, wanted, strict=True)):
        if not words:
            yield PlacedLine(line)
            continue
        following = next((one for one in wanted[number + 1 : number + 9] if one not in words), "")
        at, sure = _near(text, words, following, cursor)
        if at < 0:
            at = text.find(words, max(cursor - _BACK_CHARS, 0), cursor + len(words))
        if at < 0 and scanned < _MOST_SCANNED:
            scanned += len(text)
            at = text.find(words)
        if at >= 0 and not sure:
            sure = len(words) >= _LONG_CHARS and text.find(words, at + 1) < 0
        is_leaf = number + 1 == len(lines) or lines[number + 1].depth <= line.depth
        if sure:  # the children of an element repeat its name
            cursor = at + len(words) if line.text or is_leaf else at
        yield PlacedLine(line, at, at + len(words), sure) if at >= 0 else PlacedLine(line)


def _near(text: str, words: str, following: str, cursor: int) -> tuple[int, bool]:
    """Return where words stand near a position, and whether they stand nowhere else near it; -1 for nowhere."""
    if text.startswith(words, cursor):
        return cursor, True
    limit = cursor + _NEAR_CHARS + len(words)
    first = at = text.find(words, cursor, limit)
    if len(words) >= _LONG_CHARS:
        return at, at >= 0
    for _ in range(_MOST_PLACES):
        if at < 0:
            break
        end = at + len(words)
        if following and text.startswith(following, end):
            return at, True
        at = text.find(words, at + 1, limit)
    return first, False


def _with_spaces(placed: PlacedLine, page: PageText) -> PlacedLine:
    """Return the line with the spaces and line breaks that the page shows between its words, as single spaces.

    The browser's snapshot joins what stands before and after a `<br>`.
    """
    words = line_words(placed.line)
    gaps = page.gaps[bisect_right(page.gaps, placed.begin) : bisect_left(page.gaps, placed.end)]
    if not placed.is_sure or not gaps:
        return placed
    missing, made = {gap - placed.begin for gap in gaps}, list[str]()
    at = 0
    for part in words.split():
        for character in part:
            if at in missing and dense(character) and made and made[-1] != " ":
                made.append(" ")
            made.append(character)
            at += len(dense(character))
        made.append(" ")
    spaced = "".join(made).strip()
    if len(spaced) <= len(" ".join(words.split())):
        return placed
    line = placed.line
    if line.text and spaced == " ".join(line.name.split()):
        return replace(placed, line=line.model_copy(update={"text": ""}))
    return replace(placed, line=line.model_copy(update={"text" if line.text else "name": spaced}))


_STRUCK = "struck"
"""Mark of a line whose words are all struck out. Other struck words stand between `~~`."""
_MOST_LABEL_CHARS = 80
"""Longest name without a visible counterpart that is taken for a label, such as that of a button with a picture."""
_MOST_UNSEEN_CHARS = 25
"""Longest text outside the document that is taken for a decoration by the page's style."""
_CELL_ROLES = frozenset({"cell", "gridcell", "columnheader", "rowheader"})
_CELLS_AHEAD = 50
_VALUE_ROLES = frozenset({"textbox", "searchbox", "spinbutton", "slider", "combobox", "option", "progressbar", "meter"})
"""Roles whose text is a value, which is no text of the document."""


def _marked(placed: Sequence[PlacedLine], page: PageText) -> Iterator[PlacedLine]:
    """Yield the lines with their marks."""
    cell = 0
    for one in placed:
        line, marks = one.line, _look(one, page)
        if line.role in _CELL_ROLES and page.cells:
            at = _cell_index(line, page.cells, cell)
            if at is not None:
                cell = at + 1
                marks += _span(page.cells[at])
        shown = _with_struck_words(one, page) if _STRUCK not in marks else line
        if marks:
            shown = shown.model_copy(update={"marks": (*line.marks, *marks)})
        yield replace(one, line=shown)


def _look(one: PlacedLine, page: PageText) -> tuple[str, ...]:
    words = line_words(one.line)
    if not words:
        return (NOT_VISIBLE,) if one.line.text and dense(one.line.text) in page.unseen_values else ()
    if not one.is_placed:
        return (NOT_VISIBLE,) if dense(words) in page.unseen_values or not _is_label(one.line) else ()
    if one.line.text and len(one.line.name) > _MOST_LABEL_CHARS and dense(one.line.name) not in page.seen:
        return (PARTLY_VISIBLE,)
    if page.is_plain:
        return ()
    runs = page.runs_between(one.begin, one.end)
    struck = (_STRUCK,) if one.line.role != "deletion" and all(run.struck for run in runs) else ()
    if not any(run.hidden for run in runs) or dense(words) in page.seen:
        return struck
    if all(run.hidden and run.label for run in runs) and len(words) <= _MOST_LABEL_CHARS:
        return struck
    return (NOT_VISIBLE if all(run.hidden for run in runs) else PARTLY_VISIBLE, *struck)


def _is_label(line: ElementLine) -> bool:
    """Return whether words that are not in the text of the document are a short label or a value."""
    if line.text:
        return line.role in _VALUE_ROLES or len(line.text) <= _MOST_UNSEEN_CHARS
    return len(line.name) <= _MOST_LABEL_CHARS


def _with_struck_words(one: PlacedLine, page: PageText) -> ElementLine:
    """Return the line with `~~` around the words that are struck out, if only some are."""
    if page.is_plain or not one.is_placed or one.line.role == "deletion":
        return one.line
    runs = page.runs_between(one.begin, one.end)
    if not any(run.struck for run in runs) or sum(len(dense(run.text)) for run in runs) != one.end - one.begin:
        return one.line
    words = " ".join("".join(map(_struck, runs)).split())
    return one.line.model_copy(update={"text" if one.line.text else "name": words})


def _struck(run: TextRun) -> str:
    return f" ~~{run.text.strip()}~~ " if run.struck else run.text


def _cell_index(line: ElementLine, cells: Sequence[SpanningCell], first: int) -> int | None:
    """Return which cell of the document a line shows. Both follow the reading order."""
    words = dense(line_words(line))
    ahead = range(first, min(first + _CELLS_AHEAD, len(cells)))
    return next((at for at in ahead if cells[at].dense == words[: len(cells[at].dense) or 1]), None)


def _span(cell: SpanningCell) -> tuple[str, ...]:
    named = (("rowspan", cell.rows), ("colspan", cell.columns))
    return tuple(f"{name}={count}" for name, count in named if count > 1)


@dataclass(frozen=True, slots=True)
class _PreText:
    begin: int
    end: int
    lines: tuple[str, ...]
    hidden: bool


def _with_line_breaks(placed: Sequence[PlacedLine], page: PageText) -> Iterator[PlacedLine]:
    """Yield the lines, those of a preformatted text replaced by the lines of the document.

    Elements inside the text that can be acted on follow it.
    """
    texts = [text for text in _pre_texts(page) if len(text.lines) > 1]
    at = 0
    while at < len(placed):
        one = placed[at]
        while texts and one.is_placed and texts[0].end <= one.begin:
            texts.pop(0)
        inside = _lines_inside(placed, at, texts[0]) if texts and one.is_placed else 0
        if not inside:
            yield one
            at += 1
            continue
        yield from _replaced(placed[at : at + inside], texts.pop(0))
        at += inside


def _pre_texts(page: PageText) -> Iterator[_PreText]:
    numbered = enumerate(page.blocks)
    for number, group in groupby(numbered, key=lambda one: one[1].pre):
        blocks = list(group)
        if number:
            text = "\n".join(block.text.strip("\n") for _, block in blocks)
            begin, end = page.dense_starts[blocks[0][0]], page.dense_starts[blocks[-1][0] + 1]
            yield _PreText(begin, end, tuple(text.split("\n")), all(block.hidden for _, block in blocks))


def _lines_inside(placed: Sequence[PlacedLine], first: int, text: _PreText) -> int:
    """Return how many lines from `first` on show this text; 0 unless the first of them begins it."""
    if placed[first].begin != text.begin:
        return 0
    count, covered, head = 0, text.begin, placed[first].line
    for number, one in enumerate(placed[first:], start=1):
        if one.is_placed:
            if not text.begin <= one.begin < one.end <= text.end:
                break
            count, covered = number, max(covered, one.end)
        elif one.line.text or one.line.name:
            break
        elif one.line.depth > head.depth:
            count = number
    return count if covered == text.end else 0


def _replaced(inside: Sequence[PlacedLine], text: _PreText) -> Iterator[PlacedLine]:
    head, at = inside[0].line, text.begin
    is_container = head.role not in {"generic", "text"} or bool(head.ref)
    if is_container:
        yield replace(inside[0], line=head.model_copy(update={"name": "", "text": ""}), end=text.begin)
    depth = head.depth + is_container
    marks = (NOT_VISIBLE,) if text.hidden else ()
    for line in text.lines:
        end = at + len(dense(line))
        yield PlacedLine(ElementLine(depth=depth, role=PRE, marks=marks, text=line.rstrip()), at, end)
        at = end
    for one in inside[1:]:
        if one.line.ref:
            yield replace(one, line=one.line.model_copy(update={"depth": depth + 1}))


_MARKS = {"listitem": "number", "row": "row", "columnheader": "sorted"}
"""Name of the mark with the value of an element that has text of its own."""
_FIELDS = frozenset({"textbox", "searchbox", "combobox", "spinbutton"})
_NOT_SHOWN = "value not shown"
"""Mark of a field whose value is a password."""
_COMPARED = 30
"""Characters by which an element and its line are recognised where a page changed while it was read."""


def _with_values(lines: Sequence[ElementLine], text: PageText) -> tuple[ElementLine, ...]:
    """Return the lines with what their elements show, and without what stands in password fields.

    The browser's snapshot and the page's text are read at the same time. They name the same elements in the same order.
    """
    made = [_without_secret(line, text.secrets) for line in lines]
    for role in {one.role for one in text.shown_values}:
        places = [place for place, line in enumerate(made) if line.role == role]
        values = [one for one in text.shown_values if one.role == role]
        for place, found in _pairs(made, places, values):
            if found.value:
                made[place] = _with_value(made[place], found)
    return tuple(made)


def _pairs(
    lines: Sequence[ElementLine], places: Sequence[int], values: Sequence[ShownValue]
) -> Iterator[tuple[int, ShownValue]]:
    """Each line's place with its value: in order, or by label and text where there are not equally many."""
    if len(places) == len(values):
        yield from zip(places, values, strict=True)
        return
    here = [_about(lines, place) for place in places]
    there = [one.about[:_COMPARED] for one in values]
    for match in SequenceMatcher(None, here, there, autojunk=False).get_matching_blocks():
        for at in range(match.size):
            yield places[match.a + at], values[match.b + at]


def _about(lines: Sequence[ElementLine], place: int) -> str:
    """The label of an element, or the text of a list item, which may stand in the lines below it."""
    line = lines[place]
    if line.role not in _MARKS:
        return dense(line.name)[:_COMPARED]
    below = (one for one in lines[place + 1 : place + 1 + _COMPARED])
    words = ""
    for one in chain([line], below):
        if one is not line and one.depth <= line.depth:
            break
        words += dense(one.name + one.text)
    return words[:_COMPARED]


def _with_value(line: ElementLine, found: ShownValue) -> ElementLine:
    if line.role in _MARKS:
        return line.model_copy(update={"marks": (*line.marks, f"{_MARKS[line.role]}={found.value}")})
    text = f"{line.text} ({found.value})" if line.text and not found.value.startswith(line.text) else found.value
    return line.model_copy(update={"text": text})


def _without_secret(line: ElementLine, secrets: frozenset[str] | None) -> ElementLine:
    if line.role not in _FIELDS or not line.text or (secrets is not None and dense(line.text) not in secrets):
        return line
    return line.model_copy(update={"text": "", "marks": (*line.marks, _NOT_SHOWN)})
