"""The one number in an answer: which texts have one, what it is worth, and when two are the same."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.domain.custom.number_answer import number_key, same_number, single_number
from tests.support.cases import cases

VALUES = st.fractions(min_value=-(10**9), max_value=10**9, max_denominator=10**6)


def test_the_only_number_is_read_exactly(subtests: pytest.Subtests) -> None:
    for text, value in [
        ("42", 42),
        ("042", 42),
        ("-3", -3),
        ("+3", 3),
        ("\N{MINUS SIGN} 3", -3),
        ("x = - 5", -5),
        ("- 5", 5),  # a bullet
        ("3.50", Fraction(7, 2)),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("1,234,567", 1_234_567),
        ("1 234 567", 1_234_567),
        ("1'000", 1_000),
        ("1_000.5", Fraction(2001, 2)),
        ("3/4", Fraction(3, 4)),
        ("-3 / 4", Fraction(-3, 4)),
        ("1 1/2", Fraction(3, 2)),
        ("½", Fraction(1, 2)),
        ("2½", Fraction(5, 2)),
        ("50%", Fraction(1, 2)),
        ("12.5 percent", Fraction(1, 8)),
        ("5 million", 5_000_000),
        ("2 dozen", 24),
        ("1e3", 1_000),
        ("2.5E-1", Fraction(1, 4)),
        ("6 × 10^3", 6_000),
        (r"6 \times 10^{-2}", Fraction(3, 50)),
        (r"\frac{1}{3}", Fraction(1, 3)),
        (r"\boxed{42}", 42),
        (r"1\,000", 1_000),
        ("$5", 5),
        ("-€5.20", Fraction(-26, 5)),
        ("12 zorks", 12),
        ("12zorks", 12),
        ("5 m2", 5),
        ("5 m^2", 5),
        ("60 km/h", 60),
        ("20 °C", 20),
        ("x2 = 5", 5),
        ("**42** zorks", 42),
        ("about 7.", 7),
        ("There are 12 of them", 12),
    ]:
        with subtests.test(repr((text, value))):
            assert single_number(text) == value


def test_a_text_without_one_number_has_none(subtests: pytest.Subtests) -> None:
    for text in [
        "",
        "five",
        "12 or 13",
        "12 or thirteen",
        "3-5",
        "5 km in 2 h",
        "12:30",
        "1,23",
        "12,34",
        "0,123",
        "1 . 5",
        "3/0",
        "2^10",
        "2**100",
        "√5",
        r"\sqrt{5}",
        "5π",
        "5 pi",
        "2 + x",
        "±5",
        "+/-5",
        "> 5",
        "≈ 5 ≠",
        "x1 = 5",
        "5 thousand million",
        "٣",
        "1" * 401,
    ]:
        with subtests.test(repr(text)):
            assert single_number(text) is None


def test_a_long_text_of_digits_is_read_in_no_time() -> None:
    assert single_number("1 " * 50_000) is None
    assert single_number("1" * 100_000) is None


def test_integers_are_compared_exactly_and_others_within_a_millionth(subtests: pytest.Subtests) -> None:
    for value, gold, same in cases(__file__, "integers_are_compared_exactly_and_others_within_a_millionth"):
        with subtests.test(repr((value, gold, same))):
            one, other = single_number(value), single_number(gold)
            assert one is not None
            assert other is not None
            assert same_number(one, other) is same


@given(VALUES)
def test_a_fraction_is_read_as_it_is_written(value: Fraction) -> None:
    assert single_number(f"{value.numerator}/{value.denominator}") == value
    assert single_number(f"{value.numerator:,}") == value.numerator


@given(VALUES | st.fractions())
def test_a_key_is_a_number_and_its_own_key(value: Fraction) -> None:
    key = number_key(value)
    again = single_number(key)
    assert again is not None
    assert number_key(again) == key
    assert abs(again - value) <= abs(value) / 10**5
    assert same_number(again, value) or value.denominator > 1


@given(st.integers())
def test_the_key_of_an_integer_is_the_integer(value: int) -> None:
    assert number_key(Fraction(value)) == str(value)


@pytest.mark.parametrize(
    ("text", "key"),
    [("1/3", "0.333333"), ("0.50", "0.5"), ("42.0000001", "420000001/10000000"), ("1234567.5", "2469135/2")],
)
def test_the_key_of_another_number_has_six_digits_and_never_is_an_integer(text: str, key: str) -> None:
    value = single_number(text)
    assert value is not None
    assert number_key(value) == key
