"""Metrics of one update, with TRL's names where TRL has the same metric.

Both are over all tokens of an optimiser step, so that micro-batches and the number of processes change nothing.
"""

import math
import resource
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from agentlearn.train.distributed.sharding import Processes, Reduction
from agentlearn.train.update.losses import TokenLosses, TokenScores, means_by
from agentlearn.types.ids import RolloutId

UNEXPLAINED = "sampling/unexplained_difference"
"""Metric: mean difference in nats between log-probabilities of sampler and trainer, over tokens that were sampled with
the weights before the update and with the prompt that is trained. It should be rounding."""
UNEXPLAINED_ROW = "sampling/unexplained_difference/row"
"""Metric: the largest such mean of a single row of N tokens, divided by 1 + 8 / sqrt(N): rounding of few tokens does
not average out."""
_FEW_TOKENS = 8.0


@dataclass(frozen=True, slots=True)
class StepMetrics:
    """Metrics of one batch over all its optimiser steps."""

    steps: int
    """Number of optimiser steps made."""
    skipped: int
    """Number of optimiser steps skipped because the loss or the gradient was not finite."""
    rows: int
    """Number of rows trained on."""
    masked: int
    """Number of rows not trained: overlong rows that are masked, and rows without a sampled token."""
    tokens: int
    """Number of trained tokens, counted once per pass."""
    seconds: float
    figures: Mapping[str, float] = field(default_factory=dict[str, float])
    """Metrics by name. Means, minima and maxima are over tokens and passes; a metric without data is absent."""
    farthest: RolloutId | None = None
    """The rollout of the row with the largest unexplained difference; None when no row can be compared."""

    @property
    def skip_note(self) -> str | None:
        """A note when steps were skipped; None otherwise."""
        if not self.skipped:
            return None
        return (
            f"{self.skipped} of {self.steps + self.skipped} optimiser steps were skipped because the loss or the "
            "gradient was not finite; they changed no weights. Lower learning_rate, or set delta"
        )


class Meter:
    """Collects sums, minima and maxima over this process's tokens; `figures` combines all processes."""

    def __init__(self) -> None:
        self._parts: dict[Reduction, dict[str, list[Tensor]]] = {"sum": {}, "min": {}, "max": {}}
        self._differences: list[Tensor] = []
        """Difference and number of each row that can be compared: shape (2, B)."""
        self.farthest = -1
        """After `figures`: number of the row with the largest difference; -1 when no row can be compared."""

    @torch.no_grad()
    def add(self, losses: TokenLosses, scored: TokenScores, entropy_N: Tensor, loss: Tensor) -> None:
        """Add one micro-batch."""
        raw_N = scored.before_N - scored.sampler_N
        ratio_N, apart_N, one_N = raw_N.exp(), raw_N.abs(), torch.ones_like(raw_N)
        rows = len(scored.advantages_B)
        low_N, high_N = losses.clipped_low_N.float(), losses.clipped_high_N.float()
        comparable_N = None if scored.comparable_B is None else scored.comparable_B[scored.row_N].double()
        weight_N = losses.vespo_weight_N
        weight_B = None if weight_N is None else means_by(scored.rollout_N, weight_N, rows)
        if scored.comparable_B is not None and scored.numbers_B is not None:
            tokens_B = torch.bincount(scored.row_N, minlength=rows).clamp(min=1)
            apart_B = means_by(scored.row_N, apart_N, rows) / (1 + _FEW_TOKENS / tokens_B.sqrt())
            self._differences.append(torch.stack([apart_B, scored.numbers_B])[:, scored.comparable_B > 0])
        sums = {
            "tokens": one_N,
            "entropy": entropy_N,
            "low": low_N,
            "high": high_N,
            "difference": apart_N,
            "mismatch": -raw_N,
            "raw": ratio_N,
            "raw^2": ratio_N.square(),
            "importance": losses.importance_N,
            "policy ratio": losses.ratio_N,
            "loss": loss.detach(),
            "kl": losses.kl_N,
            "chosen": scored.chosen_N,
            "comparable": comparable_N,
            "unexplained": None if comparable_N is None else apart_N * comparable_N,
            "off policy": None if losses.on_policy_N is None else 1 - losses.on_policy_N,
            "teacher": losses.teacher_N,
            "taught": None if scored.teacher is None else scored.teacher.taught_N,
            "vespo": weight_B,
            "rollouts": None if weight_B is None else torch.ones_like(scored.rollout_N.unique()),
        }
        for name, values in sums.items():
            if values is not None:
                self._parts["sum"].setdefault(name, []).append(values.double().sum())
        lowest = {"raw": ratio_N, "importance": losses.importance_N, "low": means_by(scored.row_N, low_N, rows)}
        for name, values in lowest.items():
            self._parts["min"].setdefault(name, []).append(values.min())
        highest = {
            "raw": ratio_N,
            "importance": losses.importance_N,
            "high": means_by(scored.row_N, high_N, rows),
            "difference": apart_N,
            "policy ratio": losses.ratio_N,
        }
        for name, values in highest.items():
            self._parts["max"].setdefault(name, []).append(values.max())

    def figures(self, processes: Processes, device: torch.device, *, cispo: bool, steps: int) -> dict[str, float]:
        """Return the metrics of `StepMetrics.figures`, over all processes. steps: number of optimiser steps added."""
        names = ("tokens", "entropy", "low", "high", "difference", "mismatch", "raw", "raw^2", "importance", "loss")
        optional = ("kl", "off policy", "chosen", "vespo", "rollouts", "teacher", "taught", "comparable", "unexplained")
        known = self._parts["sum"]

        def reduced(reduction: Reduction, *names: str) -> dict[str, float]:
            """Reduce each name over all processes. A name that this process lacks does not affect the result."""
            nothing = {"sum": 0.0, "min": math.inf, "max": -math.inf}[reduction]
            combine, parts = getattr(torch, reduction), self._parts[reduction]
            own = [combine(torch.stack(parts[name]).double()) if name in parts else nothing for name in names]
            values = torch.tensor([float(one) for one in own], dtype=torch.float64)
            return dict(zip(names, processes.all_reduce(values.to(device), reduction).tolist(), strict=True))

        sums = reduced("sum", *names, "policy ratio", *optional)
        low = reduced("min", "raw", "importance", "low")
        high = reduced("max", "raw", "importance", "high", "difference", "policy ratio")
        tokens = sums["tokens"]
        if not tokens:
            return {}
        found_2_B = torch.cat([torch.tensor([[-math.inf], [-1.0]], device=device), *self._differences], dim=1)
        apart, number = found_2_B[:, found_2_B[0].nan_to_num(nan=math.inf).argmax()]
        worst = processes.all_reduce(apart, "max")
        self.farthest = int(processes.all_reduce(torch.where(apart < worst, -1.0, number), "max"))
        mean = {name: total / tokens for name, total in sums.items()}
        clipping = (
            {"cispo_clip_ratio": mean["high"]}
            if cispo
            else {
                "clip_ratio/low_mean": mean["low"],
                "clip_ratio/low_min": low["low"],
                "clip_ratio/high_mean": mean["high"],
                "clip_ratio/high_max": high["high"],
                "clip_ratio/region_mean": mean["low"] + mean["high"],
            }
        )
        return {
            "loss": sums["loss"] / max(1, steps),
            "entropy": mean["entropy"],
            **({"kl": mean["kl"]} if "kl" in known else {}),
            **({"off_policy_masked_share": mean["off policy"]} if "off policy" in known else {}),
            **({"high_entropy_share": mean["chosen"]} if "chosen" in known else {}),
            **({"distill/divergence": sums["teacher"] / max(1.0, sums["taught"])} if "teacher" in known else {}),
            **({"vespo/phi_seq_mean": sums["vespo"] / sums["rollouts"]} if "vespo" in known else {}),
            **clipping,
            "ratio/mean": mean["policy ratio"],
            "ratio/max": high["policy ratio"],
            "sampling/sampling_logp_difference/mean": mean["difference"],
            "sampling/sampling_logp_difference/max": high["difference"],
            **({UNEXPLAINED: sums["unexplained"] / sums["comparable"]} if sums["comparable"] else {}),
            **({UNEXPLAINED_ROW: float(worst)} if self.farthest >= 0 else {}),
            "sampling/importance_sampling_ratio/min": low["importance"],
            "sampling/importance_sampling_ratio/mean": mean["importance"],
            "sampling/importance_sampling_ratio/max": high["importance"],
            "mismatch/kl": mean["mismatch"],
            "mismatch/ratio_min": low["raw"],
            "mismatch/ratio_mean": mean["raw"],
            "mismatch/ratio_max": high["raw"],
            "effective_sample_size": sums["raw"] ** 2 / (tokens * sums["raw^2"]) if sums["raw^2"] else math.nan,
        }


def peak_memory_mib(device: torch.device) -> float:
    """Return the peak memory in MiB so far: allocated on the GPU, or resident in this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def highest_entropies(entropy_N: Tensor, share: float) -> Tensor:
    """Return which tokens belong to this share with the highest entropy, 0 to 1; at least one does.

    entropy_N: of all tokens of the step. Source: arXiv:2506.01939.
    """
    if not len(entropy_N):
        return torch.zeros_like(entropy_N, dtype=torch.bool)
    ordered_N = entropy_N.sort().values
    place = (1 - share) * (len(ordered_N) - 1)
    below, above = ordered_N[math.floor(place)], ordered_N[math.ceil(place)]
    return entropy_N >= torch.lerp(below, above, place - math.floor(place))
