"""Power: how many tasks and rollouts an effect takes, and what they cost, before anything is spent."""

from pathlib import Path

from agentlearn.errors import ConfigError
from agentlearn.learn.estimate import StageEstimate, rollouts_estimate
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
from agentlearn_evals.comparison import Comparison
from agentlearn_evals.settings import PowerSettings

_KS = (1, 2, 4, 8, 16, 32)
_LESSONS = 1_000
"""Tokens of lessons in a prompt that prices are reckoned with."""


class Design(Value):
    """One way to find the effect."""

    tasks: int
    k: int
    rollouts: int
    """Of all arms."""
    detectable: float
    """The smallest difference that it finds with the power asked for."""
    price: StageEstimate


class PowerReport(Value):
    """What it takes, for `power --json`."""

    settings: PowerSettings
    parts: VarianceParts
    measured: str = ""
    """The comparison that the variances were measured in; empty where they were guessed."""
    designs: tuple[Design, ...]
    """Those that find the effect, or, where tasks and k are given, what these find."""
    rollouts_needed: int | None = None
    """With the tasks that there are: rollouts per task and arm; None when no number is enough."""
    notes: tuple[str, ...] = ()


def power(settings: PowerSettings, measured: Comparison | None = None) -> PowerReport:
    """What the effect takes. measured: an earlier comparison, whose variances stand in for guessed ones.

    Raises ConfigError for numbers that cannot be.
    """
    if settings.power <= settings.alpha:
        raise ConfigError(
            f"a power of {settings.power:g} is no more than alpha {settings.alpha:g}; ask for 0.8 or 0.9",
            code="bad_power",
        )
    parts = _parts(settings, measured)
    alpha = settings.alpha / (settings.arms - 1)
    notes: list[str] = []
    if settings.arms > 2:
        notes.append(
            f"with {settings.arms - 1} arms against the baseline, each is held to alpha {alpha:.4f} (Holm's first step)"
        )
    if measured is None:
        notes.append(
            f"variances are guessed: baseline {settings.baseline:g}, spread of the tasks {settings.task_spread:g}, of"
            f" their differences {settings.difference_spread:g}; give an earlier comparison with --like to measure them"
        )
    enough = None
    if settings.tasks is not None and settings.k is None:
        enough = rollouts_needed(parts, settings.effect, settings.tasks, power=settings.power, alpha=alpha)
        if enough is None:
            notes.append(
                f"no number of rollouts shows {settings.effect:g} on {settings.tasks} tasks: the tasks' own differences"
                " hide it; more tasks are needed"
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
    """The variances of a comparison of right and wrong rollouts, its first arm against its baseline.

    Raises ConfigError where it has fewer than two rollouts per task, or scores between right and wrong.
    """
    rebuilt = [[_rollouts(line.scores[arm], line.rollouts[arm]) for line in found.tasks] for arm in (0, 1)]
    parts = variance_parts(*rebuilt)
    if parts is None:
        raise ConfigError(
            f"the comparison {found.title!r} has one rollout per task, which cannot tell chance from the tasks'"
            " differences; compare with --k 2 or more, or leave --like out",
            code="one_rollout",
        )
    return parts


def _rollouts(mean: float | None, count: int) -> tuple[float, ...]:
    """The rollouts again: how many were right and how many wrong."""
    right = (mean or 0.0) * count
    if abs(right - round(right)) > 1e-6:
        raise ConfigError(
            "the comparison has scores between right and wrong, whose variances its report does not hold; give"
            " --baseline, --task-spread and --difference-spread instead",
            code="partial_scores",
        )
    return (1.0,) * round(right) + (0.0,) * (count - round(right))


def _sizes(settings: PowerSettings, parts: VarianceParts, alpha: float, enough: int | None) -> list[tuple[int, int]]:
    """Numbers of tasks and rollouts worth a row."""
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
        price=rollouts_estimate(settings.model, "rollout", rollouts, _LESSONS),
    )


def comparison_of(reference: str, store: Path) -> Comparison:
    """An earlier comparison: a JSON file, or a run's id or its beginning. Raises ConfigError."""
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
                f"the run {row.run} is no finished comparison; `agentlearn runs list` shows which are (eval, done)",
                code="no_comparison",
            )
    try:
        return Comparison.model_validate_json(text)
    except ValueError as error:
        raise ConfigError(
            f"{reference!r} holds no comparison that this version reads; make it anew with agentlearn compare … --out",
            code="no_comparison",
        ) from error
