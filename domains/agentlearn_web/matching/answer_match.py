"""Compares two answers as dates, numbers, lists and words. Pure."""

import re
from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Literal

from agentlearn_web.matching.answer_text import normal_lines, normal_text
from agentlearn_web.matching.dates import parse_dates
from agentlearn_web.matching.numbers import NumberWithUnit, parse_number
from agentlearn_web.matching.units import units_named

_AND = re.compile(r",? (?:and|&) ")
_COMMA = re.compile(r",(?!\d)|(?<!\d),")
_LEADING_AND = re.compile(r"^\s*(?:and|&) ")
_STRONG = re.compile(r"[;\n]")
_BULLET = re.compile(r"[-*•·] +")
_OF_DATE = re.compile(r"(?<=[a-z] )(\d{1,2}(?:st|nd|rd|th)?), (?=\d{4}\b)")


@dataclass(frozen=True, slots=True)
class AnswerMatch:
    """The result of a comparison."""

    status: Literal["equal", "different", "unclear"]
    """`unclear`: the expected answer has several readings, and the answer matches one of them."""
    reason: str


_DIFFERENT = AnswerMatch("different", "says something else")


def match_answers(answer: str, gold: str, question: str = "") -> AnswerMatch:
    """Return whether the answer says the same as the expected one, `gold`.

    An answer with several readings is `different`. The answer may omit the unit of the expected answer. A unit that
    only the answer has must occur in the question. question: text of the task.
    """
    answer_text, expected_text = normal_text(answer), normal_text(gold)
    if answer_text == expected_text:
        return AnswerMatch("equal", "the same words")
    if (match := _match_dates(answer_text, expected_text)) or (
        match := _match_numbers(answer_text, expected_text, normal_text(question))
    ):
        return match
    if any(one == other for one in _item_counters(gold) for other in _item_counters(answer)):
        return AnswerMatch("equal", "the same list")
    return _DIFFERENT


def answer_match_key(answer: str) -> str | None:
    """Return a text that is the same for equal dates, numbers and lists; None for an empty answer.

    The key of a key is the key itself. A number keeps its unit.
    """
    text = normal_text(answer)
    items = _item_lists(answer)[-1:] if isinstance(_item_key(text), str) else []
    return "; ".join(sorted(map(_canonical, items[0]))) if items else _canonical(text) or None


def _match_dates(answer_text: str, expected_text: str) -> AnswerMatch | None:
    """Compare the two as dates; None if neither is a date."""
    readings, expected = parse_dates(answer_text), parse_dates(expected_text)
    if readings and expected:
        return _match_readings(readings, expected, answer_text, expected_text)
    return _DIFFERENT if readings or expected else None


def _match_numbers(answer_text: str, expected_text: str, question: str) -> AnswerMatch | None:
    """Compare the two as numbers; None unless both are numbers."""
    number, expected = parse_number(answer_text), parse_number(expected_text)
    if number is None or expected is None:
        return None
    match = _match_readings(number.readings, expected.readings, answer_text, expected_text)
    if match.status != "different" and not _same_unit(number, expected, question):
        return AnswerMatch("different", f"in {number.unit or 'no unit'!r}, not in {expected.unit or 'no unit'!r}")
    return match


def _match_readings(
    readings: tuple[Hashable, ...], expected: tuple[Hashable, ...], answer_text: str, expected_text: str
) -> AnswerMatch:
    if readings == expected:
        return AnswerMatch("equal", "the same value")
    if not set(readings) & set(expected):
        return AnswerMatch("different", "another value")
    if len(expected) > 1:
        return AnswerMatch("unclear", f"the expected answer {expected_text!r} can be read in several ways")
    return AnswerMatch("different", f"{answer_text!r} can be read in several ways")


def _same_unit(answer_text: NumberWithUnit, expected: NumberWithUnit, question: str) -> bool:
    if answer_text.unit == expected.unit:
        return True
    if answer_text.unit and expected.unit:
        return False
    named = answer_text if answer_text.unit else expected
    if not named.known:
        return any(re.search(rf"(?<!\w){re.escape(one)}", question) for one in _stems(named.unit))
    asked = units_named(question)
    return named is expected or not asked or named.unit in asked


def _stems(noun: str) -> Iterator[str]:
    """Yield the words of a noun without the plural ending."""
    return (one.removesuffix("s") for one in noun.split() if len(one) > 3)


def _item_counters(text: str) -> list[Counter[Hashable]]:
    """Return the item keys for every way to split the text into a list."""
    return [Counter(map(_item_key, items)) for items in _item_lists(text)]


def _item_lists(text: str) -> list[list[str]]:
    """Return every way to split a text into two or more items, coarse splits first."""
    lines = _unbulleted(normal_lines(text))
    joined = _OF_DATE.sub(r"\1 ", lines if "\n" in lines else normal_text(lines))
    if _STRONG.search(joined):
        return _with_several_items([_STRONG.split(joined)])
    if not isinstance(_item_key(joined), str):
        return []
    commas = _COMMA.split(joined)
    anywhere = commas if ", " in joined else joined.split(",")
    return _with_several_items([commas, [part for one in anywhere for part in _AND.split(one)]])


def _unbulleted(lines: str) -> str:
    """Return several lines without bullets, if each line has one. A single dash before a number is its sign."""
    each = lines.split("\n")
    bulleted = len(each) > 1 and all(_BULLET.match(line) for line in each)
    return "\n".join(_BULLET.sub("", line) for line in each) if bulleted else lines


def _with_several_items(ways: list[list[str]]) -> list[list[str]]:
    items = ([one for part in way if (one := normal_text(_LEADING_AND.sub("", part)))] for way in ways)
    return [kept for kept in items if len(kept) > 1]


def _item_key(text: str) -> Hashable:
    """Return a key that is the same for equal items: readings of a date or number, else the text."""
    if readings := parse_dates(text):
        return readings
    number = parse_number(text)
    return text if number is None else (number.readings, number.unit)


def _canonical(text: str) -> str:
    """Return a date or number with a single reading in its canonical form; any other text unchanged."""
    if readings := parse_dates(text):
        return str(readings[0]) if len(readings) == 1 else text
    number = parse_number(text)
    return str(number) if number is not None and len(number.readings) == 1 else text
