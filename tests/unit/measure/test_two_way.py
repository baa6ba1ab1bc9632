"""Errors clustered by task and by learning seed."""

import itertools

import numpy as np
import pytest
from statsmodels.regression.linear_model import OLS

from agentlearn.measure.clustered import quantile
from agentlearn.measure.difference import two_way_mean


def crossed(seed: int, tasks: int, seeds: int, by_task: float, by_seed: float, own: float):
    """A value per task and seed: what the task, the seed and chance add."""
    rng = np.random.default_rng(seed)
    values = (
        by_task * rng.normal(size=(tasks, 1))
        + by_seed * rng.normal(size=(1, seeds))
        + own * rng.normal(size=(tasks, seeds))
    )
    pairs = list(itertools.product(range(tasks), range(seeds)))
    return values.ravel().tolist(), [task for task, _ in pairs], [seed for _, seed in pairs]


def by_statsmodels(values: list[float], *groups: list[int]) -> float:
    labels = np.array(groups).T if len(groups) > 1 else np.array(groups[0])
    fitted = OLS(values, np.ones(len(values))).fit(
        cov_type="cluster", cov_kwds={"groups": labels, "use_correction": True}
    )
    return float(fitted.cov_params()[0, 0])


def test_the_variance_is_that_of_statsmodels_or_of_one_way_if_larger(subtests: pytest.Subtests):
    for seed in range(8):
        with subtests.test(repr(seed)):
            values, tasks, seeds = crossed(seed, 12, 5, 0.5 * (seed % 3), 0.4 * (seed % 2), 1.0)
            dropped = [index for index in range(60) if index % 7 != seed % 7]  # not every pair has a value
            values, tasks, seeds = ([these[index] for index in dropped] for these in (values, tasks, seeds))
            found = two_way_mean(values, tasks, seeds)
            variances = [
                by_statsmodels(values, tasks, seeds),
                by_statsmodels(values, tasks),
                by_statsmodels(values, seeds),
            ]
            assert found.standard_error is not None
            assert found.standard_error**2 == pytest.approx(max(variances), rel=1e-10)
            if seed in (5, 7):  # tasks and seeds both matter: the sum is the larger
                assert max(variances) == variances[0]
            assert (found.n, found.clusters, found.degrees, found.method, found.unsafe) == (12, 5, 4, "two-way", "")
            assert found.high == pytest.approx(found.mean + quantile(0.975, 4) * found.standard_error)


@pytest.mark.parametrize("last", [1.0, 1.2])
def test_where_the_sum_is_not_positive_the_largest_of_the_three_stands_in(last: float):
    values, tasks, seeds = [1.0, -1.0, -1.0, last], [0, 0, 1, 1], [0, 1, 0, 1]
    assert by_statsmodels(values, tasks, seeds) < 0
    found = two_way_mean(values, tasks, seeds)
    assert (found.standard_error or 0) ** 2 == pytest.approx(by_statsmodels(values, [0, 1, 2, 3]), rel=1e-10)


def test_equal_values_give_no_width_and_that_is_said():
    found = two_way_mean([0.5] * 4, [0, 0, 1, 1], [0, 1, 0, 1])
    assert (found.low, found.high) == (0.5, 0.5)
    assert found.unsafe == "all values are equal, so their variance is not known"


def test_it_covers_where_seeds_differ_as_much_as_tasks():
    held = 0
    for seed in range(400):
        found = two_way_mean(*crossed(seed, 20, 4, 1.0, 1.0, 1.0))
        held += (found.low or 0) <= 0 <= (found.high or 0)
    assert 0.91 <= held / 400 <= 0.99


@pytest.mark.parametrize(("tasks", "seeds"), [([0, 1, 2], [0, 0, 0]), ([0, 0, 0], [0, 1, 2])])
def test_one_seed_or_one_task_gives_no_interval(tasks: list[int], seeds: list[int]):
    found = two_way_mean([0.1, 0.2, 0.3], tasks, seeds)
    assert (found.low, found.standard_error, found.mean) == (None, None, pytest.approx(0.2))
    assert found.unsafe == (
        f"there are {len(set(tasks))} tasks and {len(set(seeds))} learning seeds;"
        " an interval needs at least two of each"
    )
