"""E-processes: capital never grows on average under the hypothesis, and late effects are found."""

import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.errors import ConfigError
from agentlearn.measure.sequential import BETS, EProcess, e_bh, waiting

differences = st.lists(st.floats(-1, 1, allow_nan=False), max_size=30)


def expected_capital(values: tuple[float, ...], chances: tuple[float, ...], length: int) -> float:
    """The expected capital after `length` draws, by enumeration of all of them."""
    total = 0.0
    for path in product(range(len(values)), repeat=length):
        chance = math.prod(chances[one] for one in path)
        total += chance * math.exp(EProcess().after(values[one] for one in path).log_e)
    return total


def test_the_expected_capital_is_never_more_than_1_when_the_mean_is_not_above_0(subtests: pytest.Subtests) -> None:
    for values, chances in [
        ((-1.0, 1.0), (0.5, 0.5)),
        ((-1.0, 1.0), (0.6, 0.4)),
        ((-0.25, 0.75), (0.75, 0.25)),
        ((-1.0, 0.0, 0.5), (0.2, 0.4, 0.4)),
        ((0.0,), (1.0,)),
    ]:
        for length in [1, 2, 5]:
            with subtests.test(repr((values, chances, length))):
                found = expected_capital(values, chances, length)
                assert found <= 1 + 1e-12
                if math.fsum(v * c for v, c in zip(values, chances, strict=True)) == 0:
                    assert found == pytest.approx(1)


@given(values=differences)
def test_the_capital_is_the_sum_over_all_bets_and_all_starts(values: list[float]) -> None:
    n = len(values)
    capital = waiting(n) * len(BETS)
    for bet, start in product(BETS, range(n)):
        capital += (waiting(start) - waiting(start + 1)) * math.prod(1 + bet * one for one in values[start:])
    assert EProcess().after(values).log_e == pytest.approx(math.log(capital / len(BETS)), abs=1e-9)


@given(values=differences, cut=st.integers(0, 30))
def test_evidence_goes_on_where_it_was_stored(values: list[float], cut: int) -> None:
    stored = EProcess().after(values[:cut]).model_dump_json()
    continued, whole = EProcess.model_validate_json(stored).after(values[cut:]), EProcess().after(values)
    assert (continued.n, continued.log_e) == (whole.n, pytest.approx(whole.log_e, abs=1e-9))


def test_an_effect_that_begins_after_a_thousand_differences_is_found() -> None:
    before = EProcess().after([-0.2] * 1_000)
    assert before.log_e < 0
    assert before.after([0.5] * 100).log_e > math.log(1_000)


def test_very_long_evidence_neither_overflows_nor_vanishes() -> None:
    assert EProcess().after([1.0] * 5_000).log_e > 1_000
    assert math.isfinite(EProcess().after([-1.0] * 5_000).log_e)


@given(log_e=st.lists(st.floats(-10, 20), max_size=12), alpha=st.floats(0.01, 0.5))
def test_e_bh_rejects_the_largest_set_whose_members_all_reach_its_threshold(log_e: list[float], alpha: float) -> None:
    n = len(log_e)
    sizes = [k for k in range(1, n + 1) if sum(one >= math.log(n / (k * alpha)) for one in log_e) >= k]
    found = e_bh(log_e, alpha)
    assert len(found) == max(sizes, default=0)
    kept = [one for index, one in enumerate(log_e) if index not in found]
    assert not found or not kept or max(kept) <= min(log_e[index] for index in found)


def test_e_bh_takes_no_part_of_hypotheses_without_evidence() -> None:
    assert e_bh([-math.inf, 50.0, -math.inf], 0.1) == (1,)
    assert e_bh([], 0.1) == ()
    with pytest.raises(ConfigError):
        e_bh([1.0], 1.5)
