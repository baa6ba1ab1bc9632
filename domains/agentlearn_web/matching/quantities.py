"""Compares two numbers with their units and the units that the question asks for. Pure."""

import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from agentlearn_web.matching.match_result import OTHER_VALUE, SAME_VALUE, SEVERAL_READINGS, AnswerMatch
from agentlearn_web.matching.numbers import NumberWithUnit
from agentlearn_web.matching.question_hints import QuestionHints
from agentlearn_web.matching.units import NO_UNIT, PERCENT, sizes

_NEAR = Fraction(1, 10)
_ROUNDED = AnswerMatch("unclear", "rounded in another way")
_DOTTED_ZERO = re.compile(r"\d+[.,]\d*[1-9]0+")
_NOT_EXACT = AnswerMatch("unclear", "in a unit that cannot be converted exactly")
_CONVERTED = AnswerMatch("unclear", "near it, in another unit")


def compare_numbers(answer: NumberWithUnit, gold: NumberWithUnit, hints: QuestionHints) -> AnswerMatch:
    """Compare two numbers. A missing unit is the one that the question asks for, else that of the other number."""
    answer, gold = _with_asked_unit(answer, hints), _with_asked_unit(gold, hints)
    if "share" in {answer.unit.dimension, gold.unit.dimension}:
        return _compare_shares(answer, gold)
    if answer.unit.known and gold.unit.known:
        return _compare_measures(answer, gold)
    if answer.unit.noun or gold.unit.noun:
        return _compare_counts(answer, gold, hints)
    if answer.unit.known or gold.unit.known:
        return _compare_with_missing_unit(answer, gold, hints)
    if answer.ordinal != gold.ordinal and hints.text.startswith("how many"):
        return AnswerMatch("unclear", "a place in an order, not a number")
    match = _compare_values(answer, gold)
    return AnswerMatch("unclear", "may be more than a number") if _may_be_code(answer, gold, match, hints) else match


def _with_asked_unit(number: NumberWithUnit, hints: QuestionHints) -> NumberWithUnit:
    if _asks_percent(number, hints):
        # A value such as 0.3 may be a share that is not in per cent.
        readings = number.readings
        is_share = len(readings) == 1 and 0 < readings[0] < 1
        return replace(number, unit=PERCENT, readings=(*readings, readings[0] * 100) if is_share else readings)
    if hints.fraction and number.unit.name in {"quarter", "quarters"}:
        return replace(number, unit=NO_UNIT, readings=tuple(one / 4 for one in number.readings))
    if number.unit.name or number.ordinal or len(hints.units) != 1:
        return number
    return replace(number, unit=next(iter(hints.units)))


def _asks_percent(number: NumberWithUnit, hints: QuestionHints) -> bool:
    return hints.percent and not number.unit.name and not hints.units


def _compare_values(answer: NumberWithUnit, gold: NumberWithUnit) -> AnswerMatch:
    """Compare two numbers in one unit. A value that may be a rounding of the other is unclear."""
    if answer.readings == gold.readings:
        return SAME_VALUE
    if set(answer.readings) & set(gold.readings):
        return SEVERAL_READINGS
    return _ROUNDED if _may_be_rounded(answer, gold) else OTHER_VALUE


def _may_be_rounded(answer: NumberWithUnit, gold: NumberWithUnit) -> bool:
    if answer.step is None or gold.step is None or answer.step == gold.step:
        return False
    half = max(answer.step, gold.step) / 2
    return any(abs(one - other) <= half for one in answer.readings for other in gold.readings)


def _may_be_code(answer: NumberWithUnit, gold: NumberWithUnit, match: AnswerMatch, hints: QuestionHints) -> bool:
    """Return whether two equal numbers may differ as a version, time or section: `3.10` and `3.1`."""
    if match.status != "equal" or not hints.text or hints.amount or answer.text == gold.text:
        return False
    return any(_DOTTED_ZERO.fullmatch(one.text) for one in (answer, gold))


def _compare_shares(answer: NumberWithUnit, gold: NumberWithUnit) -> AnswerMatch:
    one, other = _plain(answer), _plain(gold)
    match = _compare_values(one, other)
    if answer.unit == gold.unit or match.status == "equal":
        return match
    return AnswerMatch("unclear", "a share, or not in per cent")


def _plain(number: NumberWithUnit) -> NumberWithUnit:
    """Return the number in base units of its dimension."""
    size = number.unit.size
    step = None if number.step is None else number.step * size
    return replace(number, readings=tuple(one * size for one in number.readings), step=step)


def _compare_measures(answer: NumberWithUnit, gold: NumberWithUnit) -> AnswerMatch:
    if answer.unit == gold.unit:
        return _compare_values(answer, gold)
    if answer.unit.dimension != gold.unit.dimension:
        both = {answer.unit.dimension, gold.unit.dimension}
        if {answer.unit.name, gold.unit.name} == {"gbp", "pound"}:
            return _compare_values(answer, gold)
        if both == {"time", "months"}:
            return _compare_durations(answer, gold)
        if both == {"celsius", "fahrenheit"}:
            return _compare_temperatures(answer, gold)
        if both in ({"celsius", "angle"}, {"fahrenheit", "angle"}):
            return _NOT_EXACT
        return AnswerMatch("different", f"in {answer.unit.name!r}, not in {gold.unit.name!r}")
    if answer.unit.money:
        same = bool(set(answer.readings) & set(gold.readings))
        return AnswerMatch("different" if same else "unclear", f"in {answer.unit.name!r}, not in {gold.unit.name!r}")
    one, other = _plain(answer), _plain(gold)
    match = _compare_values(one, other)
    near = any(abs(a - b) <= _NEAR * max(abs(a), abs(b)) for a in one.readings for b in other.readings)
    return _CONVERTED if match.status == "different" and near else match


def _compare_durations(answer: NumberWithUnit, gold: NumberWithUnit) -> AnswerMatch:
    """Compare a duration in months or years with one in days or less. A month has 28 to 31 days."""
    months, seconds = (answer, gold) if answer.unit.dimension == "months" else (gold, answer)
    days = [abs(one) / 86_400 for one in _plain(seconds).readings]
    spans = [(abs(one) * 28 * (1 - _NEAR), abs(one) * 31 * (1 + _NEAR)) for one in _plain(months).readings]
    if any(low <= one <= high for one in days for low, high in spans):
        return _NOT_EXACT
    return OTHER_VALUE


def _compare_temperatures(answer: NumberWithUnit, gold: NumberWithUnit) -> AnswerMatch:
    one, other = ([_celsius(value, number) for value in number.readings] for number in (answer, gold))
    if one == other:
        return SAME_VALUE
    near = any(abs(a - b) <= 1 for a in one for b in other)
    return _NOT_EXACT if near else OTHER_VALUE


def _celsius(value: Fraction, number: NumberWithUnit) -> Fraction:
    return (value - 32) * 5 / 9 if number.unit.dimension == "fahrenheit" else value


def _compare_with_missing_unit(answer: NumberWithUnit, gold: NumberWithUnit, hints: QuestionHints) -> AnswerMatch:
    """Compare a number with a unit of measure and one without."""
    match = _compare_values(answer, gold)
    unit = answer.unit if answer.unit.known else gold.unit
    if match.status == "equal" and answer.unit.known and hints.named and unit not in hints.named:
        return AnswerMatch("unclear", f"in {unit.name!r}, and the expected answer has no unit")
    if match.status != "different" or unit.money:
        return match
    ratios = {one / other for one in answer.readings for other in gold.readings if other}
    convertible = {unit.size / size for size in sizes(unit.dimension)}
    return AnswerMatch("unclear", "may be in another unit") if ratios & (convertible | _inverse(convertible)) else match


def _inverse(values: set[Fraction]) -> set[Fraction]:
    return {1 / one for one in values}


def _compare_counts(answer: NumberWithUnit, gold: NumberWithUnit, hints: QuestionHints) -> AnswerMatch:
    """Compare two numbers of which at least one has a noun for what is counted."""
    match = _compare_values(answer, gold)
    if answer.ordinal != gold.ordinal:
        return AnswerMatch("unclear", "a place in an order, not a number")
    if answer.unit.known or gold.unit.known:
        return AnswerMatch("unclear", f"{answer.unit.name or 'no unit'!r}, not {gold.unit.name or 'no unit'!r}")
    names = [one.unit.name for one in (answer, gold) if one.unit.noun]
    if len(names) == 2 and set(_stems(names[0])) == set(_stems(names[1])):
        return match
    if all(_is_in(name, hints.text) for name in names):
        return match
    return AnswerMatch("unclear", f"counts {' and '.join(map(repr, names))}")


def _is_in(noun: str, question: str) -> bool:
    return all(re.search(rf"(?<!\w){re.escape(one)}", question) for one in _stems(noun))


def _stems(noun: str) -> Iterator[str]:
    """Yield the words of a noun without the plural ending."""
    for one in re.split(r"[ -]", noun):
        long = one.removesuffix("s").removesuffix("y") if len(one) > 3 else one
        yield one[:-3] if one.endswith("ies") else long
