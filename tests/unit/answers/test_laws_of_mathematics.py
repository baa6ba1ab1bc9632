r"""Laws of the verdicts: values that differ are never accepted, and equal ones never called wrong, however written."""

from collections.abc import Callable
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from agentlearn.answers.algebra import NumericAlgebra
from agentlearn.answers.verifier import compare_texts
from agentlearn_math.verify import judge_exactly

Surd = tuple[int, int, int]
"""(a, b, n) is a + b times the square root of n; n has no square factor and is not 1."""
ALGEBRA = NumericAlgebra()


def status(answer: str, gold: str) -> str:
    exactly = judge_exactly(answer, gold)
    return (
        exactly.status
        if exactly
        else {"equal": "correct", "different": "incorrect"}.get(
            compare_texts(answer, gold, ALGEBRA).status, "undecided"
        )
    )


def as_mixed(value: Fraction, space: str) -> str:
    whole, rest = divmod(abs(value), 1)
    if not whole or not rest:
        return as_quotient(value)
    sign = "-" if value < 0 else ""
    return f"{sign}{whole}{space}{rest.numerator}/{rest.denominator}"


def as_quotient(value: Fraction) -> str:
    return f"{value.numerator}/{value.denominator}"


def as_decimal(value: Fraction) -> str:
    """Return the exact decimal when it is short, with its period when it is not."""
    whole, rest = divmod(abs(value), 1)
    digits, seen = "", dict[Fraction, int]()
    while rest and rest not in seen and len(digits) < 60:
        seen[rest] = len(digits)
        digit, rest = divmod(rest * 10, 1)
        digits += str(digit)
    if rest and rest not in seen:
        return as_quotient(value)
    sign = "-" if value < 0 else ""
    if rest:
        start = seen[rest]
        return rf"{sign}{whole}.{digits[:start]}\overline{{{digits[start:]}}}"
    return f"{sign}{whole}.{digits or '0'}"


def wide(text: str) -> str:
    return "".join(chr(ord(one) + 0xFEE0) if one.isdecimal() else one for one in text)


RATIONAL: tuple[Callable[[Fraction], str], ...] = (
    as_quotient,
    as_decimal,
    lambda value: as_mixed(value, " "),
    lambda value: rf"\frac{{{value.numerator}}}{{{value.denominator}}}",
    lambda value: rf"-\dfrac{{{-value.numerator}}}{{{value.denominator}}}",
    lambda value: rf"{{{value.numerator} \over {value.denominator}}}",
    lambda value: rf"\left( \tfrac{{{7 * value.numerator}}}{{{7 * value.denominator}}} \right)",
    lambda value: f"{value.numerator}" if value.denominator == 1 else f"{value.numerator} \\div {value.denominator}",
    lambda value: f"x = {as_quotient(value)}",
    lambda value: rf"S_{{\triangle PQR}} = {as_quotient(value)}",
    lambda value: rf"{float(value * 100):.0f}\%" if (value * 100).denominator == 1 else as_quotient(value),
    lambda value: wide(as_quotient(value)),
    lambda value: rf"{as_quotient(value)} = \frac{{{2 * value.numerator}}}{{{2 * value.denominator}}}",
)
SURDS: tuple[Callable[[Surd], str], ...] = (
    lambda surd: rf"{surd[0]} {surd[1]:+}\sqrt{{{surd[2]}}}",
    lambda surd: f"{surd[0]} + ({surd[1]})*sqrt({surd[2]})",
    lambda surd: rf"{surd[0]}{'-' if surd[1] < 0 else '+'}\sqrt{{{surd[1] ** 2 * surd[2]}}}",
    lambda surd: rf"\frac{{{surd[1] * surd[2]}}}{{\sqrt{{{surd[2]}}}}} {surd[0]:+}",
    lambda surd: rf"{surd[0]}{'-' if surd[1] < 0 else '+'}√{surd[1] ** 2 * surd[2]}",
    lambda surd: rf"|PQ| = {surd[0]}+({surd[1]})\sqrt{{{surd[2]}}}",
)

rationals = st.builds(Fraction, st.integers(-400, 400), st.integers(1, 40))
surds = st.tuples(st.integers(-20, 20), st.integers(-9, 9).filter(bool), st.sampled_from((2, 3, 5, 6, 7, 10, 11)))


def near(value: Fraction) -> st.SearchStrategy[Fraction]:
    """Return values whose digits are like those of the value, and others."""
    top, bottom = value.numerator, value.denominator
    whole, rest = divmod(abs(value), 1)
    alike = (
        *(-value, value * 10, value / 10, value + 1, Fraction(top + 1, bottom), Fraction(top, bottom + 1)),
        *(Fraction(int(f"{whole}{rest.numerator}"), rest.denominator), value * 60, value / 60),
    )
    return st.one_of(st.sampled_from(alike), rationals)


@given(st.data(), rationals, st.sampled_from(RATIONAL), st.sampled_from(RATIONAL))
def test_rationals_that_differ_are_never_accepted_and_equal_ones_never_wrong(
    data: st.DataObject, value: Fraction, write: Callable[[Fraction], str], write_other: Callable[[Fraction], str]
) -> None:
    other = data.draw(near(value))
    assert status(write(value), write_other(value)) != "incorrect"
    if other not in {value, value * 100, value / 100}:  # a percent sign may be left out
        assert status(write(other), write_other(value)) != "correct"


@given(surds, surds, st.sampled_from(SURDS), st.sampled_from(SURDS))
def test_surds_that_differ_are_never_accepted_and_equal_ones_never_wrong(
    surd: Surd, other: Surd, write: Callable[[Surd], str], write_other: Callable[[Surd], str]
) -> None:
    assert status(write(surd), write_other(surd)) == "correct"
    if surd != other:
        assert status(write(other), write_other(surd)) == "incorrect"


numbers = st.integers(1, 999)


@given(numbers, numbers, st.sampled_from((" ", "  ", "\N{NO-BREAK SPACE}", r"\ ", "~", r"\;", r"\quad ")))
def test_white_space_between_two_numbers_is_never_dropped(one: int, other: int, space: str) -> None:
    apart, joined = f"{one}{space}{other}", f"{one}{other}"
    is_group = len(str(other)) == 3
    if not is_group:
        assert status(apart, joined) != "correct"
        assert status(joined, apart) != "correct"
    assert status(f"{apart}/{2 * other + 1}", f"{joined}/{2 * other + 1}") != "correct"


times = st.tuples(st.integers(1, 12), st.integers(0, 59), st.sampled_from("ap"))


@given(times, times)
def test_times_of_day_are_equal_only_at_the_same_minute(
    time: tuple[int, int, str], other: tuple[int, int, str]
) -> None:
    (hour, minute, half), (other_hour, other_minute, other_half) = time, other
    gold, answer = f"{hour}:{minute:02} {half}.m.", rf"{other_hour}:{other_minute:02}\text{{ {other_half.upper()}M}}"
    assert status(answer, gold) == ("correct" if time == other else "incorrect")
    assert status(gold, gold.upper()) == "correct"
    assert status(rf"\frac{{{hour}}}{{{minute or 1}}}", gold) != "correct"
