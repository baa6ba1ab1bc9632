"""What a run will do and how long it takes, for `--dry-run`; and a pilot, which measures it.

A run is phases one after another, with at most so many model calls at once. A phase ends when its longest chain of
calls has ended, when its calls have had their turn, and when this machine has done its own work for them. The latest of
the three counts. Times of calls are means, so services whose times vary a lot take longer than this at the end of a
phase.

A pilot learns from a few tasks once. It does not measure on held-out tasks and does not publish a library.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import Field

from agentlearn.config import LearnSettings
from agentlearn.domain.base import Domain
from agentlearn.domain.custom.own_functions import check_function
from agentlearn.learning.batch import VALIDATION_ROUND, Allocation
from agentlearn.learning.costs import (
    HELD_OUT,
    MIXED,
    TRIED,
    VALIDATED,
    VALIDATION,
    CostEstimate,
    Course,
    Sizes,
    StageEstimate,
    assumed_size,
    estimate,
    known_price,
    measured_size,
    refuse_unpriced,
    tokens_words,
)
from agentlearn.learning.lessons.own_document import refuse_document
from agentlearn.learning.lessons.stage_agent import StagePrompts
from agentlearn.learning.open_run import TaskCounts, TaskSets, local_sets
from agentlearn.models.endpoint import is_paid, is_simulated
from agentlearn.models.outage import duration_words
from agentlearn.store import StageTotals
from agentlearn.types.value import Value

DRIVER_S, WORK_S = 0.0018, 0.0032
"""Seconds of one core for a call: in the driver, and where its rollout is made (docs/scale.md). Tools come on top."""
START_S, WORKER_START_S = 1.0, 2.0
"""Seconds before the first call: opening the store and the endpoints; and until workers have started."""
ASSUMED_WAIT_S, ASSUMED_TOKENS_PER_S = 1.0, 50.0
"""Assumed for a call of which nothing was measured: seconds before its answer begins, and its tokens per second."""


@dataclass(frozen=True, slots=True)
class Wave:
    """Units of work that begin together, such as rollouts: each makes `calls` calls, one after the other."""

    units: float
    calls: float
    call_s: float
    own_s: float = 0.0
    """Seconds of a unit outside its calls, such as those of its tools."""

    @property
    def unit_s(self) -> float:
        """Seconds of one unit that waits for nothing."""
        return self.calls * self.call_s + self.own_s

    def length_s(self, concurrency: int) -> float:
        """Seconds until the last unit has ended: `concurrency` calls, and 1.5 times as many units, at once."""
        if not self.units:
            return 0.0
        turns_s = self.call_s * math.ceil(self.units * self.calls / concurrency)
        return max(self.unit_s, turns_s, self.units * self.unit_s / (1.5 * concurrency))


@dataclass(frozen=True, slots=True)
class Phase:
    """Waves of work that the next phase waits for. Each unit of a wave waits for units of the wave before, not for all.

    So a later wave overlaps the end of an earlier one, and only its last units come after it.
    """

    waves: Sequence[Wave]
    times: float = 1.0
    """How often the run has such a phase."""

    def seconds(self, concurrency: int, call_cpu_s: float) -> float:
        """Seconds of all these phases."""
        first, *later = self.waves
        path_s = first.length_s(concurrency) + sum(one.unit_s for one in later if one.units)
        busy_s = sum(one.units * one.calls * one.call_s for one in self.waves) / concurrency
        own_s = sum(one.units * one.calls for one in self.waves) * call_cpu_s
        return self.times * max(path_s, busy_s, own_s)


def wall_seconds(phases: Sequence[Phase], *, concurrency: int, workers: int) -> float:
    """Return how long a run with these phases takes, in seconds."""
    call_cpu_s = max(DRIVER_S, WORK_S / workers) if workers else DRIVER_S + WORK_S
    start_s = START_S + (WORKER_START_S if workers else 0.0)
    return start_s + sum(one.seconds(concurrency, call_cpu_s) for one in phases)


def call_seconds(measured: Mapping[str, float], stage: str, tokens_out: float) -> float:
    """Return the seconds of one call of a stage: as measured, else as assumed for an answer of that length."""
    return measured.get(stage) or ASSUMED_WAIT_S + tokens_out / ASSUMED_TOKENS_PER_S


def _wall_seconds(settings: LearnSettings, train: int, test: int, size: Sizes) -> float | None:
    """Return how long a run takes; None for a model in this process of which no run is known."""
    if not size.call_s and is_simulated(settings.model):
        return None
    allocation, course = Allocation.of(settings), Course(settings, train, size.right)
    calls = size.rollout.calls
    call_s = call_seconds(size.call_s, "rollout", size.rollout.tokens_out / calls)
    stages = ("summarise", "compare", "consolidate")
    stage_s = {one: call_seconds(size.call_s, one, getattr(size, one).tokens_out) for one in stages}
    teaching = size.mixed + (size.wrong if settings.all_wrong == "teach" else 0.0)
    further = allocation.expected_size(1 - size.mixed - size.right) - allocation.first_wave
    phases, once = list[Phase](), settings.reflect == "once"
    for groups in course.epochs:
        batches = max(1, math.ceil(groups / settings.batch_size))
        tasks = groups / batches
        teach = tasks * teaching if settings.group_size > 1 else 0.0
        waves = [
            Wave(tasks * allocation.first_wave, calls, call_s, size.own_s),
            Wave(tasks * further, calls, call_s, size.own_s),
            *([] if once else [Wave(teach * allocation.first_wave, 1, stage_s["summarise"])]),
            *([] if once else [Wave(teach, 1, stage_s["compare"])]),
        ]
        consolidated = [Wave(1, 1, stage_s["compare" if once else "consolidate"])] * settings.drafts if teach else []
        tried = [Wave(teach * size.tried, calls, call_s, size.own_s)] if teach and settings.tries_updates else []
        phases += [Phase(part, times=batches) for part in (waves, consolidated, tried) if part]
    if validating := course.most_validation():
        versions = min(settings.finalists, course.batches * settings.drafts) + 1
        rounds = math.ceil(validating / versions / VALIDATION_ROUND)
        phases.append(Phase([Wave(validating / rounds, calls, call_s, size.own_s)], times=rounds * size.validated))
    phases.append(Phase([Wave(2 * test * settings.eval_rollouts, calls, call_s, size.own_s)]))
    return wall_seconds(phases, concurrency=settings.concurrency, workers=settings.workers)


_PER_ROLLOUT = ("rollout", "judge", "user")
"""Stages with calls for every rollout; the others have calls only for mixed groups."""
_MANY = 2_000
"""Tasks above which a plan says how to take fewer."""


class RunPlan(Value):
    """What a run will do, for `--dry-run`. It is made without opening an endpoint, a store or the network."""

    domain: str
    model: str
    reflector: str
    data: str
    """Source of the tasks to learn from."""
    test_data: tuple[str, ...]
    train: int
    test: int
    counted: bool
    """Whether the tasks were read and counted. Otherwise the sizes are published or usual ones."""
    epochs: int
    group_size: int
    first_wave: int
    """Rollouts after which a group stops when their rewards agree; `group_size`: never."""
    batches: int
    """Most batches of the run."""
    eval_rollouts: int
    own: tuple[str, ...] = Field(default=(), exclude_if=lambda given: not given)
    """Prompts and rules of the user's own, in words."""
    saved: str = ""
    """What the estimate assumes of groups that stop early and of tasks that are skipped; empty without such."""
    estimate: CostEstimate
    paid: tuple[str, ...] = ()
    """Models that may cost money."""
    wall_s: float | None = None
    """How long the run takes, in seconds; None for a model in this process of which no run is known."""
    wall_basis: str = ""

    def lines(self) -> tuple[tuple[str, str], ...]:
        """Return the plan as pairs of label and text."""
        by = "" if self.reflector == self.model else f", reflector {self.reflector}"
        tests = f", held out from {' and '.join(self.test_data)}" if self.test_data else ""
        tasks = TaskCounts(train=self.train, test=self.test, counted=self.counted)
        least = "" if self.first_wave == self.group_size else f"{self.first_wave} to "
        most = "up to " if "skipped" in self.saved else ""
        rounds = f"{least}{self.group_size} rollouts each, {self.epochs} epochs, {most}{self.batches} batches"
        return (
            ("model", f"{self.model}{by}"),
            ("data", f"{self.data}{tests}"),
            *(("own", one) for one in self.own),
            ("tasks", tasks.words(self.eval_rollouts)),
            ("rounds", rounds),
            *((("saved", self.saved),) if self.saved else ()),
            *((one.stage, one.words()) for one in self.estimate.stages),
            ("learning", f"{tokens_words(self.estimate.learning)}, without measuring"),
            ("total", self.estimate.sentence()),
            *(() if self.wall_s is None else (("time", f"about {duration_words(self.wall_s)} ({self.wall_basis})"),)),
            *((("smaller", f"--limit 200 learns from {200 / self.train:.0%} of these tasks"),) * (self.train > _MANY)),
        )


def plan(settings: LearnSettings, domain: Domain) -> RunPlan:
    """Return what a run with these settings will do. Local tasks are read; online tasks are not downloaded.

    Raises DataError or ConfigError, as the run would.
    """
    refuse_unpriced(settings.endpoints, settings.max_cost_usd)
    refuse_document(settings)
    StagePrompts.of(settings.prompt, document=settings.on is not None)
    for name in settings.rule:
        check_function(name, "rule")  # not imported: a plan runs no code of a recipe
    prompts = (f"prompt of {stage}: {one.words}" for stage, one in settings.prompt.items())
    counts = TaskCounts.of(settings, domain, local_sets(settings, domain))
    train, test = counts.train, counts.test
    if settings.pilot is not None:
        settings, train, test = settings.as_pilot(), min(settings.pilot, train), 0
    size = measured_size(settings, tasks=train, task=counts.size)
    size = size or assumed_size(settings, tasks=train, task=counts.size)
    allocation, saved = Allocation.of(settings), list[str]()
    if allocation.first_wave < allocation.group_size:
        agree, first = f"{size.mixed + size.right:.0%}", allocation.first_wave
        saved.append(f"{agree} of groups stop after {first} rollouts, which are enough to tell")
    if settings.epochs > 1 < allocation.revisit_every:
        skipped = f"{allocation.revisit_every - 1} of {allocation.revisit_every} epochs"
        saved.append(f"{size.right:.0%} are all right, and their tasks are skipped in {skipped}")
    return RunPlan(
        **settings.model_dump(include={"domain", "model", "test_data", "epochs", "group_size", "eval_rollouts"}),
        reflector=settings.reflector_name,
        data=settings.data or f"{settings.domain}'s own tasks",
        train=train,
        test=test,
        counted=counts.counted,
        own=(*prompts, *(f"rule: {name}" for name in settings.rule)),
        first_wave=allocation.first_wave,
        batches=math.ceil(train / settings.batch_size) * settings.epochs,
        saved="; ".join(saved),
        estimate=estimate(settings, train=train, test=test, size=size),
        paid=tuple(one for one in settings.endpoints if any(map(is_paid, settings.endpoints_of(one)))),
        wall_s=_wall_seconds(settings, train, test if settings.evaluate else 0, size),
        wall_basis=f"{settings.concurrency} calls at once; {_time_of_calls(size)}",
    )


def _time_of_calls(size: Sizes) -> str:
    """What an estimate of the wall time rests on."""
    if (seconds := size.call_s.get("rollout")) is not None:
        return f"{seconds:.1f} s for a call of a rollout, as in that run"
    return f"assumed: {ASSUMED_WAIT_S:.0f} s for a call, and {ASSUMED_TOKENS_PER_S:.0f} tokens a second"


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

    @classmethod
    def of(
        cls,
        settings: LearnSettings,
        *,
        tasks: int,
        whole: TaskSets,
        groups: Mapping[str, int],
        taught_wrong: int = 0,
        drawn: int,
        stages: Sequence[StageTotals],
        library: int,
    ) -> "PilotReport":
        """Return the report of a pilot, with its measured costs scaled to the whole run.

        Rollouts, summaries and comparisons are scaled by the expected visits to tasks, consolidations by batches. The
        whole run is assumed to have as many lessons in its prompts as an estimate does.

        tasks: number of tasks it learned from. taught_wrong: groups that were all wrong and taught. drawn: rollouts
        that it made. library: tokens of the lessons in its prompts.
        """
        settings = settings.model_copy(update={"pilot": None})
        total, mixed, train = sum(groups.values()), groups.get("mixed", 0), len(whole.train)
        course = Course(settings, train, groups.get("all_right", 0) / total if total else 0.0)
        learning, made = course.visits / tasks, max(1, drawn)
        more_batches = course.batches / math.ceil(tasks / settings.batch_size)
        held_out = 2 * len(whole.test) * settings.eval_rollouts
        validating = round(VALIDATED * course.most_validation())
        if settings.tries_updates and total:
            validating += round(TRIED * course.visits * (mixed + taught_wrong) / total)
        lessons = max(0, Course(settings, train).average_library() - library)
        scaled: list[StageEstimate] = []
        for one in stages:
            others = {"rollout": settings.model, "user": settings.user_model or settings.reflector_name}
            model = others.get(one.stage, settings.reflector_name)
            more = 0 if one.stage in ("judge", "user") else lessons  # every other stage reads the library
            if one.stage in _PER_ROLLOUT or mixed + taught_wrong:
                calls = more_batches if one.stage == "consolidate" else learning
                scaled.append(_scaled(one.stage, one, model, times=learning, calls=calls, lessons=more))
            if one.stage in _PER_ROLLOUT:
                # half of the held-out rollouts are measured with the pilot's library, half with the whole run's
                for suffix, rollouts, read in ((VALIDATION, validating, more), (HELD_OUT, held_out, more / 2)):
                    if rollouts:
                        title, times = suffix if one.stage == "rollout" else f"{one.stage} {suffix}", rollouts / made
                        scaled.append(_scaled(title, one, model, times=times, calls=times, lessons=read))
        return cls(
            tasks=tasks,
            of_tasks=train,
            rollouts=drawn,
            groups=total,
            mixed=mixed,
            mixed_share=mixed / total if total else None,
            assumed_mixed_share=MIXED,
            turns=next((one.calls / drawn for one in stages if one.stage == "rollout" and drawn), None),
            whole=CostEstimate(rollouts=round(drawn * learning) + validating + held_out, stages=tuple(scaled)),
            assumed=estimate(settings, train=train, test=len(whole.test)),
        )

    def lines(self) -> tuple[str, ...]:
        """Return the report as text, line by line."""
        share = "-" if self.mixed_share is None else f"{self.mixed_share:.0%}"
        turns = "-" if self.turns is None else f"{self.turns:.1f}"
        mixed = f"{self.mixed} of {self.groups} groups were mixed: {share}"
        tasks = f"{self.tasks} of {self.of_tasks:,} tasks"
        return (
            f"{mixed} (the estimate assumes {self.assumed_mixed_share:.0%}); {turns} turns per rollout; {tasks}",
            f"whole run, measured: {self.whole.sentence()}",
            f"whole run, assumed: {self.assumed.sentence()}",
        )


def _scaled(name: str, one: StageTotals, model: str, *, times: float, calls: float, lessons: float) -> StageEstimate:
    """Scale one stage. times: factor for tokens; calls: factor for calls; lessons: extra tokens in each call."""
    asked = round(one.calls * calls)
    more = round(asked * lessons)
    price = known_price(model, round(one.tokens_in / max(1, one.calls) + lessons))
    share = one.tokens_cached / max(1, one.tokens_in)
    cost = None if one.unpriced or (price is None and more) else one.cost_usd * times
    if cost is not None and price is not None:
        cost += price.usd(more, 0, share * more)
    read, written = round(one.tokens_in * times) + more, round(one.tokens_out * times)
    tokens = {"tokens_in": read, "tokens_cached": round(share * read), "tokens_out": written}
    return StageEstimate(stage=name, calls=asked, cost_usd=cost, **tokens)
