"""Calls TRL's `GRPOTrainer._compute_loss` without a trainer, to compare our losses with it. Needs trl."""

import math
import os
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from types import MethodType, ModuleType, SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from agentlearn.train.arguments import GradientArguments, gradient_arguments
from agentlearn.train.update.metrics import highest_entropies

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
    entropy_BT: Tensor


def some_case(
    seed: int, *, drift: float, rows: int = 5, length: int = 7, dtype: torch.dtype = torch.float64, single: bool = False
) -> Case:
    """Return a random case. drift: typical difference between the policies in nats. single: one token in some rows."""
    chance = torch.Generator().manual_seed(seed)

    def noise(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=chance, dtype=torch.float64)

    logprobs = -noise(rows, length).abs() - 0.1
    mask = torch.rand(rows, length, generator=chance) < 0.7
    mask[:, 0] = True
    if single:
        mask[::2, 1:] = False
    return Case(
        logprobs_BT=logprobs.to(dtype),
        old_BT=(logprobs + drift * noise(rows, length)).to(dtype),
        sampler_BT=(logprobs + drift * noise(rows, length)).to(dtype),
        reference_BT=(logprobs + drift * noise(rows, length)).to(dtype),
        mask_BT=mask.to(dtype),
        advantages_B=noise(rows).to(dtype),
        entropy_BT=noise(rows, length).abs().float().to(dtype),
    )


def grid(*, seeds: range, dtype: torch.dtype) -> Iterator[tuple[GradientArguments, Case]]:
    """Yield all combinations of loss, two-sided clipping, divergence, correction and drift, and options one by one."""
    losses = ("grpo", "dr_grpo", "bnpo", "dapo", "cispo", "sapo", "vespo", "gspo", "luspo")
    corrections = ("none", "token_truncate", "sequence_mask")
    kls = (("none", True), ("k3", True), ("k3", False))
    for loss, delta, (kl, kl_ratio), importance in product(losses, (None, 1.5), kls, corrections):
        if delta is not None and loss in ("cispo", "sapo", "vespo"):
            continue
        correction = "token_mask" if loss == "vespo" and importance == "sequence_mask" else importance
        own = {"kl_ratio": kl_ratio} | ({} if delta is None else {"delta": delta})
        fields: dict[str, Any] = {"kl": kl, "importance_sampling": correction, "loss_settings": own}
        if kl != "none":
            fields |= {"kl_beta": 0.3, "reference": "copy"}
        for drift, seed in product((0.02, 0.6), seeds):
            yield _arguments(loss, fields), some_case(seed, drift=drift, dtype=dtype, single=seed % 2 == 1)
    options: tuple[dict[str, Any], ...] = (
        {"importance_sampling": "token_truncate", "importance_floor": 0.9, "importance_cap": 1.1},
        {"importance_sampling": "token_mask", "importance_floor": 0.9, "importance_cap": 1.1},
        {"importance_sampling": "sequence_truncate", "importance_floor": 0.5},
        {"importance_sampling": "sequence_mask", "importance_floor": 0.5},
        {"loss_settings.off_policy_mask_threshold": 0.05, "kl": "k3", "kl_beta": 0.3, "reference": "copy"},
        {"top_entropy_quantile": 0.4},
        {"top_entropy_quantile": 0.0},
        {"entropy_coef": 0.2},
        {"entropy_coef": 0.2, "top_entropy_quantile": 0.3, "loss_settings.off_policy_mask_threshold": 0.01},
    )
    for loss, fields, seed in product(losses, options, seeds):
        if loss == "vespo" and str(fields.get("importance_sampling")).startswith("sequence"):
            continue
        yield _arguments(loss, fields), some_case(seed, drift=0.3, dtype=dtype)


def _arguments(loss: str, fields: dict[str, Any]) -> GradientArguments:
    """The settings of the loss itself are no rounded numbers, because TRL keeps some of them in fp32."""
    own: dict[str, dict[str, Any]] = {
        "dr_grpo": {"completion_length": COMPLETION_LENGTH},
        "cispo": {"cap": 1.2},
        "sapo": {"temperature_pos": 0.75, "temperature_neg": 2.0},
        "vespo": {"k_pos": 1.0, "lambda_pos": 1.5, "k_neg": 2.5, "lambda_neg": 0.5},
    }
    settings = own.get(loss, {}) | fields.get("loss_settings", {})
    return gradient_arguments({"loss": loss, **fields, "loss_settings": settings})


def written_importance(arguments: GradientArguments, case: Case) -> Tensor:
    """Return the importance weights. TRL computes them while it samples, so they are computed again here."""
    difference = (case.old_BT - case.sampler_BT) * case.mask_BT
    kind, cap = arguments.importance_sampling, arguments.importance_cap
    if kind == "none":
        return torch.ones_like(difference)
    ratio = (difference.sum(1, keepdim=True) if kind.startswith("sequence") else difference).exp()
    floor = -math.inf if arguments.importance_floor is None else arguments.importance_floor
    if kind.endswith("truncate"):
        return ratio.clamp(floor, cap)
    return ratio.masked_fill((ratio < floor) | (ratio > cap), 0.0)


def trl_loss(
    arguments: GradientArguments,
    case: Case,
    *,
    accumulation: int = 1,
    steps_per_generation: int = 1,
    tokens: float | None = None,
) -> tuple[Tensor, Tensor, dict[str, list[float]]]:
    """Return TRL's loss of one micro-batch, its gradient, and its metrics.

    The gradient is that with respect to the log-probabilities, followed by that with respect to the entropies.
    """
    logprobs_BT = case.logprobs_BT.clone().requires_grad_()
    entropy_BT = case.entropy_BT.clone().requires_grad_()
    metrics: dict[str, list[float]] = defaultdict(list)
    own = arguments.loss_settings.model_dump()
    entropy = ("entropy_target", "entropy_coef_delta", "entropy_coef_min", "entropy_coef_max")
    parts = ("temperature_pos", "temperature_neg", "k_pos", "lambda_pos", "k_neg", "lambda_neg")
    stand_in = SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *_, **__: (logprobs_BT, entropy_BT, None),
        get_off_policy_mask=GRPOTrainer.get_off_policy_mask,
        get_gamma_weights=GRPOTrainer.get_gamma_weights,
        aux_loss_enabled=False,
        top_entropy_quantile=arguments.top_entropy_quantile,
        off_policy_mask_threshold=own["off_policy_mask_threshold"],
        importance_sampling_level="sequence" if arguments.loss in ("gspo", "luspo") else "token",
        loss_type="grpo" if arguments.loss == "gspo" else arguments.loss,
        beta=arguments.kl_beta,
        args=SimpleNamespace(
            use_bias_correction_kl=own["kl_ratio"],
            delta=own.get("delta"),
            steps_per_generation=steps_per_generation,
            **dict.fromkeys(entropy),
            **{f"{loss}_{name}": own.get(name) for loss in ("sapo", "vespo") for name in parts},
        ),
        epsilon_low=own.get("eps_low"),
        epsilon_high=own.get("eps_high", own.get("cap")),
        use_vllm=arguments.importance_sampling != "none",
        vllm_importance_sampling_correction=True,
        model=SimpleNamespace(training=True),
        current_gradient_accumulation_steps=accumulation,
        max_completion_length=COMPLETION_LENGTH,
        accelerator=SimpleNamespace(
            num_processes=1,
            reduce=lambda value, **_: value,
            gather=lambda value: value,
            pad_across_processes=lambda value, **_: value,
            sync_gradients=True,
        ),
        _entropy_bonus_enabled=arguments.entropy_coef != 0,
        use_adaptive_entropy=False,
        entropy_coef=arguments.entropy_coef,
        _last_world_entropy=math.inf,
        _entropy_window_stats=None,
        _metrics={"train": metrics},
    )
    stand_in.get_high_entropy_mask = MethodType(GRPOTrainer.get_high_entropy_mask, stand_in)
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
        "sampling_per_token_logps": case.sampler_BT,
        "importance_sampling_ratio": written_importance(arguments, case),
        "num_items_in_batch": case.mask_BT.sum() if tokens is None else torch.tensor(tokens),
    }
    loss: Tensor = GRPOTrainer._compute_loss(stand_in, None, inputs)
    return loss.detach(), _gradient(loss, logprobs_BT, entropy_BT), metrics


def _gradient(loss: Tensor, *inputs: Tensor) -> Tensor:
    """Return the gradients with respect to the inputs, one after the other; 0 where the loss does not depend on one."""
    if not loss.requires_grad:
        return torch.zeros_like(torch.cat(inputs))
    parts = torch.autograd.grad(loss, inputs, allow_unused=True)
    return torch.cat([torch.zeros_like(one) if part is None else part for one, part in zip(inputs, parts, strict=True)])


def flat(
    losses: ModuleType, arguments: GradientArguments, case: Case, weights: list[float], logprobs_BT: Tensor
) -> Any:
    """Return the case in our format, without mask or padding."""
    keep = case.mask_BT.bool()
    chosen = arguments.top_entropy_quantile < 1
    return losses.TokenScores(
        logprobs_N=logprobs_BT[keep],
        old_N=case.old_BT[keep],
        sampler_N=case.sampler_BT[keep],
        reference_N=case.reference_BT[keep],
        row_N=keep.nonzero()[:, 0],
        rollout_N=keep.nonzero()[:, 0],
        before_N=case.old_BT[keep],
        advantages_B=case.advantages_B,
        weights_B=torch.tensor(weights, dtype=logprobs_BT.dtype),
        chosen_N=highest_entropies(case.entropy_BT[keep], arguments.top_entropy_quantile) if chosen else None,
    )


def our_loss(
    losses: ModuleType,
    arguments: GradientArguments,
    case: Case,
    *,
    batch_tokens: float | None = None,
) -> tuple[Tensor, Tensor, Any]:
    """Return our loss of the case as one optimiser step, its gradient as in `trl_loss`, and the token losses."""
    logprobs_BT = case.logprobs_BT.clone().requires_grad_()
    entropy_BT = case.entropy_BT.clone().requires_grad_()
    tokens_B = [int(tokens) for tokens in case.mask_BT.sum(1)]
    length = getattr(arguments.loss_settings, "completion_length", None)
    weights = losses.row_weights(arguments.loss, tokens_B, batch_tokens=batch_tokens, completion_length=length)
    scored = flat(losses, arguments, case, weights, logprobs_BT)
    found = losses.token_losses(scored, arguments)
    loss = losses.loss_share(found, scored)
    if arguments.entropy_coef > 0:
        entropy_N = entropy_BT[case.mask_BT.bool()]
        chosen_N = torch.ones_like(entropy_N) if scored.chosen_N is None else scored.chosen_N
        loss = loss - arguments.entropy_coef * (entropy_N * chosen_N).sum() / float(chosen_N.sum())
    return loss.detach(), _gradient(loss, logprobs_BT, entropy_BT), found


def apart(losses: ModuleType, cases: Iterator[tuple[GradientArguments, Case]], *, enough: float = math.inf) -> float:
    """Return the largest difference between our losses and gradients and TRL's, relative to the largest TRL value.

    The divisor is at least 1. enough: stop at a difference above this.
    """
    worst = 0.0
    for arguments, case in cases:
        theirs, their_gradient, _ = trl_loss(arguments, case)
        ours, our_gradient, _ = our_loss(losses, arguments, case)
        scale = max(1.0, float(their_gradient.abs().max()), abs(float(theirs)))
        gap = max(float((theirs - ours).abs()), float((their_gradient - our_gradient).abs().max())) / scale
        worst = max(worst, gap if gap == gap else float("inf"))
        if worst > enough:
            break
    return worst
