"""McNemar's exact test."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar

from agentlearn.measure.difference import sign_flip_p
from agentlearn.measure.score import mcnemar_p

counts = st.integers(0, 200)


@given(counts, counts)
def test_it_agrees_with_scipy_and_statsmodels(gained: int, lost: int):
    found = mcnemar_p(gained, lost)
    assert found == pytest.approx(mcnemar([[0, gained], [lost, 0]], exact=True).pvalue, rel=1e-10)
    if gained + lost:
        assert found == pytest.approx(stats.binomtest(gained, gained + lost).pvalue, rel=1e-10)


@given(st.integers(0, 10), st.integers(0, 10))
def test_it_is_the_sign_flip_test_of_right_and_wrong(gained: int, lost: int):
    differences = [1.0] * gained + [-1.0] * lost + [0.0] * 3
    assert mcnemar_p(gained, lost) == pytest.approx(sign_flip_p(differences, seed=0), rel=1e-12)


def test_worked_by_hand():
    assert mcnemar_p(7, 2) == 0.1796875
    assert mcnemar_p(0, 0) == 1
    assert mcnemar_p(0, 6) == 2 / 64
