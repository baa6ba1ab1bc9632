"""Scales hold what they are made for and end at round numbers."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.views.charts import MOST_TICKS, percent, scale_of

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


@given(numbers, numbers)
def test_a_scale_keeps_order(one: float, other: float) -> None:
    scale = scale_of([one, other])
    low, high = sorted((one, other))
    assert scale.at(low) <= scale.at(high)


def test_ticks_are_round() -> None:
    assert scale_of([0.0, 0.93]).ticks == (0.0, 0.25, 0.5, 0.75, 1.0)
    assert scale_of([0, 3]).ticks == (0, 1, 2, 3)
    assert scale_of([-0.28, 0.41]).digits == 2
    assert scale_of([0, 3]).digits == 0
    assert scale_of([0, 1], least_step=1).ticks == (0, 1)


def test_values_beyond_the_limits_are_moved_to_the_ends() -> None:
    scale = scale_of([-7.0, 0.2, math.inf, math.nan], limits=(-1.0, 1.0))
    assert scale.low == -1.0
    assert not scale.holds(-7.0)
    assert scale.at(-7.0) == scale.at(-1.0) == 0.0


@pytest.mark.parametrize("values", [[], [math.nan], [0.5], [0.5, 0.5], [0.0], [-3.0]])
def test_hardly_any_values_still_make_a_scale(values: list[float]) -> None:
    scale = scale_of(values)
    assert scale.low < scale.high
    assert all(scale.holds(value) for value in values if math.isfinite(value))


def test_percents_are_short() -> None:
    assert percent(12.5) == "12.5%"
    assert percent(33.33333) == "33.33%"
    assert percent(100.0) == "100%"
