"""Comparing versions of a library on validation tasks, in rounds, until one is left or the rounds are used up.

A round is one rollout per version on each of at most 20 tasks. All versions of a round have the same seeds and are
interleaved. All of them are in the first round, the start too, so each can be compared with the start rollout by
rollout. Later rounds have only the versions that deserve more rollouts.

Lessons of the selected version that strangers could have shaped are measured one by one then, so that none of them
passes because another one helps.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from agentlearn.config import LearnSettings
from agentlearn.learning.batch_runner import BatchRunner, by_majority, typical
from agentlearn.learning.evaluate import ArmNames, Scores, held_out, score_of
from agentlearn.learning.lessons.candidates import Candidates
from agentlearn.learning.report import Delta, HeldOutScore, LessonWorth
from agentlearn.types.experience import Library
from agentlearn.types.group import Group
from agentlearn.types.ids import ExperienceId, LibraryVersion, TaskId, derive_seed
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory

PHASE = "validation"
ROUND = 20
"""Rollouts of one version in one round."""
_ARMS: ArmNames = ("the library at the start", "the selected version")
_WITHOUT_AND_WITH: ArmNames = ("the version without it", "the version with it")
_Members = Mapping[str, Sequence[Trajectory]]
"""Rollouts by version, or by another name of what they were shown."""


@dataclass(frozen=True, slots=True)
class Validated:
    """What the comparison found."""

    tasks: tuple[Task, ...]
    """The validation tasks of the rounds that were made."""
    arms: tuple[Library, ...]
    """All versions that were compared, the start first."""
    left: tuple[Library, ...]
    """Those that may be the best."""
    scores: Mapping[LibraryVersion, Scores]
    judged: bool
    """Whether some rollout was decided in every version, so that they could be compared."""

    @property
    def rollouts(self) -> int:
        """Number of rollouts of all versions together."""
        return sum(len(one.observations) for one in self.scores.values())

    def score(self, version: LibraryVersion) -> HeldOutScore | None:
        """Return a version's score; None for one that was not compared."""
        return score_of(self.tasks, self.scores[version]) if version in self.scores else None

    def against_start(self, version: LibraryVersion, seed: int) -> Delta | None:
        """Return a version minus the start, over the rollouts that both have; None for one that was not compared."""
        start = self.arms[0].version
        if not self.judged or version == start or version not in self.scores:
            return None
        before, after = self._paired(start, version)
        return held_out(self.tasks, before, after, arms=_ARMS, seed=seed).delta

    def more_undecided(self, version: LibraryVersion) -> int:
        """Return how many more rollouts of a version than of the start could not be judged, in the same rounds."""
        before, after = self._paired(self.arms[0].version, version)
        undecided = [sum(one.score is None for one in side.observations) for side in (before, after)]
        return undecided[1] - undecided[0]

    def _paired(self, first: LibraryVersion, second: LibraryVersion) -> tuple[Scores, Scores]:
        """The rollouts of two versions in the rounds that both were in."""
        sides = (self.scores[first], self.scores[second])
        shared = set.intersection(*({(one.task, one.g) for one in side.observations} for side in sides))
        before, after = (
            Scores(side.k, tuple(one for one in side.observations if (one.task, one.g) in shared)) for side in sides
        )
        return before, after


@dataclass(slots=True, kw_only=True)
class Validation:
    """The comparison of one run. A resumed run takes its finished rollouts from the store."""

    settings: LearnSettings
    batches: BatchRunner
    candidates: Candidates
    """They learn from every judged rollout of the comparison, and say which versions are left."""
    tasks: tuple[Task, ...]
    _members: dict[str, list[Trajectory]] = field(default_factory=dict[str, list[Trajectory]])

    async def run(self, arms: Sequence[Library]) -> Validated:
        """Compare the versions. arms: the start first."""
        self._members = {one.version: [] for one in arms}
        left, judged = tuple(arms), False
        for work in self._rounds():
            phases = {f"{PHASE}:{one.version[:12]}": one for one in left}
            found = await self.batches.measure(phases, work, seeds=PHASE)
            for phase, one in phases.items():
                self._members[one.version] += found[phase]
            judged = self._observe() or judged
            if not judged:
                break
            left = self.candidates.contenders(left)
            if len(left) == 1:
                break
        members = self._judged(self._members)
        scores = {
            one.version: Scores.of(members[one.version], self.tasks, 1 + max(t.g for t in members[one.version]))
            for one in arms
        }
        used = {one.task for every in members.values() for one in every}
        tasks = tuple(task for task in self.tasks if task.id in used)
        return Validated(tasks, tuple(arms), left, scores, judged)

    async def alone(self, version: Library, lessons: Collection[ExperienceId], *, most: int) -> tuple[LessonWorth, ...]:
        """Measure lessons of a version one by one: its first rollouts of the comparison are repeated without each.

        Each lesson gets the same number of rollouts. most: largest number of all together. Nothing is measured where
        that is less than one for each lesson, and for a version that `run` did not compare.
        """
        shown = self._members.get(version.version, [])
        pairs = min(len(shown), most // max(1, len(lessons)))
        if not pairs or not lessons:
            return ()
        by_id = {task.id: task for task in self.tasks}
        work = [(by_id[one.task], one.g) for one in shown[:pairs]]
        phases = {f"{PHASE}:{version.version[:12]}:without-{one[:12]}": one for one in lessons}
        found = await self.batches.measure(dict.fromkeys(phases, version), work, seeds=PHASE, hidden=phases)
        judged = self._judged({**self._members, **found})
        tasks, k = list({task.id: task for task, _ in work}.values()), 1 + max(g for _, g in work)
        pair = {(task.id, g) for task, g in work}
        with_all = Scores.of([one for one in judged[version.version] if (one.task, one.g) in pair], tasks, k)
        worth: list[LessonWorth] = []
        for phase, lesson in phases.items():
            without = Scores.of(judged[phase], tasks, k)
            compared = held_out(tasks, without, with_all, arms=_WITHOUT_AND_WITH, seed=self.settings.seed)
            worth.append(LessonWorth(lesson=lesson, delta=compared.delta))
        return tuple(worth)

    def _rounds(self) -> list[list[tuple[Task, int]]]:
        """Tasks and numbers of rollouts, round by round. The tasks are shuffled, so that each round has all kinds."""
        order = list(self.tasks)
        Random(derive_seed(PHASE, self.settings.seed)).shuffle(order)
        work = [(task, g) for g in range(self.settings.validation_rollouts) for task in order]
        return [work[at : at + ROUND] for at in range(0, len(work), ROUND)]

    def _observe(self) -> bool:
        """Give the rollouts to the candidates as they are judged now, and return whether there was one.

        Without labels a rollout that was decided in one round may be undecided after the next one.
        A rollout that is undecided in one version is left out of all versions of its round.
        """
        members = self._judged(self._members)
        family = {task.id: task.cluster for task in self.tasks}
        undecided = {(one.task, one.g) for every in members.values() for one in every if one.reward is None}
        seen = False
        self.candidates.forget(PHASE)
        for version, every in members.items():
            for one in every:
                if one.reward is not None and (one.task, one.g) not in undecided:
                    # Under a name of its own: in validation a task's level differs from that in learning, where the
                    # temperature is higher, and not every version met every task.
                    name = TaskId(f"{PHASE} {one.task}")
                    self.candidates.observe(PHASE, name, family[one.task], one.g, LibraryVersion(version), one.reward)
                    seen = True
        return seen

    def _judged(self, members: _Members) -> _Members:
        """These rollouts with their rewards. Without labels, the majority answer of all of them on a task is right.

        Each version has one vote, its most frequent answer. So a version that repeats one wrong answer gains nothing,
        and two versions that disagree decide nothing.
        """
        if self.settings.labels == "gold":
            return members
        judged: dict[str, list[Trajectory]] = {version: [] for version in members}
        for task in self.tasks:
            domain = self.batches.rollouts.domain
            of_task = [(v, one) for v, every in members.items() for one in every if one.task == task.id]
            group = Group(task=task, trajectories=tuple(one for _, one in of_task))
            typical_of = (typical([one for v, one in of_task if v == version], domain) for version in members)
            decided = by_majority(group, domain, [one for one in typical_of if one is not None]).trajectories
            for (version, _), one in zip(of_task, decided, strict=True):
                judged[version].append(one)
        return judged
