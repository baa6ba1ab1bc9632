"""Plans the size of a comparison: how many tasks and rollouts are needed to detect an effect, and what they cost."""

from pathlib import Path

from agentlearn.domain.base import RolloutShape
from agentlearn.errors import ConfigError
from agentlearn.learn.estimate import StageEstimate, sized_rollouts
from agentlearn.learn.run_size import rollout_size
from agentlearn.stats import (
    VarianceParts,
    detectable_effect,
    guessed_parts,
    rollouts_needed,
    tasks_needed,
    variance_parts,
)
from agentlearn.store import read_store
from agentlearn.types.value import Value
from agentlearn_evals.compare_settings import PowerSettings
from agentlearn_evals.comparison import Comparison

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
    price: StageEstimate
    """Estimated calls, tokens and cost."""


class PowerReport(Value):
    """The sizes that detect an effect, for `power --json`."""

    settings: PowerSettings
    parts: VarianceParts
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
    if settings.power <= settings.alpha:
        raise ConfigError(
            f"a power of {settings.power:g} must be larger than alpha {settings.alpha:g}; ask for 0.8 or 0.9",
            code="bad_power",
        )
    parts = _parts(settings, measured)
    alpha = settings.alpha / (settings.arms - 1)
    notes: list[str] = []
    if settings.arms > 2:
        notes.append(
            f"with {settings.arms - 1} arms against the baseline, each is tested at alpha {alpha:.4f} (Holm's first"
            " step)"
        )
    if measured is None:
        notes.append(
            f"variances are guessed: baseline {settings.baseline:g}, task spread {settings.task_spread:g}, difference"
            f" spread {settings.difference_spread:g}; give an earlier comparison with --like to measure them"
        )
    enough = None
    if settings.tasks is not None and settings.k is None:
        enough = rollouts_needed(parts, settings.effect, settings.tasks, power=settings.power, alpha=alpha)
        if enough is None:
            notes.append(
                f"no number of rollouts detects {settings.effect:g} on {settings.tasks} tasks, because the tasks differ"
                " too much; more tasks are needed"
            )
    sizes = _sizes(settings, parts, alpha, enough)
    return PowerReport(
        settings=settings,
        parts=parts,
        measured="" if measured is None else measured.run or measured.title,
        designs=tuple(_design(settings, parts, alpha, tasks, k) for tasks, k in sizes),
        rollouts_needed=enough,
        notes=tuple(notes),
    )


def _parts(settings: PowerSettings, measured: Comparison | None) -> VarianceParts:
    if measured is None:
        return guessed_parts(
            settings.baseline, task_spread=settings.task_spread, difference_spread=settings.difference_spread
        )
    return measured_parts(measured)


def measured_parts(found: Comparison) -> VarianceParts:
    """Return the variances of a comparison's first arm and baseline. Scores must be 0 or 1.

    Raises ConfigError for fewer than two rollouts per task, or for other scores.
    """
    rebuilt = [[_rollouts(line.scores[arm], line.rollouts[arm]) for line in found.tasks] for arm in (0, 1)]
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


def _sizes(settings: PowerSettings, parts: VarianceParts, alpha: float, enough: int | None) -> list[tuple[int, int]]:
    """Return the (tasks, k) pairs to show."""
    match settings.tasks, settings.k:
        case (None, None):
            return [(_tasks(settings, parts, alpha, k), k) for k in _KS]
        case (None, k):
            return [(_tasks(settings, parts, alpha, k), k)]
        case (tasks, None):
            return [(tasks, k) for k in sorted({*_KS, enough or 1})]
        case (tasks, k):
            return [(tasks, k)]


def _tasks(settings: PowerSettings, parts: VarianceParts, alpha: float, k: int) -> int:
    return tasks_needed(parts, settings.effect, k_before=k, k_after=k, power=settings.power, alpha=alpha)


def _design(settings: PowerSettings, parts: VarianceParts, alpha: float, tasks: int, k: int) -> Design:
    rollouts = tasks * k * settings.arms
    return Design(
        tasks=tasks,
        k=k,
        rollouts=rollouts,
        detectable=detectable_effect(parts, tasks, k_before=k, k_after=k, power=settings.power, alpha=alpha),
        price=sized_rollouts(settings.model, "rollout", rollouts, _LESSONS, rollout_size(RolloutShape())),
    )


def comparison_of(reference: str, store: Path) -> Comparison:
    """Return an earlier comparison, from a JSON file or by the start of a run's id. Raises ConfigError."""
    if reference.endswith(".json"):
        try:
            text = Path(reference).read_text(encoding="utf-8")
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
