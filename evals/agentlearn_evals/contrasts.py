"""Contrasts: every arm against the baseline, with the statistics that hold for the data at hand, and a verdict."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentlearn.stats import (
    MeanDifference,
    VarianceParts,
    benjamini_hochberg,
    detectable_difference,
    estimate_difference,
    holm,
    look_factor,
    mcnemar_p,
    no_worse,
    rollouts_needed,
    sign_flip_p,
    tasks_needed,
    variance_parts,
)
from agentlearn_evals.comparison import Contrast, ContrastVerdict, Margin, Worst
from agentlearn_evals.observation import Observation
from agentlearn_evals.score_table import ScoreTable
from agentlearn_evals.sentences import contrast_sentence
from agentlearn_evals.settings import Correction

MOST_TASKS = 10_000_000
"""More tasks than this nobody has: what would take more is said to take no number."""


@dataclass(frozen=True, slots=True)
class Rules:
    """By what the contrasts of one comparison are judged."""

    level: float = 0.95
    correction: Correction = "holm"
    margin: float | None = None
    planned_looks: int = 1
    seed: int = 0
    untrusted: Mapping[str, str] = field(default_factory=dict[str, str])
    """By arm: why its score cannot be believed, whatever the statistics say."""

    @property
    def alpha(self) -> float:
        """How often a difference may be claimed where there is none."""
        return 1 - self.level


def estimate_contrasts(table: ScoreTable, rules: Rules) -> tuple[Contrast, ...]:
    """Every other arm against the first, not yet judged."""
    baseline, *others = table.arms
    return tuple(_draft(table, arm, baseline, rules) for arm in others)


def with_verdicts(drafts: Sequence[Contrast], table: ScoreTable, rules: Rules) -> tuple[Contrast, ...]:
    """The contrasts with p-values corrected for their number and for their looks, and with their verdicts."""
    looks = [one.look for one in drafts]
    corrected = _corrected([one.p for one in drafts], looks, rules)
    margins = _margins_corrected(drafts, looks, rules)
    return tuple(
        _judged(draft.model_copy(update={"p_adjusted": p, "margin": margin}), table, rules)
        for draft, p, margin in zip(drafts, corrected, margins, strict=True)
    )


def _draft(table: ScoreTable, arm: str, baseline: str, rules: Rules) -> Contrast:
    """Everything but what needs the other arms."""
    differences, clusters = table.differences(arm, baseline), table.clusters()
    estimate = estimate_of(table, arm, baseline, rules.level)
    before = [table.scores[baseline][task] for task in table.tasks]
    after = [table.scores[arm][task] for task in table.tasks]
    margin = None
    if rules.margin is not None and (
        found := no_worse(differences, rules.margin, clusters=clusters, level=rules.level)
    ):
        margin = Margin(margin=rules.margin, p=found.p, bound=found.low, holds=found.holds)
    draft = Contrast(
        arm=arm,
        baseline=baseline,
        mean=estimate.mean,
        low=estimate.low,
        high=estimate.high,
        standard_error=estimate.standard_error,
        degrees=estimate.degrees,
        method=estimate.method,
        tasks=estimate.n,
        clusters=estimate.clusters,
        pairs=sum(min(len(early), len(late)) for early, late in zip(before, after, strict=True)),
        p=sign_flip_p(differences, seed=rules.seed, clusters=clusters),
        mcnemar_p=_mcnemar(before, after),
        worst=_worst(table, arm, baseline),
        margin=margin,
        wins=sum(difference > 0 for difference in differences),
        losses=sum(difference < 0 for difference in differences),
        ties=sum(difference == 0 for difference in differences),
        unsafe=rules.untrusted.get(arm) or rules.untrusted.get(baseline) or "",
        caution=estimate.unsafe,
    )
    return draft.model_copy(update=_reach(estimate, variance_parts(before, after), before, after))


def estimate_of(
    table: ScoreTable, arm: str, baseline: str, level: float, tasks: Sequence[str] | None = None
) -> MeanDifference:
    """The mean difference over these tasks, or all, with its interval."""
    return estimate_difference(table.differences(arm, baseline, tasks), clusters=table.clusters(tasks), level=level)


def _mcnemar(before: Sequence[Sequence[float]], after: Sequence[Sequence[float]]) -> float | None:
    """Only for one rollout per task and arm, each right or wrong."""
    if any(len(scores) != 1 or scores[0] not in {0.0, 1.0} for scores in (*before, *after)):
        return None
    gained = sum(late[0] > early[0] for early, late in zip(before, after, strict=True))
    lost = sum(late[0] < early[0] for early, late in zip(before, after, strict=True))
    return mcnemar_p(gained, lost)


def _reach(
    estimate: MeanDifference,
    parts: VarianceParts | None,
    before: Sequence[Sequence[float]],
    after: Sequence[Sequence[float]],
) -> dict[str, float | int | None]:
    """What the comparison could have shown, and what it would take to show the difference that was seen."""
    reach: dict[str, float | int | None] = {}
    found = detectable_difference(estimate)
    # Where no task differs from another nothing is known of the spread, least of all that any difference would be seen.
    reach["detectable"] = found if found and math.isfinite(found) else None
    shown = estimate.low is not None and estimate.high is not None and not estimate.low <= 0 <= estimate.high
    if parts is None or not estimate.mean or shown or not estimate.standard_error:
        return reach
    k_before, k_after = (round(sum(map(len, arm)) / len(arm)) for arm in (before, after))
    # Tasks of one cluster tell less than as many tasks of their own: the design effect says how much less.
    plain = parts.of_one_task(k_before, k_after) / estimate.n
    inflated = max(1.0, estimate.standard_error**2 / plain) if plain > 0 else 1.0
    effect = estimate.mean / math.sqrt(inflated)
    reach["rollouts_needed"] = rollouts_needed(parts, effect, estimate.n)
    # The search goes up one by one from the normal approximation; where that is out of reach, nothing is to be found.
    if parts.of_one_task(k_before, k_after) / effect**2 < MOST_TASKS:
        reach["tasks_needed"] = tasks_needed(parts, effect, k_before=k_before, k_after=k_after)
    return reach


def _worst(table: ScoreTable, arm: str, baseline: str) -> Worst | None:
    """Bounds of the mean difference if every undecided rollout had been the worst, or the best, for the arm."""
    mine, other = table.all[arm], table.all[baseline]
    scores = [one.score for one in (*mine, *other)]
    if None not in scores or any(score is not None and not 0 <= score <= 1 for score in scores):
        return None
    bounds: list[float] = []
    for for_arm, for_baseline in ((0.0, 1.0), (1.0, 0.0)):
        means = [_filled(table.all[name], fill) for name, fill in ((arm, for_arm), (baseline, for_baseline))]
        shared = [task for task in means[0] if task in means[1]]
        bounds.append(math.fsum(means[0][task] - means[1][task] for task in shared) / len(shared))
    return Worst(low=bounds[0], high=bounds[1])


def _filled(seen: Sequence[Observation], fill: float) -> dict[str, float]:
    by_task: dict[str, list[float]] = {}
    for one in seen:
        by_task.setdefault(one.task, []).append(fill if one.score is None else one.score)
    return {task: math.fsum(scores) / len(scores) for task, scores in by_task.items()}


def _corrected(ps: Sequence[float | None], looks: Sequence[int], rules: Rules) -> list[float | None]:
    pairs = zip(ps, looks, strict=True)
    known = [min(1.0, p * look_factor(look, rules.planned_looks)) for p, look in pairs if p is not None]
    if not known:
        return list(ps)
    match rules.correction:
        case "holm":
            adjusted = iter(holm(known))
        case "bh":
            adjusted = iter(benjamini_hochberg(known))
        case "none":
            adjusted = iter(known)
    return [None if p is None else next(adjusted) for p in ps]


def _margins_corrected(drafts: Sequence[Contrast], looks: Sequence[int], rules: Rules) -> list[Margin | None]:
    """Whether each arm is no worse than the margin, when all arms are asked at once."""
    ps = _corrected([one.margin.p if one.margin is not None else None for one in drafts], looks, rules)
    return [
        None if one.margin is None else one.margin.model_copy(update={"holds": p is not None and p <= rules.alpha})
        for one, p in zip(drafts, ps, strict=True)
    ]


def _judged(contrast: Contrast, table: ScoreTable, rules: Rules) -> Contrast:
    verdict = _verdict(contrast, rules.alpha)
    told = contrast.model_copy(update={"verdict": verdict})
    return told.model_copy(update={"sentence": contrast_sentence(told, table, rules.level)})


def _verdict(contrast: Contrast, alpha: float) -> ContrastVerdict:
    """Claimed is only what test and interval say alike, and nothing that rests on an interval which may be too narrow.

    The test by signs holds at any size, as measured by `just bench coverage`.
    """
    if contrast.unsafe or contrast.mean is None:
        return "cannot_tell"
    significant = contrast.p_adjusted is not None and contrast.p_adjusted <= alpha
    if significant and contrast.low is not None and contrast.low > 0:
        return "better"
    if significant and contrast.high is not None and contrast.high < 0:
        return "worse"
    holds = contrast.margin is not None and contrast.margin.holds and not contrast.caution
    return "no_worse" if holds else "cannot_tell"
