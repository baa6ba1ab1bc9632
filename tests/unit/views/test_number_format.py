"""Numbers as pages write them."""

import math

import pytest

from agentlearn.views.figure import count, decimal, duration, finite, interval, large, money, p_value, signed


def test_signed(subtests: pytest.Subtests) -> None:
    for value, text in [
        (0.453, "+0.45"),
        (-0.2, "−0.20"),
        (0.0, "0.00"),
        (-0.004, "−0.004"),
        (0.004, "+0.004"),
        (12.0, "+12.00"),
        (math.inf, "+∞"),
        (-math.inf, "−∞"),
        (math.nan, "–"),
        (None, "–"),
    ]:
        with subtests.test(repr((value, text))):
            assert signed(value) == text


def test_decimal_has_no_plus() -> None:
    assert decimal(0.5) == "0.50"
    assert decimal(-0.5, 1) == "−0.5"
    assert decimal(10.0, 0) == "10"


def test_intervals_need_both_ends() -> None:
    assert interval(-0.1, 0.25, sign=True) == "[−0.10, +0.25]"
    assert interval(0.1, 0.25) == "[0.10, 0.25]"
    assert interval(None, 0.25) == interval(0.1, None) == ""


@pytest.mark.parametrize(
    ("p", "text"), [(0.0, "< 0.001"), (0.0009, "< 0.001"), (0.0213, "0.021"), (1, "1.000"), (None, "–")]
)
def test_p_values(p: float | None, text: str) -> None:
    assert p_value(p) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (950, "950"), (999.6, "1.0k"), (12_345, "12.3k"), (999_960, "1.0M"), (4.5e9, "4.5G"), (-1200, "−1.2k")],
)
def test_large(value: float, text: str) -> None:
    assert large(value) == text


@pytest.mark.parametrize(
    ("usd", "text"),
    [
        (None, "unknown"),
        (0.0, "nothing"),
        (3.217, "$3.22"),
        (0.996, "$1.00"),
        (0.0042, "$0.0042"),
        (0.5, "$0.50"),
        (1234.5, "$1,234.50"),
    ],
)
def test_money(usd: float | None, text: str) -> None:
    assert money(usd) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.84, "0.8 s"),
        (9.96, "10 s"),
        (42.4, "42 s"),
        (59.7, "1 min 0 s"),
        (200, "3 min 20 s"),
        (7500, "2 h 5 min"),
        (None, "–"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_infinite_values_become_none() -> None:
    assert finite(math.nan) is finite(math.inf) is finite(None) is None
    assert finite(0.0) == 0.0
    assert count(12_345) == "12,345"
    assert count(None) == "–"
