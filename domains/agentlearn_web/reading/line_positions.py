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
from agentlearn_web.reading.page_text import BORDER, PageText, ShownValue, dense

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


_STRUCK = "struck"
"""Mark of a line whose words are all struck out. Other struck words stand between `~~`."""
_MOST_LABEL_CHARS = 80
"""Longest name without a visible counterpart that is taken for a label, such as that of a button with a picture."""
_MOST_UNSEEN_CHARS = 25
"""Longest text outside the document that is taken for a decoration by the page's style."""
_CELL_ROLES = frozenset({"cell", "gridcell", "columnheader", "rowheader"})
_CELLS_AHEAD = 50
_VALUE_ROLES = frozenset(
    {
        "textbox",
        "searchbox",
        "spinbutton",
        "slider",
        "combobox",
        "option",
        "progressbar",
        "meter",
        "grid",
        "table",
        "treegrid",
    }
)
"""Roles whose text is a value, which is no text of the document."""
_MARKS = {"listitem": "number", "row": "row", "columnheader": "sorted"}
"""Name of the mark with the value of an element that has text of its own."""
_NAMED = frozenset({"button", "link", "listitem", "menuitem", "option", "tab", "treeitem"})
_PIECES = frozenset({"code", "emphasis", "mark", "strong", "text"})
"""Roles of parts of a text that look different."""
_FIELDS = frozenset({"textbox", "searchbox", "combobox", "spinbutton"})
_NOT_SHOWN = "value not shown"
"""Mark of a field whose value is a password."""
_NOTE_ROLES = {"canvas": "canvas", "drawn": "/drawn", "files": "/files", "title": "/title", "tip": "/title"}
_TITLES = frozenset({"title", "tip"})
_COMPARED = 30
"""Characters by which an element and its line are recognised where a page changed while it was read."""


@dataclass(frozen=True, slots=True)
class _PreText:
    begin: int
    end: int
    lines: tuple[str, ...]
    hidden: bool


@dataclass(frozen=True, slots=True)
class PageLines:
    """The lines of one page, as its text shows them."""

    text: PageText
    tab: str = ""
    """Id of the tab, a prefix of all refs."""

    def read(self, lines: Sequence[ElementLine], every_ref: Sequence[ElementLine] = ()) -> Iterator[PlacedLine]:
        """Yield the lines as they are shown: with the values, spaces, marks and line breaks of the text.

        every_ref: the same elements, each with its ref. What scrolls by itself is then shown with one of them, and so
        is a separator with a value: it is a border that can be moved.
        """
        found = [self._with_spaces(one) for one in self.place(self._with_values(lines))]
        if every_ref:
            self._mark_scrollers(found, every_ref)
        for number, (one, known) in enumerate(zip(found, every_ref, strict=False)):
            if one.line.role == BORDER and one.line.text:
                found[number] = replace(one, line=one.line.model_copy(update={"ref": known.ref}))
        for position, marks in self.text.focusable if every_ref else ():
            around = [at for at, one in enumerate(found) if one.is_sure and one.begin <= position < one.end]
            if around and (marks or not found[around[-1]].line.ref):
                at, line = around[-1], found[around[-1]].line
                shown = line.model_copy(update={"ref": every_ref[at].ref, "marks": (*line.marks, *marks)})
                found[at] = replace(found[at], line=shown)
        kept: list[PlacedLine] = []
        for one in self._named(found):  # texts that only repeat the name of the element around them are left out
            before = kept[-1].line if kept else None
            repeats = before is not None and one.line.depth > before.depth and one.line.text == before.name
            if not (one.line.role == "text" and repeats):
                kept.append(one)
        return self._with_notes(self._with_line_breaks(tuple(self._marked(kept))))

    def _named(self, found: Sequence[PlacedLine]) -> Iterator[PlacedLine]:
        """Yield the lines, with one line for an element without a name that holds nothing but parts of one text.

        The browser gives no name to what has all its words in elements of their own, such as a suggestion with the
        typed letters marked.
        """
        at = 0
        while at < len(found):
            one, end = found[at], at + 1
            while end < len(found) and found[end].line.depth > one.line.depth:
                end += 1
            parts = found[at + 1 : end] if one.line.ref and not one.line.words and one.line.role in _NAMED else []
            joined = len(parts) > 1 and all(
                part.line.role in _PIECES and part.is_sure and not part.line.url and part.begin == before.end
                for part, before in zip(parts[1:], parts, strict=False)
            )
            if joined and parts[0].line.role in _PIECES and parts[0].is_sure:
                name = " ".join("".join(part.line.words for part in parts).split())
                line = one.line.model_copy(update={"name": name})
                yield self._with_spaces(PlacedLine(line, parts[0].begin, parts[-1].end, is_sure=True))
                at = end
            else:
                yield one
                at += 1

    def _with_notes(self, placed: Iterable[PlacedLine]) -> Iterator[PlacedLine]:
        """Yield the lines with the numbers that the page's style counts, and with lines for the notes."""
        counted, made = dict(self.text.counted), list[PlacedLine]()
        titles, others = (
            [one for one in self.text.placed_notes if (one[1] == "title") is wanted] for wanted in (True, False)
        )
        for one in placed:
            while others and one.is_sure and others[0][0] <= one.begin:
                at, depth = len(made), one.line.depth
                while at and not made[at - 1].line.words and made[at - 1].line.depth < depth:
                    at, depth = at - 1, made[at - 1].line.depth
                made.insert(at, self._note_line(*others.pop(0)[1:], depth))
            line, number = one.line, counted.pop(one.begin, "").strip()
            if number:
                at = "text" if line.text else "name"
                line = line.model_copy(update={at: f"{number} {getattr(line, at)}"})
            made.append(replace(one, line=line))
            while titles and one.is_sure and titles[0][0] <= one.end:
                made.append(self._note_line(*titles.pop(0)[1:], line.depth + 1))
        return chain(made, (self._note_line(kind, words, 0) for _, kind, words in others))

    def _note_line(self, kind: str, words: str, depth: int) -> PlacedLine:
        if kind == "editor":
            return PlacedLine(ElementLine(depth=depth, role="textbox", ref=f"{self.tab}:{words}"))
        marks = (NOT_VISIBLE,) if kind in _TITLES else ()  # a person sees a title only after a while
        return PlacedLine(ElementLine(depth=depth, role=_NOTE_ROLES[kind], marks=marks, text=words))

    def place(self, lines: Sequence[ElementLine]) -> Iterator[PlacedLine]:
        """Yield each line with its place in the text.

        Words stand where the line before ends, else where the next line follows them, else where they are found first.
        """
        text, cursor, scanned = self.text.dense, 0, 0
        wanted = [dense(line.words) for line in lines]
        for number, (line, words) in enumerate(zip(lines, wanted, strict=True)):
            if not words:
                yield PlacedLine(line)
                continue
            following = next((one for one in wanted[number + 1 : number + 9] if one not in words), "")
            at, sure = self._near(words, following, cursor)
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

    def _near(self, words: str, following: str, cursor: int) -> tuple[int, bool]:
        """Return where words stand near a position, and whether they stand nowhere else near it; -1 for nowhere."""
        text = self.text.dense
        if text.startswith(words, cursor):
            return cursor, True
        limit = cursor + _NEAR_CHARS + len(words)
        first = at = text.find(words, cursor, limit)
        if len(words) >= _LONG_CHARS:
            return at, at >= 0
        for _ in range(_MOST_PLACES):
            if at < 0:
                break
            if following and text.startswith(following, at + len(words)):
                return at, True
            at = text.find(words, at + 1, limit)
        return first, False

    def _mark_scrollers(self, placed: list[PlacedLine], every_ref: Sequence[ElementLine]) -> None:
        """Mark in each part that scrolls by itself the first line with a ref, or else give its first line a ref."""
        for first, last in self.text.scrollers:
            begin, end = self.text.dense_starts[first], self.text.dense_starts[last]
            inside = [number for number, one in enumerate(placed) if begin <= one.begin < one.end <= end]
            with_ref = (number for number in inside if placed[number].line.ref)
            number = next(with_ref, next((number for number in inside if every_ref[number].ref), None))
            if number is not None:
                line = placed[number].line
                marks = line.marks if SCROLLS in line.marks else (*line.marks, SCROLLS)
                shown = line.model_copy(update={"ref": every_ref[number].ref, "marks": marks})
                placed[number] = replace(placed[number], line=shown)

    def _with_spaces(self, placed: PlacedLine) -> PlacedLine:
        """Return the line with the spaces and line breaks that the page shows between its words, as single spaces.

        The browser's snapshot joins what stands before and after a `<br>`.
        """
        line, words, all_gaps = placed.line, placed.line.words, self.text.gaps
        gaps = all_gaps[bisect_right(all_gaps, placed.begin) : bisect_left(all_gaps, placed.end)]
        if not placed.is_sure or not gaps:
            return placed
        missing, made, at = {gap - placed.begin for gap in gaps}, list[str](), 0
        for part in words.split():
            for character in part:
                if at in missing and dense(character) and made and made[-1] != " ":
                    made.append("^" if at + placed.begin in self.text.raised else " ")
                made.append(character)
                at += len(dense(character))
            made.append(" ")
        spaced = "".join(made).strip()
        if len(spaced) <= len(" ".join(words.split())):
            return placed
        if line.text and spaced == " ".join(line.name.split()):
            return replace(placed, line=line.model_copy(update={"text": ""}))
        return replace(placed, line=line.model_copy(update={"text" if line.text else "name": spaced}))

    def _marked(self, placed: Iterable[PlacedLine]) -> Iterator[PlacedLine]:
        """Yield the lines with their marks."""
        cells, cell = self.text.cells, 0
        for one in placed:
            line, marks = one.line, self._look(one)
            if line.role in _CELL_ROLES and cells:  # which cell of the document it shows; both follow the reading order
                words, ahead = dense(line.words), range(cell, min(cell + _CELLS_AHEAD, len(cells)))
                at = next((at for at in ahead if cells[at].dense == words[: len(cells[at].dense) or 1]), None)
                if at is not None:
                    cell, spans = at + 1, (("rowspan", cells[at].rows), ("colspan", cells[at].columns))
                    marks += tuple(f"{name}={count}" for name, count in spans if count > 1)
            shown = self._with_struck_words(one) if _STRUCK not in marks else line
            if marks:
                shown = shown.model_copy(update={"marks": (*line.marks, *marks)})
            yield replace(one, line=shown)

    def _look(self, one: PlacedLine) -> tuple[str, ...]:
        """Return the marks that say what of a line a person sees."""
        page, line, words = self.text, one.line, one.line.words
        if NOT_VISIBLE in line.marks:  # a control, by its box
            return ()
        if not words:
            return (NOT_VISIBLE,) if line.text and dense(line.text) in page.unseen_values else ()
        if not one.is_placed:  # a short label or a value
            label = len(line.name) <= _MOST_LABEL_CHARS
            if line.text:
                label = line.role in _VALUE_ROLES or len(line.text) <= _MOST_UNSEEN_CHARS
            return (NOT_VISIBLE,) if dense(words) in page.unseen_values or not label else ()
        if line.text and len(line.name) > _MOST_LABEL_CHARS and dense(line.name) not in page.seen:
            return (PARTLY_VISIBLE,)
        if page.is_plain:
            return ()
        runs = page.runs_between(one.begin, one.end)
        struck = (_STRUCK,) if line.role != "deletion" and all(run.struck for run in runs) else ()
        if not any(run.hidden for run in runs) or dense(words) in page.seen:
            return struck
        if all(run.hidden and run.label for run in runs) and len(words) <= _MOST_LABEL_CHARS:
            return struck
        return (NOT_VISIBLE if all(run.hidden for run in runs) else PARTLY_VISIBLE, *struck)

    def _with_struck_words(self, one: PlacedLine) -> ElementLine:
        """Return the line with `~~` around the words that are struck out, if only some are."""
        if self.text.is_plain or not one.is_placed or one.line.role == "deletion":
            return one.line
        runs = self.text.runs_between(one.begin, one.end)
        if not any(run.struck for run in runs) or sum(len(dense(run.text)) for run in runs) != one.end - one.begin:
            return one.line
        written = (f" ~~{run.text.strip()}~~ " if run.struck else run.text for run in runs)
        words = " ".join("".join(written).split())
        return one.line.model_copy(update={"text" if one.line.text else "name": words})

    def _with_line_breaks(self, placed: Sequence[PlacedLine]) -> Iterator[PlacedLine]:
        """Yield the lines, those of a preformatted text replaced by the lines of the document.

        Elements inside the text that can be acted on follow it.
        """
        texts, at = [text for text in self._pre_texts() if len(text.lines) > 1], 0
        while at < len(placed):
            one = placed[at]
            while texts and one.is_placed and texts[0].end <= one.begin:
                texts.pop(0)
            inside = _lines_inside(placed, at, texts[0]) if texts and one.is_placed else 0
            if inside:
                yield from _replaced(placed[at : at + inside], texts.pop(0))
            else:
                yield one
            at += inside or 1

    def _pre_texts(self) -> Iterator[_PreText]:
        starts = self.text.dense_starts
        for number, group in groupby(enumerate(self.text.blocks), key=lambda one: one[1].pre):
            blocks = list(group)
            if number:
                text = "\n".join(block.text.strip("\n") for _, block in blocks)
                begin, end = starts[blocks[0][0]], starts[blocks[-1][0] + 1]
                yield _PreText(begin, end, tuple(text.split("\n")), all(block.hidden for _, block in blocks))

    def _with_values(self, lines: Sequence[ElementLine]) -> tuple[ElementLine, ...]:
        """Return the lines with what their elements show, and without what stands in password fields.

        The browser's snapshot and the page's text are read at the same time. They name the same elements in the same
        order.
        """
        made, secrets = list(lines), self.text.secrets
        for place, line in enumerate(lines):
            if line.role in _FIELDS and line.text and (secrets is None or dense(line.text) in secrets):
                made[place] = line.model_copy(update={"text": "", "marks": (*line.marks, _NOT_SHOWN)})
        for role in {one.role for one in self.text.shown_values}:
            values = [one for one in self.text.shown_values if one.role == role]
            for place, found in _pairs(made, [at for at, line in enumerate(made) if line.role == role], values):
                line = made[place]
                if found.value and role in _MARKS:
                    made[place] = line.model_copy(update={"marks": (*line.marks, f"{_MARKS[role]}={found.value}")})
                elif found.value:
                    beside = line.text and not found.value.startswith(line.text)
                    text = f"{line.text} ({found.value})" if beside else found.value
                    made[place] = line.model_copy(update={"text": text})
        return tuple(made)


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
    words = dense(line.name + line.text)
    for one in lines[place + 1 : place + 1 + _COMPARED]:
        if one.depth <= line.depth:
            break
        words += dense(one.name + one.text)
    return words[:_COMPARED]
