"""The sign-flip test: exact where it can be, honest where it samples."""

import itertools
import math
import random

import numpy as np
import pytest
from scipy import stats

from agentlearn.measure.difference import EXACT_UP_TO, sign_flip_p


def by_definition(differences: list[float]) -> float:
    observed = abs(math.fsum(differences))
    flips = itertools.product((-1, 1), repeat=len(differences))
    sums = [abs(math.fsum(sign * one for sign, one in zip(signs, differences, strict=True))) for signs in flips]
    return sum(one >= observed - 1e-12 for one in sums) / len(sums)


def mean_difference(after: np.ndarray, before: np.ndarray, axis: int) -> np.ndarray:
    return np.mean(after - before, axis=axis)


@pytest.mark.parametrize("seed", range(6))
def test_exact_p_is_the_share_of_all_sign_patterns(seed: int):
    rng = random.Random(seed)
    differences = [rng.choice([-0.4, -0.2, 0.0, 0.2, 0.2, 0.6]) + rng.choice([0, 0.05]) for _ in range(9)]
    assert sign_flip_p(differences, seed=0) == pytest.approx(by_definition(differences), rel=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_exact_p_agrees_with_scipy(seed: int):
    rng = np.random.default_rng(seed)
    before, after = rng.random(10), rng.random(10) + 0.2
    oracle = stats.permutation_test((after, before), mean_difference, permutation_type="samples", n_resamples=10_000)
    assert sign_flip_p(list(after - before), seed=0) == pytest.approx(oracle.pvalue, abs=1e-10)


def test_worked_by_hand():
    assert sign_flip_p([1.0], seed=0) == 1
    assert sign_flip_p([1.0] * 5, seed=0) == 2 / 32
    assert sign_flip_p([1.0, 1.0, -1.0], seed=0) == 1
    assert sign_flip_p([3.0, 1.0, 1.0], seed=0) == 2 / 8


def test_rounding_does_not_break_ties():
    """0.1 + 0.2 and 0.3 are one sum: four of eight patterns reach it, whatever their last bits say."""
    assert sign_flip_p([0.1, 0.2, 0.3], seed=0) == 2 / 8
    assert sign_flip_p([0.1, 0.2, -0.3], seed=0) == 1


def test_ties_say_nothing():
    moved = [0.2, 0.4, 0.4, -0.2, 0.6]
    assert sign_flip_p(moved + [0.0] * 200, seed=0) == sign_flip_p(moved, seed=0)


def test_the_exact_test_needs_no_seed_up_to_twenty_differences():
    differences = [0.1 * (index % 4 + 1) * (-1 if index % 5 == 0 else 1) for index in range(EXACT_UP_TO)]
    assert sign_flip_p(differences, seed=1) == sign_flip_p(differences, seed=2)


def test_the_sampled_test_comes_close_to_the_exact_one_and_repeats():
    rng = random.Random(3)
    differences = [rng.gauss(0.25, 1) for _ in range(EXACT_UP_TO)]
    padded = [*differences, 1e-13]  # one too many to count, too small to matter
    sampled = sign_flip_p(padded, seed=7)
    assert sampled == pytest.approx(sign_flip_p(differences, seed=0), abs=0.012)  # 3.4 standard errors at p = 1/2
    assert sampled == sign_flip_p(padded, seed=7)
    assert sampled != sign_flip_p(padded, seed=8)


def test_a_sampled_p_is_never_zero():
    assert sign_flip_p([1.0] * 40, seed=0, samples=999) == 1 / 1000
    assert sign_flip_p([1.0] * 40, seed=0, samples=1_001) == 1 / 1002


@pytest.mark.parametrize("seed", range(3))
def test_clusters_change_their_sign_together(seed: int):
    rng = random.Random(seed)
    clusters = [index % 8 for index in range(30)]
    differences = [rng.gauss(0.2, 1) for _ in clusters]
    sums = [math.fsum(d for d, own in zip(differences, clusters, strict=True) if own == c) for c in range(8)]
    found = sign_flip_p(differences, seed=0, clusters=clusters)
    assert found == pytest.approx(by_definition(sums), rel=1e-12)
    assert found >= 2 / 2**8
    assert sign_flip_p(sums, seed=0, clusters="abcdefgh") == found
