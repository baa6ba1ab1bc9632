"""Calls TRL's `GRPOTrainer._compute_loss` without a trainer, to compare our losses with it. Needs trl."""

import os
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from agentlearn.train.arguments import Arguments, GRPOArguments, GSPOArguments

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from trl.trainer.grpo_trainer import GRPOTrainer

COMPLETION_LENGTH = 11


@dataclass(frozen=True)
class Case:
    """B rows of T completion tokens with a mask."""

    logprobs_BT: Tensor
    old_BT: Tensor
    sampler_BT: Tensor
    reference_BT: Tensor
    mask_BT: Tensor
    advantages_B: Tensor


def some_case(seed: int, *, drift: float, rows: int = 5, length: int = 7, dtype: torch.dtype = torch.float64) -> Case:
    """Return a random case. `drift` is the typical difference between the policies, in nats."""
    chance = torch.Generator().manual_seed(seed)

    def noise(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=chance, dtype=torch.float64)

    logprobs = -noise(rows, length).abs() - 0.1
    mask = torch.rand(rows, length, generator=chance) < 0.7
    mask[:, 0] = True
    return Case(
        logprobs_BT=logprobs.to(dtype),
        old_BT=(logprobs + drift * noise(rows, length)).to(dtype),
        sampler_BT=(logprobs + drift * noise(rows, length)).to(dtype),
        reference_BT=(logprobs + drift * noise(rows, length)).to(dtype),
        mask_BT=mask.to(dtype),
        advantages_B=noise(rows).to(dtype),
    )


def grid(*, seeds: range, dtype: torch.dtype) -> Iterator[tuple[Arguments, Case]]:
    """Yield all combinations of loss, two-sided clipping, divergence, correction and drift."""
    losses = ("grpo", "dr_grpo", "bnpo", "dapo", "cispo", "gspo")
    corrections = ("none", "token_truncate", "sequence_mask")
    kls = (("none", True), ("k3", True), ("k3", False))
    for loss, delta, (kl, kl_ratio), importance in product(losses, (None, 1.5), kls, corrections):
        if loss == "cispo" and delta is not None:
            continue
        fields: dict[str, Any] = {"delta": delta, "kl": kl, "kl_ratio": kl_ratio, "importance_sampling": importance}
        if kl != "none":
            fields |= {"kl_beta": 0.3, "reference": "copy"}
        if loss == "dr_grpo":
            fields["completion_length"] = COMPLETION_LENGTH
        arguments: Arguments
        arguments = GSPOArguments(**fields) if loss == "gspo" else GRPOArguments(loss=loss, **fields)
        if loss == "cispo":
            arguments = arguments.model_copy(update={"cispo_cap": 1.2})
        for drift, seed in product((0.02, 0.6), seeds):
            yield arguments, some_case(seed, drift=drift, dtype=dtype)


def written_importance(arguments: Arguments, case: Case) -> Tensor:
    """Return the importance weights. TRL computes them while it samples, so they are computed again here."""
    difference = (case.old_BT - case.sampler_BT) * case.mask_BT
    kind, cap = arguments.importance_sampling, arguments.importance_cap
    if kind == "none":
        return torch.ones_like(difference)
    ratio = (difference.sum(1, keepdim=True) if kind.startswith("sequence") else difference).exp()
    return ratio.clamp(max=cap) if kind.endswith("truncate") else ratio.masked_fill(ratio > cap, 0.0)


def trl_loss(
    arguments: Arguments,
    case: Case,
    *,
    accumulation: int = 1,
    steps_per_generation: int = 1,
    tokens: float | None = None,
) -> tuple[Tensor, Tensor, dict[str, list[float]]]:
    """Return TRL's loss of one micro-batch, its gradient with respect to the log-probabilities, and its metrics."""
    logprobs_BT = case.logprobs_BT.clone().requires_grad_()
    metrics: dict[str, list[float]] = defaultdict(list)
    high = arguments.cispo_cap if isinstance(arguments, GRPOArguments) and arguments.loss == "cispo" else None
    stand_in = SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *_, **__: (logprobs_BT, torch.zeros_like(logprobs_BT), None),
        aux_loss_enabled=False,
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        importance_sampling_level="sequence" if arguments.loss == "gspo" else "token",
        loss_type="grpo" if arguments.loss == "gspo" else arguments.loss,
        beta=arguments.kl_beta,
        args=SimpleNamespace(
            use_bias_correction_kl=arguments.kl_ratio, delta=arguments.delta, steps_per_generation=steps_per_generation
        ),
        epsilon_low=arguments.eps_low,
        epsilon_high=arguments.eps_high if high is None else high,
        use_vllm=arguments.importance_sampling != "none",
        vllm_importance_sampling_correction=True,
        model=SimpleNamespace(training=True),
        current_gradient_accumulation_steps=accumulation,
        max_completion_length=COMPLETION_LENGTH,
        accelerator=SimpleNamespace(num_processes=1, reduce=lambda value, **_: value, gather=lambda value: value),
        _entropy_bonus_enabled=False,
        _metrics={"train": metrics},
    )
    nothing = torch.zeros(len(case.mask_BT), 1, dtype=torch.long)
    inputs = {
        "prompt_ids": nothing,
        "prompt_mask": nothing,
        "completion_ids": torch.zeros_like(case.mask_BT, dtype=torch.long),
        "completion_mask": torch.ones_like(case.mask_BT),
        "tool_mask": case.mask_BT,
        "advantages": case.advantages_B,
        "old_per_token_logps": case.old_BT,
        "ref_per_token_logps": case.reference_BT,
        "importance_sampling_ratio": written_importance(arguments, case),
        "num_items_in_batch": case.mask_BT.sum() if tokens is None else torch.tensor(tokens),
    }
    loss: Tensor = GRPOTrainer._compute_loss(stand_in, None, inputs)
    (gradient,) = torch.autograd.grad(loss, logprobs_BT)
    return loss.detach(), gradient, metrics


def flat(losses: ModuleType, case: Case, weights: list[float], logprobs_BT: Tensor) -> Any:
    """Return the case in our format, without mask or padding."""
    keep = case.mask_BT.bool()
    return losses.TokenScores(
        logprobs_N=logprobs_BT[keep],
        old_N=case.old_BT[keep],
        sampler_N=case.sampler_BT[keep],
        reference_N=case.reference_BT[keep],
        row_N=keep.nonzero()[:, 0],
        advantages_B=case.advantages_B,
        weights_B=torch.tensor(weights, dtype=logprobs_BT.dtype),
    )


def our_loss(
    losses: ModuleType, arguments: Arguments, case: Case, *, batch_tokens: float | None = None
) -> tuple[Tensor, Tensor, Any]:
    """Return our loss of the case as one optimiser step, its gradient, and the token losses."""
    logprobs_BT = case.logprobs_BT.clone().requires_grad_()
    tokens_B = [int(tokens) for tokens in case.mask_BT.sum(1)]
    length = getattr(arguments, "completion_length", None)
    weights = losses.row_weights(arguments.loss, tokens_B, batch_tokens=batch_tokens, completion_length=length)
    scored = flat(losses, case, weights, logprobs_BT)
    found = losses.token_losses(scored, arguments)
    loss = losses.loss_share(found, scored)
    gradient = torch.autograd.grad(loss, logprobs_BT)[0] if loss.requires_grad else torch.zeros_like(logprobs_BT)
    return loss.detach(), gradient, found


def apart(losses: ModuleType, cases: Iterator[tuple[Arguments, Case]]) -> float:
    """Return the largest difference between our losses and gradients and TRL's, relative to the largest TRL value.

    The divisor is at least 1.
    """
    worst = 0.0
    for arguments, case in cases:
        theirs, their_gradient, _ = trl_loss(arguments, case)
        ours, our_gradient, _ = our_loss(losses, arguments, case)
        scale = max(1.0, float(their_gradient.abs().max()), abs(float(theirs)))
        gap = max(float((theirs - ours).abs()), float((their_gradient - our_gradient).abs().max())) / scale
        worst = max(worst, gap if gap == gap else float("inf"))
    return worst
