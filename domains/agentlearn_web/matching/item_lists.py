"""Splits texts into lists and compares lists. The order counts only if the question asks for one. Pure."""

import re
from collections.abc import Callable, Sequence

from agentlearn_web.matching.answer_text import normal_lines, normal_text
from agentlearn_web.matching.match_result import AnswerMatch
from agentlearn_web.matching.question_hints import QuestionHints
from agentlearn_web.matching.value_kinds import is_value

MAX_ITEMS = 40
_AND = re.compile(r",? (?:and|&) ")
_COMMA = re.compile(r",(?!\d)|(?<!\d),")
_LEADING_AND = re.compile(r"^\s*(?:and|&) ")
_STRONG = re.compile(r"[;\n]")
_BULLET = re.compile(r"[-*•·] +")
_NUMBERED = re.compile(r"\(?(\d{1,2})[.)] +")
_NUMBERED_INLINE = re.compile(r"(?:^|[\s,;])\(?(\d{1,2})[.)] +(?=[^\W\d])")
_OF_DATE = re.compile(r"(?<=[a-z] )(\d{1,2}(?:st|nd|rd|th)?), (?=\d{4}\b)", re.IGNORECASE)
_FIRST = re.compile(r"\s*first(?:ly)?:? ", re.IGNORECASE)
_THEN = re.compile(r"\s*(?:and )?(?:then|next|after that|afterwards|finally|lastly|secondly|thirdly):? ", re.IGNORECASE)
_FROM_TO = re.compile(r"from (?P<start>(?:(?! to ).)+) to (?P<end>(?:(?! to ).)+)", re.IGNORECASE)
_OR = re.compile(r",? or ")
_SAME = AnswerMatch("equal", "the same list")
_OTHER_ORDER = AnswerMatch("different", "the same list in another order")
_MAYBE_OTHER_ORDER = AnswerMatch("unclear", "the same list in another order")
_OTHER_LIST = AnswerMatch("different", "another list")

CompareItems = Callable[[str, str], AnswerMatch]


def item_lists(text: str, *, fold: bool = True) -> list[list[str]]:
    """Return every way to split a text into two or more items, coarse splits first."""
    lines = _unbulleted(normal_lines(text, fold=fold))
    joined = _OF_DATE.sub(r"\1 ", lines if "\n" in lines else normal_text(lines, fold=fold))
    if _STRONG.search(joined):
        return _with_several_items([_STRONG.split(joined)], fold=fold)
    if is_value(joined):
        return []
    if " / " in joined:
        return _with_several_items([joined.split(" / ")], fold=fold)
    commas = _without_sequence_words(_COMMA.split(joined))
    anywhere = commas if ", " in joined else joined.split(",")
    return _with_several_items([commas, [part for one in anywhere for part in _AND.split(one)]], fold=fold)


def _without_sequence_words(parts: list[str]) -> list[str]:
    """Return the parts of `first A, then B, finally C` without these words."""
    rest = [_THEN.match(part) for part in parts[1:]]
    if not rest or not _FIRST.match(parts[0]) or not all(rest):
        return parts
    return [_FIRST.sub("", parts[0]), *(_THEN.sub("", part) for part in parts[1:])]


def compare_lists(answer: str, gold: str, hints: QuestionHints, compare: CompareItems) -> AnswerMatch | None:
    """Compare two texts as lists; None if neither is a list, or nothing is proven. compare: for two items."""
    ways, wanted_ways = (item_lists(text, fold=False) + _ends(text, hints) for text in (answer, gold))
    matches = [
        match for items in ways for wanted in wanted_ways if (match := _compare_items(items, wanted, hints, compare))
    ]
    if not matches and hints.listed and _STRONG.search(gold) and _lacks_items(ways, wanted_ways, compare):
        return AnswerMatch("different", "lacks a part of the list")
    order = ("equal", "unclear", "different")
    if matches:
        return min(matches, key=lambda match: order.index(match.status))
    if bool(ways) == bool(wanted_ways):
        return None
    return _compare_with_single(ways or wanted_ways, gold if ways else answer, compare)


def _ends(text: str, hints: QuestionHints) -> list[list[str]]:
    """Return both ends of a text such as `from Rome to Paris`, if the question may ask for a direction."""
    found = _FROM_TO.fullmatch(normal_text(text, fold=False))
    return [] if found is None or hints.order == "no" else [[found["start"], found["end"]]]


def compare_alternatives(answer: str, gold: str, compare: CompareItems) -> AnswerMatch | None:
    """Compare an answer that offers several values, such as `12 or 13`, with a single expected one."""
    options = _OR.split(answer)
    if len(options) < 2 or _OR.search(gold) or not all(map(is_value, [*options, gold])):
        return None
    statuses = {compare(option, gold).status for option in options}
    if statuses == {"equal"}:
        return AnswerMatch("equal", "the same value")
    return AnswerMatch("different", "offers several values") if "unclear" not in statuses else None


def _compare_items(
    items: Sequence[str], wanted: Sequence[str], hints: QuestionHints, compare: CompareItems
) -> AnswerMatch | None:
    if max(len(items), len(wanted)) > MAX_ITEMS:
        return None
    left, extra, in_order = _unmatched(items, wanted, compare)
    if not left and not extra:
        return _SAME if in_order or hints.order == "no" else _reordered(hints)
    values = all(map(is_value, [*items, *wanted]))
    if values and not any(compare(one, other).status == "unclear" for one in extra for other in left):
        return _OTHER_LIST
    return None


def _reordered(hints: QuestionHints) -> AnswerMatch:
    return _OTHER_ORDER if hints.order == "yes" else _MAYBE_OTHER_ORDER


def _lacks_items(ways: list[list[str]], wanted_ways: list[list[str]], compare: CompareItems) -> bool:
    """Return whether all items of the answer are expected ones, and some expected ones are missing."""
    for items in ways:
        for wanted in wanted_ways:
            left, extra, _ = _unmatched(items, wanted, compare)
            if left and not extra:
                return True
    return False


def _unmatched(items: Sequence[str], wanted: Sequence[str], compare: CompareItems) -> tuple[list[str], list[str], bool]:
    """Return the wanted items that no item equals, the items left over, and whether equal items have equal places."""
    if len(items) == len(wanted) and all(
        compare(one, other).status == "equal" for one, other in zip(items, wanted, strict=True)
    ):
        return [], [], True
    left, extra = list(wanted), []
    for one in items:
        at = next((at for at, other in enumerate(left) if compare(one, other).status == "equal"), None)
        if at is None:
            extra.append(one)
        else:
            del left[at]
    return left, extra, False


def _compare_with_single(ways: list[list[str]], single: str, compare: CompareItems) -> AnswerMatch | None:
    """Compare a list of values with one value: other values of the same kind make it another answer."""
    for items in ways:
        if all(map(is_value, [*items, single])):
            statuses = {compare(one, single).status for one in items}
            return _OTHER_LIST if "unclear" not in statuses and "different" in statuses else None
    return None


def _unbulleted(lines: str) -> str:
    """Return several lines without bullets or numbers, if each has one. A single dash before a number is its sign."""
    each = lines.split("\n")
    if len(each) > 1 and all(_BULLET.match(line) for line in each):
        return "\n".join(_BULLET.sub("", line, count=1) for line in each)
    marks = [_NUMBERED.match(line) for line in each]
    if len(each) > 1 and [int(mark[1]) for mark in marks if mark] == list(range(1, len(each) + 1)):
        return "\n".join(_NUMBERED.sub("", line, count=1) for line in each)
    inline = [int(found[1]) for found in _NUMBERED_INLINE.finditer(lines)]
    if len(inline) > 1 and inline == list(range(1, len(inline) + 1)) and _NUMBERED_INLINE.match(lines):
        return "\n".join(part for part in _NUMBERED_INLINE.sub("\n", lines).split("\n") if part.strip())
    return lines


def _with_several_items(ways: list[list[str]], *, fold: bool) -> list[list[str]]:
    items = (
        [one for part in way if (one := normal_text(_LEADING_AND.sub("", part).strip(" ,"), fold=fold))] for way in ways
    )
    return [kept for kept in items if len(kept) > 1]
