# ruff: noqa: E402  what needs torch is imported after it is known to be there
"""Losses where ours differ from TRL's on purpose, against references written out number by number."""

import math

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given
from hypothesis import strategies as st

from agentlearn.train.arguments import LossName
from agentlearn.train.update import losses


@pytest.mark.parametrize(
    ("kind", "formula"),
    [
        ("k1", lambda logp, ref: logp - ref),
        ("k2", lambda logp, ref: (logp - ref) ** 2 / 2),
        ("k3", lambda logp, ref: math.exp(ref - logp) - (ref - logp) - 1),
        ("none", lambda logp, ref: 0.0),
    ],
)
def test_divergences_by_their_formulas(kind: str, formula) -> None:
    logp, ref = [-0.3, -2.0, -1.0], [-0.9, -1.1, -1.0]
    found = losses.divergence(kind, torch.tensor(logp).double(), torch.tensor(ref).double())
    assert found.tolist() == pytest.approx([formula(*pair) for pair in zip(logp, ref, strict=True)])


def test_divergences_agree_in_the_mean() -> None:
    """Over all tokens of a distribution k1 and k3 give the exact divergence; k2 comes near it."""
    policy, reference = torch.tensor([[0.5, 0.3, 0.2], [0.45, 0.3, 0.25]], dtype=torch.float64)
    exact = float((policy * (policy / reference).log()).sum())
    means = {
        kind: float((policy * losses.divergence(kind, policy.log(), reference.log())).sum())
        for kind in ("k1", "k2", "k3")
    }
    assert means["k1"] == pytest.approx(exact)
    assert means["k3"] == pytest.approx(exact)
    assert means["k2"] == pytest.approx(exact, rel=0.1)


@given(
    tokens=st.lists(st.integers(0, 9), min_size=1, max_size=8),
    loss=st.sampled_from(["grpo", "gspo", "bnpo", "dapo", "cispo", "sapo", "vespo"]),
)
def test_equal_losses_average_to_themselves(tokens: list[int], loss: LossName) -> None:
    """One denominator: whatever the lengths, a loss of 1 at each token is a loss of 1, if one is trained."""
    weights = losses.row_weights(loss, tokens)
    total = sum(weight * count for weight, count in zip(weights, tokens, strict=True))
    assert total == pytest.approx(1.0 if any(tokens) else 0.0)


def test_rows_without_trained_tokens_count_nowhere() -> None:
    """TRL counts them in the mean over rows, which pulls every loss towards 0 as more rollouts are masked."""
    for loss in ("grpo", "gspo", "bnpo", "dapo", "cispo", "sapo", "vespo", "luspo"):
        assert losses.row_weights(loss, [3, 0, 5, 0]) == [
            weight for pair in zip(losses.row_weights(loss, [3, 5]), [0.0, 0.0], strict=True) for weight in pair
        ]
    assert losses.row_weights("luspo", [3, 5, 0, 1]) == [1 / 3, 1 / 3, 0.0, 1 / 3]
    assert losses.row_weights("dr_grpo", [3, 0], completion_length=10) == [0.1, 0.0]


def test_bnpo_is_over_the_step_and_not_over_a_micro_batch() -> None:
    """TRL averages bnpo within each micro-batch, so that its split changes the gradient; ours is over the step."""
    assert losses.row_weights("bnpo", [1, 3]) == [0.25, 0.25]
    assert losses.row_weights("bnpo", [1, 3], batch_tokens=100) == [0.25, 0.25]
    assert losses.row_weights("dapo", [1, 3], batch_tokens=8) == [0.125, 0.125]


def test_sums_over_rows_do_not_depend_on_the_order_of_tokens() -> None:
    values, rows = torch.arange(6).double(), torch.tensor([0, 2, 0, 2, 2, 0])
    order = torch.tensor([5, 0, 3, 1, 4, 2])
    assert losses.row_sums(values, rows, 3).tolist() == [7.0, 0.0, 8.0]
    assert torch.equal(losses.row_means(values[order], rows[order], 3), losses.row_means(values, rows, 3))
