"""The score interval: Wilson's and Tango's where they are known, its own definition elsewhere."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import brentq
from statsmodels.stats.proportion import proportion_confint

from agentlearn.measure.score import mcnemar_p, missed_bounds, missed_chance, score_interval, score_statistic

Z = float(stats.norm.ppf(0.975))
tasks = st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(0, 100)).filter(lambda counts: sum(counts) > 0)
bounded = st.lists(st.floats(-1, 1).map(lambda value: round(value, 3)), min_size=1, max_size=25)


def tango(gained: int, lost: int, n: int, mean: float) -> float:
    """Tango's statistic, with the share of losses that is most likely when the gains exceed them by `mean`."""
    b = -gained - lost + (2 * n - gained + lost) * mean
    root = math.sqrt(max(0, b * b + 8 * n * lost * mean * (1 - mean)))
    share = (root - b) / (4 * n)
    return (gained - lost - n * mean) / math.sqrt(n * (2 * share + mean * (1 - mean)))


def most_likely_variance(values: Sequence[float], mean: float) -> float:
    """Variance of the most likely distribution on -1..1 with that mean, by Lagrange's multiplier for the mean."""
    n, sample_mean = len(values), math.fsum(values) / len(values)
    end = 1.0 if mean > sample_mean else -1.0

    def slope(multiplier: float) -> float:
        return math.fsum((value - mean) / (1 + multiplier * (value - mean)) for value in values)

    last = -1 / (end - mean)  # beyond, a value at the end would have negative weight
    if end in values or slope(last) * slope(0.0) < 0:
        multiplier = brentq(slope, 0.0, last * (1 - 1e-13), xtol=1e-15, rtol=1e-14, maxiter=500)
    else:
        multiplier = last
    weights = [1 / (n * (1 + multiplier * (value - mean))) for value in values]
    unseen = 1 - math.fsum(weights)
    seen = math.fsum(weight * (value - mean) ** 2 for weight, value in zip(weights, values, strict=True))
    return seen + max(0.0, unseen) * (end - mean) ** 2


def differences(gained: int, lost: int, same: int) -> list[float]:
    return [1.0] * gained + [-1.0] * lost + [0.0] * same


@given(tasks, st.floats(-0.99, 0.99).filter(lambda mean: abs(mean) > 1e-3))
def test_of_paired_right_and_wrong_it_is_tangos(counts: tuple[int, int, int], mean: float):
    found = score_statistic(differences(*counts), mean)
    assert found == pytest.approx(tango(counts[0], counts[1], sum(counts), mean), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("counts", [(7, 2, 41), (0, 0, 30), (5, 0, 35), (0, 5, 35), (1, 1, 8), (3, 4, 0), (0, 1, 199)])
def test_the_bounds_are_tangos(counts: tuple[int, int, int]):
    n, mean = sum(counts), (counts[0] - counts[1]) / sum(counts)
    found = score_interval(differences(*counts))
    inside = 1e-12 if mean == 0 else 0.0  # of ties alone, the statistic at 0 is 0 / 0
    high = brentq(lambda tried: tango(counts[0], counts[1], n, tried) + Z, mean + inside, 1 - 1e-12, xtol=1e-15)
    low = brentq(lambda tried: tango(counts[0], counts[1], n, tried) - Z, -1 + 1e-12, mean - inside, xtol=1e-15)
    assert (found.low, found.high) == (pytest.approx(low, abs=1e-10), pytest.approx(high, abs=1e-10))


@given(st.integers(0, 300), st.integers(0, 300), st.sampled_from([0.8, 0.95, 0.99]))
def test_of_right_and_wrong_it_is_wilsons(right: int, wrong: int, level: float):
    n = right + wrong
    if not n:
        return
    found = score_interval([1.0] * right + [0.0] * wrong, level=level, smallest=0, largest=1)
    oracle = proportion_confint(right, n, alpha=1 - level, method="wilson")
    assert (found.low, found.high) == (pytest.approx(oracle[0], abs=1e-10), pytest.approx(oracle[1], abs=1e-10))


@given(bounded, st.floats(-0.98, 0.98))
def test_the_statistic_is_that_of_its_definition(values: list[float], mean: float):
    sample_mean = math.fsum(values) / len(values)
    if abs(mean - sample_mean) < 1e-3:
        return
    variance = most_likely_variance(values, mean)
    found = score_statistic(values, mean)
    assert found == pytest.approx((sample_mean - mean) / math.sqrt(variance / len(values)), rel=1e-6)


@given(bounded, st.sampled_from([0.8, 0.95]))
def test_the_interval_holds_the_means_that_are_not_rejected(values: list[float], level: float):
    found, reach = score_interval(values, level=level), float(stats.norm.ppf((1 + level) / 2))
    assert found.low is not None
    assert found.high is not None
    assert -1 <= found.low <= found.mean <= found.high <= 1
    for bound, sign in ((found.low, 1), (found.high, -1)):
        if abs(bound) < 1 - 1e-9:
            assert score_statistic(values, bound) == pytest.approx(sign * reach, rel=1e-6)
    for share in (0.1, 0.5, 0.9):
        inside = found.low + share * (found.high - found.low)
        assert abs(score_statistic(values, inside)) <= reach * (1 + 1e-9)
        outside = found.high + share * (1 - found.high)
        assert outside <= found.high or abs(score_statistic(values, outside)) >= reach * (1 - 1e-9)


def test_at_zero_it_is_mcnemars_statistic():
    assert score_statistic(differences(9, 2, 60), 0.0) == pytest.approx(7 / math.sqrt(11), rel=1e-12)
    assert mcnemar_p(9, 2) == pytest.approx(0.0654296875)


def test_ties_alone_give_an_interval_with_a_width():
    found = score_interval([0.0] * 200)
    assert found.high == pytest.approx(Z**2 / (200 + Z**2), rel=1e-12)
    assert found.low == pytest.approx(-(Z**2) / (200 + Z**2), rel=1e-12)
    assert score_interval([0.25] * 9).high == pytest.approx((9 * 0.25 + Z**2) / (9 + Z**2), rel=1e-12)


def test_what_a_sample_of_equal_values_can_miss_depends_on_its_size_alone():
    assert missed_chance([0.0] * 59, 0.05) == pytest.approx(0.95**59)
    low, high = missed_bounds([0.0] * 200, 0.05, smallest=-1, largest=1)
    assert (low, high) == (pytest.approx(0.05 ** (1 / 200) - 1), pytest.approx(1 - 0.05 ** (1 / 200)))


def test_the_share_of_missed_values_is_the_most_likely_one():
    values = [0.0, 0.3] * 10
    mean, error = 0.15, 0.15 / math.sqrt(19)
    chances = [
        (1 - share) ** 20 * stats.t.cdf((share / (1 - share) - mean) / error, 19)
        for share in (number / 2_000 for number in range(1, 1_000))
    ]
    assert missed_chance(values, 0.0) == pytest.approx(max(chances), rel=0.03)


@given(bounded, st.sampled_from([0.05, 0.2]))
def test_the_bounds_of_the_missed_are_where_their_chance_is_alpha(values: list[float], alpha: float):
    mean = math.fsum(values) / len(values)
    low, high = missed_bounds(values, alpha, smallest=-1, largest=1)
    assert low <= mean <= high
    for bound in (low, high):
        if abs(bound - mean) > 1e-6 and abs(bound) < 1 - 1e-6:
            assert missed_chance(values, bound) == pytest.approx(alpha, rel=1e-3)


def test_the_range_can_be_any():
    scaled = score_interval([0.0, 5.0, 10.0, 10.0], smallest=0, largest=10)
    plain = score_interval([-1.0, 0.0, 1.0, 1.0])
    for one, other in ((scaled.low, plain.low), (scaled.high, plain.high), (scaled.mean, plain.mean)):
        assert one == pytest.approx(5 + 5 * (other or 0))
    assert scaled.standard_error == pytest.approx(5 * (plain.standard_error or 0))
    assert score_interval([0.5]).standard_error is None


def test_the_ends_of_the_range():
    assert score_interval([1.0] * 5).high == 1
    assert score_statistic([0.5, 0.25], 1.0) == -math.inf
    assert score_statistic([0.5, 0.25], -1.0) == math.inf
    assert score_statistic([1.0, 1.0], 1.0) == 0
