"""The clustered mean: closed forms against the matrices they come from."""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from statsmodels.regression.linear_model import OLS

from agentlearn.measure.clustered import Interval, bounded_mean, clustered_mean, quantile

scores = st.floats(-1, 1).map(lambda value: round(value, 6))
labelled = st.lists(st.tuples(scores, st.integers(0, 5)), min_size=3, max_size=30)


def by_matrices(values: list[float], clusters: list[int]) -> tuple[float, float]:
    """CR2 variance and Satterthwaite degrees of a regression on a constant, from their definition."""
    y, labels, n = np.array(values), np.array(clusters), len(values)
    X = np.ones((n, 1))
    bread = np.linalg.inv(X.T @ X)
    residual_maker = np.eye(n) - X @ bread @ X.T
    e = residual_maker @ y
    variance, columns = np.zeros((1, 1)), []
    for label in np.unique(labels):
        own = labels == label
        inner = residual_maker[np.ix_(own, own)]
        sizes, vectors = np.linalg.eigh(inner)
        adjust = vectors @ np.diag(sizes**-0.5) @ vectors.T
        score = X[own].T @ adjust @ e[own]
        variance += bread @ np.outer(score, score) @ bread
        columns.append((residual_maker[own].T @ adjust @ X[own] @ bread)[:, 0])
    G = np.array(columns)
    inner_products = G @ G.T  # under independent errors of equal variance
    return float(variance[0, 0]), float(np.trace(inner_products) ** 2 / np.sum(inner_products**2))


@given(labelled)
def test_the_closed_forms_are_those_of_the_matrices(rows: list[tuple[float, int]]):
    values, clusters = [value for value, _ in rows], [cluster for _, cluster in rows]
    found = clustered_mean(values, clusters)
    if len(set(clusters)) == 1:
        assert found.standard_error is None
        return
    variance, degrees = by_matrices(values, clusters)
    assert found.standard_error is not None
    assert found.standard_error**2 == pytest.approx(variance, rel=1e-10, abs=1e-14)
    assert found.degrees == pytest.approx(degrees, rel=1e-10)


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_clusters_of_equal_size_agree_with_statsmodels(level: float):
    """With equal sizes, CR2 is the usual clustered error times C / (C - 1), and the degrees are C - 1."""
    rng = random.Random(1)
    clusters = [index // 4 for index in range(36)]
    values = [rng.gauss(0.1, 1) + 0.5 * (cluster % 3) for cluster in clusters]
    oracle = OLS(values, np.ones(36)).fit(
        cov_type="cluster", cov_kwds={"groups": np.array(clusters), "use_correction": False}
    )
    found = clustered_mean(values, clusters, level=level)
    assert found.standard_error == pytest.approx(float(oracle.bse[0]) * math.sqrt(9 / 8), rel=1e-10)
    assert found.degrees == pytest.approx(8, rel=1e-12)
    assert found.n == 9
    assert found.high == pytest.approx(found.mean + quantile((1 + level) / 2, 8) * (found.standard_error or 0))


def test_the_order_of_the_rows_and_the_names_of_the_clusters_do_not_matter():
    values, clusters = [0.1, 0.5, -0.2, 0.9, 0.0], ["x", "y", "x", "z", "y"]
    turned = clustered_mean(values[::-1], [("family", one) for one in clusters[::-1]])
    plain = clustered_mean(values, clusters)
    assert turned.low == pytest.approx(plain.low, rel=1e-12)
    assert (turned.mean, turned.n) == (plain.mean, 3)


def test_one_cluster_gives_a_mean_and_no_interval():
    assert clustered_mean([0.0, 1.0], ["a", "a"]) == Interval(
        mean=0.5, low=None, high=None, standard_error=None, degrees=None, n=1
    )


def test_independent_right_and_wrong_answers_have_wilsons_interval(subtests: pytest.Subtests) -> None:
    for right, n in ((12, 12), (0, 9), (5, 20), (59, 60)):
        with subtests.test(right=right, n=n):
            found = bounded_mean([1.0] * right + [0.0] * (n - right), range(n))
            wilson = binomtest(right, n).proportion_ci(method="wilson")
            assert (found.low, found.high) == pytest.approx((wilson.low, wilson.high), abs=1e-12)


def test_a_family_of_one_fate_counts_once_near_the_ceiling() -> None:
    families = [n // 3 for n in range(60)]
    together, alone = bounded_mean([0.0] * 3 + [1.0] * 57, families), bounded_mean([0.0] * 3 + [1.0] * 57, range(60))
    assert together.low is not None
    assert alone.low is not None
    assert together.low < alone.low < 0.95
    scaled = bounded_mean([-5.0] * 3 + [5.0] * 57, families, smallest=-5, largest=5)
    assert scaled.low == pytest.approx(10 * together.low - 5)
