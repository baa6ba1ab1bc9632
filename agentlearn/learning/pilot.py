"""A pilot run: learns from a few tasks once, to measure how many groups teach and to estimate the whole run's cost.

A pilot does not measure on held-out tasks and does not publish a library.
"""

import math
from collections.abc import Mapping, Sequence
from random import Random

from agentlearn.config import LearnSettings
from agentlearn.learning.estimate import (
    HELD_OUT,
    CostEstimate,
    StageEstimate,
    estimate,
    known_price,
)
from agentlearn.learning.run_size import MIXED, average_library
from agentlearn.learning.task_sets import TaskSets
from agentlearn.store import StageTotals
from agentlearn.types.ids import derive_seed
from agentlearn.types.value import Value

_PER_ROLLOUT = ("rollout", "judge")
"""Stages with calls for every rollout; the others have calls only for mixed groups."""


class PilotReport(Value):
    """What a pilot measured, and the estimate for the whole run."""

    tasks: int
    """Tasks that the pilot learned from."""
    of_tasks: int
    """Tasks that the whole run would learn from."""
    rollouts: int
    groups: int
    mixed: int
    """Groups whose rewards differ."""
    mixed_share: float | None
    """Share of mixed groups; None when there is no group."""
    assumed_mixed_share: float
    """Share of mixed groups that the first estimate assumes."""
    turns: float | None
    """Model calls per rollout."""
    whole: CostEstimate
    """The whole run, extrapolated from the pilot. Stages that the pilot never called are left out."""
    assumed: CostEstimate
    """The whole run, as estimated before the pilot."""

    def lines(self) -> tuple[str, ...]:
        """Return the report as text, line by line."""
        share = "-" if self.mixed_share is None else f"{self.mixed_share:.0%}"
        turns = "-" if self.turns is None else f"{self.turns:.1f}"
        return (
            (
                f"{self.mixed} of {self.groups} groups were mixed: {share} (the estimate assumes"
                f" {self.assumed_mixed_share:.0%}); {turns} turns per rollout; {self.tasks} of {self.of_tasks:,} tasks"
            ),
            f"whole run, measured: {self.whole.sentence()}",
            f"whole run, assumed: {self.assumed.sentence()}",
        )


def pilot_sets(sets: TaskSets, settings: LearnSettings) -> TaskSets:
    """Return the pilot's tasks, sampled with the run's seed. There are no held-out tasks."""
    assert settings.pilot is not None
    count = min(settings.pilot, len(sets.train))
    return TaskSets(tuple(Random(derive_seed("pilot", settings.seed)).sample(sets.train, count)), (), notes=sets.notes)


def pilot_report(
    settings: LearnSettings,
    *,
    tasks: int,
    whole: TaskSets,
    groups: Mapping[str, int],
    stages: Sequence[StageTotals],
    library: int,
) -> PilotReport:
    """Return the report of a pilot.

    tasks: number of tasks it learned from. library: tokens of the lessons in its prompts.
    """
    measured = {one.stage: one for one in stages}
    total, mixed = sum(groups.values()), groups.get("mixed", 0)
    share = mixed / total if total else None
    rollouts = tasks * settings.group_size
    asked = measured.get("rollout")
    return PilotReport(
        tasks=tasks,
        of_tasks=len(whole.train),
        rollouts=rollouts,
        groups=total,
        mixed=mixed,
        mixed_share=share,
        assumed_mixed_share=MIXED,
        turns=asked.calls / rollouts if asked is not None else None,
        whole=_extrapolated(settings, tasks, whole, mixed, measured, library),
        assumed=estimate(settings.model_copy(update={"pilot": None}), train=len(whole.train), test=len(whole.test)),
    )


def _extrapolated(
    settings: LearnSettings,
    tasks: int,
    whole: TaskSets,
    mixed: int,
    measured: Mapping[str, StageTotals],
    library: int,
) -> CostEstimate:
    """Scale the measured costs to the whole run.

    Rollouts are scaled by their number, summaries and comparisons by tasks and epochs, consolidations by batches. The
    pilot's prompts had `library` tokens of lessons; the whole run is assumed to have as many as an estimate does.
    """
    learning = len(whole.train) * settings.epochs / tasks
    measuring = len(whole.test) * settings.eval_rollouts / (tasks * settings.group_size)
    batches = _batches(settings, len(whole.train)) * settings.epochs / _batches(settings, tasks)
    lessons = max(0, average_library(settings.model_copy(update={"pilot": None}), len(whole.train)) - library)
    stages: list[StageEstimate] = []
    for name, one in measured.items():
        model = settings.model if name == "rollout" else settings.reflector_name
        calls = batches if name == "consolidate" else learning
        # every stage except the judge reads the library
        more = 0 if name == "judge" else lessons
        if name in _PER_ROLLOUT or mixed:
            stages.append(_scaled(name, one, model, times=learning, calls=calls, lessons=more))
        if name in _PER_ROLLOUT and measuring:
            held_out = HELD_OUT if name == "rollout" else f"{name} {HELD_OUT}"
            # half is measured with the pilot's library, half with the whole run's
            stages.append(_scaled(held_out, one, model, times=2 * measuring, calls=2 * measuring, lessons=more / 2))
    rollouts = len(whole.train) * settings.epochs * settings.group_size
    return CostEstimate(
        rollouts=rollouts + 2 * len(whole.test) * settings.eval_rollouts,
        stages=tuple(stages),
    )


def _batches(settings: LearnSettings, tasks: int) -> int:
    return math.ceil(tasks / settings.batch_size)


def _scaled(name: str, one: StageTotals, model: str, *, times: float, calls: float, lessons: float) -> StageEstimate:
    """Scale one stage. times: factor for tokens; calls: factor for calls; lessons: extra tokens in each call."""
    asked = round(one.calls * calls)
    more = round(asked * lessons)
    price = known_price(model)
    if one.unpriced:
        cost = None
    elif price is None:
        cost = None if more else one.cost_usd * times
    else:
        cost = one.cost_usd * times + more * price[0] / 1e6
    return StageEstimate(
        stage=name,
        calls=asked,
        tokens_in=round(one.tokens_in * times) + more,
        tokens_out=round(one.tokens_out * times),
        cost_usd=cost,
    )
