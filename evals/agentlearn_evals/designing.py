"""Plans the size of a comparison: how many tasks and rollouts are needed to detect an effect, and what they cost."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from agentlearn.domain.base import RolloutShape
from agentlearn.errors import ConfigError
from agentlearn.files import readable
from agentlearn.learning.costs import StageEstimate, rollout_size, sized_rollouts
from agentlearn.stats import (
    Clusters,
    VarianceParts,
    detectable_effect,
    guessed_parts,
    measured_clusters,
    planned_power,
    rollouts_needed,
    tasks_needed,
    typical_size,
    variance_parts,
)
from agentlearn.store import read_store
from agentlearn.types.value import Value
from agentlearn_evals.compare_settings import PowerSettings
from agentlearn_evals.comparison import Comparison, TaskLine

_KS = (1, 2, 4, 8, 16, 32)
_LESSONS = 1_000
"""Tokens of lessons per prompt that prices assume."""


class Design(Value):
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
    designs: tuple[Design, ...]
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
            " fewer --pairs",
            code="bad_pairs",
        )
    if settings.power <= settings.alpha:
        raise ConfigError(
            f"a power of {settings.power:g} must be larger than alpha {settings.alpha:g}; ask for 0.8 or 0.9",
            code="bad_power",
        )
    assumed = _assumed(settings, measured)
    notes = _notes(settings, measured, assumed)
    enough = None
    if settings.tasks is not None and settings.k is None:
        enough = assumed.rollouts(settings, settings.tasks)
        if enough is None:
            notes.append(
                f"no number of rollouts detects {settings.effect:g} on {settings.tasks} tasks, because the tasks differ"
                " too much; more tasks are needed"
            )
    sizes = _sizes(settings, assumed, enough)
    if not sizes:
        notes.append(
            f"no number of tasks from {settings.clusters} clusters detects {settings.effect:g}, because the clusters"
            " differ too much; more clusters are needed"
        )
    return PowerReport(
        settings=settings,
        parts=assumed.parts,
        clusters=assumed.clusters,
        measured="" if measured is None else measured.run or measured.title,
        designs=tuple(_design(settings, assumed, tasks, k) for tasks, k in sizes),
        rollouts_needed=enough,
        notes=tuple(notes),
    )


@dataclass(frozen=True, slots=True)
class _Assumed:
    """What a forecast assumes about tasks and rollouts."""

    parts: VarianceParts
    clusters: Clusters | None
    most_lost: float
    """What a cluster that the sample missed could lose."""
    alpha: float

    @property
    def known(self) -> "_Known":
        """What every forecast takes."""
        return {
            "alpha": self.alpha,
            "clusters": self.clusters,
            "most_lost": self.most_lost,
            "right_or_wrong": True,
        }

    def chance(self, settings: PowerSettings, tasks: int, k: int) -> float:
        return planned_power(self.parts, settings.effect, tasks, k_before=k, k_after=k, **self.known)

    def detectable(self, settings: PowerSettings, tasks: int, k: int) -> float:
        return detectable_effect(self.parts, tasks, k_before=k, k_after=k, power=settings.power, **self.known)

    def tasks(self, settings: PowerSettings, k: int) -> int | None:
        return tasks_needed(self.parts, settings.effect, k_before=k, k_after=k, power=settings.power, **self.known)

    def rollouts(self, settings: PowerSettings, tasks: int) -> int | None:
        return rollouts_needed(self.parts, settings.effect, tasks, power=settings.power, **self.known)


class _Known(TypedDict):
    alpha: float
    clusters: Clusters | None
    most_lost: float
    right_or_wrong: bool


def _assumed(settings: PowerSettings, measured: Comparison | None) -> _Assumed:
    alpha = settings.alpha / _pairs(settings)
    if measured is None:
        parts = guessed_parts(
            settings.baseline,
            effect=settings.effect,
            task_spread=settings.task_spread,
            difference_spread=settings.difference_spread,
        )
        share = 1.0 if settings.cluster_share is None else settings.cluster_share
        clusters = None if settings.clusters is None else Clusters(count=settings.clusters, alike=share)
        return _Assumed(parts, clusters, _most_lost(settings), alpha)
    parts, clusters = measured_parts(measured), _measured_clusters(measured)
    if settings.clusters is not None:
        clusters = (clusters or Clusters()).model_copy(update={"count": settings.clusters})
    if clusters is not None and settings.cluster_share is not None:
        clusters = clusters.model_copy(update={"alike": settings.cluster_share})
    by_cluster: dict[str, list[float]] = {}
    for line in _scored(measured):
        by_cluster.setdefault(line.cluster or f"task {line.task}", []).append(line.scores[0] or 0.0)
    most_lost = typical_size([sum(scores) / len(scores) for scores in by_cluster.values()])
    return _Assumed(parts, clusters, min(1.0, most_lost), alpha)


def _pairs(settings: PowerSettings) -> int:
    """Return the number of pairs of arms that are compared."""
    return settings.arms - 1 if settings.pairs is None else settings.pairs


def _most_lost(settings: PowerSettings) -> float:
    """Return what a hidden unit can lose: the baseline, and more if the units' scores are spread."""
    size = 1.0 if settings.clusters is None else max(1.0, (settings.tasks or math.inf) / settings.clusters)
    return min(1.0, settings.baseline + settings.task_spread**2 / size / settings.baseline)


def _notes(settings: PowerSettings, measured: Comparison | None, assumed: _Assumed) -> list[str]:
    notes: list[str] = []
    if (pairs := _pairs(settings)) > 1:
        many = f"{pairs} arms against the baseline" if settings.pairs is None else f"{pairs} pairs of arms"
        notes.append(f"with {many}, each is tested at alpha {assumed.alpha:.4f} (Holm's first step)")
    if measured is None:
        notes.append(
            f"variances are guessed: baseline {settings.baseline:g}, task spread {settings.task_spread:g}, difference"
            f" spread {settings.difference_spread:g}; give an earlier comparison with --like to measure them"
        )
    if assumed.clusters is None:
        notes.append("every task counts as independent; if tasks share sources or templates, give --clusters")
    else:
        known = assumed.clusters
        many = f"{known.count} clusters" if known.count is not None else f"clusters of {known.size:.3g} tasks"
        notes.append(
            f"tasks come in {many} that share {known.alike:.0%} of the variance of the true difference; more rollouts"
            " or tasks of the same clusters do not reduce that part"
        )
    return notes


def _scored(found: Comparison) -> list[TaskLine]:
    """Return the tasks with a score in both arms of the first contrast, the scores of its baseline first."""
    names = [(one.baseline, one.arm) for one in found.contrasts[:1]] or [found.names[:2]]
    before, after = map(found.names.index, names[0])
    pairs = [
        line.model_copy(
            update={
                "scores": (line.scores[before], line.scores[after]),
                "rollouts": (line.rollouts[before], line.rollouts[after]),
            }
        )
        for line in found.tasks
    ]
    return [line for line in pairs if None not in line.scores]


def _measured_clusters(found: Comparison) -> Clusters | None:
    """Return how the tasks of a comparison share clusters; None when every task is its own."""
    lines = _scored(found)
    labels = [line.cluster or f"task {line.task}" for line in lines]
    if len(set(labels)) == len(labels):
        return None
    differences = [(line.scores[1] or 0.0) - (line.scores[0] or 0.0) for line in lines]
    return measured_clusters(differences, labels, measured_parts(found).true_difference)


def measured_parts(found: Comparison) -> VarianceParts:
    """Return the variances of a comparison's first contrast. Scores must be 0 or 1.

    Raises ConfigError for fewer than two rollouts per task, or for other scores.
    """
    rebuilt = [[_rollouts(line.scores[arm], line.rollouts[arm]) for line in _scored(found)] for arm in (0, 1)]
    parts = variance_parts(*rebuilt)
    if parts is None:
        raise ConfigError(
            f"the comparison {found.title!r} has one rollout per task, too few to separate chance from differences"
            " between tasks; compare with --k 2 or more, or leave --like out",
            code="one_rollout",
        )
    return parts


def _rollouts(mean: float | None, count: int) -> tuple[float, ...]:
    """Return the 0 and 1 scores with this mean and count."""
    right = (mean or 0.0) * count
    if abs(right - round(right)) > 1e-6:
        raise ConfigError(
            "the comparison has scores between 0 and 1, and its report does not contain their variances; give"
            " --baseline, --task-spread and --difference-spread instead",
            code="partial_scores",
        )
    return (1.0,) * round(right) + (0.0,) * (count - round(right))


def _sizes(settings: PowerSettings, assumed: _Assumed, enough: int | None) -> Sequence[tuple[int, int]]:
    """Return the (tasks, k) pairs to show."""
    match settings.tasks, settings.k:
        case (None, k):
            ks = _KS if k is None else (k,)
            return [(tasks, each) for each in ks if (tasks := assumed.tasks(settings, each)) is not None]
        case (tasks, None):
            return [(tasks, k) for k in sorted({*_KS, enough or 1})]
        case (tasks, k):
            return [(tasks, k)]


def _design(settings: PowerSettings, assumed: _Assumed, tasks: int, k: int) -> Design:
    rollouts = tasks * k * settings.arms
    return Design(
        tasks=tasks,
        k=k,
        rollouts=rollouts,
        detectable=assumed.detectable(settings, tasks, k),
        chance=assumed.chance(settings, tasks, k),
        price=sized_rollouts(settings.model, "rollout", rollouts, _LESSONS, rollout_size(RolloutShape())),
    )


def comparison_of(reference: str, store: Path) -> Comparison:
    """Return an earlier comparison, from a JSON file or by the start of a run's id. Raises ConfigError."""
    if reference.endswith(".json"):
        try:
            text = readable(Path(reference)).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"the comparison {reference!r} cannot be read: {error}", code="missing_file") from error
    else:
        with read_store(store) as reader:
            row = reader.run(reference)
        text = row.report if row.kind == "eval" else ""
        if not text:
            raise ConfigError(
                f"the run {row.run} is not a finished comparison; `agentlearn runs list` shows them as (eval, done)",
                code="no_comparison",
            )
    try:
        return Comparison.model_validate_json(text)
    except ValueError as error:
        raise ConfigError(
            f"{reference!r} does not contain a comparison that this version can read; write it again with agentlearn"
            " compare … --out",
            code="no_comparison",
        ) from error
