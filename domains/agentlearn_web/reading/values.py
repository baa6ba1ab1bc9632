"""What elements show besides text: values of widgets and numbers of list items go into their lines, passwords never."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import chain

from agentlearn_web.observation import ElementLine
from agentlearn_web.reading.page_text import PageText, ShownValue, dense

_MARKS = {"listitem": "number", "row": "row", "columnheader": "sorted"}
"""Name of the mark with the value of an element that has text of its own."""
_FIELDS = frozenset({"textbox", "searchbox", "combobox", "spinbutton"})
NOT_SHOWN = "value not shown"
"""Mark of a field whose value is a password."""
_COMPARED = 30
"""Characters by which an element and its line are recognised where a page changed while it was read."""


def with_values(lines: Sequence[ElementLine], text: PageText) -> tuple[ElementLine, ...]:
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
    return line.model_copy(update={"text": "", "marks": (*line.marks, NOT_SHOWN)})
