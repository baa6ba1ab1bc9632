"""The likelihood interval: the binomial likelihood ratio where it is known, its own definition elsewhere."""

import math
import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import brentq

from agentlearn.errors import ConfigError
from agentlearn.stats import likelihood_interval, likelihood_statistic, mean_interval, missed_chance

Z = float(stats.norm.ppf(0.975))
bounded = st.lists(st.floats(-1, 1).map(lambda value: round(value, 3)), min_size=1, max_size=25)


def binomial_root(right: int, n: int, share: float) -> float:
    """Signed root of the likelihood ratio of a binomial share against another."""
    found = right / n
    ratio = sum(
        count * math.log(own / other)
        for count, own, other in ((right, found, share), (n - right, 1 - found, 1 - share))
        if count
    )
    return math.copysign(math.sqrt(max(0.0, 2 * ratio)), found - share)


def most_likely_ratio(values: Sequence[float], mean: float) -> float:
    """Likelihood ratio of the most likely distribution on -1..1 with that mean, by Lagrange's multiplier."""
    n, sample_mean = len(values), math.fsum(values) / len(values)
    end = 1.0 if mean > sample_mean else -1.0

    def slope(multiplier: float) -> float:
        return math.fsum((value - mean) / (1 + multiplier * (value - mean)) for value in values)

    last = -1 / (end - mean)  # beyond, a value at the end would have negative weight
    if end in values or slope(last) * slope(0.0) < 0:
        multiplier = brentq(slope, 0.0, last * (1 - 1e-13), xtol=1e-15, rtol=1e-14, maxiter=500)
    else:
        multiplier = last
    return 2 * math.fsum(math.log1p(multiplier * (value - mean)) for value in values) if n else 0.0


@settings(max_examples=60)
@given(st.integers(0, 300), st.integers(1, 300), st.floats(0.01, 0.99))
def test_of_right_and_wrong_it_is_the_binomial_likelihood_ratio(right: int, wrong: int, share: float):
    n = right + wrong
    found = likelihood_statistic([1.0] * right + [0.0] * wrong, share, smallest=0, largest=1)
    assert found == pytest.approx(binomial_root(right, n, share), rel=1e-6, abs=1e-6)


@settings(max_examples=60)
@given(bounded, st.floats(-0.98, 0.98))
def test_the_statistic_is_that_of_its_definition(values: list[float], mean: float):
    sample_mean = math.fsum(values) / len(values)
    if abs(mean - sample_mean) < 1e-3:
        return
    expected = math.copysign(math.sqrt(max(0.0, most_likely_ratio(values, mean))), sample_mean - mean)
    assert likelihood_statistic(values, mean) == pytest.approx(expected, rel=1e-5, abs=1e-5)


@settings(max_examples=40, deadline=None)
@given(bounded, st.sampled_from([0.8, 0.95]))
def test_the_interval_holds_the_means_that_one_of_the_tests_does_not_reject(values: list[float], level: float):
    found, reach = likelihood_interval(values, level=level), float(stats.norm.ppf((1 + level) / 2))
    assert found.low is not None
    assert found.high is not None
    assert -1 <= found.low <= found.mean <= found.high <= 1
    for bound in (found.low, found.high):
        for share, inside in ((0.98, True), (1.02, False)):
            mean = found.mean + share * (bound - found.mean)
            if abs(bound - found.mean) < 1e-6 or not -1 < mean < 1:
                continue
            kept = abs(likelihood_statistic(values, mean)) <= reach or missed_chance(values, mean) > 1 - level
            assert kept is inside


def test_ties_alone_leave_what_a_sample_of_this_size_can_miss():
    assert likelihood_interval([0.0] * 200).high == pytest.approx(1 - 0.05 ** (1 / 200), rel=1e-6)
    assert likelihood_interval([0.0] * 200).low == pytest.approx(0.05 ** (1 / 200) - 1, rel=1e-6)
    assert missed_chance([0.0] * 59, 0.05) == pytest.approx(0.95**59)


def test_a_spread_makes_missed_values_less_likely_to_explain_the_mean():
    """The values that are not hidden must then also be high by chance."""
    even, uneven = [0.1] * 40, [0.0, 0.2] * 20
    assert missed_chance(uneven, 0.0) < 0.7 * missed_chance(even, 0.0)


def test_the_share_of_missed_values_is_the_most_likely_one():
    values = [0.0, 0.3] * 10
    mean, error = 0.15, 0.15 / math.sqrt(19)
    chances = [
        (1 - share) ** 20 * stats.t.cdf((share / (1 - share) - mean) / error, 19)
        for share in (number / 2_000 for number in range(1, 1_000))
    ]
    assert missed_chance(values, 0.0) == pytest.approx(max(chances), rel=0.03)


def test_it_comes_near_to_t_where_nothing_is_tied():
    rng = random.Random(3)
    values = [max(-1, min(1, rng.gauss(0.1, 0.5))) for _ in range(200)]
    found, t = likelihood_interval(values), mean_interval(values)
    assert (found.low, found.high) == (pytest.approx(t.low, abs=0.005), pytest.approx(t.high, abs=0.005))
    assert found.standard_error == pytest.approx(t.standard_error, rel=1e-12)


def test_it_is_narrower_than_a_score_interval_where_small_values_move():
    """Tango's interval for these counts of quarters is 1.3 times as wide."""
    values = [0.25] * 25 + [-0.25] * 5 + [0.0] * 170
    found, t = likelihood_interval(values), mean_interval(values)
    assert None not in (found.low, found.high, t.low, t.high)
    assert (found.high or 0) - (found.low or 0) < 1.15 * ((t.high or 0) - (t.low or 0))


def test_the_range_can_be_any():
    scaled = likelihood_interval([0.0, 5.0, 10.0, 10.0], smallest=0, largest=10)
    plain = likelihood_interval([-1.0, 0.0, 1.0, 1.0])
    for one, other in ((scaled.low, plain.low), (scaled.high, plain.high), (scaled.mean, plain.mean)):
        assert one == pytest.approx(5 + 5 * (other or 0))
    assert scaled.standard_error == pytest.approx(5 * (plain.standard_error or 0))
    assert likelihood_interval([0.5]).standard_error is None


def test_the_ends_of_the_range():
    assert likelihood_interval([1.0] * 5).high == 1
    assert likelihood_statistic([0.5, 0.25], 1.0) == -math.inf
    assert likelihood_statistic([0.5, 0.25], -1.0) == math.inf
    assert likelihood_statistic([1.0, 1.0], 1.0) == 0


def test_values_that_rounding_puts_at_the_end_are_at_the_end():
    low, high = 0.1, 0.7
    assert likelihood_interval([high] * 3, smallest=low, largest=high).high == 0.7


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: likelihood_interval([]), "values is empty; a statistic needs at least one number"),
        (lambda: likelihood_interval([0.0, 1.5]), "values[1] is 1.5; it must be between -1 and 1"),
        (lambda: likelihood_interval([0.0], smallest=2), "smallest is 2; it must be strictly between -inf and 1"),
        (lambda: likelihood_interval([0.0], level=1), "level is 1; it must be strictly between 0 and 1"),
        (lambda: likelihood_statistic([0.0], 1.5), "mean is 1.5; it must be between -1 and 1, like the values"),
        (lambda: missed_chance([0.0], math.nan), "mean is nan; it must be between -1 and 1, like the values"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call: Callable[[], object], message: str):
    with pytest.raises(ConfigError) as caught:
        call()
    assert str(caught.value) == message
