"""Statistics: symmetry, scale, and bounds that hold for any numbers."""

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from agentlearn.measure.clustered import cdf, mean_interval, quantile
from agentlearn.measure.difference import estimate_difference, no_worse, sign_flip_p
from agentlearn.measure.score import pass_at_k

scores = st.floats(-100, 100).map(lambda value: round(value, 6))
samples = st.lists(scores, min_size=2, max_size=14)


@given(st.floats(-50, 50), st.floats(0.2, 500))
def test_cdf_is_symmetric_and_agrees_with_scipy(t: float, degrees: float):
    assert cdf(t, degrees) + cdf(-t, degrees) == pytest.approx(1, abs=1e-15)
    # scipy itself is off by up to 2e-9 near t = 0.
    assert cdf(t, degrees) == pytest.approx(float(stats.t.cdf(t, degrees)), abs=1e-10 if abs(t) > 1e-3 else 1e-8)


@given(st.floats(1e-9, 1 - 1e-9), st.floats(0.2, 500))
def test_quantile_inverts_cdf(p: float, degrees: float):
    assert cdf(quantile(p, degrees), degrees) == pytest.approx(p, rel=1e-12)


@given(samples)
def test_an_interval_lies_around_its_mean_and_widens_with_its_level(values: list[float]):
    narrow, wide = mean_interval(values, level=0.8), mean_interval(values, level=0.99)
    bounds = [wide.low, narrow.low, narrow.mean, narrow.high, wide.high]
    assert bounds == sorted(bound for bound in bounds if bound is not None)
    assert narrow.mean == wide.mean == pytest.approx(math.fsum(values) / len(values))


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=10), st.integers(0, 9), st.sampled_from([0.1, 7.0, 1e-6]))
def test_sign_flip_p_is_a_probability_and_ignores_sign_order_and_scale(values: list[int], seed: int, scale: float):
    p = sign_flip_p(values, seed=seed)
    assert 0 < p <= 1
    assert p >= 2 ** (1 - sum(value != 0 for value in values)) or not any(values)
    assert sign_flip_p([-value for value in reversed(values)], seed=seed) == p
    assert sign_flip_p([value * scale for value in values], seed=seed) == p


@given(st.integers(0, 60), st.data())
def test_pass_at_k_grows_with_k_and_with_c(n: int, data: st.DataObject):
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, max(1, n)))
    found = pass_at_k(n, c, k)
    if found is None:
        assert n < k
        return
    assert 0 <= found <= 1
    assert (found == 0) == (c == 0)
    assert found == 1 or n - c >= k
    if k < n:
        assert found <= (pass_at_k(n, c, k + 1) or 0)
    if c < n:
        assert found <= (pass_at_k(n, c + 1, k) or 0)


differences = st.lists(
    st.tuples(st.sampled_from([-1.0, -0.5, 0.0, 0.0, 0.0, 0.0, 0.25, 1.0]), st.integers(0, 4)), min_size=1, max_size=40
)


@given(differences, st.booleans(), st.randoms(use_true_random=False))
def test_arms_swapped_and_tasks_in_another_order_mirror_the_estimate(
    rows: list[tuple[float, int]], in_clusters: bool, random: Random
):
    shuffled = random.sample(rows, len(rows))
    plain = estimate_difference([d for d, _ in rows], clusters=[c for _, c in rows] if in_clusters else None)
    turned = estimate_difference([-d for d, _ in shuffled], clusters=[c for _, c in shuffled] if in_clusters else None)
    assert (turned.method, turned.unsafe, turned.clusters) == (plain.method, plain.unsafe, plain.clusters)
    assert turned.mean == pytest.approx(-plain.mean, abs=1e-12)
    if plain.low is None or plain.high is None:
        assert (turned.low, plain.clusters) == (None, 1)
        return
    assert (turned.low, turned.high) == (pytest.approx(-plain.high, abs=1e-9), pytest.approx(-plain.low, abs=1e-9))
    assert plain.low <= plain.mean + 1e-12
    assert plain.mean <= plain.high + 1e-12


@given(differences, st.booleans(), st.floats(0.01, 0.9))
def test_no_worse_holds_exactly_when_its_bound_is_above_the_margin(
    rows: list[tuple[float, int]], in_clusters: bool, margin: float
):
    clusters = [c for _, c in rows] if in_clusters else None
    found = no_worse([d for d, _ in rows], margin, clusters=clusters)
    if found is None:
        return
    low = estimate_difference([d for d, _ in rows], clusters=clusters, level=0.9).low
    assert low is not None
    assert found.low <= low + 1e-9, "what a sample can miss counts on one side only"
    if abs(found.low + margin) > 1e-9:
        assert found.holds == (found.low > -margin)
