"""Metrics of one update, with TRL's names where TRL has the same metric.

Both are over all tokens of an optimiser step, so that micro-batches and the number of processes change nothing.
"""

import math
import resource
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from agentlearn.train.arguments import GradientArguments
from agentlearn.train.distributed.sharding import Processes
from agentlearn.train.update.losses import TokenLosses, TokenScores, row_means

UNEXPLAINED = "sampling/unexplained_difference"
"""Metric: mean difference in nats between log-probabilities of sampler and trainer, over tokens that were sampled with
the weights before the update and with the prompt that is trained. It should be rounding."""


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
        self._sums: dict[str, list[Tensor]] = {}
        self._lowest: dict[str, list[Tensor]] = {}
        self._highest: dict[str, list[Tensor]] = {}

    def add(self, losses: TokenLosses, scored: TokenScores, entropy_N: Tensor, loss: Tensor) -> None:
        """Add one micro-batch."""
        with torch.no_grad():
            self._add(losses, scored, entropy_N, loss)

    def _add(self, losses: TokenLosses, scored: TokenScores, entropy_N: Tensor, loss: Tensor) -> None:
        raw_N = scored.old_N - scored.sampler_N
        ratio_N = raw_N.exp()
        rows = len(scored.advantages_B)
        low_N, high_N = losses.clipped_low_N.float(), losses.clipped_high_N.float()
        low_B, high_B = row_means(low_N, scored.row_N, rows), row_means(high_N, scored.row_N, rows)
        for name, values in {
            "tokens": torch.ones_like(ratio_N),
            "entropy": entropy_N,
            "low": low_N,
            "high": high_N,
            "difference": raw_N.abs(),
            "mismatch": -raw_N,
            "raw": ratio_N,
            "raw^2": ratio_N.square(),
            "importance": losses.importance_N,
            "policy ratio": losses.ratio_N,
        }.items():
            self._sums.setdefault(name, []).append(values.double().sum())
        if scored.comparable_B is not None:
            comparable_N = scored.comparable_B[scored.row_N].double()
            self._sums.setdefault("comparable", []).append(comparable_N.sum())
            self._sums.setdefault("unexplained", []).append((raw_N.abs() * comparable_N).sum())
        if losses.kl_N is not None:
            self._sums.setdefault("kl", []).append(losses.kl_N.double().sum())
        if losses.on_policy_N is not None:
            self._sums.setdefault("off policy", []).append((1 - losses.on_policy_N).double().sum())
        if scored.chosen_N is not None:
            self._sums.setdefault("chosen", []).append(scored.chosen_N.double().sum())
        if losses.teacher_N is not None and scored.teacher is not None:
            self._sums.setdefault("teacher", []).append(losses.teacher_N.double().sum())
            self._sums.setdefault("taught", []).append(scored.teacher.taught_N.double().sum())
        if losses.vespo_weight_N is not None:
            weight_B = row_means(losses.vespo_weight_N, scored.row_N, rows)
            self._sums.setdefault("vespo", []).append(weight_B.double().sum())
            self._sums.setdefault("rows", []).append(torch.ones_like(weight_B).double().sum())
        self._sums.setdefault("loss", []).append(loss.detach().double())
        for name, values in {"raw": ratio_N, "importance": losses.importance_N, "low": low_B}.items():
            self._lowest.setdefault(name, []).append(values.min())
        for name, values in {
            "raw": ratio_N,
            "importance": losses.importance_N,
            "high": high_B,
            "difference": raw_N.abs(),
            "policy ratio": losses.ratio_N,
        }.items():
            self._highest.setdefault(name, []).append(values.max())

    def figures(self, processes: Processes, device: torch.device, *, cispo: bool, steps: int) -> dict[str, float]:
        """Return the metrics of `StepMetrics.figures`, over all processes. steps: number of optimiser steps added."""
        names = ("tokens", "entropy", "low", "high", "difference", "mismatch", "raw", "raw^2", "importance")
        optional = ("kl", "off policy", "chosen", "vespo", "rows", "teacher", "taught", "comparable", "unexplained")
        sums = _reduced(self._sums, (*names, "policy ratio", "loss", *optional), "sum", processes, device)
        low = _reduced(self._lowest, ("raw", "importance", "low"), "min", processes, device)
        high = _reduced(
            self._highest, ("raw", "importance", "high", "difference", "policy ratio"), "max", processes, device
        )
        tokens = sums["tokens"]
        if not tokens:
            return {}
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
            **({"kl": mean["kl"]} if "kl" in self._sums else {}),
            **({"off_policy_masked_share": mean["off policy"]} if "off policy" in self._sums else {}),
            **({"high_entropy_share": mean["chosen"]} if "chosen" in self._sums else {}),
            **({"distill/divergence": sums["teacher"] / max(1.0, sums["taught"])} if "teacher" in self._sums else {}),
            **({"vespo/phi_seq_mean": sums["vespo"] / sums["rows"]} if "vespo" in self._sums else {}),
            **clipping,
            "ratio/mean": mean["policy ratio"],
            "ratio/max": high["policy ratio"],
            "sampling/sampling_logp_difference/mean": mean["difference"],
            "sampling/sampling_logp_difference/max": high["difference"],
            **({UNEXPLAINED: sums["unexplained"] / sums["comparable"]} if sums["comparable"] else {}),
            "sampling/importance_sampling_ratio/min": low["importance"],
            "sampling/importance_sampling_ratio/mean": mean["importance"],
            "sampling/importance_sampling_ratio/max": high["importance"],
            "mismatch/kl": mean["mismatch"],
            "mismatch/ratio_min": low["raw"],
            "mismatch/ratio_mean": mean["raw"],
            "mismatch/ratio_max": high["raw"],
            "effective_sample_size": sums["raw"] ** 2 / (tokens * sums["raw^2"]) if sums["raw^2"] else math.nan,
        }


def _reduced(
    parts: Mapping[str, list[Tensor]],
    names: tuple[str, ...],
    reduction: Any,
    processes: Processes,
    device: torch.device,
) -> dict[str, float]:
    """Reduce each name over all processes. A name that this process lacks does not affect the result."""
    nothing = {"sum": 0.0, "min": math.inf, "max": -math.inf}[reduction]
    combine = {"sum": torch.sum, "min": torch.min, "max": torch.max}[reduction]
    own = [
        combine(torch.stack(parts[name]).double()) if name in parts else torch.tensor(nothing, dtype=torch.float64)
        for name in names
    ]
    values = processes.all_reduce(torch.stack([one.to(device) for one in own]), reduction)
    return dict(zip(names, values.tolist(), strict=True))


def peak_memory_mib(device: torch.device) -> float:
    """Return the peak memory in MiB so far: allocated on the GPU, or resident in this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


class EntropyBonus:
    """The mean entropy of a step's tokens times a coefficient, which is subtracted from the loss.

    With `entropy_target`, the coefficient changes after each step (adaptive entropy, arXiv:2505.22312).
    """

    def __init__(self, arguments: GradientArguments) -> None:
        self.coefficient = arguments.entropy_coef
        """The present coefficient."""
        self._arguments = arguments
        self._last = math.inf

    @property
    def used(self) -> bool:
        """Whether the loss can have a bonus, in this step or a later one."""
        return self._arguments.entropy_coef > 0 or self._adaptive

    @property
    def applied(self) -> float:
        """The coefficient of the next step: 0 while the entropy is above its target."""
        target = self._arguments.entropy_target
        return self.coefficient if target is None or self._last <= target else 0.0

    def share(self, entropy_N: Tensor, chosen_N: Tensor, step_tokens: float) -> Tensor:
        """Return a micro-batch's share of the bonus, a scalar. The shares of a step add up to its bonus.

        chosen_N: whether each token counts. step_tokens: number of tokens that count in the whole step.
        """
        return self.applied * (entropy_N * chosen_N).sum() / max(1.0, step_tokens)

    def step_made(self, entropy: float) -> None:
        """Adapt the coefficient after an optimiser step with this mean entropy of the tokens that count, in nats."""
        given = self._arguments
        if given.entropy_target is None:
            return
        change = given.entropy_coef_delta if entropy <= given.entropy_target else -given.entropy_coef_delta
        self.coefficient = min(max(self.coefficient + change, given.entropy_coef_min), given.entropy_coef_max)
        self._last = entropy

    def state_dict(self) -> dict[str, float]:
        """The state that later steps depend on."""
        return {"coefficient": self.coefficient, "last": self._last}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state from `state_dict`."""
        self.coefficient, self._last = float(state["coefficient"]), float(state["last"])

    @property
    def _adaptive(self) -> bool:
        return self._arguments.entropy_target is not None


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
