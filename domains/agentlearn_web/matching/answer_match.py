"""Two answers held against each other: as dates, as numbers, as lists, as words. Pure."""

import re
from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Literal

from agentlearn_web.matching.dates import dates_in
from agentlearn_web.matching.numbers import NumberWithUnit, quantity_in
from agentlearn_web.matching.units import units_named
from agentlearn_web.matching.words import plain, words

_AND = re.compile(r",? (?:and|&) ")
_COMMA = re.compile(r",(?!\d)|(?<!\d),")
_LEADING_AND = re.compile(r"^\s*(?:and|&) ")
_STRONG = re.compile(r"[;\n]")
_BULLET = re.compile(r"[-*•·] +")
_OF_DATE = re.compile(r"(?<=[a-z] )(\d{1,2}(?:st|nd|rd|th)?), (?=\d{4}\b)")


@dataclass(frozen=True, slots=True)
class AnswerMatch:
    """What a comparison came to."""

    status: Literal["equal", "different", "unclear"]
    """unclear: the expected answer can be read in several ways, and the answer fits one of them."""
    reason: str


_DIFFERENT = AnswerMatch("different", "says something else")


def compare(answer: str, gold: str, question: str = "") -> AnswerMatch:
    """Whether the answer says what the expected one says.

    An answer that can be read in several ways is different, whatever it may have meant. A unit that the expected
    answer names may be missing; one that it does not name must be the question's. question: the task's words.
    """
    given, expected = words(answer), words(gold)
    if given == expected:
        return AnswerMatch("equal", "the same words")
    if (finding := _dates(given, expected)) or (finding := _numbers(given, expected, words(question))):
        return finding
    if any(one == other for one in _lists(gold) for other in _lists(answer)):
        return AnswerMatch("equal", "the same list")
    return _DIFFERENT


def answer_key(answer: str) -> str | None:
    """A text in which equal dates, numbers and lists are equal, itself its own key; None for an empty answer.

    A number keeps its unit, since there is no expected answer that could go without it.
    """
    text = words(answer)
    items = _separated(answer)[-1:] if isinstance(_key(text), str) else []
    return "; ".join(sorted(map(_written, items[0]))) if items else _written(text) or None


def _dates(given: str, expected: str) -> AnswerMatch | None:
    """What the two come to as dates; None where neither is one."""
    readings, wanted = dates_in(given), dates_in(expected)
    if readings and wanted:
        return _of_readings(readings, wanted, given, expected)
    return _DIFFERENT if readings or wanted else None


def _numbers(given: str, expected: str, question: str) -> AnswerMatch | None:
    """What the two come to as numbers; None where they are not both numbers."""
    number, wanted = quantity_in(given), quantity_in(expected)
    if number is None or wanted is None:
        return None
    finding = _of_readings(number.readings, wanted.readings, given, expected)
    if finding.status != "different" and not _same_unit(number, wanted, question):
        return AnswerMatch("different", f"in {number.unit or 'no unit'!r}, not in {wanted.unit or 'no unit'!r}")
    return finding


def _of_readings(
    readings: tuple[Hashable, ...], wanted: tuple[Hashable, ...], given: str, expected: str
) -> AnswerMatch:
    if readings == wanted:
        return AnswerMatch("equal", "the same value")
    if not set(readings) & set(wanted):
        return AnswerMatch("different", "another value")
    if len(wanted) > 1:
        return AnswerMatch("unclear", f"the expected answer {expected!r} can be read in several ways")
    return AnswerMatch("different", f"{given!r} can be read in several ways")


def _same_unit(given: NumberWithUnit, wanted: NumberWithUnit, question: str) -> bool:
    if given.unit == wanted.unit:
        return True
    if given.unit and wanted.unit:
        return False
    named = given if given.unit else wanted
    if not named.known:
        return any(re.search(rf"(?<!\w){re.escape(one)}", question) for one in _stems(named.unit))
    asked = units_named(question)
    return named is wanted or not asked or named.unit in asked


def _stems(noun: str) -> Iterator[str]:
    """The words of a noun without the ending of the plural."""
    return (one.removesuffix("s") for one in noun.split() if len(one) > 3)


def _lists(text: str) -> list[Counter[Hashable]]:
    """The keys of the items, for every way in which the text can be taken apart."""
    return [Counter(map(_key, items)) for items in _separated(text)]


def _separated(text: str) -> list[list[str]]:
    """Every way in which a text can be taken apart into two items or more, coarse ways first."""
    lines = _unbulleted(plain(text))
    whole = _OF_DATE.sub(r"\1 ", lines if "\n" in lines else words(lines))
    if _STRONG.search(whole):
        return _several([_STRONG.split(whole)])
    if not isinstance(_key(whole), str):
        return []
    commas = _COMMA.split(whole)
    anywhere = commas if ", " in whole else whole.split(",")
    return _several([commas, [part for one in anywhere for part in _AND.split(one)]])


def _unbulleted(lines: str) -> str:
    """Several lines without bullets, where each has one: before a number alone, a dash would be its sign."""
    each = lines.split("\n")
    bulleted = len(each) > 1 and all(_BULLET.match(line) for line in each)
    return "\n".join(_BULLET.sub("", line) for line in each) if bulleted else lines


def _several(ways: list[list[str]]) -> list[list[str]]:
    items = ([one for part in way if (one := words(_LEADING_AND.sub("", part)))] for way in ways)
    return [kept for kept in items if len(kept) > 1]


def _key(text: str) -> Hashable:
    """Under which equal items meet; a text for what is neither date nor number."""
    if readings := dates_in(text):
        return readings
    number = quantity_in(text)
    return text if number is None else (number.readings, number.unit)


def _written(text: str) -> str:
    """A date or number that can be read in one way, in one form; other texts as they stand."""
    if readings := dates_in(text):
        return str(readings[0]) if len(readings) == 1 else text
    number = quantity_in(text)
    return str(number) if number is not None and len(number.readings) == 1 else text
