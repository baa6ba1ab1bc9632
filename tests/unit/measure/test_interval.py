"""Means of independent values with their intervals, held against scipy."""

import random

import pytest
from scipy import stats

from agentlearn.measure.clustered import Interval, mean_interval

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


def test_one_value_gives_a_mean_and_no_interval():
    assert mean_interval([0.5]) == Interval(mean=0.5, low=None, high=None, standard_error=None, degrees=None, n=1)
