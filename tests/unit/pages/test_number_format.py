"""Numbers as pages write them."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from agentlearn.pages.figure import count, decimal, duration, finite, interval, large, money, p_value, signed

WRITTEN: list[tuple[Callable[[Any], str], list[tuple[Any, str]]]] = [
    (signed, [(0.453, "+0.45"), (-0.2, "−0.20"), (0.0, "0.00"), (-0.004, "−0.004"), (0.004, "+0.004")]),
    (signed, [(12.0, "+12.00"), (math.inf, "+∞"), (-math.inf, "−∞"), (math.nan, "–"), (None, "–")]),
    (decimal, [(0.5, "0.50"), (-0.5, "−0.50")]),
    (p_value, [(0.0, "< 0.001"), (0.0009, "< 0.001"), (0.0213, "0.021"), (1, "1.000"), (None, "–")]),
    (large, [(0, "0"), (950, "950"), (999.6, "1.0k"), (12_345, "12.3k"), (999_949, "999.9k"), (999_960, "1.0M")]),
    (large, [(4.5e9, "4.5G"), (-1200, "−1.2k"), (None, "–")]),
    (money, [(None, "unknown"), (0.0, "nothing"), (3.217, "$3.22"), (0.996, "$1.00"), (0.0042, "$0.0042")]),
    (money, [(0.5, "$0.50"), (1234.5, "$1,234.50")]),
    (duration, [(0.84, "0.8 s"), (9.96, "10 s"), (42.4, "42 s"), (59.7, "1 min 0 s"), (200, "3 min 20 s")]),
    (duration, [(7500, "2 h 5 min"), (None, "–")]),
    (count, [(12_345, "12,345"), (None, "–")]),
]


def test_every_number_has_its_words(subtests: pytest.Subtests) -> None:
    for words, cases in WRITTEN:
        for value, text in cases:
            with subtests.test(f"{words.__name__}({value!r})"):
                assert words(value) == text
    assert (decimal(-0.5, 1), decimal(10.0, 0)) == ("−0.5", "10")
    assert (interval(-0.1, 0.25, sign=True), interval(0.1, 0.25)) == ("[−0.10, +0.25]", "[0.10, 0.25]")
    assert interval(None, 0.25) == interval(0.1, None) == ""
    assert finite(math.nan) is finite(math.inf) is finite(None) is None
    assert finite(0.0) == 0.0
