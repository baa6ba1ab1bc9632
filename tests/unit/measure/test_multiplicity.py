"""Holm and Benjamini-Hochberg."""

import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from agentlearn.measure.difference import benjamini_hochberg, holm

Adjust = Callable[[Sequence[float]], tuple[float, ...]]
BOTH = [(holm, "holm"), (benjamini_hochberg, "fdr_bh")]


p_values = st.lists(st.floats(0, 1), min_size=1, max_size=20)


@pytest.mark.parametrize(("adjust", "oracle"), BOTH)
def test_adjusted_values_agree_with_statsmodels(adjust: Adjust, oracle: str):
    rng = random.Random(3)
    ps = [rng.random() ** 3 for _ in range(40)] + [0.0, 1.0, 0.25, 0.25]
    rng.shuffle(ps)
    # Few calls: each makes the garbage collector run.
    assert adjust(ps) == pytest.approx(multipletests(ps, method=oracle)[1], rel=1e-10)


@given(p_values)
def test_benjamini_hochberg_agrees_with_scipy(ps: list[float]):
    assert benjamini_hochberg(ps) == pytest.approx(stats.false_discovery_control(ps), rel=1e-10, abs=1e-300)


@given(p_values)
def test_holm_steps_down_until_the_first_that_is_not_rejected(ps: list[float]):
    found = holm(ps)
    for alpha in (0.01, 0.05, 0.3):
        rejected = set[int]()
        for rank, index in enumerate(sorted(range(len(ps)), key=lambda one: ps[one])):
            if ps[index] * (len(ps) - rank) > alpha:
                break
            rejected.add(index)
        assert {index for index, p in enumerate(found) if p <= alpha} == rejected


def test_worked_by_hand():
    ps = [0.04, 0.001, 0.2, 0.02, 0.03]
    assert holm(ps) == pytest.approx((0.09, 0.005, 0.2, 0.08, 0.09))
    assert benjamini_hochberg(ps) == pytest.approx((0.05, 0.005, 0.2, 0.05, 0.05))
