"""Scales hold what they are made for and end at round numbers."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.pages.charts import MOST_TICKS, percent, scale_of

numbers = st.floats(-1e9, 1e9).filter(lambda value: value == 0 or abs(value) > 1e-6)


@given(st.lists(numbers, max_size=8))
def test_a_scale_holds_its_values_within_its_ends(values: list[float]) -> None:
    scale = scale_of(values, start=10, end=90)
    slack = (scale.high - scale.low) * 1e-6
    assert all(scale.low - slack <= value <= scale.high + slack for value in values)
    assert 2 <= len(scale.ticks) <= MOST_TICKS
    assert list(scale.ticks) == sorted(set(scale.ticks))
    assert all(10 <= scale.at(value) <= 90 for value in values)
    assert (scale.at(scale.low), scale.at(scale.high)) == pytest.approx((10, 90))


@pytest.mark.parametrize("values", [[], [math.nan], [0.5], [0.5, 0.5], [0.0], [-3.0]])
def test_hardly_any_values_still_make_a_scale(values: list[float]) -> None:
    scale = scale_of(values)
    assert scale.low < scale.high
    assert all(scale.holds(value) for value in values if math.isfinite(value))


def test_percents_are_short() -> None:
    assert percent(12.5) == "12.5%"
    assert percent(33.33333) == "33.33%"
    assert percent(100.0) == "100%"
