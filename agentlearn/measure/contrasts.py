"""Compares every arm with the baseline: difference, interval, p-value and verdict."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentlearn.measure.contrast import Contrast, ContrastVerdict, Correction, Margin, Worst
from agentlearn.measure.observation import Observation
from agentlearn.measure.score_table import ScoreTable
from agentlearn.measure.sentences import contrast_sentence
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

MOST_TASKS = 10_000_000
"""Largest number of tasks that is ever named as needed."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How the verdicts of one comparison are decided."""

    level: float = 0.95
    """Confidence level of the intervals."""
    correction: Correction = "holm"
    """How p-values are corrected for the number of arms."""
    margin: float | None = None
    """Difference by which an arm may be worse and still count as no worse."""
    planned_looks: int = 1
    """Number of looks at growing data that were planned beforehand."""
    seed: int = 0
    """Seed of a sampled sign-flip test."""
    untrusted: Mapping[str, str] = field(default_factory=dict[str, str])
    """Reasons not to trust an arm's score, by arm. Such an arm gets no verdict."""

    @property
    def alpha(self) -> float:
        """Accepted chance of claiming a difference where there is none."""
        return 1 - self.level


def estimate_contrasts(table: ScoreTable, rules: Rules) -> tuple[Contrast, ...]:
    """Return the contrast of every other arm with the baseline, without verdicts."""
    baseline, *others = table.arms
    return tuple(_draft(table, arm, baseline, rules) for arm in others)


def with_verdicts(drafts: Sequence[Contrast], table: ScoreTable, rules: Rules) -> tuple[Contrast, ...]:
    """Return the contrasts with verdicts, and with p-values corrected for the number of arms and for earlier looks."""
    looks = [one.look for one in drafts]
    corrected = _corrected([one.p for one in drafts], looks, rules)
    margins = _margins_corrected(drafts, looks, rules)
    return tuple(
        _with_verdict(draft.model_copy(update={"p_adjusted": p, "margin": margin}), table, rules)
        for draft, p, margin in zip(drafts, corrected, margins, strict=True)
    )


def _draft(table: ScoreTable, arm: str, baseline: str, rules: Rules) -> Contrast:
    """Return the contrast without corrections, which depend on the other arms."""
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
        worst=_worst_case(table, arm, baseline),
        margin=margin,
        wins=sum(difference > 0 for difference in differences),
        losses=sum(difference < 0 for difference in differences),
        ties=sum(difference == 0 for difference in differences),
        unsafe=rules.untrusted.get(arm) or rules.untrusted.get(baseline) or "",
        caution=estimate.unsafe,
    )
    return draft.model_copy(update=_detectable_and_needed(estimate, variance_parts(before, after), before, after))


def estimate_of(
    table: ScoreTable, arm: str, baseline: str, level: float, tasks: Sequence[str] | None = None
) -> MeanDifference:
    """Return the mean difference over these tasks, or all tasks, with its interval."""
    return estimate_difference(table.differences(arm, baseline, tasks), clusters=table.clusters(tasks), level=level)


def _mcnemar(before: Sequence[Sequence[float]], after: Sequence[Sequence[float]]) -> float | None:
    """Return McNemar's exact p, for one rollout per task and arm that is right or wrong; else None."""
    if any(len(scores) != 1 or scores[0] not in {0.0, 1.0} for scores in (*before, *after)):
        return None
    gained = sum(late[0] > early[0] for early, late in zip(before, after, strict=True))
    lost = sum(late[0] < early[0] for early, late in zip(before, after, strict=True))
    return mcnemar_p(gained, lost)


def _detectable_and_needed(
    estimate: MeanDifference,
    parts: VarianceParts | None,
    before: Sequence[Sequence[float]],
    after: Sequence[Sequence[float]],
) -> dict[str, float | int | None]:
    """Return the smallest detectable difference, and the rollouts or tasks needed to detect the observed one."""
    reach: dict[str, float | int | None] = {}
    found = detectable_difference(estimate)
    # When all differences are equal, their spread is unknown, so no detectable difference can be given.
    reach["detectable"] = found if found and math.isfinite(found) else None
    shown = estimate.low is not None and estimate.high is not None and not estimate.low <= 0 <= estimate.high
    if parts is None or not estimate.mean or shown or not estimate.standard_error:
        return reach
    k_before, k_after = (round(sum(map(len, arm)) / len(arm)) for arm in (before, after))
    # Tasks in clusters give less information than independent tasks; the design effect says how much less.
    plain = parts.of_one_task(k_before, k_after) / estimate.n
    inflated = max(1.0, estimate.standard_error**2 / plain) if plain > 0 else 1.0
    effect = estimate.mean / math.sqrt(inflated)
    reach["rollouts_needed"] = rollouts_needed(parts, effect, estimate.n)
    # The search goes up one by one from the normal approximation, so skip it when that is already too large.
    if parts.of_one_task(k_before, k_after) / effect**2 < MOST_TASKS:
        reach["tasks_needed"] = tasks_needed(parts, effect, k_before=k_before, k_after=k_after)
    return reach


def _worst_case(table: ScoreTable, arm: str, baseline: str) -> Worst | None:
    """Return bounds of the mean difference: every undecided rollout goes against the arm, or in its favour."""
    mine, other = table.all[arm], table.all[baseline]
    scores = [one.score for one in (*mine, *other)]
    if None not in scores or any(score is not None and not 0 <= score <= 1 for score in scores):
        return None
    bounds: list[float] = []
    for for_arm, for_baseline in ((0.0, 1.0), (1.0, 0.0)):
        means = [
            _means_with_undecided_as(table.all[name], fill) for name, fill in ((arm, for_arm), (baseline, for_baseline))
        ]
        shared = [task for task in means[0] if task in means[1]]
        bounds.append(math.fsum(means[0][task] - means[1][task] for task in shared) / len(shared))
    return Worst(low=bounds[0], high=bounds[1])


def _means_with_undecided_as(rollouts: Sequence[Observation], fill: float) -> dict[str, float]:
    by_task: dict[str, list[float]] = {}
    for one in rollouts:
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
    """Return the margin tests, corrected for the number of arms."""
    ps = _corrected([one.margin.p if one.margin is not None else None for one in drafts], looks, rules)
    return [
        None if one.margin is None else one.margin.model_copy(update={"holds": p is not None and p <= rules.alpha})
        for one, p in zip(drafts, ps, strict=True)
    ]


def _with_verdict(contrast: Contrast, table: ScoreTable, rules: Rules) -> Contrast:
    verdict = _verdict(contrast, rules.alpha)
    contrast = contrast.model_copy(update={"verdict": verdict})
    return contrast.model_copy(update={"sentence": contrast_sentence(contrast, table, rules.level)})


def _verdict(contrast: Contrast, alpha: float) -> ContrastVerdict:
    """Return the verdict.

    `better` and `worse` require that both the sign-flip test and the interval show it. The test is valid for any
    number of tasks, as measured by `just bench coverage`. `no_worse` rests on the interval alone, so it is not given
    when the interval may be too narrow.
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
