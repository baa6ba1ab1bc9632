"""Means and paired differences with their intervals."""

import math
import random

import pytest
from scipy import stats

from agentlearn.errors import ConfigError
from agentlearn.stats import Interval, mean_interval, paired_difference

RNG = random.Random(5)
BEFORE = [round(RNG.random(), 3) for _ in range(30)]
AFTER = [round(min(1, one + RNG.gauss(0.1, 0.2)), 3) for one in BEFORE]


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
def test_a_paired_difference_agrees_with_scipy(level: float):
    found = paired_difference(BEFORE, AFTER, level=level)
    oracle = stats.ttest_rel(AFTER, BEFORE)
    low, high = oracle.confidence_interval(level)
    assert (found.low, found.high) == (pytest.approx(low, rel=1e-10), pytest.approx(high, rel=1e-10))
    assert found.standard_error is not None
    assert found.mean / found.standard_error == pytest.approx(oracle.statistic, rel=1e-10)
    assert (found.n, found.degrees) == (30, 29)


def test_one_mean_agrees_with_scipy():
    found = mean_interval(BEFORE)
    low, high = stats.ttest_1samp(BEFORE, 0).confidence_interval(0.95)
    assert (found.low, found.high) == (pytest.approx(low, rel=1e-10), pytest.approx(high, rel=1e-10))
    assert found.standard_error == pytest.approx(stats.sem(BEFORE), rel=1e-10)


def test_worked_by_hand():
    found = paired_difference([0, 0, 1, 1], [1, 0, 1, 2])
    assert found.mean == 0.5
    assert found.standard_error == pytest.approx(math.sqrt(1 / 12))
    assert found.high == pytest.approx(0.5 + 3.182446305284263 * math.sqrt(1 / 12))


def test_one_task_gives_a_mean_and_no_interval():
    assert paired_difference([0.25], [0.75]) == Interval(
        mean=0.5, low=None, high=None, standard_error=None, degrees=None, n=1
    )


def test_equal_differences_give_an_interval_without_width():
    assert paired_difference([0, 0, 0], [0.5, 0.5, 0.5]) == Interval(
        mean=0.5, low=0.5, high=0.5, standard_error=0, degrees=2, n=3
    )


def test_arms_swapped_give_the_difference_mirrored():
    one, other = paired_difference(BEFORE, AFTER), paired_difference(AFTER, BEFORE)
    assert one.low is not None
    assert other.high is not None
    assert (one.mean, one.low) == (-other.mean, -other.high)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            [1.0, 2.0],
            [1.0],
            (
                "before has 2 values and after has 1;"
                " a paired difference needs one value of each per task, in the same order"
            ),
        ),
        ([], [], "before is empty; a statistic needs at least one number"),
        ([0, math.nan], [0, 0], "before[1] is nan; leave out missing measurements and pass finite numbers"),
        ([0, 0], [math.inf, 0], "after[0] is inf; leave out missing measurements and pass finite numbers"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(before: list[float], after: list[float], message: str):
    with pytest.raises(ConfigError) as caught:
        paired_difference(before, after)
    assert str(caught.value) == message


@pytest.mark.parametrize("level", [0, 1, 95, math.nan])
def test_a_level_is_a_share(level: float):
    with pytest.raises(ConfigError, match="it must be strictly between 0 and 1"):
        mean_interval([1, 2], level=level)
