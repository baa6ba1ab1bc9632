"""Five learn runs in a row in simulated worlds, with evidence on single lessons carried from run to run, and without.

Everything is simulated, by the fast twin of the learning loop, in the sealed worlds of `just bench learning`. Each run
has new tasks and starts with the library of the run before. With evidence, lessons that a run starts with are hidden in
h of 5 rollouts of each task; after each run, lessons labelled harmful are parked. Which lessons are harmful is known:
the expected reward on new tasks is higher without them.

    just bench evidence_runs
    just bench evidence_runs --world drift --seeds 10
"""

import argparse
import os
import statistics
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context

from agentlearn.learning.evidence import LessonBlock, judge, to_park
from agentlearn.learning.lessons.candidates import Candidates
from agentlearn.library.curate.withhold import withhold
from agentlearn.library.hiding import masks
from agentlearn.sim.worlds import SEALED, SEALED_SEEDS, TUNING, TUNING_SEEDS, world_named
from agentlearn.types.experience import EMPTY_LIBRARY, Library
from agentlearn.types.ids import ExperienceId
from agentlearn.types.task import Task
from tests.bench.found import Found, Row
from tests.bench.learning_rules.environment import Environment, Rollout
from tests.bench.learning_rules.loop import Run
from tests.bench.learning_rules.rules import NEW

RUNS = 5
HIDDEN = {"without evidence": 0, "with evidence, h = 1": 1, "with evidence, h = 2": 2}
_MODEL = "simulated"
_MATTERS = 0.005
"""Smallest change of the expected reward, in either direction, for which a lesson counts as harmful or good."""
_OTHER_TASKS = 1_000_003
"""Distance between the seeds of the tasks of two runs."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What five runs reached in one world with one seed."""

    rules: str
    world: str
    share: float
    """True gain of the last library as a share of the oracle's."""
    worst: float
    """The smallest such share of any of the five libraries."""
    harmful_left: int
    """Lessons of the last library without which the expected reward is higher."""
    parked: int
    good_lost: int
    """Parked lessons with which the expected reward of the last library is higher."""
    lessons: int
    calls: int


@dataclass(slots=True)
class EvidenceRun(Run):
    """A run that hides the lessons it started with, and notes what that shows."""

    hidden: int = 0
    number: int = 0
    """Place of the run among those that follow each other."""
    blocks: list[LessonBlock] = field(default_factory=list[LessonBlock])
    """Comparisons of rollouts with and without a lesson. The runs after it go on with them."""
    _start: Library = EMPTY_LIBRARY

    def __post_init__(self) -> None:
        Run.__post_init__(self)
        self._start = self.library
        self.versions = [self.library]
        self._candidates = Candidates(self.library)

    def _group(self, task: Task, phase: str) -> list[Rollout]:
        phase = f"run-{self.number}/{phase}"
        lessons = [one for one in self.library.by_id if one in self._start.by_id]
        if not self.hidden or not lessons:
            return Run._group(self, task, phase)
        size = self.rules.group
        key = f"{phase}/{task.id}/{self.library.version}"
        chosen = masks(lessons, rollouts=size, hidden=self.hidden, key=key)
        made = [self.environment.rollout(task, _without(self.library, mask), phase, g) for g, mask in enumerate(chosen)]
        for lesson in lessons:
            self.blocks.append(_block(lesson, made, [lesson in mask for mask in chosen], len(self.blocks)))
        seen = [one for one, mask in zip(made, chosen, strict=True) if not mask or one.right]
        for one, mask in zip(made, chosen, strict=True):
            if not mask:
                self._candidates.observe(phase, task.id, task.family, one.g, self.library.version, one.reward)
        return seen or made[:1]

    def _validate(self, task: Task, g: int, arms: Sequence[Library]) -> None:
        Run._validate(self, task, self.number * 1_000 + g, arms)


def _block(lesson: ExperienceId, made: Sequence[Rollout], hidden: Sequence[bool], at: int) -> LessonBlock:
    without = [one.reward for one, hides in zip(made, hidden, strict=True) if hides]
    with_it = [one.reward for one, hides in zip(made, hidden, strict=True) if not hides]
    effect = statistics.fmean(with_it) - statistics.fmean(without)
    return LessonBlock(lesson, _MODEL, effect, len(with_it), len(without), at)


def _without(library: Library, lessons: Sequence[ExperienceId]) -> Library:
    return Library(experiences=tuple(one for one in library.experiences if one.id not in lessons))


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--seeds", type=int, default=50, help="seeds per world")
    parser.add_argument("--tuning", action="store_true", help="use the worlds for tuning")
    parser.add_argument("--world", action="append", default=[], help="only this world (may be given again)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="processes at once")


def measure(chosen: argparse.Namespace) -> Found:
    """Make five runs in a row in every world, with each set of rules."""
    worlds = chosen.world or [world.name for world in (TUNING if chosen.tuning else SEALED)]
    seeds = (TUNING_SEEDS if chosen.tuning else SEALED_SEEDS)[: chosen.seeds]
    jobs = [(world, seed) for world in worlds for seed in seeds]
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # each process has one core
    with ProcessPoolExecutor(chosen.processes, mp_context=get_context("spawn")) as pool:
        found = [outcome for outcomes in pool.map(_judge, jobs, chunksize=1) for outcome in outcomes]
    return Found(rows=tuple(_row(found, world, rules) for world in (*worlds, "all worlds") for rules in HIDDEN))


def _judge(job: tuple[str, int]) -> list[Outcome]:
    world, seed = job
    return [_five_runs(world, seed, rules, hidden) for rules, hidden in HIDDEN.items()]


def _five_runs(world: str, seed: int, rules: str, hidden: int) -> Outcome:
    environment = Environment(world_named(world), seed)
    truth, blocks, library, shares = environment.success, list[LessonBlock](), EMPTY_LIBRARY, list[float]()
    for number in range(RUNS):
        others = Environment(world_named(world), seed + number * _OTHER_TASKS)
        environment.train, environment.validation = others.train, others.validation
        run = EvidenceRun(environment, NEW, library, hidden=hidden, number=number, blocks=blocks)
        library = run.learn()
        if hidden:
            plan = to_park(judge(blocks), library)
            library = withhold(library, plan.reasons)
        shares.append(environment.share(truth(library)))
    last = truth(library)
    parked = [one.experience for one in library.withheld]
    worse_without = [last - truth(_without(library, [one.id])) for one in library.experiences]
    better_with = [truth(Library(experiences=(*library.experiences, one))) - last for one in parked]
    return Outcome(
        rules=rules,
        world=world,
        share=shares[-1],
        worst=min(shares),
        harmful_left=sum(loss < -_MATTERS for loss in worse_without),
        parked=len(parked),
        good_lost=sum(gain > _MATTERS for gain in better_with),
        lessons=len(library),
        calls=environment.spent.calls,
    )


def _row(found: Sequence[Outcome], world: str, rules: str) -> Row:
    members = [one for one in found if one.rules == rules and world in {one.world, "all worlds"}]
    names = ("share", "harmful_left", "parked", "good_lost", "lessons", "calls")
    means = {name: statistics.fmean(getattr(one, name) for one in members) for name in names}
    return Row(name=f"{world}: {rules}", figures={**means, "worst": min(one.worst for one in members)})
