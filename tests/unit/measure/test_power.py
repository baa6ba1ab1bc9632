"""Power: the published values, the noncentral t, and estimates that are right on average."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.power import TTestPower

from agentlearn.measure.difference import estimate_difference, sign_flip_p
from agentlearn.measure.power import (
    Clusters,
    PlannedComparison,
    VarianceParts,
    detectable_shift,
    guessed_parts,
    measured_clusters,
    power_of,
    variance_parts,
)

# Miller's example: answers as uncertain as a uniform share of right ones, true differences of variance 1/9.
MILLER = PlannedComparison(parts=guessed_parts(0.5, task_spread=math.sqrt(1 / 12), difference_spread=1 / 3))


@given(st.floats(0, 9), st.floats(0.7, 2_000), st.sampled_from([0.01, 0.05, 0.2]))
def test_power_agrees_with_the_noncentral_t_of_scipy(shift: float, degrees: float, alpha: float):
    critical = stats.t.ppf(1 - alpha / 2, degrees)
    # The lower tail is below P(Z < -shift), and scipy has no number for it where that is far out.
    lower = stats.nct.cdf(-critical, degrees, shift) if shift < 6.5 else 0.0
    oracle = stats.nct.sf(critical, degrees, shift) + lower
    assert power_of(shift, degrees, alpha=alpha) == pytest.approx(float(oracle), abs=1e-10)


def test_the_detectable_shift_has_that_power(subtests: pytest.Subtests):
    for degrees in [1, 7.5, 199]:
        for power in [0.5, 0.95]:
            with subtests.test(repr((degrees, power))):
                shift = detectable_shift(degrees, power=power)
                assert power_of(shift, degrees) == pytest.approx(power, abs=1e-10)


@pytest.mark.parametrize("n", [6, 10, 30, 200])
def test_the_detectable_effect_agrees_with_statsmodels(n: int):
    parts = VarianceParts(true_difference=1, before=0, after=0, unclamped=1)
    effect = PlannedComparison(parts=parts).detectable_effect(n, k_before=1, k_after=1)
    assert float(TTestPower().power(effect, n, 0.05)) == pytest.approx(0.8, abs=1e-10)
    # Its own search for the effect stops earlier than ours.
    assert float(TTestPower().solve_power(None, nobs=n, power=0.8, alpha=0.05)) == pytest.approx(effect, rel=1e-5)


def test_the_published_sample_sizes():
    assert (MILLER.parts.before, MILLER.parts.true_difference) == (pytest.approx(1 / 6), pytest.approx(1 / 9))
    assert float(TTestPower().solve_power(0.5, power=0.8, alpha=0.05)) == pytest.approx(33.367, abs=5e-4)
    assert power_of(0.5 * math.sqrt(33.367), 32.367) == pytest.approx(0.8, abs=5e-6)
    one = VarianceParts(true_difference=1, before=0, after=0, unclamped=1)
    assert PlannedComparison(parts=one).tasks_needed(0.5, k_before=1, k_after=1) == 34
    assert MILLER.tasks_needed(0.03, k_before=1, k_after=1) == 3_878  # the error must be estimated too


@given(st.floats(0.1, 2), st.sampled_from([0.5, 0.8, 0.9]), st.integers(1, 8), st.integers(1, 8))
def test_the_tasks_needed_are_the_fewest(effect: float, power: float, k_before: int, k_after: int):
    counts = {"k_before": k_before, "k_after": k_after}
    n = MILLER.tasks_needed(effect, power=power, **counts)
    assert MILLER.detectable_effect(n, power=power, **counts) <= effect * (1 + 1e-9)
    assert n == 2 or MILLER.detectable_effect(n - 1, power=power, **counts) > effect * (1 - 1e-9)


@given(st.floats(0.02, 0.5), st.integers(2, 2_000))
def test_the_rollouts_needed_are_the_fewest_or_none_helps(effect: float, n: int):
    k = MILLER.rollouts_needed(effect, n)
    if k is None:
        assert MILLER.detectable_effect(n, k_before=10**9, k_after=10**9) > effect * (1 - 1e-6)
        return
    assert MILLER.detectable_effect(n, k_before=k, k_after=k) <= effect * (1 + 1e-9)
    assert k == 1 or MILLER.detectable_effect(n, k_before=k - 1, k_after=k - 1) > effect * (1 - 1e-9)


def test_the_parts_are_right_on_average_with_any_numbers_of_rollouts():
    rng = np.random.default_rng(11)
    runs, tasks = 1_500, 12
    # Two or more rollouts everywhere, unequal over tasks and arms.
    counts_before, counts_after = [2, 3, 5] * 4, [4, 2, 2] * 4
    chances = np.linspace(0.1, 0.9, tasks)
    found: list[VarianceParts] = []
    for _ in range(runs):
        shifted = np.clip(chances + rng.choice([-0.1, 0.1], size=tasks), 0, 1)
        before = [list(rng.random(k) < p) for k, p in zip(counts_before, chances, strict=True)]
        after = [list(rng.random(k) < p) for k, p in zip(counts_after, shifted, strict=True)]
        parts = variance_parts(before, after)
        assert parts is not None
        assert parts.true_difference == max(0, parts.unclamped)
        found.append(parts)
    unclamped = np.array([parts.unclamped for parts in found])
    assert np.mean(unclamped) == pytest.approx(0.01, abs=4 * np.std(unclamped) / math.sqrt(runs))
    assert np.mean(unclamped < 0) > 0.1  # so that the clamp is seen at work
    within = np.array([parts.before for parts in found])
    assert np.mean(within) == pytest.approx(np.mean(chances * (1 - chances)), abs=4 * np.std(within) / math.sqrt(runs))


def test_the_parts_worked_by_hand():
    parts = variance_parts([[0, 1], [0, 0], [1, 1]], [[1, 1], [0, 1], [1, 1, 1, 0]])
    # Differences .5, .5, -.25; within variances .5, 0, 0 and 0, .5, .25.
    assert parts is not None
    assert (parts.before, parts.after) == (pytest.approx(0.5 / 3), pytest.approx(0.25))
    assert parts.unclamped == pytest.approx(0.1875 - (0.25 + 0.25 + 0.0625) / 3)


def test_a_task_with_one_rollout_borrows_the_variance_of_its_arm():
    parts = variance_parts([[0, 1], [0]], [[1, 0], [1, 1]])
    assert parts is not None
    assert parts.before == 0.5
    assert parts.unclamped == pytest.approx(0.5 - (0.5 / 2 + 0.5 + 0.5 / 2) / 2)
    assert parts.true_difference == 0


def test_parts_that_cannot_be_told_apart_are_none():
    assert variance_parts([[0], [1]], [[0, 1], [1, 1]]) is None
    assert variance_parts([[0, 1]], [[0, 1]]) is None


def test_clusters_that_gain_alike_count_once():
    """60 tasks in 25 clusters, with nothing but true differences, are 25 independent values."""
    parts = VarianceParts(true_difference=0.04, before=0, after=0, unclamped=0.04)
    layout = Clusters(count=30, alike=1.0)
    together = PlannedComparison(parts=parts, clusters=layout).power(0.1, 60, k_before=4, k_after=4)
    assert together == pytest.approx(PlannedComparison(parts=parts).power(0.1, 30, k_before=4, k_after=4), abs=1e-12)
    assert together < PlannedComparison(parts=parts).power(0.1, 60, k_before=4, k_after=4)


def test_more_tasks_of_the_same_clusters_may_never_be_enough():
    parts = VarianceParts(true_difference=0.04, before=0.2, after=0.2, unclamped=0.04)
    fixed = PlannedComparison(parts=parts, clusters=Clusters(count=10))
    assert fixed.tasks_needed(0.05, k_before=4, k_after=4) is None
    assert fixed.rollouts_needed(0.05, 60) is None
    growing = PlannedComparison(parts=parts, clusters=Clusters(size=6))
    assert growing.tasks_needed(0.05, k_before=4, k_after=4) is not None


def test_five_clusters_are_too_few_for_random_signs():
    parts = VarianceParts(true_difference=0.01, before=0.0, after=0.0, unclamped=0.01)
    assert PlannedComparison(parts=parts, clusters=Clusters(count=5)).power(0.9, 50, k_before=1, k_after=1) == 0
    assert PlannedComparison(parts=parts, clusters=Clusters(count=6)).power(0.9, 50, k_before=1, k_after=1) > 0.99


def test_hidden_clusters_that_could_lose_everything_must_be_ruled_out():
    parts = VarianceParts(true_difference=0.0001, before=0.0, after=0.0, unclamped=0.0001)
    layout = Clusters(count=10)
    assert PlannedComparison(parts=parts, clusters=layout).power(0.1, 60, k_before=1, k_after=1) > 0.99
    planned = PlannedComparison(parts=parts, clusters=layout, most_lost=0.5)
    assert planned.power(0.1, 60, k_before=1, k_after=1) < 0.01
    least = planned.detectable_effect(60, k_before=1, k_after=1)
    assert planned.power(least, 60, k_before=1, k_after=1) == pytest.approx(0.8, abs=1e-6)


@given(st.floats(0.004, 0.4), st.floats(0.0, 0.2), st.integers(1, 16), st.floats(0.0, 1.0), st.integers(1, 8))
def test_the_named_number_of_tasks_is_the_first_that_is_enough(
    effect: float, spread: float, k: int, alike: float, size: int
):
    parts = VarianceParts(true_difference=spread**2, before=0.2, after=0.25, unclamped=spread**2)
    layout = Clusters(size=size, alike=alike)
    found = PlannedComparison(parts=parts, clusters=layout).tasks_needed(effect, k_before=k, k_after=k)
    assert found is not None

    def power(tasks: int) -> float:
        return PlannedComparison(parts=parts, clusters=layout).power(effect, tasks, k_before=k, k_after=k)

    assert power(found) >= 0.8 - 1e-6
    assert found == 2 or power(found - 1) < 0.8 + 1e-6


def test_the_shared_part_is_measured_from_products_within_clusters():
    """An intra-class correlation: by hand, and for simulated clusters that share half."""
    found = measured_clusters([0.3, 0.1, -0.1, -0.3], ["x", "x", "y", "y"], 0.05)
    assert found.alike == pytest.approx((2 * 0.3 * 0.1 + 2 * 0.1 * 0.3) / 4 / 0.05)
    assert (found.size, found.unevenness) == (2, 1)
    rng = np.random.default_rng(3)
    labels = np.repeat(np.arange(400), 5)
    values = 0.1 * (0.5**0.5 * rng.normal(size=400)[labels] + 0.5**0.5 * rng.normal(size=2_000))
    assert measured_clusters(values.tolist(), labels.tolist(), 0.01).alike == pytest.approx(0.5, abs=0.08)
    assert measured_clusters([0.1, 0.2], ["x", "y"], 0.01).alike == 1


@pytest.mark.slow
@pytest.mark.parametrize(("count", "size"), [(25, 3), (12, 5)])
def test_the_forecast_is_the_share_of_simulated_comparisons(count: int, size: int):
    """Right and wrong rollouts in clusters that gain alike; both tests as in a comparison."""
    rng, k, gain, spread, found = np.random.default_rng(1), 4, 0.15, 0.15, 0
    labels = np.repeat(np.arange(count), size)
    runs = 300
    for seed in range(runs):
        shift = gain + spread * rng.normal(size=count)[labels]
        middle = rng.uniform(0.3, 0.7, size=len(labels))
        before, after = (
            (rng.random((len(labels), k)) < np.clip(rate, 0, 1)[:, None]).mean(axis=1)
            for rate in (middle - shift / 2, middle + shift / 2)
        )
        differences = (after - before).tolist()
        p = sign_flip_p(differences, seed=seed, clusters=labels.tolist(), samples=1_000)
        low = estimate_difference(differences, clusters=labels.tolist()).low
        found += p <= 0.05 and low is not None and low > 0
    within = 0.25 - 0.4**2 / 12 - spread**2 / 4 - gain**2 / 4
    parts = VarianceParts(true_difference=spread**2, before=within, after=within, unclamped=spread**2)
    layout = Clusters(count=count)
    forecast = PlannedComparison(parts=parts, clusters=layout, right_or_wrong=True).power(
        gain, len(labels), k_before=k, k_after=k
    )
    assert forecast == pytest.approx(found / runs, abs=0.09)
    alone = PlannedComparison(parts=parts).power(gain, len(labels), k_before=k, k_after=k)
    assert alone > found / runs + 0.1, "without clusters the forecast is far too high"
