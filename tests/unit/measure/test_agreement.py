"""How far a judge agrees with people, and a difference without the judge's errors."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.measure.contrast import Pair, agreement, judge_corrected
from tests.support.cases import cases

pairs = st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.0, 0.5, 1.0])), min_size=1, max_size=60)


@pytest.mark.parametrize(
    ("table", "kappa", "error"),
    cases(__file__, "kappa_and_its_interval_are_those_of_statsmodels"),
)
def test_kappa_and_its_interval_are_those_of_statsmodels(table: list[list[int]], kappa: float, error: float) -> None:
    most = len(table) - 1
    said = [(i / most, j / most) for i, row in enumerate(table) for j, count in enumerate(row) for _ in range(count)]
    found = agreement(said)
    assert found.kappa == pytest.approx(kappa, abs=1e-12)
    assert found.kappa_high is not None
    assert (found.kappa_high - kappa) / 1.959963984540054 == pytest.approx(error, abs=1e-12)


@given(pairs)
def test_an_agreement_lies_in_its_interval_and_counts_every_answer(said: list[Pair]) -> None:
    found = agreement(said)
    assert 0 <= found.low <= found.agreement + 1e-12
    assert found.agreement <= found.high + 1e-12 <= 1 + 1e-9
    assert sum(found.confusion.values()) == found.n == len(said)
    assert agreement(said[::-1]) == found


def test_a_judge_that_says_the_same_of_every_answer_has_no_kappa() -> None:
    found = agreement([(1.0, 1.0), (0.0, 1.0)])
    assert (found.kappa, found.kappa_low) == (None, None)
    assert "no kappa" in found.words


def test_a_right_judge_changes_no_difference_and_a_biased_one_is_taken_off() -> None:
    right: list[Pair] = [(1.0, 1.0), (0.0, 0.0)] * 50
    kind: list[Pair] = [(1.0, 1.0), (0.0, 1.0)] * 50
    assert judge_corrected(0.1, 0.02, 99, right, right).mean == pytest.approx(0.1)
    found = judge_corrected(0.5, 0.02, 99, kind, right)
    assert found.mean == pytest.approx(0.0)
    assert found.low < 0 < found.high


def test_intervals_hold_where_the_judge_errs_differently_in_the_two_arms() -> None:
    """400 simulated comparisons with a true difference of 0.1 and errors of 10 to 30 %: at most 8 % miss it."""
    missed = 0
    for seed in range(400):
        draw = random.Random(seed)

        def said(right: bool, wrong_share: tuple[float, float], draw: random.Random = draw) -> Pair:
            judged = (not right) if draw.random() < wrong_share[right] else right
            return float(right), float(judged)

        arms = [(0.6, (0.3, 0.1)), (0.5, (0.1, 0.3))]
        tasks = [[said(draw.random() < rate, errs)[1] for rate, errs in arms] for _ in range(100)]
        differences = [arm - baseline for arm, baseline in tasks]
        mean = sum(differences) / 100
        error = (sum((one - mean) ** 2 for one in differences) / 99 / 100) ** 0.5
        labels = [[said(draw.random() < rate, errs) for _ in range(60)] for rate, errs in arms]
        found = judge_corrected(mean, error, 99, labels[0], labels[1])
        missed += not found.low <= 0.1 <= found.high
    assert 8 <= missed <= 32
