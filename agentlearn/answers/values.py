"""Compares two short texts as values of one kind: limits, yes and no, times, dates, amounts, ranges, codes."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from agentlearn.answers.answer_text import NO_HINTS, QuestionHints
from agentlearn.answers.codes import CodeComparator
from agentlearn.answers.match import OTHER_VALUE, SAME_VALUE, SEVERAL_READINGS, Match
from agentlearn.answers.numbers import NumberWithUnit, parse_number
from agentlearn.answers.times import ClockTime, Day, calendar_name
from agentlearn.answers.units import NO_UNIT, PERCENT

_BOUND_BEFORE = {
    ">=": r"at (?:the )?(?:very )?least|not? (?:less|fewer|lower|under) than|(?:an? )?minimum(?: of)?|min\.?|≥|>=",
    "<=": r"at (?:the )?(?:very )?most|not? (?:more|greater|higher|over) than|(?:an? )?maximum(?: of)?|max\.?|up to"
    r"|≤|<=",
    ">": r"(?:more|greater|higher|larger|longer) than|over|above|exceeding|>",
    "<": r"(?:less|fewer|lower|smaller|shorter) than|under|below|<",
}
_BOUND_AFTER = {
    ">=": r"(?:or|and) (?:more|above|over|older|greater|higher|longer|later|newer|up(?:wards)?)|at least|minimum|\+",
    "<=": r"(?:or|and) (?:less|fewer|below|under|younger|lower|shorter|earlier|older versions)|at most|maximum",
}
_BOUNDS = tuple(
    (relation, re.compile(pattern.format(words=f"(?:{words})"), re.IGNORECASE | re.DOTALL))
    for pattern, table in (
        (r"(?P<value>){words}(?: (?=\S)|(?<=\W)(?=\S)|(?=\d))(?P<rest>.*)", _BOUND_BEFORE),
        (r"(?P<value>.*?(?<=\w)) ?{words}(?P<rest>(?: .*)?)", _BOUND_AFTER),
    )
    for relation, words in table.items()
)
YES = {"yes": True, "true": True, "no": False, "false": False}
_LED_BY = re.compile(r"(?P<word>yes|no)(?:,|\.|;|:| -) (?P<rest>.+)", re.DOTALL)
_WORD = re.compile(r"[\w'-]+")
_NEGATIONS = frozenset({"not", "no", "never", "non", "neither", "nor", "without", "cannot"})
_FILL = frozenset(
    (
        *("the", "a", "an", "is", "are", "was", "were", "be", "it", "they", "he", "she", "this", "that", "there"),
        *("does", "do", "did", "has", "have", "can", "may", "will", "must", "you", "we", "of", "in", "on", "at", "to"),
    )
)
_QUALIFIED = frozenset(
    {"if", "when", "unless", "except", "but", "only", "or", "and", "until", "before", "after", "for"}
)
_NONE = frozenset({"none", "no one", "nobody", "nothing", "nil", "zero", "no", "0"})
_RANGE = re.compile(r"(?:from )?(?P<start>.+?)(?: - | to | until | through )(?P<end>.+)")
_CLOSE_RANGE = re.compile(r"(?<=[\d.m])-(?=\d{1,2}(?:[:.]\d{2}|(?:[:.]\d{2})? ?[ap]\.?m))", re.IGNORECASE)
"""A range of times without spaces around its dash: `9:00-17:00`."""
_PAIR = re.compile(
    r"(?:from |(?P<between>between ))?(?P<start>\d{1,6}) ?(?(between)and|(?:-|:|to|/)) ?(?P<end>\d{1,6})"
    r"(?P<rest>(?: [^\W\d_]+)?)"
)
_NUMERAL = re.compile(r"(?<![\w.,:/-])\d+(?:[.,:]\d+)*(?![\w:/-])")
_MAX_TEMPLATE = 200
_NEAR = Fraction(1, 10)
_DOTTED_ZERO = re.compile(r"\d+[.,]\d*[1-9]0+")
_NOT_EXACT = Match.unclear("in a unit that cannot be converted exactly")


def is_value(text: str) -> bool:
    """Return whether a text is a date, time or number, and not just words."""
    folded = text.casefold()
    return bool(Day.readings(folded) or ClockTime.read(folded) or parse_number(text))


@dataclass(frozen=True, slots=True)
class ValueComparator:
    """Compares two texts as answers to one question."""

    hints: QuestionHints

    def compare(self, answer: str, gold: str) -> Match | None:
        """Compare two texts as values of one kind; None if they are not. The texts are in the case of their writers."""
        one, other, codes = answer.casefold(), gold.casefold(), CodeComparator(self.hints)
        if match := (
            self._bounds(answer, gold)
            or codes.versions(one, other)
            or codes.phones(one, other)
            or self._words(one, other)
        ):
            return match
        readings = [match for match in (self._times(one, other), self._pairs(one, other)) if match]
        if readings:
            return readings[0] if len({match.status for match in readings}) == 1 else SEVERAL_READINGS
        return (
            self._days(one, other)
            or codes.codes(answer, gold)
            or self._numbers(answer, gold)
            or self._ranges(answer, gold)
            or self._templates(one, other)
        )

    def _bounds(self, answer: str, gold: str) -> Match | None:
        """Compare two limits, or a limit with the value of the limit that the question asks for."""

        def bound(text: str) -> tuple[str, str] | None:
            """Return the relation and the text of the limit itself; None for any other text."""
            found = ((relation, pattern.fullmatch(text)) for relation, pattern in _BOUNDS)
            return next(((relation, one["value"] + one["rest"]) for relation, one in found if one), None)

        one, other = bound(answer), bound(gold)
        if one is None and other is None:
            return None
        value, wanted = (one[1] if one else answer), (other[1] if other else gold)
        match = self.compare(value, wanted) or (SAME_VALUE if value.casefold() == wanted.casefold() else None)
        if match is None or match.status == "unclear":
            return match
        if one and other:
            if one[0] == other[0]:
                return match
            if one[0][0] != other[0][0]:
                return Match.different("a limit in the other direction")
            return Match.unclear("a limit that may or may not include its end")
        relation = (one or other or "")[0]
        if (relation == ">=" and self.hints.asks("least")) or (relation == "<=" and self.hints.asks("most")):
            return match
        return None if match.status == "different" else Match.unclear("a limit, not a value")

    def _words(self, answer: str, gold: str) -> Match | None:
        """Compare yes and no, texts of which one is negated, letters of choices, weekdays, months."""

        def affirmed(text: str) -> bool | None:
            """Return whether a text says yes; None if it is neither yes nor no, or says more than the question."""
            found = _LED_BY.fullmatch(text)
            if text in YES or found is None or self.hints.asks("choice"):
                return YES.get(text)
            words = _WORD.findall(found["rest"])
            negations = sum(word in _NEGATIONS or word.endswith("n't") for word in words)
            asked = (set(_WORD.findall(self.hints.text)) | _FILL | _NEGATIONS) - _QUALIFIED
            known = all(word in asked or word.endswith("n't") for word in words)
            return YES[found["word"]] if known and negations == (not YES[found["word"]]) else None

        one, other = affirmed(answer), affirmed(gold)
        if one is not None and other is not None:
            return SAME_VALUE if one == other else OTHER_VALUE
        if self.hints.text and not self.hints.asks("choice"):
            short, long = sorted((re.findall(r"non(?=-)|\w+'?\w*", text) for text in (answer, gold)), key=len)
            if short and len(long) == len(short) + 1:
                at = next((at for at, word in enumerate(short) if word != long[at]), len(short))
                if long[at] in {"not", "non", "never"} and long[at + 1 :] == short[at:]:
                    return Match.different("says the opposite")
        if self.hints.text.startswith("how many") and answer in _NONE and gold in _NONE:
            return SAME_VALUE
        if len(answer) == len(gold) == 1 and answer.isalpha() and gold.isalpha() and answer != gold:
            return OTHER_VALUE
        names = calendar_name(answer), calendar_name(gold)
        if names[0] is None or names[1] is None or names[0][0] != names[1][0]:
            return None
        return SAME_VALUE if names[0] == names[1] else OTHER_VALUE

    def _times(self, answer: str, gold: str) -> Match | None:
        one, other = ClockTime.read(answer), ClockTime.read(gold)
        if one is None or other is None or not (self.hints.asks("time") or one.sure or other.sure):
            return None
        return ClockTime.compare(one, other)

    def _pairs(self, answer: str, gold: str) -> Match | None:
        """Compare two pairs of whole numbers, such as scores, ratios and spans of years: `3-2`, `2024-25`."""
        one, other = _PAIR.fullmatch(answer), _PAIR.fullmatch(gold)
        if one is None or other is None or self.hints.asks("time", "fraction") or one["rest"] != other["rest"]:
            return None

        def pair(found: re.Match[str]) -> tuple[int, int]:
            start, end = found["start"], found["end"]
            is_span = len(start) == 4 and len(end) == 2 and "-" in found[0]
            return int(start), int(start[:2] + end if is_span else end)

        given, wanted = pair(one), pair(other)
        if given == wanted:
            return SAME_VALUE
        return Match.unclear("in another order") if given == wanted[::-1] else OTHER_VALUE

    def _days(self, answer: str, gold: str) -> Match | None:
        one, other = Day.readings(answer), Day.readings(gold)
        if one and other:
            return Day.compare(one, other)
        dates, text = (one, gold) if one else (other, answer)
        if not dates or not re.fullmatch(r"[12]\d{3}", text):
            return None
        known = {day.year for day in dates} - {None}
        if known == {int(text)} and self.hints.asks("year"):
            return SAME_VALUE
        if known and int(text) not in known and self.hints.asks("when"):
            return OTHER_VALUE
        return Match.unclear("names more or fewer parts of the date")

    def _numbers(self, answer: str, gold: str) -> Match | None:
        one, other = parse_number(answer), parse_number(gold)
        if one is None or other is None or Day.readings(answer.casefold()) or Day.readings(gold.casefold()):
            return None
        match = self.amounts(one, other)
        is_fraction, is_wanted = (bool(re.search(r"\d/\d", text)) for text in (answer, gold))
        if one.text and (one.text, one.unit) == (other.text, other.unit) and is_fraction != is_wanted:
            return Match.unclear("may be out of a largest number")
        written = answer == gold or (one.text == other.text and one.text)
        if (
            self.hints.asks("time")
            and not self.hints.asks("amount")
            and not written
            and (ClockTime.read(answer) or ClockTime.read(gold))
        ):
            return Match.unclear("may be a time of day")
        return match

    def _ranges(self, answer: str, gold: str) -> Match | None:
        """Compare two ranges of times, dates or numbers end by end."""
        one, other = (_RANGE.fullmatch(_CLOSE_RANGE.sub(" - ", text)) for text in (answer, gold))
        if one is None or other is None:
            return None
        ends = [(one[part], other[part]) for part in ("start", "end")]
        if not all(is_value(text) for pair in ends for text in pair):
            return None
        matches = [self._times(a, b) or self._days(a, b) or self._numbers(a, b) for a, b in ends]
        statuses = {None if match is None else match.status for match in matches}
        if statuses == {"equal"}:
            return SAME_VALUE
        if one["start"] == other["end"] and one["end"] == other["start"]:
            return Match.unclear("in another order")
        return OTHER_VALUE if "different" in statuses and not {None, "unclear"} & statuses else None

    def _templates(self, answer: str, gold: str) -> Match | None:
        """Compare two texts with the same words and other numbers, such as `Room 12` and `Room 13`."""
        if max(len(answer), len(gold)) > _MAX_TEMPLATE or _NUMERAL.sub("0", answer) != _NUMERAL.sub("0", gold):
            return None
        numbers, wanted = _NUMERAL.findall(answer), _NUMERAL.findall(gold)
        if not numbers or sorted(numbers) == sorted(wanted) or not re.search(r"[^\W\d_]", answer):
            return None
        for one, other in zip(numbers, wanted, strict=True):
            a, b = parse_number(one), parse_number(other)
            # `3` and `3.10` may be one version
            apart = not one.startswith(other) and not other.startswith(one)
            if a and b and apart and ValueComparator(NO_HINTS).amounts(a, b).status == "different":
                return OTHER_VALUE
        return None

    def amounts(self, answer: NumberWithUnit, gold: NumberWithUnit) -> Match:
        """Compare two numbers. A missing unit is the one that the question asks for, else that of the other number."""
        answer, gold = self._with_asked_unit(answer), self._with_asked_unit(gold)
        match, unit, wanted = _same_readings(answer, gold), answer.unit, gold.unit
        if "share" in {unit.dimension, wanted.dimension}:
            match = _same_readings(_in_base_units(answer), _in_base_units(gold))
            return match if unit == wanted or match.status == "equal" else Match.unclear("a share, or not in per cent")
        if unit.known and wanted.known:
            return match if unit == wanted else self._measures(answer, gold, match)
        is_place = answer.ordinal != gold.ordinal
        if unit.noun or wanted.noun:
            if not is_place and (unit.known or wanted.known):
                return Match.unclear(f"{unit.name or 'no unit'!r}, not {wanted.name or 'no unit'!r}")
            if not is_place:
                return self._counts([one.name for one in (unit, wanted) if one.noun], match)
        elif unit.known or wanted.known:
            return self._without_unit(answer, gold, match)
        elif not self.hints.text.startswith("how many"):
            is_place = False
        if is_place:
            return Match.unclear("a place in an order, not a number")
        versions = (
            match.status == "equal" and self.hints.text and not self.hints.asks("amount") and answer.text != gold.text
        )
        if versions and any(_DOTTED_ZERO.fullmatch(one.text) for one in (answer, gold)):
            return Match.unclear("may be more than a number")  # a version, time or section: `3.10` and `3.1`
        return match

    def _with_asked_unit(self, number: NumberWithUnit) -> NumberWithUnit:
        if self.hints.asks("percent") and not number.unit.name and not self.hints.units:
            # A value such as 0.3 may be a share that is not in per cent.
            readings = number.readings
            is_share = len(readings) == 1 and 0 < readings[0] < 1
            return replace(number, unit=PERCENT, readings=(*readings, readings[0] * 100) if is_share else readings)
        if self.hints.asks("fraction") and number.unit.name in {"quarter", "quarters"}:
            return replace(number, unit=NO_UNIT, readings=tuple(one / 4 for one in number.readings))
        if number.unit.name or number.ordinal or len(self.hints.units) != 1:
            return number
        return replace(number, unit=next(iter(self.hints.units)))

    def _measures(self, answer: NumberWithUnit, gold: NumberWithUnit, as_written: Match) -> Match:
        """Compare two numbers in different units of measure or money."""
        kinds = {answer.unit.dimension, gold.unit.dimension}
        others = Match.different(f"in {answer.unit.name!r}, not in {gold.unit.name!r}")
        one, other = _in_base_units(answer), _in_base_units(gold)
        if not answer.unit.inexact(gold.unit):
            if not answer.unit.convertible(gold.unit):
                return others
            match = _same_readings(one, other)
            near = any(abs(a - b) <= _NEAR * max(abs(a), abs(b)) for a in one.readings for b in other.readings)
            return Match.unclear("near it, in another unit") if match.status == "different" and near else match
        if kinds == {"money"}:
            return others if set(answer.readings) & set(gold.readings) else Match.unclear(others.reason)
        if "money" in kinds:  # `pound`
            return as_written
        if "months" in kinds:  # a month has 28 to 31 days
            months, seconds = (one, other) if one.unit.dimension == "months" else (other, one)
            days = [abs(value) / 86_400 for value in seconds.readings]
            spans = [(abs(value) * 28 * (1 - _NEAR), abs(value) * 31 * (1 + _NEAR)) for value in months.readings]
            return _NOT_EXACT if any(low <= day <= high for day in days for low, high in spans) else OTHER_VALUE
        if kinds & {"angle", "kelvin"}:
            return _NOT_EXACT
        celsius = [[number.unit.celsius(value) for value in number.readings] for number in (answer, gold)]
        if celsius[0] == celsius[1]:
            return SAME_VALUE
        return _NOT_EXACT if any(abs(a - b) <= 1 for a in celsius[0] for b in celsius[1]) else OTHER_VALUE

    def _without_unit(self, answer: NumberWithUnit, gold: NumberWithUnit, match: Match) -> Match:
        """Compare a number with a unit of measure and one without."""
        unit = answer.unit if answer.unit.known else gold.unit
        if match.status == "equal" and answer.unit.known and self.hints.named and unit not in self.hints.named:
            return Match.unclear(f"in {unit.name!r}, and the expected answer has no unit")
        if match.status != "different" or unit.money:
            return match
        ratios = {one / other for one in answer.readings for other in gold.readings if one and other}
        factors = {unit.size / size for size in unit.sizes()}
        may_be = any(ratio in factors or 1 / ratio in factors for ratio in ratios)
        return Match.unclear("may be in another unit") if may_be else match

    def _counts(self, names: Sequence[str], match: Match) -> Match:
        """Compare two numbers of which at least one has a noun for what is counted."""

        def stems(noun: str) -> set[str]:
            """Return the words of a noun without the plural ending."""
            return {
                one[:-3] if one.endswith("ies") else one.removesuffix("s").removesuffix("y") if len(one) > 3 else one
                for one in re.split(r"[ -]", noun)
            }

        if len(names) == 2 and stems(names[0]) == stems(names[1]):
            return match
        if all(re.search(rf"(?<!\w){re.escape(one)}", self.hints.text) for name in names for one in stems(name)):
            return match
        return Match.unclear(f"counts {' and '.join(map(repr, names))}")


def _same_readings(answer: NumberWithUnit, gold: NumberWithUnit) -> Match:
    """Compare two numbers in one unit. A value that may be a rounding of the other is unclear."""
    if answer.readings == gold.readings:
        return SAME_VALUE
    if set(answer.readings) & set(gold.readings):
        return SEVERAL_READINGS
    if answer.step is not None and gold.step is not None and answer.step != gold.step:
        half = max(answer.step, gold.step) / 2
        if any(abs(one - other) <= half for one in answer.readings for other in gold.readings):
            return Match.unclear("rounded in another way")
    return OTHER_VALUE


def _in_base_units(number: NumberWithUnit) -> NumberWithUnit:
    size = number.unit.size
    step = None if number.step is None else number.step * size
    return replace(number, readings=tuple(one * size for one in number.readings), step=step)
