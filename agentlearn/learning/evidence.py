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

Users of an application may answer late, or never, and who answers depends on how it went. So the blocks of live traffic
are made once, of all episodes, and looked at in a fixed order. Evidence on them must hold twice: with the silent users
all unhappy, and with all of them happy.

A person can see each decision before it is made, and undo it: parked lessons stay in the library, and are not shown.
Lessons that a person wrote are reported and never parked here.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import accumulate, groupby
from statistics import fmean, pvariance, variance
from typing import Literal, NamedTuple, TypeAlias

from pydantic import Field

from agentlearn.library.store import LibraryStore
from agentlearn.measure.clustered import cdf
from agentlearn.measure.difference import benjamini_hochberg, mean_test, typical_size
from agentlearn.measure.sequential import EProcess, anytime, e_bh, log_threshold
from agentlearn.store import ExposedRow, ServedEpisode, StoreReader
from agentlearn.text import clock
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
_WEEK_US, _ENOUGH = 7 * _DAY_US, 100
"""How long feedback is waited for where fewer rewards than these say how late it comes."""
MOST_OUTSIDE = 0.05
"""Share of rewards outside 0 to 1, as old stores may hold them, above which nothing is decided."""
_Shown: TypeAlias = tuple[frozenset[ExperienceId], frozenset[ExperienceId]]
"""The lessons that were hidden, and those that would have been shown otherwise."""


class FeedbackWait(NamedTuple):
    """How long an episode without feedback is waited for."""

    days: float
    now: int
    """Microseconds since 1970."""

    @classmethod
    def of(
        cls, rows: Iterable[ExposedRow | ServedEpisode], declared: float | None = None, now: datetime | None = None
    ) -> "FeedbackWait":
        """Return the days that are declared, or else the time in which 99 of 100 rewards came, in whole days.

        rows: live traffic. Only what began a week ago or earlier shows how late feedback comes; where too few of these
        have a reward, a week is waited. now: default: the time of the clock.
        """
        at = int((now or clock.now()).timestamp() * 1_000_000)
        old = [row for row in rows if row.reward is not None and at - row.at >= _WEEK_US]
        delays = sorted((row.said or row.at) - row.at for row in old)
        late = _WEEK_US if len(old) < _ENOUGH else max(_DAY_US, delays[-1 - len(old) // 100])
        return cls(math.ceil(late / _DAY_US) if declared is None else declared, at)


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
    outside: int = 0
    """Number of its rollouts with a reward outside 0 to 1. They are among the undecided ones."""
    until: int = 0
    """When the last of its episodes began: microseconds since 1970; 0 for a block of tasks. The undecided ones of live
    traffic are episodes whose users said nothing in time."""
    ready: bool = True
    """Whether none of its episodes waits for feedback."""

    @property
    def size(self) -> int:
        """Number of its rollouts."""
        return self.shown + self.lost_shown + self.hidden + self.lost_hidden

    @property
    def answered(self) -> float:
        """Share of its episodes with feedback, as the mean of both sides; 1 for a block of tasks."""
        return 1 - (self._lost_of_shown + self._lost_of_hidden) / 2 if self.until else 1.0

    def bounds(self) -> tuple[float, float]:
        """Return the lowest and the highest effect that undecided rollouts leave possible; see `alike` for silence."""
        lost = 0.0 if self.until else (self._lost_of_shown + self._lost_of_hidden) / 2
        return self.effect - lost, self.effect + lost

    def alike(self) -> tuple[float, float]:
        """Return the effect if all undecided rollouts, with and without the lesson, were wrong; and if all were right.

        Together they hold whatever share of the undecided rollouts is right, if it is the same on both sides.
        """
        more = (self._lost_of_shown - self._lost_of_hidden) / 2
        return max(-1.0, self.effect - more), min(1.0, self.effect + more)

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
    """None when it is undecided, or has no feedback in time."""
    at: int
    outside: bool
    """Whether its reward is outside 0 to 1."""
    ready: bool
    """Whether no feedback is waited for."""

    @classmethod
    def of(cls, row: ExposedRow | ServedEpisode, shown: _Shown, wait: FeedbackWait | None = None) -> "Trial":
        """Return a rollout or an episode. This is the only place that says which rewards count.

        A reward outside 0 to 1 says nothing, and neither does one that came after the wait, or after a day where the
        wait is shorter. wait: None for rollouts of a run.
        """
        late = wait is not None and (row.said or 0) - row.at > max(wait.days, 1) * _DAY_US
        reward = None if late else row.reward
        outside = reward is not None and not 0 <= reward <= 1
        ready = reward is not None or wait is None or wait.now - row.at >= wait.days * _DAY_US
        return cls(*shown, None if outside else reward, row.at, outside, ready)


def _shown(row: ExposedRow) -> _Shown:
    offered = frozenset(row.experiences)
    return frozenset(row.masked), offered if row.offered is None else offered & {*row.offered}


def blocks_of(
    rows: Iterable[ExposedRow],
    learned_from: Mapping[ExperienceId, AbstractSet[TaskId]] | None = None,
    wait: FeedbackWait | None = None,
) -> list[LessonBlock]:
    """The blocks of these rollouts, in the order in which they began.

    A rollout counts for a lesson only where the lesson would have been shown, because retrieval chose it. The latest
    attempt at a rollout counts. A rollout that was repeated with the same seed, lessons and model counts once. Rollouts
    that only measure are left out. learned_from: the tasks that each lesson was learned from. wait: how long feedback
    on live traffic is waited for; None: measured on these rollouts.
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
        trials, first = [Trial.of(row, _shown(row)) for row in members], members[0]
        for lesson in sorted({lesson for trial in trials for lesson in trial.masked}):
            own = first.task in (learned_from or {}).get(lesson, _NOBODY)
            found += _compared(lesson, first.model, trials, first.task, first.family, own_task=own)
    found += _of_live(live, wait or FeedbackWait.of(live))
    return sorted(found, key=lambda one: (one.at, one.lesson, one.model))


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


def _of_live(rows: Iterable[ExposedRow], wait: FeedbackWait) -> Iterator[LessonBlock]:
    """Blocks of live traffic: neighbouring episodes of one day that had the same library version and model.

    An episode counts that was shown the same lessons throughout, with its mean reward.
    """

    def stratum(row: ExposedRow) -> tuple[str, str, str, int]:
        return row.run_name, row.model, row.library, row.at // _DAY_US

    for (_, model, _, day), members in groupby(sorted(rows, key=lambda row: (*stratum(row), row.at, row.id)), stratum):
        by_episode = defaultdict[str, list[ExposedRow]](list)
        for row in members:
            by_episode[row.episode or row.id].append(row)
        episodes = list[Trial]()
        for parts in by_episode.values():
            given = [row for row in parts if row.reward is not None]
            rewards = sorted((row.reward or 0.0 for row in given), key=lambda one: 0 <= one <= 1)
            mean = fmean(rewards) if rewards and 0 <= rewards[0] <= 1 else next(iter(rewards), None)
            whole = replace(parts[0], reward=mean, said=max((row.said or row.at for row in given), default=None))
            if len({_shown(row) for row in parts}) == 1:
                episodes.append(Trial.of(whole, _shown(whole), wait))
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
            yield from _compared(lesson, model, waiting, task, live=True)
            waiting = []


def _compared(
    lesson: ExperienceId, model: str, trials: Iterable[Trial], task: str, family: str = "", *, own_task: bool = False,
    live: bool = False,
) -> Iterator[LessonBlock]:  # fmt: skip
    offered = [one for one in trials if lesson in one.offered]
    sides = [[one.reward for one in offered if (lesson in one.masked) == hidden] for hidden in (False, True)]
    shown, hidden = ([reward for reward in side if reward is not None] for side in sides)
    outside = sum(one.outside for one in offered)
    if not all(sides) or not (live or shown or hidden or outside):
        return
    means = [fmean(_HALF if reward is None else reward for reward in side) for side in sides]
    began = [one.at for one in offered]
    yield LessonBlock(
        lesson, model, means[0] - means[1], len(shown), len(hidden), min(began), own_task,
        lost_shown=len(sides[0]) - len(shown), lost_hidden=len(sides[1]) - len(hidden), level=means[1], task=task,
        family=family, outside=outside, until=max(began) * live, ready=all(one.ready for one in offered),
    )  # fmt: skip


class LookedAt(NamedTuple):
    """The blocks that may be looked at, in a fixed order.

    Blocks of live traffic come in the order in which the last of their episodes began, up to the first one that waits
    for feedback, so that a later look never puts a block before one that was seen. Those in which nobody answered say
    nothing.
    """

    blocks: list[LessonBlock]
    waiting: int
    """Number of episodes in the blocks that cannot be looked at yet."""
    outside: int
    """Number of their rewards outside 0 to 1."""
    withheld: str
    """Why nothing may be decided; empty where something may."""

    @classmethod
    def of(cls, blocks: Iterable[LessonBlock]) -> "LookedAt":
        """Return what may be looked at of blocks in any order."""
        ordered = sorted(blocks, key=lambda one: one.until or one.at)
        first = next((one.until for one in ordered if not one.ready), math.inf)
        seen = [one for one in ordered if one.until < first]
        outside, told = sum(one.outside for one in seen), sum(one.shown + one.hidden for one in seen)
        waiting = sum(one.size for one in ordered) - sum(one.size for one in seen)
        why = f"{outside:,} of {outside + told:,} rewards are outside 0 to 1, too many to leave out"
        return cls(
            [one for one in seen if one.shown + one.hidden], waiting, outside,
            why if outside > MOST_OUTSIDE * (outside + told) else "",
        )  # fmt: skip


def in_points(blocks: Sequence[LessonBlock], alpha: float = 0.05) -> tuple[float, float, float]:
    """Return the mean effect of blocks and its interval, which may be read at any time, in points.

    Where some users were silent, it is the effect on those who answered, and the interval holds whether the silent ones
    were happy or unhappy.
    """
    if not blocks:
        return 0.0, -100.0, 100.0
    scale = 100 / fmean(one.answered for one in blocks)
    sides = zip(*(one.alike() if one.until else (one.effect, one.effect) for one in blocks), strict=True)
    found = [anytime(side, alpha=alpha) for side in {*sides}]
    points = fmean(one.effect for one in blocks), min(one.low for one in found), max(one.high for one in found)
    mean, low, high = (max(-100.0, min(100.0, scale * one)) for one in points)
    return mean, low, high


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
    """Undecided rollouts of these comparisons that were shown the lesson, and episodes without feedback."""
    undecided_hidden: int = 0
    """The same of those from which it was hidden."""
    outside: int = 0
    """Rollouts with a reward outside 0 to 1. They count as undecided ones."""
    waiting: int = 0
    """Episodes that are not compared yet, because they, or those before them, wait for feedback."""
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
        outside = f", {self.outside:,} rewards outside 0 to 1 count as undecided" if self.outside else ""
        return f"{self.label}: {estimate} with {self.model}{where}, {exposures}{outside}"


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
        sides = [
            one.sides[sign] if sign * one.known.points > 0 and not one.known.withheld else _NOTHING for one in counted
        ]
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
        withheld = one.withheld
        if index in fallen:
            withheld = "it had an effect, and the latest comparisons show less than half of it"
        elif label == "unknown" and index in halves:
            silent = "have no feedback" if one.unit == "days" else "are undecided"
            withheld = (
                f"{one.undecided_shown:,} of {one.shown + one.undecided_shown:,} rollouts with it and"
                f" {one.undecided_hidden:,} of {one.hidden + one.undecided_hidden:,} without it {silent}, and"
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
    looked = LookedAt.of(one for one in found if not one.own_task)
    blocks, latest = looked.blocks, looked.blocks[-rules.window :]
    points, low, high = in_points(latest, rules.interval_alpha)
    units, unit = _units(blocks)
    sides = {sign: _Side.of(blocks, sign, rules) for sign in (-1, 1)}
    known = LessonEvidence(
        lesson=lesson, model=model, label="unknown", points=points, low=low, high=high,
        blocks=len(blocks), blocks_counted=len(latest),
        shown=sum(one.shown for one in blocks), hidden=sum(one.hidden for one in blocks),
        undecided_shown=sum(one.lost_shown for one in blocks), undecided_hidden=sum(one.lost_hidden for one in blocks),
        outside=looked.outside, waiting=looked.waiting, withheld=looked.withheld, units=len(units), unit=unit,
        own_task_blocks=sum(one.own_task for one in found),
        log_e_harmful=sides[-1].log_e, log_e_proven=sides[1].log_e,
        rollouts_to_know=_growth_forecast(blocks, [one.effect for one in latest]),
    )  # fmt: skip
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
    rollouts = fmean(one.size for one in blocks)
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
    def of(
        cls, reader: StoreReader, libraries: LibraryStore, name: str, days: float | None = None,
        now: datetime | None = None,
    ) -> "LibraryEvidence":  # fmt: skip
        """The evidence on a library's lessons. Raises LibraryError for an unknown name.

        days: how long an episode without feedback is waited for; None: as `FeedbackWait.of` measures it.
        Nothing is kept between two calls but the rollouts themselves, so the result is the same in every process.
        """
        versions = {one: libraries.load(f"{name}@{one}", stored=True) for one in libraries.versions(name)}
        shown = {lesson for version in versions.values() for lesson in version.by_id}
        ever = tuple(sorted(shown | {one.experience.id for version in versions.values() for one in version.withheld}))
        rows = reader.exposed(ever, {version: list(library.by_id) for version, library in versions.items()})
        hidden = {lesson for row in rows for lesson in row.masked} & {*ever}
        learned_from = {lesson: reader.tasks_behind(lesson) for lesson in sorted(hidden)}
        wait = FeedbackWait.of([row for row in rows if row.phase == LIVE], days, now)
        blocks = [one for one in blocks_of(rows, learned_from, wait) if one.lesson in hidden]
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
