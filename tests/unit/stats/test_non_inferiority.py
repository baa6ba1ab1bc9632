"""Non-inferiority by a margin."""

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.weightstats import ttost_paired

from agentlearn.errors import ConfigError
from agentlearn.stats import Interval, clustered_mean, mean_interval, non_inferiority

RNG = random.Random(9)
DIFFERENCES = [round(RNG.gauss(-0.01, 0.1), 4) for _ in range(40)]


@settings(max_examples=60)
@given(
    st.lists(st.floats(-1, 1).map(lambda x: round(x, 4)), min_size=2, max_size=30).filter(lambda d: len(set(d)) > 1),
    st.floats(0.01, 1),
)
def test_it_is_the_lower_side_of_the_paired_equivalence_test(differences: list[float], margin: float):
    found = non_inferiority(mean_interval(differences), margin)
    _, lower, _ = ttost_paired(np.array(differences), np.zeros(len(differences)), -margin, 10)
    assert found is not None
    assert found.p == pytest.approx(float(lower[1]), rel=1e-8, abs=1e-10)


@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_the_bound_is_that_of_the_two_sided_interval_at_twice_the_error(level: float):
    found = non_inferiority(mean_interval(DIFFERENCES), 0.05, level=level)
    assert found is not None
    assert found.low == pytest.approx(mean_interval(DIFFERENCES, level=2 * level - 1).low, rel=1e-12)
    assert found.holds == (found.low >= -0.05)


def test_it_takes_clustered_means_and_normal_ones():
    clustered = clustered_mean(DIFFERENCES, [index // 4 for index in range(40)])
    assert non_inferiority(clustered, 0.2) is not None
    normal = Interval(mean=0.0, low=None, high=None, standard_error=0.1, degrees=None, n=9)
    found = non_inferiority(normal, 0.1644853626951472)
    assert found is not None
    assert (found.p, found.low) == (pytest.approx(0.05, rel=1e-12), pytest.approx(-0.1644853626951472, rel=1e-12))


def test_without_an_error_there_is_no_answer():
    assert non_inferiority(mean_interval([0.3]), 0.1) is None
    assert non_inferiority(mean_interval([0.3, 0.3, 0.3]), 0.1) is None


@pytest.mark.parametrize("margin", [0, -0.1, math.inf, math.nan])
def test_a_margin_is_positive_and_finite(margin: float):
    with pytest.raises(ConfigError) as caught:
        non_inferiority(mean_interval(DIFFERENCES), margin)
    assert str(caught.value) == f"margin is {margin!r}; it must be strictly between 0 and inf"


def test_numbers_that_are_none_are_refused():
    broken = Interval(mean=math.nan, low=None, high=None, standard_error=0.1, degrees=3, n=4)
    with pytest.raises(ConfigError) as caught:
        non_inferiority(broken, 0.1)
    assert str(caught.value) == (
        "the difference is nan with a standard error of 0.1;"
        " non-inferiority needs finite numbers and an error that is not negative"
    )
