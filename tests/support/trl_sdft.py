"""Calls the losses of TRL's `sdft` trainer without a trainer, to compare our distillation with them. Needs trl."""

import os
import warnings
from types import SimpleNamespace
from typing import Any, cast

import torch
from torch import Tensor

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from trl.experimental.sdft.loss_utils import add_tail_bucket, compute_divergence
    from trl.experimental.sdft.sdft_trainer import DistillationLogits, SDFTTrainer


def sdft_divergence(student_N_K: Tensor, teacher_N_K: Tensor, alpha: float) -> Tensor:
    """Return TRL's divergence at each position, with one bucket for all other tokens."""
    return compute_divergence(add_tail_bucket(student_N_K), add_tail_bucket(teacher_N_K), alpha)


def sdft_loss(student_BTV: Tensor, teacher_BTV: Tensor, completion_BT: Tensor, alpha: float) -> float:
    """Return the loss of TRL's trainer over the whole vocabulary, from the logits of both."""
    trainer = SimpleNamespace(
        args=SimpleNamespace(distillation_mode="full_logits", distillation_alpha=alpha, distillation_is_clip=2.0),
        accelerator=SimpleNamespace(gather=lambda value: value),
        _log_self_distillation_metric=lambda *_: None,
    )
    logits = DistillationLogits(
        completion_ids=completion_BT,
        loss_mask=torch.ones(completion_BT.shape),
        student_logits=student_BTV,
        teacher_logits=teacher_BTV,
    )
    compute = cast("Any", SDFTTrainer)._compute_self_distillation_loss
    return float(compute(trainer, SimpleNamespace(training=True), {}, logits))
