"""Anytime-valid evidence: what may be concluded at any time, and how often that is wrong."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.measure.sequential import anytime

bounded = st.lists(st.floats(-1, 1).map(lambda value: round(value, 3)), min_size=1, max_size=40)


def capital(differences: list[float], mean: float, alpha: float, sign: int) -> list[float]:
    """The bets against `mean`, one after another, as the definition has them."""
    x = [(1 + sign * difference) / 2 for difference in differences]
    claim = (1 + sign * mean) / 2
    found, money, total, squares = list[float](), 1.0, 0.5, 0.25
    for step, one in enumerate(x, 1):
        bet = math.sqrt(2 * math.log(2 / alpha) / (squares / step * step * math.log(1 + step)))
        money *= 1 + min(bet, 0.5 / claim if claim else math.inf) * (one - claim)
        found.append(money / 2)
        total += one
        squares += (one - total / (step + 1)) ** 2
    return found


@given(bounded, st.sampled_from([0.01, 0.05, 0.2]))
def test_it_is_the_bets_of_the_definition(differences: list[float], alpha: float):
    found = anytime(differences, alpha=alpha)
    either = [max(pair) for pair in zip(*(capital(differences, 0, alpha, sign) for sign in (1, -1)), strict=True)]
    assert found.e == pytest.approx(max(1.0, *either), rel=1e-10)
    assert found.p == pytest.approx(1 / found.e)
    assert found.decided == next((n for n, one in enumerate(either, 1) if one >= 1 / alpha), None)
    for bound, sign in ((found.low, 1), (found.high, -1)):
        if abs(bound) < 1:
            assert max(capital(differences, bound, alpha, sign)) == pytest.approx(1 / alpha, rel=1e-6)


@given(bounded)
def test_more_differences_never_widen_it_and_arms_swapped_mirror_it(differences: list[float]):
    whole, part = anytime(differences), anytime(differences[: len(differences) // 2 + 1])
    mirrored = anytime([-one for one in differences])
    # The bets do not depend on what comes later, so the past is the same.
    assert part.low <= whole.low + 1e-12
    assert whole.high <= part.high + 1e-12
    assert whole.p <= part.p
    assert (mirrored.low, mirrored.high) == (pytest.approx(-whole.high), pytest.approx(-whole.low))


@given(bounded, st.sampled_from([0.05, 0.3]))
def test_zero_is_refuted_exactly_when_it_is_outside(differences: list[float], alpha: float):
    found = anytime([min(1.0, one + 0.5) for one in differences], alpha=alpha)
    refuted = not found.low <= 0 <= found.high
    assert refuted == (found.decided is not None) or found.p == pytest.approx(alpha)


@pytest.mark.parametrize(
    ("values", "chances"),
    [
        ((-1.0, 0.0, 1.0), (0.1, 0.8, 0.1)),
        ((1.0, -1 / 19), (0.05, 0.95)),  # skewed, of mean 0
        ((-0.25, 0.25), (0.5, 0.5)),
    ],
)
def test_looking_after_every_task_errs_no_more_than_alpha(values: tuple[float, ...], chances: tuple[float, ...]):
    rng, alpha, runs = np.random.default_rng(23), 0.1, 300
    wrong = sum(
        anytime(rng.choice(values, size=120, p=chances).tolist(), alpha=alpha).decided is not None for _ in range(runs)
    )
    assert wrong / runs <= alpha + 3 * math.sqrt(alpha * (1 - alpha) / runs)


def test_it_covers_a_mean_that_is_not_zero_at_all_times_together():
    rng, runs = np.random.default_rng(29), 300
    missed = 0
    for _ in range(runs):
        found = anytime(rng.choice([-1.0, 0.0, 1.0], size=120, p=[0.1, 0.6, 0.3]).tolist(), alpha=0.1)
        missed += not found.low <= 0.2 <= found.high
    assert missed / runs <= 0.1 + 3 * math.sqrt(0.09 / runs)


def test_a_clear_effect_is_found_and_when_is_said():
    found = anytime([0.5, 0.25] * 40)
    assert found.decided is not None
    assert found.decided < 40
    assert 0 < found.low < 0.375 < found.high
    assert anytime([0.5, 0.25] * (found.decided // 2 + 1)).decided == found.decided


def test_overwhelming_evidence_is_infinite():
    found = anytime([1.0] * 4_000)
    assert (found.e, found.high) == (math.inf, 1)
    assert found.p < 1e-300
