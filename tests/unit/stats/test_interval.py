"""Means of independent values with their intervals, held against scipy."""

import math
import random

import pytest
from scipy import stats

from agentlearn.errors import ConfigError
from agentlearn.stats import Interval, mean_interval

RNG = random.Random(5)
BEFORE = [round(RNG.random(), 3) for _ in range(30)]
AFTER = [round(min(1, one + RNG.gauss(0.1, 0.2)), 3) for one in BEFORE]
GAINS = [after - before for before, after in zip(BEFORE, AFTER, strict=True)]


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
def test_the_mean_of_paired_differences_agrees_with_scipy(level: float):
    found = mean_interval(GAINS, level=level)
    oracle = stats.ttest_rel(AFTER, BEFORE)
    low, high = oracle.confidence_interval(level)
    assert (found.low, found.high) == (pytest.approx(low, rel=1e-10), pytest.approx(high, rel=1e-10))
    assert found.standard_error is not None
    assert found.mean / found.standard_error == pytest.approx(oracle.statistic, rel=1e-10)
    assert (found.n, found.degrees) == (30, 29)


def test_worked_by_hand():
    found = mean_interval([1, 0, 0, 1])
    assert found.mean == 0.5
    assert found.standard_error == pytest.approx(math.sqrt(1 / 12))
    assert found.high == pytest.approx(0.5 + 3.182446305284263 * math.sqrt(1 / 12))


def test_one_value_gives_a_mean_and_no_interval():
    assert mean_interval([0.5]) == Interval(mean=0.5, low=None, high=None, standard_error=None, degrees=None, n=1)


def test_equal_values_give_an_interval_without_width():
    assert mean_interval([0.5, 0.5, 0.5]) == Interval(mean=0.5, low=0.5, high=0.5, standard_error=0, degrees=2, n=3)


def test_the_interval_of_negated_values_is_mirrored():
    one, other = mean_interval(GAINS), mean_interval([-gain for gain in GAINS])
    assert one.low is not None
    assert other.high is not None
    assert (one.mean, one.low) == (-other.mean, -other.high)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "values is empty; a statistic needs at least one number"),
        ([0, math.nan], "values[1] is nan; leave out missing measurements and pass finite numbers"),
        ([math.inf, 0], "values[0] is inf; leave out missing measurements and pass finite numbers"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(values: list[float], message: str):
    with pytest.raises(ConfigError) as caught:
        mean_interval(values)
    assert str(caught.value) == message


@pytest.mark.parametrize("level", [0, 1, 95, math.nan])
def test_a_level_is_a_share(level: float):
    with pytest.raises(ConfigError, match="it must be strictly between 0 and 1"):
        mean_interval([1, 2], level=level)
