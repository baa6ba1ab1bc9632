"""Compares two texts as values of one kind: versions, times, dates, numbers, ranges, codes. Pure."""

import re
from collections.abc import Callable

from agentlearn_web.matching.affirmations import compare_affirmations
from agentlearn_web.matching.bounds import parse_bound
from agentlearn_web.matching.clock_times import compare_times, parse_time
from agentlearn_web.matching.code_names import compare_code_names
from agentlearn_web.matching.code_words import compare_codes, compare_phones
from agentlearn_web.matching.dates import compare_dates, parse_calendar_name, parse_dates
from agentlearn_web.matching.match_result import OTHER_VALUE, SAME_VALUE, AnswerMatch, combined
from agentlearn_web.matching.numbers import NumberWithUnit, parse_number
from agentlearn_web.matching.postal_addresses import compare_addresses
from agentlearn_web.matching.quantities import compare_numbers
from agentlearn_web.matching.question_hints import QuestionHints, read_question
from agentlearn_web.matching.versions import compare_versions, parse_version

_RANGE = re.compile(r"(?:from )?(?P<start>.+?)(?: - | to | until | through )(?P<end>.+)")
_PAIR = re.compile(
    r"(?:from |(?P<between>between ))?(?P<start>\d{1,6}) ?(?(between)and|(?:-|:|to|/)) ?(?P<end>\d{1,6})"
    r"(?P<rest>(?: [^\W\d_]+)?)"
)
_NUMERAL = re.compile(r"(?<![\w.,:/-])\d+(?:[.,:]\d+)*(?![\w:/-])")
_NO_HINTS = read_question("")
_MAX_TEMPLATE = 200
_NONE = frozenset({"none", "no one", "nobody", "nothing", "nil", "zero", "no"})


def compare_values(answer: str, gold: str, hints: QuestionHints) -> AnswerMatch | None:
    """Compare two texts as values of one kind; None if they are not. The texts are in the case of their writers."""
    one, other = answer.casefold(), gold.casefold()
    if match := _compare_bounds(answer, gold, hints):
        return match
    for comparison in (_compare_as_versions, _compare_as_phones, _compare_as_words):
        if match := comparison(one, other, hints):
            return match
    readings = (_compare_as_times(one, other, hints), _compare_as_pairs(one, other, hints))
    if match := combined([match for match in readings if match]):
        return match
    if match := _compare_as_days(one, other, hints) or compare_codes(answer, gold):
        return match
    if match := compare_code_names(answer, gold, hints) or compare_addresses(one, other, hints):
        return match
    if match := _compare_as_numbers(answer, gold, hints):
        return match
    return _compare_ranges(answer, gold, hints) or _compare_templates(one, other)


def is_value(text: str) -> bool:
    """Return whether a text is a date, time or number, and not just words."""
    folded = text.casefold()
    return bool(parse_dates(folded) or parse_time(folded) or parse_number(text))


def _compare_bounds(answer: str, gold: str, hints: QuestionHints) -> AnswerMatch | None:
    """Compare two limits, or a limit with the value of the limit that the question asks for."""
    one, other = parse_bound(answer), parse_bound(gold)
    if one is None and other is None:
        return None
    value, wanted = (one.value if one else answer), (other.value if other else gold)
    match = compare_values(value, wanted, hints) or (SAME_VALUE if value.casefold() == wanted.casefold() else None)
    if match is None or match.status == "unclear":
        return match
    if one and other:
        if one.relation == other.relation:
            return match
        if one.is_lower != other.is_lower:
            return AnswerMatch("different", "a limit in the other direction")
        return AnswerMatch("unclear", "a limit that may or may not include its end")
    bound = one or other
    asked = bound is not None and ((hints.least and bound.relation == ">=") or (hints.most and bound.relation == "<="))
    if asked or match.status == "different":
        return match if asked else None
    return AnswerMatch("unclear", "a limit, not a value")


def _compare_as_versions(answer: str, gold: str, hints: QuestionHints) -> AnswerMatch | None:
    one, other = parse_version(answer), parse_version(gold)
    if one is None or other is None or not (hints.version or one.marked or other.marked):
        return None
    return None if parse_dates(answer) or parse_dates(gold) else compare_versions(one, other, hints.text)


def _compare_as_phones(answer: str, gold: str, hints: QuestionHints) -> AnswerMatch | None:
    return compare_phones(answer, gold) if hints.phone else None


def _compare_as_words(answer: str, gold: str, hints: QuestionHints) -> AnswerMatch | None:
    """Compare two words of which there are only a few: yes and no, letters of choices, weekdays, months."""
    if match := compare_affirmations(answer, gold, hints):
        return match
    if hints.text.startswith("how many") and answer in _NONE | {"0"} and gold in _NONE | {"0"}:
        return SAME_VALUE
    if len(answer) == len(gold) == 1 and answer.isalpha() and gold.isalpha() and answer != gold:
        return OTHER_VALUE
    one, other = parse_calendar_name(answer), parse_calendar_name(gold)
    if one is None or other is None or one[0] != other[0]:
        return None
    return SAME_VALUE if one == other else OTHER_VALUE


def _compare_as_times(answer: str, gold: str, hints: QuestionHints) -> AnswerMatch | None:
    one, other = parse_time(answer), parse_time(gold)
    if one is None or other is None or not (hints.time or one.sure or other.sure):
        return None
    return compare_times(one, other)


def _compare_as_pairs(answer: str, gold: str, hints: QuestionHints) -> AnswerMatch | None:
    """Compare two pairs of whole numbers, such as scores, ratios and spans of years: `3-2`, `2024-25`."""
    one, other = _PAIR.fullmatch(answer), _PAIR.fullmatch(gold)
    if one is None or other is None or hints.time or hints.fraction or one["rest"] != other["rest"]:
        return None
    pair, wanted = _pair(one), _pair(other)
    if pair == wanted:
        return SAME_VALUE
    return AnswerMatch("unclear", "in another order") if sorted(pair) == sorted(wanted) else OTHER_VALUE


def _pair(found: re.Match[str]) -> tuple[int, int]:
    start, end = found["start"], found["end"]
    is_span = len(start) == 4 and len(end) == 2 and "-" in found[0]
    return int(start), int(start[:2] + end if is_span else end)


def _compare_as_days(answer: str, gold: str, hints: QuestionHints) -> AnswerMatch | None:
    one, other = parse_dates(answer), parse_dates(gold)
    if one and other:
        return compare_dates(one, other)
    dates, text = (one, gold) if one else (other, answer)
    if not dates or not re.fullmatch(r"[12]\d{3}", text):
        return None
    known = {day.year for day in dates} - {None}
    if known == {int(text)} and hints.year:
        return SAME_VALUE
    if known and int(text) not in known and hints.when:
        return OTHER_VALUE
    return AnswerMatch("unclear", "names more or fewer parts of the date")


def _compare_as_numbers(answer: str, gold: str, hints: QuestionHints) -> AnswerMatch | None:
    one, other = parse_number(answer), parse_number(gold)
    if one is None or other is None or parse_dates(answer.casefold()) or parse_dates(gold.casefold()):
        return None
    match = compare_numbers(one, other, hints)
    is_fraction, is_wanted = (bool(re.search(r"\d/\d", text)) for text in (answer, gold))
    if one.text and (one.text, one.unit) == (other.text, other.unit) and is_fraction != is_wanted:
        return AnswerMatch("unclear", "may be out of a largest number")
    written = answer == gold or (one.text == other.text and one.text)
    if hints.time and not hints.amount and not written and (parse_time(answer) or parse_time(gold)):
        return AnswerMatch("unclear", "may be a time of day")
    return match


def _compare_ranges(answer: str, gold: str, hints: QuestionHints) -> AnswerMatch | None:
    """Compare two ranges of times, dates or numbers end by end."""
    one, other = _RANGE.fullmatch(_spaced(answer)), _RANGE.fullmatch(_spaced(gold))
    if one is None or other is None:
        return None
    ends = [(one[part], other[part]) for part in ("start", "end")]
    if not all(is_value(text) for pair in ends for text in pair):
        return None
    plain: list[Callable[[str, str, QuestionHints], AnswerMatch | None]] = [
        _compare_as_times,
        _compare_as_days,
        _compare_as_numbers,
    ]
    matches = [next(filter(None, (compare(a, b, hints) for compare in plain)), None) for a, b in ends]
    statuses = {None if match is None else match.status for match in matches}
    if statuses == {"equal"}:
        return SAME_VALUE
    if one["start"] == other["end"] and one["end"] == other["start"]:
        return AnswerMatch("unclear", "in another order")
    return OTHER_VALUE if "different" in statuses and not {None, "unclear"} & statuses else None


def _spaced(text: str) -> str:
    """Return a range of times with spaces around its dash: `9:00-17:00`."""
    return re.sub(r"(?<=[\d.m])-(?=\d{1,2}(?:[:.]\d{2}|(?:[:.]\d{2})? ?[ap]\.?m))", " - ", text, flags=re.IGNORECASE)


def _compare_templates(answer: str, gold: str) -> AnswerMatch | None:
    """Compare two texts with the same words and other numbers, such as `Room 12` and `Room 13`."""
    if max(len(answer), len(gold)) > _MAX_TEMPLATE or _NUMERAL.sub("0", answer) != _NUMERAL.sub("0", gold):
        return None
    numbers, wanted = _NUMERAL.findall(answer), _NUMERAL.findall(gold)
    if not numbers or sorted(numbers) == sorted(wanted) or not re.search(r"[^\W\d_]", answer):
        return None
    matches = [_compare_numerals(a, b) for a, b in zip(numbers, wanted, strict=True) if a != b]
    return OTHER_VALUE if any(one == "different" for one in matches) else None


def _compare_numerals(one: str, other: str) -> str:
    """Return `different` for two numbers that are proven to differ. `3` and `3.10` may be one version."""
    numbers = [parse_number(text) for text in (one, other)]
    known = [number for number in numbers if isinstance(number, NumberWithUnit)]
    if len(known) < 2 or one.startswith(other) or other.startswith(one):
        return "unclear"
    return compare_numbers(known[0], known[1], _NO_HINTS).status
