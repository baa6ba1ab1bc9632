"""The test of the mean: it allows for losses that a sample missed, and costs little where many tasks differ."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.measure.difference import mean_test, sign_flip_p, typical_size

differences = st.lists(st.sampled_from([-1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0]), min_size=2, max_size=40)


@pytest.mark.parametrize("n", [30, 60])
def test_equal_small_gains_do_not_show_that_no_task_loses_everything(n: int) -> None:
    """2 % of tasks may lose 0.9 and the others gain 0.018: most samples of this size hold no loss."""
    gains = [0.018] * n
    assert sign_flip_p(gains, seed=0) < 0.001
    found = mean_test(gains)
    assert found.hidden == pytest.approx(0.018 / 1.018)
    assert found.missed == pytest.approx((1 / 1.018) ** n)
    assert found.p == found.missed > 0.05


def test_enough_tasks_rule_hidden_losses_out() -> None:
    assert mean_test([0.018] * 300).p < 0.05


def test_one_of_the_rare_losses_in_the_sample_is_not_forgotten() -> None:
    found = mean_test([0.018] * 199 + [-0.9])
    assert found.tilted > 0.05


def test_of_many_differing_tasks_it_says_the_same_as_a_z_test() -> None:
    rng = np.random.default_rng(0)
    values = rng.choice([-1.0, 0.0, 1.0], size=400, p=[0.25, 0.4, 0.35])
    z = values.mean() / math.sqrt(np.mean(values**2) / len(values))
    one_sided = math.erfc(z / math.sqrt(2)) / 2
    assert mean_test(values.tolist()).p == pytest.approx(one_sided, rel=0.15)


def test_for_right_and_wrong_it_is_mcnemars_score_without_the_exact_tail() -> None:
    found = mean_test([1.0] * 6 + [0.0] * 54)
    assert found.tilted == pytest.approx(math.erfc(math.sqrt(6) / math.sqrt(2)) / 2, rel=0.02)


def test_a_cluster_is_one_unit() -> None:
    together = mean_test([0.1] * 60, clusters=[n // 5 for n in range(60)])
    assert together.missed == pytest.approx(mean_test([0.1] * 12).missed)
    assert together.p > mean_test([0.1] * 60).p


@given(differences)
def test_the_other_sign_gives_the_same_p(values: list[float]) -> None:
    assert mean_test([-value for value in values]).p == pytest.approx(mean_test(values).p)


@given(differences, st.floats(0.2, 0.9))
def test_p_is_a_probability_and_labels_do_not_matter(values: list[float], most: float) -> None:
    found = mean_test(values, most_lost=most, most_gained=most)
    assert 0 <= found.p <= 1
    assert mean_test(values, clusters=[f"c{n}" for n in range(len(values))], most_lost=most, most_gained=most) == found


def test_the_typical_size_weighs_by_size() -> None:
    assert typical_size([0.0, 1.0]) == 1
    assert typical_size([0.5, 0.5]) == 0.5
    assert typical_size([0.0]) == 0
