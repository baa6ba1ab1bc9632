"""Distillation of lessons: how far the student, which reads no lessons, is from a teacher that reads them.

N trained tokens, K tokens at each position, the teacher's likeliest ones. The teacher reads the student's own tokens
after a prompt with the lessons. Its log-probabilities have no gradient.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor


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
