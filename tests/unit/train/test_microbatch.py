"""Micro-batches: every row once, within the budget, nothing but trained tokens scored."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.errors import ConfigError
from agentlearn.train.update.microbatch import (
    MicroBatch,
    canonical_order,
    check_rows,
    divide_rows,
    forward_length,
    plan_microbatches,
)
from tests.support.tiny_lm import VOCABULARY, some_rows

LENGTHS = st.lists(st.integers(0, 50), max_size=30)


@given(lengths=LENGTHS, budget=st.integers(1, 200))
def test_every_row_is_in_one_micro_batch_within_the_budget(lengths: list[int], budget: int) -> None:
    parts = plan_microbatches(lengths, budget)
    assert sorted(b for part in parts for b in part) == [b for b, length in enumerate(lengths) if length]
    for part in parts:
        assert len(part) == 1 or len(part) * max(lengths[b] for b in part) <= budget
    longest = [max(lengths[b] for b in part) for part in parts]
    assert longest == sorted(longest, reverse=True)


def test_a_micro_batch_holds_the_trained_tokens_and_no_others() -> None:
    rows = some_rows(5)
    batch = MicroBatch.of(rows)
    width = batch.ids_BT.shape[1]
    assert width == max(forward_length(row) for row in rows)
    for n, (place, target, b) in enumerate(zip(batch.places_N, batch.targets_N, batch.row_N, strict=True)):
        row, t = rows[int(b)], int(place) - int(b) * width + 1
        assert row.mask_T[t]
        assert int(row.ids_T[t]) == int(target)
        assert float(batch.sampler_N[n]) == float(row.logprobs_T[t])
        assert int(batch.ids_BT.flatten()[place]) == int(row.ids_T[t - 1])
    assert len(batch.targets_N) == sum(row.trained for row in rows)


@given(order=st.permutations(range(7)), minibatches=st.integers(1, 9), seed=st.integers(0, 5))
def test_optimiser_steps_share_all_rows_whatever_their_order(order: list[int], minibatches: int, seed: int) -> None:
    rows = some_rows(7)
    cut = divide_rows(canonical_order(rows), minibatches, seed)
    again = divide_rows(canonical_order([rows[n] for n in order]), minibatches, seed)
    assert [[row.rollout for row in one] for one in cut] == [[row.rollout for row in one] for one in again]
    assert sorted(row.rollout for one in cut for row in one) == [row.rollout for row in rows]
    sizes = [len(one) for one in cut]
    assert len(sizes) == min(minibatches, 7)
    assert max(sizes) - min(sizes) <= 1


def _without(row, **changes):
    return dataclasses.replace(row, **changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"logprobs_T": np.zeros(0, dtype=np.float32)},
            ("has 17 sampled tokens and no log-probabilities; sample from an endpoint that reports them"),
        ),
        (
            {"logprobs_T": np.zeros(3, dtype=np.float32)},
            (
                "has 22 tokens, a mask of 22 and 3 log-probabilities; these numbers must be equal, "
                "so leave the rollout out and check its sampler"
            ),
        ),
        (
            {"logprobs_T": np.full(22, np.nan, dtype=np.float32)},
            ("has 17 sampled tokens whose log-probability is not a number; sample from an endpoint that reports them"),
        ),
        (
            {"mask_T": np.ones(22, dtype=bool)},
            ("marks its first token as sampled, but has no prompt before it; include the prompt"),
        ),
        (
            {"ids_T": np.full(22, VOCABULARY)},
            ("has token ids from 48 to 48, but the model has 0 to 47; train the model that sampled them"),
        ),
        ({"advantage": float("nan")}, "has the advantage nan; an advantage is a finite number"),
    ],
)
def test_rows_that_are_not_whole_are_refused_by_a_sentence(changes: dict, words: str) -> None:
    row = some_rows(1)[0]
    check_rows([row], VOCABULARY)
    with pytest.raises(ConfigError) as refused:
        check_rows([_without(row, **changes)], VOCABULARY)
    assert str(refused.value) == f"a row of rollout 'rollout-000' {words}"
