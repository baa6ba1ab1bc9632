"""From stored rollouts to comparisons of rollouts with and without a lesson.

A block is a set of rollouts that differ in nothing but the lessons that were hidden at random: those of one task in one
batch of a run, or a few neighbouring episodes of an application. It gives one number for each lesson, so that a hundred
rollouts of one task are no hundred pieces of evidence.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import fmean

from agentlearn.store import ExposedRow
from agentlearn.types.ids import ExperienceId, TaskId
from agentlearn.types.trajectory import LIVE, measures

_DAY_US = 86_400_000_000
DAY = "day "
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
class _Trial:
    """A rollout or an episode with its mean reward."""

    masked: frozenset[ExperienceId]
    offered: frozenset[ExperienceId]
    reward: float | None
    """None when it is undecided."""
    at: int
    family: str


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
    known = learned_from or {}
    found = [one for members in from_tasks.values() for one in _of_task(members, known)]
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


def _trial(row: ExposedRow) -> _Trial:
    offered = frozenset(row.experiences) if row.offered is None else frozenset(row.offered) & {*row.experiences}
    return _Trial(frozenset(row.masked), offered, row.reward, row.at, row.family)


def _of_task(
    rows: Sequence[ExposedRow], learned_from: Mapping[ExperienceId, AbstractSet[TaskId]]
) -> Iterator[LessonBlock]:
    trials, task = [_trial(row) for row in rows], rows[0].task
    for lesson in sorted({lesson for trial in trials for lesson in trial.masked}):
        own = task in learned_from.get(lesson, _NOBODY)
        yield from _compared(lesson, rows[0].model, trials, task, own_task=own)


def _compared(
    lesson: ExperienceId, model: str, trials: Iterable[_Trial], task: str, *, own_task: bool = False
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


def _of_live(rows: Iterable[ExposedRow]) -> Iterator[LessonBlock]:
    """Blocks of live traffic: neighbouring episodes of one day that had the same library version and model."""

    def stratum(row: ExposedRow) -> tuple[str, str, str, int]:
        return row.run_name, row.model, row.library, row.at // _DAY_US

    for (_, model, _, day), members in groupby(sorted(rows, key=lambda row: (*stratum(row), row.at, row.id)), stratum):
        trials = _episodes(members)
        for lesson in sorted({lesson for trial in trials for lesson in trial.masked}):
            waiting = list[_Trial]()
            for trial in (one for one in trials if lesson in one.offered):
                waiting.append(trial)
                if len({lesson in one.masked for one in waiting}) == 2:
                    yield from _compared(lesson, model, waiting, f"{DAY}{day}")
                    waiting = []


def _episodes(rows: Iterable[ExposedRow]) -> list[_Trial]:
    """One trial for each episode that was shown the same lessons throughout, in order of time."""
    by_episode = defaultdict[str, list[ExposedRow]](list)
    for row in rows:
        if row.reward is not None:
            by_episode[row.episode or row.id].append(row)
    found = list[_Trial]()
    for members in by_episode.values():
        trials = [_trial(row) for row in members]
        if len({(one.masked, one.offered) for one in trials}) == 1:
            reward, at = fmean(row.reward or 0.0 for row in members), min(row.at for row in members)
            found.append(replace(trials[0], reward=reward, at=at))
    return sorted(found, key=lambda one: one.at)
