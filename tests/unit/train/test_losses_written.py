"""Properties of every loss, and what differs from TRL on purpose."""

import math
from typing import Any, get_args

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from agentlearn.train.arguments import LossName, gradient_arguments  # noqa: E402
from agentlearn.train.update import losses  # noqa: E402

NOT_CLIPPED_HIGH = {"sapo", "vespo", "distill"}
NOT_CLIPPED_LOW = NOT_CLIPPED_HIGH | {"cispo"}
NEEDED = {
    "dr_grpo": {"loss_settings": {"completion_length": 9}},
    "distill": {"distillation": {"coef": 1.0}, "reference": "copy"},
}


def step_gradient(loss: LossName, seed: int, drift: float, parts: list[list[int]]) -> torch.Tensor:
    """The gradient of a step's loss by the log-probabilities, computed in these micro-batches of its rows."""
    arguments, chance = gradient_arguments({"loss": loss} | NEEDED.get(loss, {})), torch.Generator().manual_seed(seed)

    def noise(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=chance, dtype=torch.float64)

    tokens_B = [3, 1, 4, 2]
    logprobs, advantages_B = -noise(10).abs() - 0.1, noise(4)
    old, sampler = logprobs + drift * noise(10), logprobs + drift * noise(10)
    student, teacher = (-(noise(10, 2).abs() + 1.5) for _ in range(2))
    row_N = torch.repeat_interleave(torch.arange(4), torch.tensor(tokens_B))
    weights = torch.tensor(losses.row_weights(loss, tokens_B, completion_length=9))
    leaf, student = logprobs.clone().requires_grad_(), student.requires_grad_()
    total: Any = 0
    for rows in parts:
        keep = torch.cat([(row_N == row).nonzero()[:, 0] for row in rows])
        scores = losses.TeacherScores(torch.zeros(len(keep), 2), teacher[keep], torch.ones(len(keep)), 0.1)
        scored = losses.TokenScores(
            logprobs_N=leaf[keep],
            old_N=old[keep],
            sampler_N=sampler[keep],
            reference_N=None,
            row_N=torch.tensor([rows.index(int(row)) for row in row_N[keep]]),
            rollout_N=torch.tensor([rows.index(int(row)) for row in row_N[keep]]),
            before_N=old[keep],
            advantages_B=advantages_B[rows],
            weights_B=weights[rows],
            teacher=scores if loss == "distill" else None,
            student_N_K=student[keep] if loss == "distill" else None,
        )
        found = losses.token_losses(scored, arguments)
        assert loss not in NOT_CLIPPED_LOW or not found.clipped_low_N.any()
        assert loss not in NOT_CLIPPED_HIGH or not found.clipped_high_N.any()
        total = total + losses.loss_share(found, scored)
    inputs = student if loss == "distill" else leaf
    (gradient,) = torch.autograd.grad(total, inputs)
    if not drift and loss != "distill":  # on policy, each token becomes likelier by the sign of its row's advantage
        assert torch.equal(gradient.sign(), -advantages_B[row_N].sign())
    return gradient


@given(
    loss=st.sampled_from(get_args(LossName)),
    seed=st.integers(0, 99),
    drift=st.sampled_from([0.0, 0.05, 0.5]),
    order=st.permutations(range(4)),
    cut=st.integers(1, 3),
)
def test_a_step_s_gradient_does_not_depend_on_its_micro_batches(
    loss: LossName, seed: int, drift: float, order: list[int], cut: int
) -> None:
    whole = step_gradient(loss, seed, drift, [[0, 1, 2, 3]])
    assert torch.allclose(step_gradient(loss, seed, drift, [order[:cut], order[cut:]]), whole, atol=1e-12)
    assert drift or whole.abs().max() > 0


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


def test_rows_have_one_denominator_and_those_without_trained_tokens_count_nowhere() -> None:
    """TRL counts them in the mean over rows, and averages bnpo within each micro-batch, not over the step."""
    for loss in get_args(LossName):
        length = {"completion_length": 10} if loss == "dr_grpo" else {}
        without = losses.row_weights(loss, [3, 5], **length)
        assert losses.row_weights(loss, [3, 0, 5, 0], **length) == [without[0], 0.0, without[1], 0.0]
        if loss not in {"luspo", "dr_grpo"}:  # a loss of 1 at each token is a loss of 1
            assert 3 * without[0] + 5 * without[1] == pytest.approx(1)
    assert losses.row_weights("luspo", [3, 5, 0, 1]) == [1 / 3, 1 / 3, 0.0, 1 / 3]
    assert losses.row_weights("dr_grpo", [3, 0], completion_length=10) == [0.1, 0.0]
    assert losses.row_weights("bnpo", [1, 3], batch_tokens=100) == [0.25, 0.25]
    assert losses.row_weights("dapo", [1, 3], batch_tokens=8) == [0.125, 0.125]
