"""The losses of gradient GRPO as pure functions on flat tensors, without a model, a batch layout or a mask.

Axes: N trained tokens, B rows. `row_N` gives the row of each token. Padding, prompts and tool results are not included,
so no mask can be forgotten. A rollout is one row, or several where its turns do not continue each other's tokens. Where
a paper means the sequence that a reward was given for, its rollout is meant here, whatever the number of its rows.

One optimiser step has one denominator (`row_weights`), over all its rows in all micro-batches and processes. The loss
is the sum over tokens of the token's loss times its row's weight. So neither the split into micro-batches nor the
number of processes changes the gradient. Libraries that average per micro-batch differ here, which is intended.

N trained tokens, K tokens at each position, the teacher's likeliest ones. The teacher reads the student's own tokens
after a prompt with the lessons. Its log-probabilities have no gradient.
"""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from agentlearn.domain.custom.own_functions import own_function
from agentlearn.train.arguments import (
    Cispo,
    Clipping,
    Divergence,
    GradientArguments,
    Importance,
    Sapo,
    SequenceClipping,
    Vespo,
)


@dataclass(frozen=True, slots=True, eq=False)
class TeacherScores:
    """What the teacher gives the trained tokens of a micro-batch."""

    tokens_N_K: Tensor
    """The teacher's likeliest tokens at each position."""
    logprobs_N_K: Tensor
    """Their log-probabilities under the teacher."""
    taught_N: Tensor
    """1 for tokens of rows that the teacher has read, 0 for others."""
    weight: float
    """Weight of each taught token's divergence in the loss of the step."""


def divergence_from_teacher(student_N_K: Tensor, teacher_N_K: Tensor, *, alpha: float) -> Tensor:
    """Return the divergence between student and teacher at each position, in nats, shape (N,). Never negative.

    student_N_K, teacher_N_K: log-probabilities of the same K tokens. All other tokens count as one more token, so the
    result is a lower bound of the divergence over the whole vocabulary, and equal to it when K is all of it.
    alpha: 1 for the reverse divergence KL(student || teacher); 0 for KL(teacher || student); between them the
    Jensen-Shannon divergence alpha KL(teacher || m) + (1 - alpha) KL(student || m) with the mixture
    m = alpha teacher + (1 - alpha) student, as in TRL's `sdft`.
    """
    student, teacher = _with_rest(student_N_K), _with_rest(teacher_N_K)
    if alpha == 1:
        return _kl(student, teacher)
    if alpha == 0:
        return _kl(teacher, student)
    mixture = torch.logaddexp(student + math.log(1 - alpha), teacher + math.log(alpha))
    return alpha * _kl(teacher, mixture) + (1 - alpha) * _kl(student, mixture)


def _kl(of: Tensor, against: Tensor) -> Tensor:
    """KL(of || against) from log-probabilities; a token that `of` never chooses adds nothing."""
    return (of.exp() * (of - against)).sum(-1)


_LEAST_REST = 1e-7
"""Least probability of all other tokens together: fp32 cannot tell a smaller one from 0."""
_IMPOSSIBLE = -1e3
"""Log-probability of a token that cannot be sampled; finite, so that it has a gradient."""


def _with_rest(logprobs_N_K: Tensor) -> Tensor:
    """Append the log-probability of all other tokens together."""
    within_N_1 = logprobs_N_K.logsumexp(-1, keepdim=True).clamp(max=-_LEAST_REST)
    rest_N_1 = torch.log(-torch.expm1(within_N_1))
    return torch.cat([logprobs_N_K.clamp(min=_IMPOSSIBLE), rest_N_1], dim=-1)


_FARTHEST = 20.0
"""vespo takes no log-ratio of a token or a row above this."""
_SMALLEST = math.log(1e-8)
"""vespo takes no log-ratio of a row, and no correction of a token, below this."""


@dataclass(frozen=True, slots=True, eq=False)
class TokenScores:
    """Log-probabilities of the trained tokens of B rows under the current, old, sampler's and reference weights."""

    logprobs_N: Tensor
    """Under the current weights; with gradient."""
    old_N: Tensor
    """Under the old weights, the denominator of the ratio; constant. With dropout, under the same dropout."""
    sampler_N: Tensor
    """As the sampler reported them; constant."""
    reference_N: Tensor | None
    """Under the reference; constant. None without a divergence."""
    before_N: Tensor
    """Under the old weights without dropout, as the sampler computes; constant."""
    row_N: Tensor
    """Index of each token's row, 0 to B - 1."""
    rollout_N: Tensor
    """Index of each token's rollout, 0 to B - 1. All rows of a rollout are here, or no loss needs that."""
    advantages_B: Tensor
    weights_B: Tensor
    """Weight of each row's tokens in the loss, from `row_weights`."""
    comparable_B: Tensor | None = None
    """1 for rows whose sampler's log-probabilities must be the old ones, 0 for others; None: 1 for all."""
    numbers_B: Tensor | None = None
    """Number of each row in its batch, for metrics; None: there are none."""
    chosen_N: Tensor | None = None
    """Whether each token's entropy is high enough for a policy loss; None: all tokens have one."""
    teacher: TeacherScores | None = None
    """What a teacher that reads lessons gives; None without distillation."""
    student_N_K: Tensor | None = None
    """The current weights' log-probabilities of the teacher's tokens; with gradient. None without distillation."""


@dataclass(frozen=True, slots=True, eq=False)
class TokenLosses:
    """The loss of each token, and quantities computed with it. Only the loss and `teacher_N` have a gradient."""

    loss_N: Tensor
    """Loss before multiplication with the row's weight."""
    ratio_N: Tensor
    """Ratio of current to old probability; for gspo and luspo that of the whole rollout, repeated for each token."""
    clipped_low_N: Tensor
    """Whether clipping from below removed the token's gradient."""
    clipped_high_N: Tensor
    """Whether clipping from above removed the token's gradient; for cispo, whether the cap limited its weight."""
    importance_N: Tensor
    """Weight that corrects for the sampler's probabilities."""
    kl_N: Tensor | None
    """Estimated divergence from the reference; None without one."""
    on_policy_N: Tensor | None = None
    """Whether the token's rollout kept its policy loss, as `off_policy_mask_threshold` decides; None without it."""
    vespo_weight_N: Tensor | None = None
    """Weight of the token's rollout in vespo; None for other losses."""
    teacher_N: Tensor | None = None
    """Divergence from the teacher, with gradient; 0 for tokens it has not read. None without distillation."""


class OwnLoss(Protocol):
    """A policy loss of a user's own, as `loss` names it."""

    def __call__(self, scored: TokenScores) -> Tensor:
        """Return the loss of each token, shape (N,), with a gradient through `scored.logprobs_N`.

        Masks, the weight that corrects for the sampler and a divergence are applied to it as to other losses, and its
        sum is divided as that of dapo. So it uses neither `sampler_N` nor `weights_B`. The advantage of each token is
        `scored.advantages_B[scored.row_N]`.
        """
        ...


def own_loss(name: str) -> OwnLoss:
    """Import a loss of the user's own and try it with three tokens of two rows. Raises ConfigError; so do its calls."""

    def fits(loss_N: object, scored: TokenScores) -> bool:
        return isinstance(loss_N, Tensor) and loss_N.shape == scored.logprobs_N.shape and loss_N.requires_grad

    loss = own_function(name, "loss", fits, "a tensor of shape (N,), the loss of each token, made of scored.logprobs_N")
    logprobs_N, old_N, row_N = torch.full((3,), -1.0, requires_grad=True), -torch.ones(3), torch.tensor([0, 0, 1])
    advantages_B, weights_B = torch.tensor([1.0, -1.0]), torch.ones(2)
    loss(TokenScores(logprobs_N, old_N, old_N, old_N, old_N, row_N, row_N, advantages_B, weights_B))
    return loss


def token_losses(scored: TokenScores, arguments: GradientArguments, users_loss: OwnLoss | None = None) -> TokenLosses:
    """Return the loss of each token: policy loss x masks x importance weight + beta x divergence.

    The divergence from a teacher is apart, because it has a weight of its own. users_loss: the one that `arguments`
    name, if it is imported already.
    """
    advantage_N = scored.advantages_B[scored.row_N]
    rows = len(scored.advantages_B)
    own = arguments.loss_settings
    log_ratio_N = scored.logprobs_N - scored.old_N
    if isinstance(own, SequenceClipping):  # the mean over the token's rollout. GSPO, arXiv:2507.18071
        log_ratio_N = means_by(scored.rollout_N, log_ratio_N, rows)[scored.rollout_N]
    ratio_N = torch.exp(log_ratio_N)
    importance_N = importance(
        arguments.importance_sampling,
        scored.before_N,
        scored.sampler_N,
        scored.rollout_N,
        rows,
        cap=arguments.importance_cap,
        floor=arguments.importance_floor,
    )
    low, high, vespo_weight_N = 0.0, math.inf, None
    match own:
        case Clipping():
            low, high = 1 - own.eps_low, 1 + own.eps_high
            policy_N = _clipped_loss(ratio_N, advantage_N, low=low, high=high, delta=own.delta)
        case Cispo():
            high = own.cap
            policy_N = _cispo_loss(ratio_N, advantage_N, scored.logprobs_N, cap=high)
        case Sapo():
            policy_N = _sapo_loss(ratio_N, advantage_N, own)
        case Vespo():
            vespo_weight_N = _vespo_weight(scored, importance_N, own)
            policy_N = -vespo_weight_N * advantage_N * scored.logprobs_N
        case _ if arguments.own_loss:
            policy_N = (users_loss or own_loss(arguments.loss))(scored)
        case _:  # distill
            policy_N = torch.zeros_like(scored.logprobs_N)
    on_policy_N = None
    if own.off_policy_mask_threshold is not None:
        on_policy_N = _on_policy(scored, threshold=own.off_policy_mask_threshold)
        policy_N = policy_N * on_policy_N
    if scored.chosen_N is not None:
        policy_N = policy_N * scored.chosen_N
    loss_N = policy_N if vespo_weight_N is not None else policy_N * importance_N
    kl_N = None
    if arguments.kl != "none":
        assert scored.reference_N is not None, "a divergence needs the reference's log-probabilities"
        kl_N = divergence(arguments.kl, scored.logprobs_N, scored.reference_N)
        kl_N = kl_N * ratio_N if own.kl_ratio else kl_N
        loss_N = loss_N + arguments.kl_beta * kl_N
    bounded_N = ratio_N.detach()
    return TokenLosses(
        loss_N=loss_N,
        ratio_N=bounded_N,
        clipped_low_N=(bounded_N < low) & (advantage_N < 0),
        clipped_high_N=(bounded_N > high) & (advantage_N > 0),
        importance_N=importance_N,
        kl_N=None if kl_N is None else kl_N.detach(),
        on_policy_N=on_policy_N,
        vespo_weight_N=vespo_weight_N,
        teacher_N=_teacher_divergence(scored, alpha=arguments.distillation.alpha),
    )


def _teacher_divergence(scored: TokenScores, *, alpha: float) -> Tensor | None:
    """Return the divergence from the teacher at each token, 0 where it has not read it; None without a teacher."""
    if scored.teacher is None:
        return None
    assert scored.student_N_K is not None, "distillation needs the student's log-probabilities of the teacher's tokens"
    distance_N = divergence_from_teacher(scored.student_N_K, scored.teacher.logprobs_N_K, alpha=alpha)
    return distance_N * scored.teacher.taught_N


def loss_share(losses: TokenLosses, scored: TokenScores) -> Tensor:
    """Return a micro-batch's share of its step's loss, a scalar. The shares of a step add up to its loss."""
    share = (losses.loss_N * scored.weights_B[scored.row_N]).sum()
    if scored.teacher is None or losses.teacher_N is None:
        return share
    return share + scored.teacher.weight * losses.teacher_N.sum()


def _clipped_loss(ratio_N: Tensor, advantage_N: Tensor, *, low: float, high: float, delta: float | None) -> Tensor:
    """-min(min(r, delta) A, clip(r, low, high) A).

    low, high: bounds of the ratio, 1 - eps_low and 1 + eps_high. delta: bound of the unclipped term (two-sided
    clipping, arXiv:2505.07291); None: no bound.
    """
    free_N = ratio_N if delta is None else ratio_N.clamp(max=delta)
    return -torch.minimum(free_N * advantage_N, ratio_N.clamp(low, high) * advantage_N)


def _cispo_loss(ratio_N: Tensor, advantage_N: Tensor, logprobs_N: Tensor, *, cap: float) -> Tensor:
    """-min(r, cap) A logp, where only logp has a gradient. CISPO, arXiv:2506.13585."""
    return -ratio_N.detach().clamp(max=cap) * advantage_N * logprobs_N


def _sapo_loss(ratio_N: Tensor, advantage_N: Tensor, own: Sapo) -> Tensor:
    """-4 / t x sigmoid(t (r - 1)) A, where the sign of A chooses t. SAPO, arXiv:2511.20347."""
    good_N = (advantage_N > 0).to(ratio_N.dtype)
    temperature_N = good_N * own.temperature_pos + (1 - good_N) * own.temperature_neg
    return -4 / temperature_N * torch.sigmoid(temperature_N * (ratio_N - 1)) * advantage_N


def _vespo_weight(scored: TokenScores, importance_N: Tensor, own: Vespo) -> Tensor:
    """Return e^l w^k e^(-l w) of the rollout of each token; constant. VESPO, arXiv:2602.10693.

    w is the product of the rollout's ratios and of its tokens' importance weights; the sign of the advantage chooses k
    and l. The weight is 1 at w = 1 and falls on both sides. As in TRL, log-ratios are limited before and after adding.
    """
    log_ratio_N = (scored.logprobs_N - scored.old_N).detach().clamp(-_FARTHEST, _FARTHEST)
    corrected_N = log_ratio_N + importance_N.log().clamp(_SMALLEST, _FARTHEST)
    sums_B = _sums_by(scored.rollout_N, corrected_N, len(scored.advantages_B))
    log_w_N = sums_B.clamp(_SMALLEST, _FARTHEST)[scored.rollout_N]
    good_N = (scored.advantages_B[scored.row_N] >= 0).to(log_w_N.dtype)
    k_N = good_N * own.k_pos + (1 - good_N) * own.k_neg
    lambda_N = good_N * own.lambda_pos + (1 - good_N) * own.lambda_neg
    return (lambda_N + k_N * log_w_N - lambda_N * log_w_N.exp()).exp().nan_to_num(nan=0.0, posinf=0.0)


def _on_policy(scored: TokenScores, *, threshold: float) -> Tensor:
    """Return whether each token's rollout keeps its policy loss: 1 or 0; constant.

    A rollout keeps it when its advantage is at least 0, or when the mean of sampler - logp over its tokens is at most
    the threshold. Source: DeepSeek-V3.2, arXiv:2512.02556.
    """
    drift_N = scored.sampler_N - scored.logprobs_N.detach()
    drift_B = means_by(scored.rollout_N, drift_N, len(scored.advantages_B))
    keeps_N = (scored.advantages_B[scored.row_N] >= 0) | (drift_B[scored.rollout_N] <= threshold)
    return keeps_N.to(drift_N.dtype)


def divergence(kind: Divergence, logprobs_N: Tensor, reference_N: Tensor) -> Tensor:
    """Return an estimate of KL(policy || reference) at each token, with d = reference - logp.

    k1: -d, unbiased, may be negative. k2: d^2 / 2, biased, low variance. k3: e^d - d - 1, unbiased, never negative. All
    are 0 where policy and reference agree.
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


def importance(
    kind: Importance,
    old_N: Tensor,
    sampler_N: Tensor,
    rollout_N: Tensor,
    rollouts: int,
    *,
    cap: float,
    floor: float | None = None,
) -> Tensor:
    """Return the weight of each token that corrects for the sampler's probabilities; constant.

    It is the token's ratio exp(old - sampler), or the product of the ratios of its rollout. Above the cap and below the
    floor it is set to the cap or the floor (truncate), or to 0 (mask).
    """
    difference_N = (old_N - sampler_N).detach()
    if kind == "none":
        return torch.ones_like(difference_N)
    if kind.startswith("sequence"):
        difference_N = _sums_by(rollout_N, difference_N, rollouts)[rollout_N]
    weight_N = torch.exp(difference_N)
    if kind.endswith("truncate"):
        return weight_N.clamp(min=floor, max=cap)
    outside_N = weight_N > cap if floor is None else (weight_N > cap) | (weight_N < floor)
    return torch.where(outside_N, torch.zeros_like(weight_N), weight_N)


def _sums_by(index_N: Tensor, values_N: Tensor, count: int) -> Tensor:
    """Sum over the tokens of each row or rollout: shape (count,), 0 for one without tokens."""
    return values_N.new_zeros(count).index_add(0, index_N, values_N)


def means_by(index_N: Tensor, values_N: Tensor, count: int) -> Tensor:
    """Mean over the tokens of each row or rollout: shape (count,), 0 for one without tokens."""
    tokens_B = _sums_by(index_N, torch.ones_like(values_N), count)
    return _sums_by(index_N, values_N, count) / tokens_B.clamp(min=1)


def row_weights(
    loss: str,
    tokens_B: Sequence[int],
    rollouts_B: Sequence[Hashable] | None = None,
    *,
    batch_tokens: float | None = None,
    completion_length: int | None = None,
) -> list[float]:
    """Return the weight of each row's tokens in the loss of one optimiser step.

    tokens_B: number of trained tokens of each row of the step, over all processes. Rows without any get 0, and rollouts
    without any are not counted. rollouts_B: the rollout of each row; None: each row is one. Means over what the papers
    call outputs or sequences are means over rollouts:

    grpo (arXiv:2402.03300), gspo (2507.18071), sapo (2511.20347): mean over rollouts of each rollout's mean over its
    tokens. luspo (2602.05261): mean over rollouts of each one's sum. dr_grpo (2503.20783): sum / (rollouts x
    completion_length). Means over tokens do not depend on rollouts: bnpo, the step's tokens; dapo (2503.14476), cispo
    (2506.13585), vespo (2602.10693) and a user's own, sum / `batch_tokens`, the trained tokens of the batch per
    optimiser step of a pass, so that a token has the same weight in every step; without it as bnpo. distill: as bnpo;
    its own loss is 0, and a divergence from the reference is weighted so.
    """
    names_B, total = range(len(tokens_B)) if rollouts_B is None else rollouts_B, Counter[Hashable]()
    for name, tokens in zip(names_B, tokens_B, strict=True):
        total[name] += tokens
    count = sum(tokens > 0 for tokens in total.values())
    if not count:
        return [0.0] * len(tokens_B)
    if loss in ("grpo", "gspo", "sapo"):
        return [1 / (total[name] * count) if tokens else 0.0 for name, tokens in zip(names_B, tokens_B, strict=True)]
    if loss == "luspo":
        divisor = float(count)
    elif loss == "dr_grpo":
        assert completion_length is not None, "dr_grpo divides by a constant length"
        divisor = float(count * completion_length)
    elif loss in ("bnpo", "distill") or batch_tokens is None:
        divisor = float(sum(tokens_B))
    else:
        divisor = float(batch_tokens)
    return [1 / divisor if tokens else 0.0 for tokens in tokens_B]
