"""Every version of a run's library, what the rollouts already made say about each, and the trial of changes.

Versions met different tasks, so their mean rewards cannot be compared. A ridge regression explains each reward by the
task, the lessons that were shown, and the version. What two versions share in lessons they share in evidence. The
estimates are posterior means under normal priors, so a version with little evidence stays close to its parent.
"""

import math
from asyncio import TaskGroup
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from agentlearn.library.curate import CheckContext, NextVersion, RejectionCode, next_version
from agentlearn.library.curate.codes import reject
from agentlearn.types.experience import Library
from agentlearn.types.group import Group
from agentlearn.types.ids import LibraryVersion, TaskId
from agentlearn.types.operation import Applied, Ended, Proposal
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory

_NOISE, _NOISE_WEIGHT = 0.18, 10
"""Variance of a reward around what task and lessons explain, before rollouts are seen, and how many they count for."""
_TASK, _FAMILY, _LESSON, _VERSION = 0.28, 0.17, 0.028, 0.0055
"""Prior variances of the effects of a task, a family, a lesson and a version, as multiples of that variance."""
_LESSON_MEAN = 0.01
"""Prior mean of a lesson's effect. It lets a later version win where nothing is known."""
_SURE_TO_GO_BACK = 2.0
"""Posterior standard deviations by which an earlier version must be better than the current one to be continued."""
_COSTLY = 0.02
"""Expected loss of reward from which it pays to compare two versions further."""
_SURE_TO_LEAVE_START = 2.0
"""Posterior standard deviations by which the leader must be better than the start for the start to be left out."""
_SURE_TO_SELECT = 1.0
"""Posterior standard deviations by which a version must be better than the start to be selected instead of it."""
_ALONE = 3
"""Rollouts on each of its tasks in which a change is tried alone."""
_EQUAL = 1e-9
"""Sums of rewards that differ by no more than this are equal."""


@dataclass(frozen=True, slots=True)
class _Judged:
    """One judged rollout."""

    version: LibraryVersion
    task: TaskId
    family: str
    reward: float


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of one version."""

    library: Library
    rollouts: int
    """Judged rollouts that were shown it."""
    reward: float | None
    """Their mean reward."""
    estimate: float
    """Posterior mean of its difference to the start, in units of the reward."""
    sd: float
    """Posterior standard deviation of that difference; 0 for the start."""


@dataclass(slots=True)
class Candidates:
    """The versions of one run, in the order in which they were made."""

    start: Library
    bare: Library = field(init=False)
    """The start without the lessons that no person wrote; the empty library where a person wrote none."""
    libraries: dict[LibraryVersion, Library] = field(init=False)
    _observations: dict[tuple[str, LibraryVersion, TaskId, int], _Judged] = field(init=False)

    def __post_init__(self) -> None:
        self.bare = self.start.only_written()
        self.libraries = {one.version: one for one in (self.bare, self.start)}
        self._observations = {}

    def add(self, library: Library) -> None:
        """Add a version that an update made."""
        self.libraries.setdefault(library.version, library)

    def observe(self, phase: str, task: TaskId, family: str, g: int, version: LibraryVersion, reward: float) -> None:
        """Add one judged rollout. A rollout of another version than the candidates is ignored.

        (phase, version, task, g): name the rollout, so that observing it twice changes nothing.
        """
        if version in self.libraries:
            self._observations[phase, version, task, g] = _Judged(version, task, family, reward)

    def forget(self, phase: str) -> None:
        """Remove the rollouts of a phase, to observe them again as they are judged now."""
        self._observations = {key: one for key, one in self._observations.items() if key[0] != phase}

    def standings(self) -> tuple[Standing, ...]:
        """Return what is known of each version, in the order in which they were made."""
        fit = self._fit()
        found: dict[LibraryVersion, list[float]] = {version: [] for version in self.libraries}
        for one in self._observations.values():
            found[one.version].append(one.reward)
        return tuple(
            Standing(library, len(rewards), sum(rewards) / len(rewards) if rewards else None, *fit.against(library))
            for library, rewards in ((library, found[version]) for version, library in self.libraries.items())
        )

    def best(self) -> Library:
        """Return the version with the highest estimate; of equal ones the latest."""
        return max(self.standings()[::-1], key=lambda one: one.estimate).library

    def finalists(self, most: int) -> tuple[Library, ...]:
        """Return the version with the highest estimate, then those that it would be most costly to overlook.

        Those that hardly cost anything to overlook are not among them, nor is the start, with or without its lessons.
        """
        fit = self._fit()
        fixed = {self.bare.version, self.start.version}
        latest_first = [one for one in reversed(self.libraries.values()) if one.version not in fixed]
        if not latest_first:
            return ()
        leader = fit.leader(latest_first[::-1])
        others = [one for one in latest_first if one is not leader and fit.expected_excess(one, leader) >= _COSTLY]
        others.sort(key=lambda one: -fit.expected_excess(one, leader))
        return (leader, *others)[:most]

    def to_continue(self, current: Library) -> Library:
        """Return the version to learn from next: the best one if it is clearly better than the current one."""
        fit, best = self._fit(), self.best()
        mean, sd = fit.between(best, current)
        return best if mean > _SURE_TO_GO_BACK * sd else current

    def contenders(self, arms: Sequence[Library]) -> tuple[Library, ...]:
        """Return the leader of the arms, and those that deserve more rollouts, in their order.

        An arm deserves more rollouts while it is expected to cost something to choose the leader without them. The
        start deserves them until the leader is clearly better, so that chance does not put a bad version in its place.
        """
        fit = self._fit()
        leader = fit.leader(arms)

        def deserves(one: Library) -> bool:
            if one.version == self.start.version and not fit.is_ahead(leader, _SURE_TO_LEAVE_START):
                return True
            return fit.expected_excess(one, leader) >= _COSTLY

        return tuple(one for one in arms if one is leader or deserves(one))

    def choose(self, arms: Sequence[Library]) -> Library:
        """Return the arm to select: the leader, or the start when the leader is not better with some certainty."""
        fit = self._fit()
        leader = fit.leader(arms)
        return leader if fit.is_ahead(leader, _SURE_TO_SELECT) else self.start

    def _fit(self) -> "_Fit":
        cells: dict[tuple[TaskId, str, LibraryVersion], list[float]] = {}
        for key in sorted(self._observations):
            one = self._observations[key]
            cells.setdefault((one.task, one.family, one.version), []).append(one.reward)
        return _Fit.of(self.libraries, self.start, cells)


@dataclass(frozen=True, slots=True)
class _Fit:
    """The posterior of all effects."""

    columns: Mapping[tuple[str, str], int]
    """Column by (kind, name)."""
    mean_C: NDArray[np.float64]
    cov_CC: NDArray[np.float64]
    start: Library

    @classmethod
    def of(
        cls,
        libraries: Mapping[LibraryVersion, Library],
        start: Library,
        cells: Mapping[tuple[TaskId, str, LibraryVersion], Sequence[float]],
    ) -> "_Fit":
        # the variance of rewards of one version on one task, pooled over all cells
        squares, freedom = _NOISE * _NOISE_WEIGHT, float(_NOISE_WEIGHT)
        for rewards in cells.values():
            mean = sum(rewards) / len(rewards)
            squares += sum((reward - mean) ** 2 for reward in rewards)
            freedom += len(rewards) - 1
        names: dict[tuple[str, str], int] = {("all", ""): 0}
        variances, means, noise = [1.0], [0.5], squares / freedom

        def column(kind: str, name: str, variance: float, mean: float = 0.0) -> int:
            if (kind, name) not in names:
                names[kind, name] = len(names)
                variances.append(variance * noise)
                means.append(mean)
            return names[kind, name]

        for version, library in libraries.items():
            column("version", version, _VERSION)
            for experience in library.experiences:
                column("lesson", experience.id, _LESSON, _LESSON_MEAN)
        rows: list[list[int]] = []
        for _, family, version in cells:
            used = [0, column("family", family, _FAMILY), names["version", version]]
            rows.append(used + [names["lesson", one.id] for one in libraries[version].experiences])
        design_RC = np.zeros((len(rows), len(names)))
        for row, used in enumerate(rows):
            design_RC[row, used] = 1.0
        weight_R = np.array([len(rewards) / noise for rewards in cells.values()])
        reward_R = np.array([sum(rewards) / len(rewards) for rewards in cells.values()])
        # The effects of tasks are integrated out: each takes its task's rows towards their common mean.
        tasks = {task: number for number, task in enumerate(dict.fromkeys(task for task, _, _ in cells))}
        member_TR = np.zeros((len(tasks), len(rows)))
        for row, (task, _, _) in enumerate(cells):
            member_TR[tasks[task], row] = 1.0
        weighted_TR = member_TR * weight_R
        shrink_T = 1 / (1 / (_TASK * noise) + weighted_TR.sum(axis=1))
        design_TC, reward_T = weighted_TR @ design_RC, weighted_TR @ reward_R
        precision_CC = np.diag(1 / np.array(variances))
        precision_CC += (design_RC.T * weight_R) @ design_RC - (design_TC.T * shrink_T) @ design_TC
        informed_C = (design_RC.T * weight_R) @ reward_R - (design_TC.T * shrink_T) @ reward_T
        cov_CC = np.linalg.inv(precision_CC).astype(np.float64)
        mean_C = cov_CC @ (informed_C + np.array(means) / np.array(variances))
        return cls(names, mean_C, cov_CC, start)

    def against(self, library: Library) -> tuple[float, float]:
        """Return mean and standard deviation of a version's difference to the start."""
        return self.between(library, self.start)

    def between(self, one: Library, other: Library) -> tuple[float, float]:
        """Return mean and standard deviation of the difference of two versions."""
        contrast_C = self._row(one) - self._row(other)
        variance = float(contrast_C @ self.cov_CC @ contrast_C)
        return float(contrast_C @ self.mean_C), max(variance, 0.0) ** 0.5

    def leader(self, arms: Sequence[Library]) -> Library:
        """Return the arm with the highest estimate; of equal ones the latest."""
        return max(arms[::-1], key=lambda one: self.against(one)[0])

    def is_ahead(self, library: Library, sure: float) -> bool:
        """Whether a version is better than the start by that many standard deviations."""
        mean, sd = self.against(library)
        return mean > sure * sd

    def expected_excess(self, one: Library, other: Library) -> float:
        """Return the mean of the positive part of the difference of two versions."""
        mean, sd = self.between(one, other)
        if sd <= 0:
            return max(mean, 0.0)
        z = mean / sd
        return sd * math.exp(-z * z / 2) / math.sqrt(2 * math.pi) + mean * (1 + math.erf(z / math.sqrt(2))) / 2

    def _row(self, library: Library) -> NDArray[np.float64]:
        row_C = np.zeros(len(self.mean_C))
        row_C[self.columns["version", library.version]] = 1.0
        row_C[[self.columns["lesson", one.id] for one in library.experiences]] = 1.0
        return row_C


@dataclass(slots=True)
class UpdateTrial:
    """Tries the changes of one update on the tasks of its batch, before more is learned with them."""

    make: Callable[[Library, Sequence[tuple[Task, int]]], Awaitable[Sequence[Trajectory]]]
    """Makes rollouts of a library, given as task and number."""
    groups: Sequence[Group]
    """Of the batch, made with the version before the update."""
    threshold: float
    """Reward from which an answer counts as right."""
    made: list[Trajectory] = field(init=False, default_factory=list[Trajectory])
    """Every rollout of the trial. Those of a task have different numbers, also with different changes."""

    async def stood(self, version: NextVersion, before: Library, context: CheckContext) -> NextVersion:
        """Return the version without the changes that did not stand the trial.

        One rollout with all changes on each task that they were made from, and on each that was all right, comes first.
        A change stands if its tasks do better than in their groups. The others are tried alone, three times on each of
        their tasks, where no worse is enough if some answer is right; all changes are, where a task that was all right
        does worse, and that task is then one of theirs. A change stands where no rollout could be judged.
        """
        applied = [one.proposal for one in version.ended if isinstance(one.end, Applied)]
        if not applied:
            return version
        group_of = {one.id: group for group in self.groups for one in group.trajectories}
        groups_of = {one.id: {group_of[at].task.id: group_of[at] for at in one.evidence} for one in applied}
        right = {one.task.id: one for one in self.groups if one.decided and min(one.rewards_G) >= self.threshold}
        every = right | {task: group for own in groups_of.values() for task, group in own.items()}
        together = await self._rollouts(version.library, every, range(1))
        broken = {task: group for task, group in right.items() if not self._stands({task: group}, together)}
        doubted = [one for one in applied if broken or not self._stands(groups_of[one.id], together, better=True)]

        async def stands_alone(one: Proposal, number: int) -> bool:
            library, own = next_version([one], before, context).library, groups_of[one.id] | broken
            if library.version == before.version:  # it needs another change of this update
                return False
            first = 1 + number * _ALONE
            return self._stands(own, await self._rollouts(library, own, range(first, first + _ALONE)))

        async with TaskGroup() as running:
            trials = {one.id: running.create_task(stands_alone(one, at)) for at, one in enumerate(doubted)}
        left = {at for at, trial in trials.items() if not trial.result()}
        if not left:
            return version
        why = reject(RejectionCode.NO_BETTER, "its tasks did no better with it than before")
        library, ended = next_version([one for one in applied if one.id not in left], before, context)
        others = [one for one in version.ended if not isinstance(one.end, Applied)]
        return NextVersion(library, (*ended, *others, *(Ended(proposal=p, end=why) for p in applied if p.id in left)))

    async def _rollouts(
        self, library: Library, groups: Mapping[TaskId, Group], numbers: Iterable[int]
    ) -> Sequence[Trajectory]:
        """Make rollouts of a library on these tasks, with these numbers."""
        made = await self.make(library, [(group.task, g) for group in groups.values() for g in numbers])
        self.made += made
        return made

    def _stands(self, groups: Mapping[TaskId, Group], tried: Iterable[Trajectory], *, better: bool = False) -> bool:
        """Whether tasks do better than in their groups, by the sum of the differences, or nothing could be judged.

        As well is enough where a rollout is right, unless `better`.
        """
        known = [
            (one.reward, groups[one.task].rewards_G) for one in tried if one.reward is not None and one.task in groups
        ]
        gain = sum(reward - sum(rewards) / len(rewards) for reward, rewards in known)
        as_well = not better and any(reward >= self.threshold for reward, _ in known)
        return not known or gain > _EQUAL or (as_well and gain > -_EQUAL)
