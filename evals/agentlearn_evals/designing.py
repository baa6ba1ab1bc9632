"""Plans the size of a comparison: how many tasks and rollouts are needed to detect an effect, and what they cost."""

import math
from pathlib import Path

from agentlearn.domain.base import RolloutShape
from agentlearn.errors import ConfigError
from agentlearn.learning.costs import RolloutSize, StageEstimate
from agentlearn.measure.clustered import grouped
from agentlearn.measure.difference import typical_size
from agentlearn.measure.power import (
    Clusters,
    PlannedComparison,
    VarianceParts,
    guessed_parts,
    measured_clusters,
    variance_parts,
)
from agentlearn.store import read_store
from agentlearn.text.files import readable
from agentlearn.types.value import Value
from agentlearn_evals.compare_settings import PowerSettings
from agentlearn_evals.comparison import Comparison

_KS = (1, 2, 4, 8, 16, 32)
_ALONE = Clusters()
"""How tasks are spread that are all independent."""
_LESSONS = 1_000
"""Tokens of lessons per prompt that prices assume."""


class _Design(Value):
    """One size of comparison."""

    tasks: int
    k: int
    """Rollouts per task and arm."""
    rollouts: int
    """Rollouts of all arms together."""
    detectable: float
    """Smallest difference that it detects with the requested power."""
    chance: float
    """Forecast probability of detecting the requested effect."""
    price: StageEstimate
    """Estimated calls, tokens and cost."""


class PowerReport(Value):
    """The sizes that detect an effect, for `power --json`."""

    settings: PowerSettings
    parts: VarianceParts
    clusters: Clusters | None = None
    """How the tasks are spread over clusters; None when every task is independent."""
    measured: str = ""
    """Comparison that the variances were measured in; empty when they are guessed."""
    designs: tuple[_Design, ...]
    """Sizes that detect the effect; when tasks and k are given, what this size detects."""
    rollouts_needed: int | None = None
    """Rollouts per task and arm that are needed with the given tasks; None when no number is enough."""
    notes: tuple[str, ...] = ()


def power(settings: PowerSettings, measured: Comparison | None = None) -> PowerReport:
    """Return the sizes that detect the effect.

    measured: an earlier comparison whose variances replace the guesses. Raises ConfigError for impossible settings.
    """
    most = math.comb(settings.arms, 2)
    if settings.pairs is not None and settings.pairs > most:
        raise ConfigError(
            f"{settings.pairs} pairs of {settings.arms} arms cannot be compared; there are {most}; give more --arms or"
            " fewer --pairs"
        )
    if settings.power <= settings.alpha:
        raise ConfigError(
            f"a power of {settings.power:g} must be larger than alpha {settings.alpha:g}; ask for 0.8 or 0.9"
        )
    tasks, k, effect, wanted = settings.tasks, settings.k, settings.effect, settings.power
    planned = _guessed(settings) if measured is None else _measured(settings, measured)
    notes, enough = _notes(settings, planned, guessed=measured is None), None
    if tasks is not None and k is None:
        enough = planned.rollouts_needed(effect, tasks, power=wanted)
        if enough is None:
            notes.append(
                f"no number of rollouts detects {effect:g} on {tasks} tasks, because the tasks differ too much; more"
                " tasks are needed"
            )
    if tasks is None:
        ks = _KS if k is None else (k,)
        needed = [(planned.tasks_needed(effect, k_before=k, k_after=k, power=wanted), k) for k in ks]
        sizes = [(number, k) for number, k in needed if number is not None]
    else:
        sizes = [(tasks, one) for one in (sorted({*_KS, enough or 1}) if k is None else (k,))]
    if not sizes:
        notes.append(
            f"no number of tasks from {settings.clusters} clusters detects {effect:g}, because the clusters differ too"
            " much; more clusters are needed"
        )
    designs: list[_Design] = []
    for number, k in sizes:
        rollouts = number * k * settings.arms
        design = _Design(
            tasks=number,
            k=k,
            rollouts=rollouts,
            detectable=planned.detectable_effect(number, k_before=k, k_after=k, power=wanted),
            chance=planned.power(effect, number, k_before=k, k_after=k),
            price=RolloutSize.of(RolloutShape()).times(rollouts, settings.model, "rollout", library=_LESSONS),
        )
        designs.append(design)
    return PowerReport(
        settings=settings,
        parts=planned.parts,
        clusters=None if planned.clusters == _ALONE else planned.clusters,
        measured="" if measured is None else measured.run or measured.title,
        designs=tuple(designs),
        rollouts_needed=enough,
        notes=tuple(notes),
    )


def _planned(
    settings: PowerSettings, parts: VarianceParts, clusters: Clusters | None, most_lost: float
) -> PlannedComparison:
    """Return the comparison that is planned. most_lost: what a cluster that the sample missed could lose."""
    pairs = settings.arms - 1 if settings.pairs is None else settings.pairs
    return PlannedComparison(
        parts=parts,
        alpha=settings.alpha / pairs,
        clusters=clusters or _ALONE,
        most_lost=min(1.0, most_lost),
        right_or_wrong=True,
    )


def _guessed(settings: PowerSettings) -> PlannedComparison:
    parts = guessed_parts(
        settings.baseline,
        effect=settings.effect,
        task_spread=settings.task_spread,
        difference_spread=settings.difference_spread,
    )
    share = 1.0 if settings.cluster_share is None else settings.cluster_share
    clusters = None if settings.clusters is None else Clusters(count=settings.clusters, alike=share)
    # A hidden unit can lose the baseline, and more if the units' scores are spread.
    size = 1.0 if settings.clusters is None else max(1.0, (settings.tasks or math.inf) / settings.clusters)
    most_lost = settings.baseline + settings.task_spread**2 / size / settings.baseline
    return _planned(settings, parts, clusters, most_lost)


def _measured(settings: PowerSettings, found: Comparison) -> PlannedComparison:
    """Return a plan with the variances of a comparison's first contrast. Scores must be 0 or 1.

    Raises ConfigError for fewer than two rollouts per task, or for other scores.
    """
    names = [(one.baseline, one.arm) for one in found.contrasts[:1]] or [found.names[:2]]
    sides = tuple(map(found.names.index, names[0]))
    lines = [line for line in found.tasks if all(line.scores[side] is not None for side in sides)]
    before, after = ([_rollouts(line.scores[side], line.rollouts[side]) for line in lines] for side in sides)
    parts = variance_parts(before, after)
    if parts is None:
        raise ConfigError(
            f"the comparison {found.title!r} has one rollout per task, too few to separate chance from differences"
            " between tasks; compare with --k 2 or more, or leave --like out"
        )
    labels = [line.cluster or f"task {line.task}" for line in lines]
    means, reached = ([line.scores[side] or 0.0 for line in lines] for side in sides)
    clusters = None
    if len(set(labels)) < len(labels):
        differences = [late - early for early, late in zip(means, reached, strict=True)]
        clusters = measured_clusters(differences, labels, parts.true_difference)
    if settings.clusters is not None:
        clusters = (clusters or Clusters()).model_copy(update={"count": settings.clusters})
    if clusters is not None and settings.cluster_share is not None:
        clusters = clusters.model_copy(update={"alike": settings.cluster_share})
    scores = [sum(unit) / len(unit) for unit in grouped(means, labels)]
    return _planned(settings, parts, clusters, typical_size(scores))


def _rollouts(mean: float | None, count: int) -> tuple[float, ...]:
    """Return the 0 and 1 scores with this mean and count."""
    right = (mean or 0.0) * count
    if abs(right - round(right)) > 1e-6:
        raise ConfigError(
            "the comparison has scores between 0 and 1, and its report does not contain their variances; give"
            " --baseline, --task-spread and --difference-spread instead"
        )
    return (1.0,) * round(right) + (0.0,) * (count - round(right))


def _notes(settings: PowerSettings, planned: PlannedComparison, *, guessed: bool) -> list[str]:
    notes, clusters = list[str](), planned.clusters
    if (pairs := settings.arms - 1 if settings.pairs is None else settings.pairs) > 1:
        many = f"{pairs} arms against the baseline" if settings.pairs is None else f"{pairs} pairs of arms"
        notes.append(f"with {many}, each is tested at alpha {planned.alpha:.4f} (Holm's first step)")
    if guessed:
        notes.append(
            f"variances are guessed: baseline {settings.baseline:g}, task spread {settings.task_spread:g}, difference"
            f" spread {settings.difference_spread:g}; give an earlier comparison with --like to measure them"
        )
    if clusters == _ALONE:
        notes.append("every task counts as independent; if tasks share sources or templates, give --clusters")
    else:
        many = f"{clusters.count} clusters" if clusters.count is not None else f"clusters of {clusters.size:.3g} tasks"
        notes.append(
            f"tasks come in {many} that share {clusters.alike:.0%} of the variance of the true difference; more"
            " rollouts or tasks of the same clusters do not reduce that part"
        )
    return notes


def comparison_of(reference: str, store: Path) -> Comparison:
    """Return an earlier comparison, from a JSON file or by the start of a run's id. Raises ConfigError."""
    if reference.endswith(".json"):
        try:
            text = readable(Path(reference)).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"the comparison {reference!r} cannot be read: {error}") from error
    else:
        with read_store(store) as reader:
            row = reader.run(reference)
        text = row.report if row.kind == "eval" else ""
        if not text:
            raise ConfigError(
                f"the run {row.run} is not a finished comparison; `agentlearn runs list` shows them as (eval, done)"
            )
    try:
        return Comparison.model_validate_json(text)
    except ValueError as error:
        raise ConfigError(
            f"{reference!r} does not contain a comparison that this version can read; write it again with agentlearn"
            " compare … --out"
        ) from error
