"""What is known about every lesson: its label, its effect, and how much more it would take to know.

The labels hold whenever one looks. Of the lessons that are labelled harmful, at most a share `alpha` is not harmful on
average, and the same holds for proven. One budget of errors serves all lessons that were ever tested under a library's
name, with every model: removed and parked lessons stay in the count.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, pvariance
from typing import Literal

from pydantic import Field

from agentlearn.learning.evidence.blocks import LessonBlock
from agentlearn.stats import EProcess, anytime, e_bh, log_threshold
from agentlearn.types.ids import ExperienceId
from agentlearn.types.value import Value

EvidenceLabel = Literal["proven", "unknown", "harmful"]
"""proven: the lesson raises the reward. harmful: it lowers the reward. unknown: neither has been shown."""
_MOST_FORECAST = 1_000_000
_LEAST_VARIANCE = 1e-6


class EvidenceRules(Value):
    """How evidence becomes labels."""

    alpha: float = Field(default=0.1, gt=0, lt=1)
    """Largest average share of wrong labels among the lessons labelled harmful, and among those labelled proven."""
    window: int = Field(default=200, ge=10)
    """Blocks of a lesson that count for its estimate: the latest ones. Older ones are out of date."""
    interval_alpha: float = Field(default=0.05, gt=0, lt=1)
    """1 minus the confidence of the interval."""


class LessonEvidence(Value):
    """What is known about one lesson with one model."""

    lesson: ExperienceId
    model: str
    label: EvidenceLabel
    points: float
    """Mean reward with the lesson minus mean reward without it, in points (hundredths of the reward), in the window."""
    low: float
    """Lower bound of the interval, in points. It may be read at any time."""
    high: float
    """Upper bound of the interval, in points."""
    blocks: int
    """Comparisons of rollouts with and without the lesson, of all time."""
    blocks_counted: int
    """The latest ones among them, which the estimate and the interval rest on."""
    shown: int
    """Rollouts of these comparisons that were shown the lesson."""
    hidden: int
    """Rollouts of these comparisons from which it was hidden."""
    own_task_blocks: int
    """Comparisons on tasks that the lesson was learned from. They are counted nowhere else."""
    log_e_harmful: float
    """Logarithm of the e-value against "it was never harmful"."""
    log_e_proven: float
    """Logarithm of the e-value against "it was never useful"."""
    rollouts_to_know: int | None
    """About how many more rollouts a label takes if the effect is as estimated; None when that cannot be said."""


def judge(blocks: Iterable[LessonBlock], rules: EvidenceRules | None = None) -> tuple[LessonEvidence, ...]:
    """What is known about every lesson of the blocks, in order of lesson and model.

    blocks: of every lesson that was ever tested under the library's name, in the order in which they began.
    """
    rules = rules or EvidenceRules()
    by_lesson: defaultdict[tuple[ExperienceId, str], list[LessonBlock]] = defaultdict(list)
    for block in blocks:
        by_lesson[block.lesson, block.model].append(block)
    tested = [_tested(lesson, model, found, rules) for (lesson, model), found in sorted(by_lesson.items())]
    return labelled([one for one in tested if one.blocks or one.own_task_blocks], rules)


def labelled(tested: Sequence[LessonEvidence], rules: EvidenceRules) -> tuple[LessonEvidence, ...]:
    """The same evidence with labels, and with the rollouts that a label would still take.

    A lesson whose latest blocks say the opposite takes no part in a label: its e-value counts as 0, which is never more
    than it is, so that the bound on wrong labels stays as it is.
    """
    counted = [one for one in tested if one.blocks]
    harmful = _labelled(counted, [one.log_e_harmful if one.points < 0 else -math.inf for one in counted], rules)
    proven = _labelled(counted, [one.log_e_proven if one.points > 0 else -math.inf for one in counted], rules)
    return tuple(
        one.model_copy(
            update={
                "label": _label(one, harmful, proven),
                "rollouts_to_know": _rollouts_to_know(one, len(counted), harmful if one.points < 0 else proven, rules),
            }
        )
        for one in tested
    )


_Key = tuple[ExperienceId, str]


def _key(one: LessonEvidence) -> _Key:
    return one.lesson, one.model


def _labelled(counted: Sequence[LessonEvidence], log_e: Sequence[float], rules: EvidenceRules) -> frozenset[_Key]:
    return frozenset(_key(counted[index]) for index in e_bh(log_e, rules.alpha))


def _label(one: LessonEvidence, harmful: frozenset[_Key], proven: frozenset[_Key]) -> EvidenceLabel:
    if _key(one) in harmful:
        return "harmful"
    return "proven" if _key(one) in proven else "unknown"


def _tested(lesson: ExperienceId, model: str, found: Sequence[LessonBlock], rules: EvidenceRules) -> LessonEvidence:
    blocks = [one for one in found if not one.own_task]
    effects = [one.effect for one in blocks]
    latest = effects[-rules.window :]
    interval = anytime(latest, alpha=rules.interval_alpha) if latest else None
    return LessonEvidence(
        lesson=lesson,
        model=model,
        label="unknown",
        points=100 * fmean(latest) if latest else 0.0,
        low=100 * interval.low if interval else -100.0,
        high=100 * interval.high if interval else 100.0,
        blocks=len(blocks),
        blocks_counted=len(latest),
        shown=sum(one.shown for one in blocks),
        hidden=sum(one.hidden for one in blocks),
        own_task_blocks=len(found) - len(blocks),
        log_e_harmful=EProcess().after(-one for one in effects).log_e,
        log_e_proven=EProcess().after(effects).log_e,
        rollouts_to_know=_growth_forecast(blocks, latest),
    )


def _growth_forecast(blocks: Sequence[LessonBlock], latest: Sequence[float]) -> int | None:
    """Rollouts for one unit of the logarithm of the e-value, at the present estimate; None without an estimate."""
    mean = fmean(latest) if latest else 0.0
    if len(latest) < 2 or not mean:
        return None
    growth = mean**2 / (2 * max(pvariance(latest) + mean**2, _LEAST_VARIANCE))
    rollouts = fmean(one.shown + one.hidden for one in blocks)
    return math.ceil(min(rollouts / growth, _MOST_FORECAST))


def _rollouts_to_know(one: LessonEvidence, tested: int, together: frozenset[_Key], rules: EvidenceRules) -> int | None:
    if _key(one) in together:
        return 0
    per_unit = one.rollouts_to_know
    if per_unit is None:
        return None
    missing = log_threshold(tested, len(together) + 1, rules.alpha) - (
        one.log_e_harmful if one.points < 0 else one.log_e_proven
    )
    needed = math.ceil(per_unit * max(missing, 0.0))
    return needed if needed < _MOST_FORECAST else None


def evidence_of(
    evidence: Iterable[LessonEvidence], model: str | None = None
) -> Mapping[ExperienceId, tuple[LessonEvidence, ...]]:
    """The evidence by lesson. model: only what was measured with this model; None: with any."""
    found: defaultdict[ExperienceId, list[LessonEvidence]] = defaultdict(list)
    for one in evidence:
        if model in (None, one.model):
            found[one.lesson].append(one)
    return {lesson: tuple(known) for lesson, known in found.items()}
