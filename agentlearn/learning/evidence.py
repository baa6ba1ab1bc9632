"""Evidence on single lessons: what each one does to the reward, measured by hiding it at random from some rollouts.

A block is a set of rollouts that differ in nothing but the lessons that were hidden at random: those of one task in one
batch of a run, or a few neighbouring episodes of an application. It gives one number for each lesson, so that a hundred
rollouts of one task are no hundred pieces of evidence. From the blocks follow the label of each lesson, its effect, and
how much more it would take to know.

The labels hold whenever one looks. Of the lessons that are labelled harmful, at most a share `alpha` is not harmful on
average, and the same holds for proven. One budget of errors serves all lessons that were ever tested under a library's
name, with every model: removed and parked lessons stay in the count.

A label says what a lesson did on the tasks that were compared. Whether it does the same on tasks like these is a second
question: a lesson without any mean effect helps on some tasks and harms on others, and a few tasks that are visited
often would show their own mean as surely as one likes. Its unit is the task, or its family.

Undecided rollouts could be right or wrong. The evidence must hold if they are right equally often with and without the
lesson, whatever that share is; and the bounds that hold whatever each of them is must leave the label, beyond chance.

A person can see each decision before it is made, and undo it: parked lessons stay in the library, and are not shown.
Lessons that a person wrote are reported and never parked here.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from statistics import fmean, pvariance, variance
from typing import Literal

from pydantic import Field

from agentlearn.library.store import LibraryStore
from agentlearn.stats import EProcess, anytime, benjamini_hochberg, e_bh, log_threshold, mean_test, typical_size
from agentlearn.stats.clustered import cdf
from agentlearn.store import ExposedRow, StoreReader
from agentlearn.types.experience import Experience, Library, estimated_tokens
from agentlearn.types.ids import ExperienceId, TaskId
from agentlearn.types.trajectory import LIVE, measures
from agentlearn.types.value import Value

_DAY_US = 86_400_000_000
_DAY = "day "
"""How the name of a block's task starts where it is a day of an application's traffic."""
_NOBODY: frozenset[TaskId] = frozenset()
_HALF = 0.5
"""What an undecided rollout counts in an estimate."""


@dataclass(frozen=True, slots=True)
class LessonBlock:
    """One comparison of rollouts with and without a lesson."""

    lesson: ExperienceId
    model: str
    effect: float
    """Mean reward of the rollouts that were shown the lesson, minus that of those from which it was hidden. An
    undecided rollout counts as half right."""
    shown: int
    """Number of rollouts with a reward that were shown the lesson."""
    hidden: int
    """Number of rollouts with a reward from which it was hidden."""
    at: int
    """When its first rollout began: microseconds since 1970."""
    own_task: bool = False
    """Whether the lesson was learned from this very task."""
    lost_shown: int = 0
    """Number of undecided rollouts that were shown the lesson."""
    lost_hidden: int = 0
    """Number of undecided rollouts from which it was hidden."""
    level: float = 0.5
    """Mean reward of the rollouts from which it was hidden."""
    task: str = ""
    """Its task, or the day of its episodes; empty: nothing else was compared on that task."""
    family: str = ""
    """Family of the task; empty without one."""

    def bounds(self) -> tuple[float, float]:
        """Return the lowest and the highest effect that the undecided rollouts leave possible."""
        lost = (self._lost_of_shown + self._lost_of_hidden) / 2
        return self.effect - lost, self.effect + lost

    def alike(self) -> tuple[float, float]:
        """Return the effect if all undecided rollouts, with and without the lesson, were wrong; and if all were right.

        Together they hold whatever share of the undecided rollouts is right, if it is the same on both sides.
        """
        more = (self._lost_of_shown - self._lost_of_hidden) / 2
        return self.effect - more, self.effect + more

    @property
    def _lost_of_shown(self) -> float:
        return self.lost_shown / (self.shown + self.lost_shown)

    @property
    def _lost_of_hidden(self) -> float:
        return self.lost_hidden / (self.hidden + self.lost_hidden)


@dataclass(frozen=True, slots=True)
class Trial:
    """A rollout or an episode with its mean reward."""

    masked: frozenset[ExperienceId]
    offered: frozenset[ExperienceId]
    reward: float | None
    """None when it is undecided."""
    at: int
    family: str

    @classmethod
    def of(cls, row: ExposedRow) -> "Trial":
        """Return a rollout as a trial."""
        offered = frozenset(row.experiences) if row.offered is None else frozenset(row.offered) & {*row.experiences}
        return cls(frozenset(row.masked), offered, row.reward, row.at, row.family)


def blocks_of(
    rows: Iterable[ExposedRow], learned_from: Mapping[ExperienceId, AbstractSet[TaskId]] | None = None
) -> list[LessonBlock]:
    """The blocks of these rollouts, in the order in which they began.

    A rollout counts for a lesson only where the lesson would have been shown, because retrieval chose it. The latest
    attempt at a rollout counts. A rollout that was repeated with the same seed, lessons and model counts once. Rollouts
    that only measure are left out, and so are recorded ones without feedback, and rewards outside 0..1.
    learned_from: the tasks that each lesson was learned from.
    """
    from_tasks, live = defaultdict[tuple[str, ...], list[ExposedRow]](list), list[ExposedRow]()
    for row in _once(rows):
        if row.phase == LIVE:
            live.append(row)
        elif not measures(row.phase):
            key = (row.run, row.phase, str(row.batch), row.task, row.model, row.library, row.arm)
            from_tasks[key].append(row)
    found = list[LessonBlock]()
    for members in from_tasks.values():
        trials, task = [Trial.of(row) for row in members], members[0].task
        for lesson in sorted({lesson for trial in trials for lesson in trial.masked}):
            own = task in (learned_from or {}).get(lesson, _NOBODY)
            found += _compared(lesson, members[0].model, trials, task, own_task=own)
    return sorted([*found, *_of_live(live)], key=lambda one: (one.at, one.lesson, one.model))


def _once(rows: Iterable[ExposedRow]) -> Iterator[ExposedRow]:
    """Each rollout once: the latest attempt, and of exact repetitions the first."""
    latest = dict[tuple[object, ...], ExposedRow]()
    for row in sorted(rows, key=lambda row: (row.at, row.id)):
        key = (row.run, row.phase, row.task, row.g) if row.phase != LIVE else (row.id,)
        if key not in latest or row.attempt >= latest[key].attempt:
            latest[key] = row
    seen = set[tuple[object, ...]]()
    for row in sorted(latest.values(), key=lambda row: (row.at, row.id)):
        key = (row.phase, row.task, row.g, row.seed, row.model, row.library, tuple(row.masked))
        if row.phase == LIVE or key not in seen:
            seen.add(key)
            yield row


def _of_live(rows: Iterable[ExposedRow]) -> Iterator[LessonBlock]:
    """Blocks of live traffic: neighbouring episodes of one day that had the same library version and model.

    An episode counts that was shown the same lessons throughout, with its mean reward.
    """

    def stratum(row: ExposedRow) -> tuple[str, str, str, int]:
        return row.run_name, row.model, row.library, row.at // _DAY_US

    for (_, model, _, day), members in groupby(sorted(rows, key=lambda row: (*stratum(row), row.at, row.id)), stratum):
        by_episode = defaultdict[str, list[ExposedRow]](list)
        for row in members:
            if row.reward is not None:
                by_episode[row.episode or row.id].append(row)
        episodes = list[Trial]()
        for parts in by_episode.values():
            trials = [Trial.of(row) for row in parts]
            if len({(one.masked, one.offered) for one in trials}) == 1:
                reward, at = fmean(row.reward or 0.0 for row in parts), min(row.at for row in parts)
                episodes.append(replace(trials[0], reward=reward, at=at))
        episodes.sort(key=lambda one: one.at)
        for lesson in sorted({lesson for one in episodes for lesson in one.masked}):
            yield from neighbours(lesson, model, episodes, f"{_DAY}{day}")


def neighbours(lesson: ExperienceId, model: str, episodes: Iterable[Trial], task: str = "") -> Iterator[LessonBlock]:
    """Blocks of neighbouring episodes with and without a lesson, in the order of time in which the episodes are given.

    A block ends as soon as it has both. What is measured need be no lesson: `Trial.masked` and `Trial.offered` name it.
    """
    waiting = list[Trial]()
    for one in (one for one in episodes if lesson in one.offered):
        waiting.append(one)
        if len({lesson in one.masked for one in waiting}) == 2:
            yield from _compared(lesson, model, waiting, task)
            waiting = []


def _compared(
    lesson: ExperienceId, model: str, trials: Iterable[Trial], task: str, *, own_task: bool = False
) -> Iterator[LessonBlock]:
    offered = [one for one in trials if lesson in one.offered]
    shown = [one.reward for one in offered if lesson not in one.masked]
    hidden = [one.reward for one in offered if lesson in one.masked]
    known = [[reward for reward in side if reward is not None] for side in (shown, hidden)]
    if not (shown and hidden and any(known)) or not all(0 <= reward <= 1 for side in known for reward in side):
        return
    means = [fmean(_HALF if reward is None else reward for reward in side) for side in (shown, hidden)]
    families = {one.family for one in offered}
    yield LessonBlock(
        lesson,
        model,
        effect=max(-1.0, min(1.0, means[0] - means[1])),
        shown=len(known[0]),
        hidden=len(known[1]),
        at=min(one.at for one in offered),
        own_task=own_task,
        lost_shown=len(shown) - len(known[0]),
        lost_hidden=len(hidden) - len(known[1]),
        level=means[1],
        task=task,
        family=families.pop() if len(families) == 1 else "",
    )


EvidenceLabel = Literal["proven", "unknown", "harmful"]
"""proven: the lesson raises the reward. harmful: it lowers the reward. unknown: neither has been shown."""
_Scope = Literal["", "these_tasks", "tasks_like_these"]
"""What a label holds for; empty without a label."""
_Z = 1.959964
"""Standard errors by which a bound must be on the side of the label: 5 % for two looks, at all blocks or the latest."""
_FEWEST_UNITS = 5
"""Fewest tasks or families that can stand for others."""
_CLEAR = 3.0
"""Standard errors by which an effect must have been above 0 before its loss is looked for."""
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
    """Rollouts of these comparisons with a reward that were shown the lesson."""
    hidden: int
    """Rollouts of these comparisons with a reward from which it was hidden."""
    undecided_shown: int = 0
    """Undecided rollouts of these comparisons that were shown the lesson."""
    undecided_hidden: int = 0
    """Undecided rollouts of these comparisons from which it was hidden."""
    holds_for: _Scope = ""
    """What the label holds for: the tasks of these comparisons, or also tasks like these."""
    units: int = 0
    """Independent units of these comparisons: families, or tasks that have none; days of an application's episodes."""
    unit: Literal["tasks", "families", "days"] = "tasks"
    p_like_these: float | None = None
    """p that the mean effect over tasks or families like these has not the sign of the label; None without a label."""
    withheld: str = ""
    """Why there is no label although the rollouts with a reward would give one; empty otherwise."""
    own_task_blocks: int
    """Comparisons on tasks that the lesson was learned from. They are counted nowhere else."""
    log_e_harmful: float
    """Logarithm of the e-value against "it was never harmful"."""
    log_e_proven: float
    """Logarithm of the e-value against "it was never useful"."""
    rollouts_to_know: int | None
    """About how many more rollouts a label takes if the effect is as estimated; None when that cannot be said."""

    @property
    def holds_for_words(self) -> str:
        """What the label holds for, in words: `these 12 tasks`, `tasks like these 100`; empty without a label."""
        match self.holds_for:
            case "tasks_like_these":
                return f"{self.unit} like these {self.units:,}"
            case "these_tasks":
                return f"these {self.units:,} {self.unit}"
            case _:
                return ""

    def words(self) -> str:
        """The evidence on a lesson in words."""
        exposures = f"{self.shown} rollouts with it and {self.hidden} without it"
        where = f" on {self.holds_for_words}" if self.holds_for else ""
        estimate = f"{self.points:+.1f} points [{self.low:+.1f}, {self.high:+.1f}]"
        return f"{self.label}: {estimate} with {self.model}{where}, {exposures}"


def judge(blocks: Iterable[LessonBlock], rules: EvidenceRules | None = None) -> tuple[LessonEvidence, ...]:
    """What is known about every lesson of the blocks, in order of lesson and model.

    blocks: of every lesson that was ever tested under the library's name, in the order in which they began.
    """
    rules = rules or EvidenceRules()
    by_lesson: defaultdict[tuple[ExperienceId, str], list[LessonBlock]] = defaultdict(list)
    for block in blocks:
        by_lesson[block.lesson, block.model].append(block)
    tested = [_tested(lesson, model, found, rules) for (lesson, model), found in sorted(by_lesson.items())]
    counted = [one for one in tested if one.known.blocks]
    chosen: dict[int, set[int]] = {}
    halves, fallen, like_these, ps = set[int](), set[int](), set[int](), dict[int, float]()
    for sign in (-1, 1):
        # A lesson whose latest blocks say the opposite, or whose bounds allow the opposite, takes no part in a label:
        # its e-value counts as 0, which is never more than it is, so that the bound on wrong labels stays as it is.
        sides = [one.sides[sign] if sign * one.known.points > 0 else _NOTHING for one in counted]
        labelled = {*e_bh([side.log_e if side.bounded else -math.inf for side in sides], rules.alpha)}
        shown = sorted(labelled)
        fallen |= {shown[place] for place in e_bh([sides[one].log_e_faded for one in shown], rules.alpha)}
        labelled -= fallen
        halves |= {*e_bh([side.log_e_halves for side in sides], rules.alpha)}
        chosen[sign] = labelled
        if labelled:
            ps |= {index: _p_like_these(counted[index].units, sign) for index in labelled}
            corrected = benjamini_hochberg([ps[one] if one in labelled else 1.0 for one in range(len(counted))])
            like_these |= {index for index, p in enumerate(corrected) if p <= rules.alpha}
    index_of = {(one.known.lesson, one.known.model): index for index, one in enumerate(counted)}
    found = list[LessonEvidence]()
    for each in tested:
        one = each.known
        index = index_of.get((one.lesson, one.model), -1)
        label: EvidenceLabel = "harmful" if index in chosen[-1] else "proven" if index in chosen[1] else "unknown"
        scope: _Scope = "" if label == "unknown" else "tasks_like_these" if index in like_these else "these_tasks"
        withheld = ""
        if index in fallen:
            withheld = "it had an effect, and the latest comparisons show less than half of it"
        elif label == "unknown" and index in halves:
            withheld = (
                f"{one.undecided_shown:,} of {one.shown + one.undecided_shown:,} rollouts with it and"
                f" {one.undecided_hidden:,} of {one.hidden + one.undecided_hidden:,} without it are undecided, and"
                " their true rewards could change the label"
            )
        together = chosen[-1 if one.points < 0 else 1]
        known = 0 if index in together else one.rollouts_to_know
        if known:
            missing = log_threshold(len(counted), len(together) + 1, rules.alpha)
            missing -= each.sides[-1 if one.points < 0 else 1].log_e
            needed = math.ceil(known * max(missing, 0.0))
            known = needed if needed < _MOST_FORECAST else None
        more = {"label": label, "holds_for": scope, "p_like_these": ps.get(index), "withheld": withheld}
        found.append(one.model_copy(update={**more, "rollouts_to_know": known}))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Tested:
    """A lesson without a label yet, and what decides about one."""

    known: LessonEvidence
    units: Sequence[Sequence[LessonBlock]]
    """Its blocks by independent unit."""
    sides: Mapping[int, "_Side"]
    """The evidence that it is harmful (-1), and that it is proven (1)."""


@dataclass(frozen=True, slots=True)
class _Side:
    """The evidence for one label."""

    log_e: float
    """Logarithm of the e-value, if undecided rollouts are right equally often with and without the lesson."""
    log_e_halves: float
    """The same with undecided rollouts as half right."""
    log_e_faded: float
    """Logarithm of the e-value against "the effect was never less than half of the largest mean that it had before".
    Only clear means count, each with as many blocks without an effect as the window has, so that luck sets none."""
    bounded: bool
    """Whether the bounds of the effect leave the label, beyond chance."""

    @classmethod
    def of(cls, blocks: Sequence[LessonBlock], sign: int, rules: EvidenceRules) -> "_Side":
        """Return the evidence that the effect of these blocks has this sign."""
        effects = [sign * one.effect for one in blocks]
        halves = EProcess().after(effects).log_e
        sums, squares = (accumulate(each, initial=0.0) for each in (effects, [one**2 for one in effects]))
        means = (
            total / (n + rules.window) if total > _CLEAR * math.sqrt(square) else 0.0
            for n, (total, square) in enumerate(zip(sums, squares, strict=True))
        )
        halves_of_best = (most / 2 for most in accumulate(means, max))
        faded = EProcess().after(
            (half - one) / 1.5 if half > 0 else 0.0 for half, one in zip(halves_of_best, effects, strict=False)
        )
        if not any(one.lost_shown or one.lost_hidden for one in blocks):
            return cls(halves, halves, faded.log_e, bounded=True)
        wrong, right = zip(*(one.alike() for one in blocks), strict=True)
        log_e = min(EProcess().after(sign * one for one in side).log_e for side in (wrong, right))
        least = [min(sign * bound for bound in one.bounds()) for one in blocks]
        parts = (least, least[-rules.window :])
        above = (fmean(part) > _Z * math.sqrt(pvariance(part) / len(part)) for part in parts)
        return cls(log_e, halves, faded.log_e, bounded=any(above))


_NOTHING = _Side(-math.inf, -math.inf, -math.inf, bounded=False)


def _tested(lesson: ExperienceId, model: str, found: Sequence[LessonBlock], rules: EvidenceRules) -> _Tested:
    blocks = [one for one in found if not one.own_task]
    effects = [one.effect for one in blocks]
    latest = effects[-rules.window :]
    interval = anytime(latest, alpha=rules.interval_alpha) if latest else None
    units, unit = _units(blocks)
    sides = {sign: _Side.of(blocks, sign, rules) for sign in (-1, 1)}
    known = LessonEvidence(
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
        undecided_shown=sum(one.lost_shown for one in blocks),
        undecided_hidden=sum(one.lost_hidden for one in blocks),
        units=len(units),
        unit=unit,
        own_task_blocks=len(found) - len(blocks),
        log_e_harmful=sides[-1].log_e,
        log_e_proven=sides[1].log_e,
        rollouts_to_know=_growth_forecast(blocks, latest),
    )
    return _Tested(known, units, sides)


def _units(blocks: Sequence[LessonBlock]) -> tuple[list[list[LessonBlock]], Literal["tasks", "families", "days"]]:
    """The blocks of each independent unit. Where all tasks are of one family, each task is a unit."""
    families = {one.family for one in blocks}
    names = [
        (one.family if one.family and len(families) > 1 else one.task) or f"block {number}"
        for number, one in enumerate(blocks)
    ]
    units = defaultdict[str, list[LessonBlock]](list)
    for name, one in zip(names, blocks, strict=True):
        units[name].append(one)
    days = sum(name.startswith(_DAY) for name in units)
    return list(units.values()), "days" if days else "families" if families - {""} and len(families) > 1 else "tasks"


def _p_like_these(units: Sequence[Sequence[LessonBlock]], sign: int) -> float:
    """p that the mean effect over units has this sign by chance, for units that are drawn at random.

    units: the blocks of each. A mean with the other sign gives 1. It is the larger p of Student's t and `mean_test`,
    which allows for a few units, not among these, that lose all that they have; both with all undecided rollouts wrong,
    and all right.
    """
    if len(units) < _FEWEST_UNITS:
        return 1.0
    level = [fmean(one.level for one in unit) for unit in units]
    has, lacks = typical_size(level) or 1.0, typical_size([1 - one for one in level]) or 1.0
    ps = list[float]()
    for which in (0, 1):
        means = [sign * fmean(one.alike()[which] for one in unit) for unit in units]
        if fmean(means) <= 0:
            return 1.0
        error = math.sqrt(variance(means) / len(means))
        t = fmean(means) / max(error, _LEAST_VARIANCE)
        most_lost, most_gained = (has, lacks) if sign > 0 else (lacks, has)
        ps += [2 * cdf(-t, len(means) - 1), mean_test(means, most_lost=most_lost, most_gained=most_gained).p]
    return min(1.0, max(ps))


def _growth_forecast(blocks: Sequence[LessonBlock], latest: Sequence[float]) -> int | None:
    """Rollouts for one unit of the logarithm of the e-value, at the present estimate; None without an estimate."""
    mean = fmean(latest) if latest else 0.0
    if len(latest) < 2 or not mean:
        return None
    growth = mean**2 / (2 * max(pvariance(latest) + mean**2, _LEAST_VARIANCE))
    rollouts = fmean(one.shown + one.lost_shown + one.hidden + one.lost_hidden for one in blocks)
    return math.ceil(min(rollouts / growth, _MOST_FORECAST))


def evidence_of(
    evidence: Iterable[LessonEvidence], model: str | None = None
) -> Mapping[ExperienceId, tuple[LessonEvidence, ...]]:
    """The evidence by lesson. model: only what was measured with this model; None: with any."""
    found: defaultdict[ExperienceId, list[LessonEvidence]] = defaultdict(list)
    for one in evidence:
        if model in (None, one.model):
            found[one.lesson].append(one)
    return {lesson: tuple(known) for lesson, known in found.items()}


@dataclass(frozen=True, slots=True)
class LibraryEvidence:
    """What is known about the lessons of a library, the removed and the parked ones included."""

    name: str
    library: Library
    """Its current version."""
    evidence: tuple[LessonEvidence, ...]
    """Of every lesson that was ever tested under this name, with each model."""

    @classmethod
    def of(cls, reader: StoreReader, libraries: LibraryStore, name: str) -> "LibraryEvidence":
        """The evidence on a library's lessons. Raises LibraryError for an unknown name.

        Nothing is kept between two calls but the rollouts themselves, so the result is the same in every process.
        """
        versions = {version: libraries.load(f"{name}@{version}") for version in libraries.versions(name)}
        shown = {lesson for version in versions.values() for lesson in version.by_id}
        ever = tuple(sorted(shown | {one.experience.id for version in versions.values() for one in version.withheld}))
        rows = reader.exposed(ever, {version: list(library.by_id) for version, library in versions.items()})
        hidden = {lesson for row in rows for lesson in row.masked} & {*ever}
        learned_from = {lesson: reader.tasks_behind(lesson) for lesson in sorted(hidden)}
        blocks = [one for one in blocks_of(rows, learned_from) if one.lesson in hidden]
        return cls(name, libraries.load(name), judge(blocks))

    @property
    def tested(self) -> int:
        """Number of tests that share the budget of errors: one for each lesson and model with evidence."""
        return sum(bool(one.blocks) for one in self.evidence)


@dataclass(frozen=True, slots=True)
class ParkingPlan:
    """What the evidence says should no longer be shown."""

    park: tuple["ToPark", ...] = ()
    """Lessons to park."""
    reported: tuple["ToPark", ...] = ()
    """Lessons that a person wrote. A person decides on them."""

    @property
    def reasons(self) -> dict[ExperienceId, str]:
        """Why each lesson is to be parked, by lesson."""
        return {one.experience.id: one.reason for one in self.park}


@dataclass(frozen=True, slots=True)
class ToPark:
    """A lesson that should no longer be shown, and why."""

    experience: Experience
    evidence: LessonEvidence | None
    """None when a lesson gives way to others although nothing is known about it."""
    reason: str


def to_park(evidence: Iterable[LessonEvidence], library: Library, *, model: str | None = None) -> ParkingPlan:
    """The lessons of this version that are labelled harmful.

    model: only the evidence with this model counts. None: with any model, but a lesson that is proven with another
    model is only reported.
    """
    known = evidence_of(evidence, model)
    park, reported = list[ToPark](), list[ToPark]()
    for one in library.experiences:
        harmful = [found for found in known.get(one.id, ()) if found.label == "harmful"]
        if not harmful:
            continue
        worst = min(harmful, key=lambda found: found.points)
        proven = any(found.label == "proven" for found in known[one.id])
        entry = ToPark(one, worst, f"{worst.words()}{', but proven with another model' if proven else ''}")
        (reported if one.origin.kind == "person" or proven else park).append(entry)
    return ParkingPlan(tuple(park), tuple(reported))


def to_evict(
    evidence: Iterable[LessonEvidence],
    library: Library,
    *,
    max_lessons: int | None = None,
    max_tokens: int | None = None,
    model: str | None = None,
) -> tuple[ToPark, ...]:
    """The lessons that give way so that the library fits into its limits; empty when it fits.

    The lesson with the least value per token goes first, by its estimate. Only lessons with evidence can go, and proven
    ones and those that a person wrote cannot, so the library may stay larger than its limits.
    """
    known, candidates = evidence_of(evidence, model), list[tuple[float, Experience, LessonEvidence]]()
    for one in library.experiences:
        measured = [found for found in known.get(one.id, ()) if found.blocks]
        if measured and one.origin.kind != "person" and not any(found.label == "proven" for found in measured):
            weakest = min(measured, key=lambda found: found.points)  # the evidence that speaks least for it
            candidates.append((weakest.points / max(1, estimated_tokens(one.lesson)), one, weakest))
    candidates.sort(key=lambda entry: (entry[0], entry[1].id))
    lessons, tokens, gone = len(library), library.tokens, list[ToPark]()
    for value, one, found in candidates:
        if (max_lessons is None or lessons <= max_lessons) and (max_tokens is None or tokens <= max_tokens):
            break
        reason = f"the library is full, and this lesson has the least value per token ({value:+.2f} points)"
        gone.append(ToPark(one, found, f"{reason}: {found.words()}"))
        lessons, tokens = lessons - 1, tokens - estimated_tokens(one.lesson)
    return tuple(gone)
