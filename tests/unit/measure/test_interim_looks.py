"""Looks at growing data: what the factors promise, and what is really spent."""

import numpy as np
import pytest
from scipy import stats

from agentlearn.measure.sequential import look_factor


def test_planned_looks_share_one_alpha_and_the_rest_spend_at_most_a_quarter_of_another():
    for planned in (1, 2, 5):
        assert sum(1 / look_factor(look, planned) for look in range(1, planned + 1)) == pytest.approx(1)
        late = sum(1 / look_factor(look, planned) for look in range(planned + 1, planned + 2_001))
        assert 0.249 < late < 0.25


def test_worked_by_hand():
    assert [look_factor(look) for look in (1, 2, 3, 4)] == [1, 8, 24, 48]
    assert [look_factor(look, planned=3) for look in (1, 2, 3, 4, 5)] == [3, 3, 3, 8, 24]


def test_false_findings_when_the_data_double_at_each_look():
    """Six looks at 20, 40, ... 640 tasks without any true difference, the later five unplanned."""
    rng, runs, alpha = np.random.default_rng(5), 4_000, 0.05
    sizes = [20 * 2**look for look in range(6)]
    found, plain = np.zeros(runs, dtype=bool), np.zeros(runs, dtype=bool)
    differences = rng.normal(size=(runs, sizes[-1]))
    for look, n in enumerate(sizes, 1):
        seen = differences[:, :n]
        t = np.abs(seen.mean(axis=1)) / (seen.std(axis=1, ddof=1) / np.sqrt(n))
        p = 2 * stats.t.sf(t, n - 1)
        found |= p * look_factor(look) <= alpha
        plain |= p <= alpha
    assert plain.mean() > 0.12  # looking without correction
    assert found.mean() < 1.3 * alpha
