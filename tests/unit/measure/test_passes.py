"""pass@k and pass^k."""

import math
from itertools import combinations

import pytest

from agentlearn.measure.score import pass_at_k, pass_hat_k


@pytest.mark.parametrize(("n", "c", "k"), [(5, 0, 2), (5, 1, 2), (5, 2, 3), (6, 4, 3), (5, 5, 5), (4, 1, 1), (7, 2, 7)])
def test_it_is_the_share_of_choices_of_k_with_a_right_one(n: int, c: int, k: int):
    choices = list(combinations(range(n), k))
    assert pass_at_k(n, c, k) == sum(any(one < c for one in choice) for choice in choices) / len(choices)


@pytest.mark.parametrize(("n", "c", "k"), [(5, 0, 2), (5, 1, 2), (5, 2, 2), (6, 4, 3), (5, 5, 5), (4, 1, 1), (7, 2, 7)])
def test_pass_hat_k_is_the_share_of_choices_of_k_that_are_all_right(n: int, c: int, k: int):
    choices = list(combinations(range(n), k))
    assert pass_hat_k(n, c, k) == sum(all(one < c for one in choice) for choice in choices) / len(choices)
    assert pass_hat_k(n, c, k) == pytest.approx(1 - (pass_at_k(n, n - c, k) or 0))


def test_pass_at_one_is_the_mean():
    assert pass_at_k(32, 8, 1) == 0.25


def test_too_few_rollouts_give_none():
    assert pass_at_k(4, 4, 5) is None
    assert pass_at_k(0, 0, 1) is None
    assert pass_hat_k(4, 4, 5) is None


def test_large_numbers_stay_exact():
    product = 1 - math.prod((1_000 - 10 - i) / (1_000 - i) for i in range(100))
    assert pass_at_k(1_000, 10, 100) == pytest.approx(product, rel=1e-12)
    assert pass_at_k(100_000, 1, 1) == 1e-5
