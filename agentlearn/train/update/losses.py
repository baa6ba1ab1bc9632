"""The losses of gradient GRPO as pure functions on flat tensors, without a model, a batch layout or a mask.

Axes: N trained tokens of some rows, B rows. `row_N` says whose token each is. Padding, prompts and tool results never
get here, so no mask can be forgotten; sums over a row are sums over its tokens, however they are laid out.

One optimiser step has one denominator (`row_weights`), taken from all rows of the step, in every process and every
micro-batch: its loss is the sum of each token's loss times its row's weight. So neither the split into micro-batches
nor the number of processes changes a gradient. Libraries that average per micro-batch differ here, on purpose.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from agentlearn.train.arguments import Arguments, Divergence, Importance, LossName


@dataclass(frozen=True, slots=True, eq=False)
class TokenScores:
    """The trained tokens of B rows under the weights that learn, those that went before, and those that drew them."""

    logprobs_N: Tensor
    """Under the weights that learn; carries the gradient."""
    old_N: Tensor
    """Under the weights that the ratio is taken against; constant."""
    sampler_N: Tensor
    """As the sampler reported them; constant."""
    reference_N: Tensor | None
    """Under the reference; constant."""
    row_N: Tensor
    """Index of each token's row, 0 to B - 1."""
    advantages_B: Tensor
    weights_B: Tensor
    """Of each row in the loss: see `row_weights`."""


@dataclass(frozen=True, slots=True, eq=False)
class TokenLosses:
    """The loss of each token, and what was found on the way; all but the loss without gradient."""

    loss_N: Tensor
    """Before the row's weight."""
    ratio_N: Tensor
    """Of the policy to the old one; for gspo the sequence's, at each of its tokens."""
    clipped_low_N: Tensor
    """Whether clipping from below took the token's gradient."""
    clipped_high_N: Tensor
    """Likewise from above; for cispo, whether the cap bounded its weight."""
    importance_N: Tensor
    """The correction for the sampler's probabilities."""
    kl_N: Tensor | None


def token_losses(scored: TokenScores, arguments: Arguments) -> TokenLosses:
    """The loss of each token: policy loss x importance weight + beta x divergence."""
    advantage_N = scored.advantages_B[scored.row_N]
    rows = len(scored.advantages_B)
    if arguments.loss == "gspo":
        ratio_N = sequence_ratio(scored.logprobs_N, scored.old_N, scored.row_N, rows)
    else:
        ratio_N = token_ratio(scored.logprobs_N, scored.old_N)
    importance_N = importance(
        arguments.importance_sampling, scored.old_N, scored.sampler_N, scored.row_N, rows, cap=arguments.importance_cap
    )
    low, high = 1 - arguments.eps_low, 1 + arguments.eps_high
    if arguments.loss == "cispo":
        policy_N = cispo(ratio_N, advantage_N, scored.logprobs_N, cap=arguments.cispo_cap)
        low, high = 0.0, arguments.cispo_cap
    else:
        policy_N = clipped(ratio_N, advantage_N, low=low, high=high, delta=arguments.delta)
    loss_N = policy_N * importance_N
    kl_N = None
    if arguments.kl != "none":
        assert scored.reference_N is not None, "a divergence needs the reference's log-probabilities"
        kl_N = divergence(arguments.kl, scored.logprobs_N, scored.reference_N)
        kl_N = kl_N * ratio_N if arguments.kl_ratio else kl_N
        loss_N = loss_N + arguments.kl_beta * kl_N
    bounded_N = ratio_N.detach()
    return TokenLosses(
        loss_N=loss_N,
        ratio_N=bounded_N,
        clipped_low_N=(bounded_N < low) & (advantage_N < 0),
        clipped_high_N=(bounded_N > high) & (advantage_N > 0),
        importance_N=importance_N,
        kl_N=None if kl_N is None else kl_N.detach(),
    )


def summed(losses: TokenLosses, scored: TokenScores) -> Tensor:
    """A part's share of its step's loss, a scalar: the parts of a step add up to its loss."""
    return (losses.loss_N * scored.weights_B[scored.row_N]).sum()


def token_ratio(logprobs_N: Tensor, old_N: Tensor) -> Tensor:
    """exp(logp - old) of each token. GRPO, arXiv:2402.03300."""
    return torch.exp(logprobs_N - old_N)


def sequence_ratio(logprobs_N: Tensor, old_N: Tensor, row_N: Tensor, rows: int) -> Tensor:
    """exp of the mean of logp - old over the token's row, at each of its tokens. GSPO, arXiv:2507.18071."""
    return torch.exp(row_means(logprobs_N - old_N, row_N, rows))[row_N]


def clipped(ratio_N: Tensor, advantage_N: Tensor, *, low: float, high: float, delta: float | None) -> Tensor:
    """-min(min(r, delta) A, clip(r, low, high) A).

    low, high: bounds of the ratio itself, 1 - eps_low and 1 + eps_high. delta: bound of the unclipped side, None for
    none (two-sided clipping, arXiv:2505.07291).
    """
    free_N = ratio_N if delta is None else ratio_N.clamp(max=delta)
    return -torch.minimum(free_N * advantage_N, ratio_N.clamp(low, high) * advantage_N)


def cispo(ratio_N: Tensor, advantage_N: Tensor, logprobs_N: Tensor, *, cap: float) -> Tensor:
    """-min(r, cap) A logp, where only logp carries a gradient. CISPO, arXiv:2506.13585."""
    return -ratio_N.detach().clamp(max=cap) * advantage_N * logprobs_N


def divergence(kind: Divergence, logprobs_N: Tensor, reference_N: Tensor) -> Tensor:
    """An estimate of KL(policy || reference) at each token, with d = reference - logp.

    k1: -d, unbiased, of either sign. k2: d^2 / 2, biased, of low variance. k3: e^d - d - 1, unbiased and never
    negative. All are 0 where both agree.
    """
    d_N = reference_N - logprobs_N
    match kind:
        case "k1":
            return -d_N
        case "k2":
            return d_N.square() / 2
        case "k3":
            return torch.expm1(d_N) - d_N
        case "none":
            return torch.zeros_like(d_N)


def importance(kind: Importance, old_N: Tensor, sampler_N: Tensor, row_N: Tensor, rows: int, *, cap: float) -> Tensor:
    """The weight of each token that corrects for its having been drawn by the sampler; constant.

    A token's ratio exp(old - sampler), or the product of its row's, at each of its tokens; above the cap it is cut to
    it (truncate) or 0 (mask).
    """
    difference_N = (old_N - sampler_N).detach()
    if kind == "none":
        return torch.ones_like(difference_N)
    if kind.startswith("sequence"):
        difference_N = row_sums(difference_N, row_N, rows)[row_N]
    weight_N = torch.exp(difference_N)
    if kind.endswith("truncate"):
        return weight_N.clamp(max=cap)
    return torch.where(weight_N > cap, torch.zeros_like(weight_N), weight_N)


def row_sums(values_N: Tensor, row_N: Tensor, rows: int) -> Tensor:
    """Sum over the tokens of each row: shape (B,), 0 for a row without tokens."""
    return values_N.new_zeros(rows).index_add(0, row_N, values_N)


def row_means(values_N: Tensor, row_N: Tensor, rows: int) -> Tensor:
    """Mean over the tokens of each row: shape (B,), 0 for a row without tokens."""
    tokens_B = row_sums(torch.ones_like(values_N), row_N, rows)
    return row_sums(values_N, row_N, rows) / tokens_B.clamp(min=1)


def row_weights(
    loss: LossName, tokens_B: Sequence[int], *, batch_tokens: float | None = None, completion_length: int | None = None
) -> list[float]:
    """The weight of each row's tokens in the loss of one optimiser step: one denominator for all of it.

    tokens_B: trained tokens of every row of the step, over all processes; rows without any get 0 and count nowhere.
    grpo, gspo: the mean over rows of each row's mean. dr_grpo: the sum over rows x completion_length. bnpo: the mean
    over the step's tokens. dapo, cispo: the sum over `batch_tokens`, the trained tokens of the whole batch for each of
    its optimiser steps in one pass, so that a token weighs the same in whichever it falls; None: as bnpo.
    """
    effective = [tokens for tokens in tokens_B if tokens]
    if not effective:
        return [0.0] * len(tokens_B)
    if loss in ("grpo", "gspo"):
        return [1 / (tokens * len(effective)) if tokens else 0.0 for tokens in tokens_B]
    if loss == "dr_grpo":
        assert completion_length is not None, "dr_grpo divides by a constant length"
        divisor = float(len(effective) * completion_length)
    elif loss == "bnpo" or batch_tokens is None:
        divisor = float(sum(effective))
    else:
        divisor = float(batch_tokens)
    return [1 / divisor if tokens else 0.0 for tokens in tokens_B]
