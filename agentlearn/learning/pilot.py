"""A pilot run: learns from a few tasks once, to measure how many groups teach and to estimate the whole run's cost.

A pilot does not measure on held-out tasks and does not publish a library.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from agentlearn.config import LearnSettings
from agentlearn.learning.estimate import (
    HELD_OUT,
    VALIDATION,
    CostEstimate,
    StageEstimate,
    estimate,
    known_price,
)
from agentlearn.learning.open_run import TaskSets
from agentlearn.learning.run_size import (
    MIXED,
    VALIDATED,
    average_library,
    batches_of,
    most_validation_rollouts,
    visits_of,
)
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
    """Rollouts that the pilot made."""
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
    drawn: int,
    stages: Sequence[StageTotals],
    library: int,
) -> PilotReport:
    """Return the report of a pilot.

    tasks: number of tasks it learned from. drawn: rollouts that it made. library: tokens of the lessons in its prompts.
    """
    measured = {one.stage: one for one in stages}
    total, mixed = sum(groups.values()), groups.get("mixed", 0)
    share = mixed / total if total else None
    asked = measured.get("rollout")
    return PilotReport(
        tasks=tasks,
        of_tasks=len(whole.train),
        rollouts=drawn,
        groups=total,
        mixed=mixed,
        mixed_share=share,
        assumed_mixed_share=MIXED,
        turns=asked.calls / drawn if asked is not None and drawn else None,
        whole=_Pilot(tasks, drawn, mixed, groups.get("all_right", 0) / total if total else 0.0, library).extrapolated(
            settings.model_copy(update={"pilot": None}), whole, measured
        ),
        assumed=estimate(settings.model_copy(update={"pilot": None}), train=len(whole.train), test=len(whole.test)),
    )


@dataclass(frozen=True, slots=True)
class _Pilot:
    """The counts of a pilot."""

    tasks: int
    drawn: int
    mixed: int
    right: float
    """Share of groups that were all right."""
    library: int
    """Tokens of lessons in its prompts."""

    def extrapolated(
        self, settings: LearnSettings, whole: TaskSets, measured: Mapping[str, StageTotals]
    ) -> CostEstimate:
        """Scale the measured costs to the whole run, whose settings these are.

        Rollouts, summaries and comparisons are scaled by the expected visits to tasks, consolidations by batches. The
        whole run is assumed to have as many lessons in its prompts as an estimate does.
        """
        train, drawn = len(whole.train), max(1, self.drawn)
        learning = visits_of(settings, train, self.right) / self.tasks
        batches = batches_of(settings, train, self.right)
        held_out = 2 * len(whole.test) * settings.eval_rollouts
        validating = round(VALIDATED * most_validation_rollouts(settings, train, batches))
        more_batches = batches / math.ceil(self.tasks / settings.batch_size)
        lessons = max(0, average_library(settings, train) - self.library)
        stages: list[StageEstimate] = []
        for name, one in measured.items():
            model = settings.model if name == "rollout" else settings.reflector_name
            calls = more_batches if name == "consolidate" else learning
            # every stage except the judge reads the library
            more = 0 if name == "judge" else lessons
            if name in _PER_ROLLOUT or self.mixed:
                stages.append(_scaled(name, one, model, times=learning, calls=calls, lessons=more))
            if name not in _PER_ROLLOUT:
                continue
            # half of the held-out rollouts are measured with the pilot's library, half with the whole run's
            for suffix, rollouts, read in ((VALIDATION, validating, more), (HELD_OUT, held_out, more / 2)):
                if rollouts:
                    times = rollouts / drawn
                    title = suffix if name == "rollout" else f"{name} {suffix}"
                    stages.append(_scaled(title, one, model, times=times, calls=times, lessons=read))
        return CostEstimate(
            rollouts=round(self.drawn * learning) + validating + held_out,
            stages=tuple(stages),
        )


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
