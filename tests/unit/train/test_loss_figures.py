# ruff: noqa: E402  what needs torch is imported after it is known to be there
"""What is said of the token losses: ratios and clipping by sequence for gspo, by the cap for cispo."""

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentlearn.train.arguments import gradient_arguments
from agentlearn.train.distributed.processes import Processes
from agentlearn.train.update.losses import TokenLosses, TokenScores, importance, token_losses
from agentlearn.train.update.metrics import Meter


def scores(log_ratios: list[list[float]], advantages: list[float], sampler: float = -1.0) -> TokenScores:
    """Scores of rows with these logarithms of the ratio."""
    row_N = [b for b, row in enumerate(log_ratios) for _ in row]
    old_N = torch.full((len(row_N),), -1.0)
    flat = torch.tensor([one for row in log_ratios for one in row])
    return TokenScores(
        logprobs_N=(old_N + flat).requires_grad_(),
        old_N=old_N,
        sampler_N=torch.full_like(old_N, sampler),
        reference_N=old_N - 0.25,
        row_N=torch.tensor(row_N),
        advantages_B=torch.tensor(advantages),
        weights_B=torch.ones(len(log_ratios)),
    )


def scored(log_ratios: list[list[float]], advantages: list[float], **fields: Any) -> TokenLosses:
    """Token losses of rows with these logarithms of the ratio."""
    return token_losses(scores(log_ratios, advantages), gradient_arguments(fields))


def test_gspo_has_one_ratio_for_a_row_of_any_length() -> None:
    found = scored([[0.3], [0.1, 0.5], [0.2, 0.2, -0.1]], [1.0, 1.0, 1.0], loss="gspo")
    wanted = [0.3, 0.3, 0.3, 0.1, 0.1, 0.1]
    assert found.ratio_N.tolist() == pytest.approx([math.exp(one) for one in wanted])


def test_gspo_counts_clipping_by_the_sequence() -> None:
    """The tokens of the first row are far apart, but its ratio is 1. No token of the second row is beyond its own
    bound alone."""
    found = scored([[0.9, -0.9], [0.5, 0.1]], [1.0, 1.0], loss="gspo", eps_low=0.2, eps_high=0.28)
    assert found.clipped_high_N.tolist() == [False, False, True, True]
    low = scored([[0.9, -0.9], [-0.5, -0.1]], [-1.0, -1.0], loss="gspo", eps_low=0.2, eps_high=0.28)
    assert low.clipped_low_N.tolist() == [False, False, True, True]


def test_cispo_counts_the_tokens_whose_weight_met_the_cap() -> None:
    found = scored([[0.5, 1.2, -3.0]], [1.0], loss="cispo", cispo_cap=2.0)
    assert found.clipped_high_N.tolist() == [False, True, False]
    bad = scored([[0.5, 1.2, -3.0]], [-1.0], loss="cispo", cispo_cap=2.0)
    assert not bad.clipped_low_N.any()


def test_only_a_loss_that_clipping_changed_is_counted() -> None:
    good, bad = (scored([[0.9, 0.1, -0.9]], [advantage]) for advantage in (1.0, -1.0))
    assert (good.clipped_high_N.tolist(), good.clipped_low_N.tolist()) == ([True, False, False], [False] * 3)
    assert (bad.clipped_high_N.tolist(), bad.clipped_low_N.tolist()) == ([False] * 3, [False, False, True])


def test_only_the_loss_has_a_gradient() -> None:
    found = scored([[0.1, 0.2]], [1.0], kl="k3", kl_beta=0.1, reference="copy")
    assert found.loss_N.requires_grad
    assert found.kl_N is not None
    assert not any(one.requires_grad for one in (found.ratio_N, found.importance_N, found.kl_N))
    assert found.kl_N.tolist() != [0.0, 0.0]


def test_importance_weights_are_constant() -> None:
    old_N = torch.tensor([-1.0, -2.0], requires_grad=True)
    for kind in ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask"):
        weights = importance(kind, old_N, torch.tensor([-1.5, -1.5]), torch.tensor([0, 0]), 1, cap=9.0)
        assert not weights.requires_grad


def test_metrics_are_means_over_tokens_and_extremes_over_rows() -> None:
    meter, arguments = Meter(), gradient_arguments({})
    high = scores([[0.9, 0.0], [0.0, 0.1, 0.0], [0.9, 0.0, 0.0]], [1.0] * 3, sampler=-1.5)
    low = scores([[-0.9, -0.9], [-0.9, 0.0]], [-1.0] * 2, sampler=-1.5)
    for one, loss in ((high, 3.0), (low, -1.0)):
        meter.add(token_losses(one, arguments), one, torch.ones_like(one.old_N), torch.tensor(loss))
    found = meter.figures(Processes(), torch.device("cpu"), cispo=False, steps=4)
    assert found["loss"] == pytest.approx(0.5)
    assert found["clip_ratio/high_mean"] == pytest.approx(2 / 12)
    assert found["clip_ratio/high_max"] == pytest.approx(1 / 2)
    assert found["clip_ratio/low_mean"] == pytest.approx(3 / 12)
    assert found["clip_ratio/low_min"] == 0.0
    assert found["clip_ratio/region_mean"] == pytest.approx(5 / 12)
    ratios = [math.exp(one) for one in (0.9, 0, 0, 0.1, 0, 0.9, 0, 0, -0.9, -0.9, -0.9, 0)]
    assert found["ratio/mean"] == pytest.approx(sum(ratios) / 12, rel=1e-5)
    assert found["ratio/max"] == pytest.approx(math.exp(0.9), rel=1e-5)
    assert found["mismatch/kl"] == pytest.approx(-0.5)
    assert found["mismatch/ratio_mean"] == pytest.approx(math.exp(0.5), rel=1e-5)
    assert found["effective_sample_size"] == pytest.approx(1.0)
    only_low = Meter()
    only_low.add(token_losses(low, arguments), low, torch.ones_like(low.old_N), torch.tensor(0.0))
    assert only_low.figures(Processes(), torch.device("cpu"), cispo=False, steps=1)["clip_ratio/low_min"] == 0.5
