"""Metrics of one update, with TRL's names where TRL has the same, and what those of a run say about its learning.

They are over all tokens of an optimiser step, so that micro-batches and the number of processes change nothing.

They say why a run must end early, and what hinders it. A student that lessons are distilled into can please its teacher
by saying less and less (arXiv:2606.11709). A model whose learning rate is too high says the same for everything. Both
look like a run that goes on.
"""

import math
import resource
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, pstdev

import torch
from torch import Tensor

from agentlearn.train.arguments import GradientArguments
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


Figures = Sequence[Mapping[str, float]]
"""The metrics of all updates so far, in order."""
ANSWER_TOKENS = "answer_tokens"
"""Metric: mean number of sampled tokens of a rollout without lessons."""
KL = "kl"
ENTROPY = "sampling/entropy"
"""Metric: minus the mean log-probability of all sampled tokens, an estimate of their entropy in nats. It is also known
where nothing is learned."""
LOWEST, HIGHEST, PARTIAL, STD = "reward/min", "reward/max", "reward/partial", "reward/std"
"""Metrics of the rewards of a batch: lowest, highest, how many are neither 0 nor just enough, and their std."""
DISTINCT = "answers/distinct"
"""Metric: number of different answers in a batch."""
WINDOW = 3
"""Number of updates that lengths are averaged over."""
_ROWS = 16
"""Smallest number of rows with one and the same reward that is worth a note."""
_FEW = 0.1
"""Largest share of groups with different rewards that leaves hardly anything to learn."""
_COLLAPSED = 0.1
"""Share of the first entropy below which a model without higher rewards has collapsed."""


def spread(rewards: Sequence[float], answers: Iterable[str | None], threshold: float) -> dict[str, float]:
    """Return the metrics of a batch's rewards and answers. threshold: reward from which an answer counts as right."""
    partial = sum(one not in (0, threshold) for one in rewards)
    known = {LOWEST: min(rewards), HIGHEST: max(rewards), PARTIAL: partial, STD: pstdev(rewards)} if rewards else {}
    return {**known, DISTINCT: float(len(set(answers)))}


def early_end(figures: Figures, arguments: GradientArguments) -> str:
    """Return why the run must end after its last update; empty when it goes on."""
    if not figures:
        return ""
    lengths = [one[ANSWER_TOKENS] for one in figures if ANSWER_TOKENS in one]
    told = arguments.distillation
    if told.stop_at_length and len(lengths) >= 2 * WINDOW:
        first, last = fmean(lengths[:WINDOW]), fmean(lengths[-WINDOW:])
        if last < told.stop_at_length * first:
            return (
                f"answers have shrunk from {first:.0f} to {last:.0f} tokens, below"
                f" {told.stop_at_length:.0%} of their length at the start (stop_at_length)"
            )
    limit, drift = told.stop_at_kl, figures[-1].get(KL, 0.0)
    if limit is not None and drift > limit:
        return f"the divergence from the model at the start is {drift:.3g} nats per token, above stop_at_kl {limit:g}"
    least, entropy = arguments.stop_at_entropy, figures[-1].get(ENTROPY)
    if least is not None and entropy is not None and entropy < least:
        return f"the entropy of the sampled tokens is {entropy:.3g} nats, below stop_at_entropy {least:g}"
    if arguments.stop_after_equal is not None and (words := nothing_left(figures, arguments.stop_after_equal)):
        return f"{words} (stop_after_equal)"
    return ""


def hints(figures: Figures, threshold: float) -> dict[str, str]:
    """Return notes on what hinders learning, by kind. threshold: reward from which an answer counts as right."""
    if words := collapsed(figures):
        return {"collapse": words}
    words = (left := nothing_left(figures, 5)) and f"{left}; use other tasks, or end such runs early: stop_after_equal"
    return {"reward": words} if (words := one_reward(figures, threshold) or words) else {}


def collapsed(figures: Figures) -> str:
    """Return in words that the model says the same for everything; empty when it does not, or earns more than then.

    A model with k answers earns more by chance: as much as k random rollouts of the start. So two standard errors of
    their mean are no gain.
    """
    known = [one for one in figures if ENTROPY in one and "reward" in one]
    if not known:
        return ""
    start, now = known[0], known[-1]
    before, after, first, last = (one.get(name, 0.0) for name in (ENTROPY, "reward") for one in (start, now))
    chance = 2 * start.get(STD, 0.0) / max(1.0, now.get(DISTINCT, 1.0)) ** 0.5
    groups, mixed, right = (now.get(name, 0.0) for name in ("groups", "groups/mixed", "groups/all_right"))
    learns = mixed > _FEW * groups or 0 < groups == right
    if learns or after > _COLLAPSED * before or last > first + chance:
        return ""
    return (
        f"entropy fell from {before:.3g} to {after:.3g} nats per token, and the mean reward went from {first:.3g} to"
        f" {last:.3g}: the model says the same for everything; lower learning_rate"
    )


def one_reward(figures: Figures, threshold: float) -> str:
    """Return a note when every rollout got the same reward, which is not that of a right answer; empty while few are
    known."""
    known = {one[name] for one in figures for name in (LOWEST, HIGHEST) if name in one}
    if len(known) != 1 or (reward := known.pop()) >= threshold or sum(one.get("rows", 0.0) for one in figures) < _ROWS:
        return ""
    if reward:
        return f"every rollout so far got {reward:g}, so nothing is learned: does the reward read the answer?"
    return (
        "every reward so far is 0, so nothing is learned. Usually the reward gives 0 to right answers (call it"
        " yourself on one), or the model cannot follow our long instructions (--only-instructions"
        " with --instructions sends only your own)"
    )


def nothing_left(figures: Figures, updates: int) -> str:
    """Return in words that the last updates had hardly anything to learn from; empty when they had, or are too few."""
    last = figures[-updates:]
    total, mixed, right, wrong = (
        sum(one.get(name, 0.0) for one in last)
        for name in ("groups", "groups/mixed", "groups/all_right", "groups/all_wrong")
    )
    if len(last) < updates or not total or mixed > _FEW * total:
        return ""
    spread = f"{right:.0f} all right, {wrong:.0f} all wrong"
    if any(one.get(PARTIAL) for one in last):  # graded rewards are neither right nor wrong
        low, high = min(one.get(LOWEST, 1e99) for one in last), max(one.get(HIGHEST, -1e99) for one in last)
        spread = f"rewards lie between {low:g} and {high:g}"
    return (
        f"in the last {updates} updates only {mixed:.0f} of {total:.0f} tasks had rollouts with different rewards"
        f" ({spread}), so they leave hardly anything to learn"
    )
