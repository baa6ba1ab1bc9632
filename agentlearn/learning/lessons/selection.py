"""Choosing the version that a run publishes: comparing versions on validation tasks, and whether the best is published.

Versions are compared in rounds, until one is left or the rounds are used up. A round is one rollout per version on each
of at most 20 tasks. All versions of a round have the same seeds and are interleaved. All of them are in the first
round, the start too, so each can be compared with the start rollout by rollout. Later rounds have only the versions
that deserve more rollouts.

Lessons of the selected version that strangers could have shaped are measured one by one then, so that none of them
passes because another one helps.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Literal

from agentlearn.config.defaults import command_words
from agentlearn.learning.batch import VALIDATION_ROUND
from agentlearn.learning.batch_runner import BatchRunner, by_majority, typical
from agentlearn.learning.evaluate import ArmNames, Scores, held_out, score_of
from agentlearn.learning.lessons.candidates import Candidates, Standing
from agentlearn.learning.report import Delta, HeldOutScore, LessonWorth, Role, SelectedVersion, VersionLine
from agentlearn.types.experience import Library
from agentlearn.types.group import Group
from agentlearn.types.ids import ExperienceId, LibraryVersion, TaskId, derive_seed
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory

_PHASE = "validation"
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

    seed: int
    rollouts: int
    """Most rollouts of each version on a task."""
    labelled: bool
    """Whether tasks have expected answers. If not, the majority answer of all versions is right."""
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
            phases = {f"{_PHASE}:{one.version[:12]}": one for one in left}
            found = await self.batches.measure(phases, work, seeds=_PHASE)
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
        phases = {f"{_PHASE}:{version.version[:12]}:without-{one[:12]}": one for one in lessons}
        found = await self.batches.measure(dict.fromkeys(phases, version), work, seeds=_PHASE, hidden=phases)
        judged = self._judged({**self._members, **found})
        tasks, k = list({task.id: task for task, _ in work}.values()), 1 + max(g for _, g in work)
        pair = {(task.id, g) for task, g in work}
        with_all = Scores.of([one for one in judged[version.version] if (one.task, one.g) in pair], tasks, k)
        worth: list[LessonWorth] = []
        for phase, lesson in phases.items():
            without = Scores.of(judged[phase], tasks, k)
            compared = held_out(tasks, without, with_all, arms=_WITHOUT_AND_WITH, seed=self.seed)
            worth.append(LessonWorth(lesson=lesson, delta=compared.delta))
        return tuple(worth)

    def _rounds(self) -> list[list[tuple[Task, int]]]:
        """Tasks and numbers of rollouts, round by round. The tasks are shuffled, so that each round has all kinds."""
        order = list(self.tasks)
        Random(derive_seed(_PHASE, self.seed)).shuffle(order)
        work = [(task, g) for g in range(self.rollouts) for task in order]
        return [work[at : at + VALIDATION_ROUND] for at in range(0, len(work), VALIDATION_ROUND)]

    def _observe(self) -> bool:
        """Give the rollouts to the candidates as they are judged now, and return whether there was one.

        Without labels a rollout that was decided in one round may be undecided after the next one.
        A rollout that is undecided in one version is left out of all versions of its round.
        """
        members = self._judged(self._members)
        family = {task.id: task.cluster for task in self.tasks}
        undecided = {(one.task, one.g) for every in members.values() for one in every if one.reward is None}
        seen = False
        self.candidates.forget(_PHASE)
        for version, every in members.items():
            for one in every:
                if one.reward is not None and (one.task, one.g) not in undecided:
                    # Under a name of its own: in validation a task's level differs from that in learning, where the
                    # temperature is higher, and not every version met every task.
                    name = TaskId(f"{_PHASE} {one.task}")
                    self.candidates.observe(_PHASE, name, family[one.task], one.g, LibraryVersion(version), one.reward)
                    seen = True
        return seen

    def _judged(self, members: _Members) -> _Members:
        """These rollouts with their rewards. Without labels, the majority answer of all of them on a task is right.

        Each version has one vote, its most frequent answer. So a version that repeats one wrong answer gains nothing,
        and two versions that disagree decide nothing.
        """
        if self.labelled:
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


_Z, _Z_ONE_SIDED = 1.959964, 1.644854


@dataclass(frozen=True, slots=True)
class Choice:
    """The version that the evidence favours."""

    start: Library
    selected: Library
    last: Library
    """The last version that the updates made."""
    basis: Literal["validation", "rollouts", "last"]
    versions: int
    """Versions that it was chosen from, with the start and the start without learned lessons."""
    why: str
    """Why it was chosen, to complete the sentence `it …`."""
    standings: tuple[Standing, ...] = ()
    """What is known of each version at the end."""
    learned: tuple[Standing, ...] = ()
    """What the rollouts to learn from alone say about each version."""
    validated: Validated | None = None
    learned_from: bool = False
    """Whether the validation tasks are the tasks learned from."""
    delta: Delta | None = None
    """The selected version minus the start on the validation tasks."""

    @classmethod
    def of(
        cls,
        candidates: Candidates,
        last: Library,
        *,
        select: Literal["best", "last"],
        seed: int,
        learned: Sequence[Standing],
        validated: Validated | None,
        learned_from: bool,
    ) -> "Choice":
        """Return the version with the best evidence. learned: the standings before validation.

        validated: None when versions were not compared on validation tasks.
        """
        start, standings = candidates.start, candidates.standings()
        broken = "" if validated is None else "; no rollout on validation tasks could be judged"
        if len(standings) == len({candidates.bare.version, start.version}):
            selected, basis, why = start, "last", "is the only version: learning changed nothing"
        elif select == "last":
            selected, basis, why = last, "last", "is the last version, as select 'last' asks for"
        elif validated is not None and validated.judged:
            selected, basis, why = candidates.choose(validated.left), "validation", "has the best evidence"
        elif _unseen(standings, start):
            selected, basis, why = last, "last", f"is the last version, and no rollout says which is best{broken}"
        else:
            selected, basis = candidates.best(), "rollouts"
            why = f"has the best evidence of the rollouts to learn from{broken}"
        return cls(
            start=start,
            selected=selected,
            last=last,
            basis=basis,
            versions=len(standings),
            why=why,
            standings=standings,
            learned=tuple(learned),
            validated=validated,
            learned_from=learned_from,
            delta=validated.against_start(selected.version, seed) if validated is not None else None,
        )

    @property
    def changed(self) -> bool:
        """Whether another version than the start was selected."""
        return self.selected.version != self.start.version

    def decided(
        self,
        held_out: Delta | None,
        *,
        name: str,
        store: Path,
        at_stake: bool = False,
        waits: str = "",
        alone: tuple[LessonWorth, ...] = (),
    ) -> SelectedVersion:
        """Return whether the selected version is published.

        held_out: it minus the start on held-out tasks. at_stake: whether the start earned rewards there without any
        lesson, which a worse version would lose. waits: why it waits for a person whatever its score; empty when
        it does not. alone: what its lessons are worth by themselves, as far as that was measured.
        """
        against = self._against(held_out, at_stake=at_stake) or waits
        pending = bool(against) and (self.changed or bool(waits))
        version, validated = self.selected.version, self.validated
        compared = validated is not None and validated.judged
        reason = f"it {self.why}"
        if self.basis == "validation":
            reason += f" of {self.versions} versions"
            found = f"{_numbers(self.delta)} against the start" if self.delta is not None else "none was better"
            reason += f": {found} on {self._tasks(self.delta)}"
        return SelectedVersion(
            selected=version,
            last=self.last.version,
            basis=self.basis,
            tasks=len(validated.tasks) if validated is not None and compared else 0,
            learned_from=self.learned_from and compared,
            rollouts=validated.rollouts if validated is not None else 0,
            delta=self.delta,
            alone=alone,
            status="pending" if pending else "published" if self.changed or waits else "unchanged",
            reason=against or reason,
            command=command_words("library", "approve", f"{name}@{version[:12]}", store=store) if pending else "",
        )

    def version_lines(self, made_at: Mapping[LibraryVersion, int]) -> tuple[VersionLine, ...]:
        """Return a line for each version. made_at: number of updates before each, 0 if not there."""
        learned, validated = {one.library.version: one for one in self.learned}, self.validated
        known = any(one.rollouts for one in self.standings)
        roles: dict[str, Role] = {one.version: "finalist" for one in (validated.arms if validated is not None else ())}
        bare = self.start.only_written()
        roles |= {bare.version: "empty", self.start.version: "start", self.selected.version: "selected"}
        lines = list[VersionLine]()
        for now in self.standings:
            library, version = now.library, now.library.version
            interval = (now.estimate - _Z * now.sd, now.estimate + _Z * now.sd)
            lines.append(
                VersionLine(
                    version=version,
                    parent=library.parent,
                    updates=made_at.get(version, 0),
                    lessons=len(library),
                    tokens=library.tokens,
                    rollouts=learned[version].rollouts,
                    reward=learned[version].reward,
                    estimate=now.estimate if known else None,
                    ci=interval if known and version != self.start.version else None,
                    validation=validated.score(version) if validated is not None and validated.judged else None,
                    role=roles.get(version, "candidate"),
                )
            )
        return tuple(lines)

    def _against(self, held_out: Delta | None, *, at_stake: bool) -> str:
        """Why the selected version is not published; empty when nothing speaks against it."""
        delta, validated, bare = self.delta, self.validated, self.start.only_written()
        if not self.changed:
            return ""
        if held_out is not None and held_out.verdict == "worse":
            return f"held-out tasks got worse: {_numbers(held_out)}"
        if delta is not None and delta.ci is not None and delta.ci[1] < 0:
            return f"it is below the library at the start on {self._tasks(delta)}: {_numbers(delta)}"
        if delta is not None and validated is not None and delta.worst is not None and delta.worst.low < 0:
            more = validated.more_undecided(self.selected.version)
            if more > 0 and (delta.mean is None or delta.mean >= 0):  # what was lost decides which version is better
                return f"{more} more of its rollouts than of the start's on {self._tasks(delta)} could not be judged"
        if at_stake and held_out is not None and self.basis != "last" and not shown_better(held_out, delta):
            return f"it is not shown to be better than no lessons: {_numbers(held_out)} on held-out tasks"
        if self.selected.version == bare.version and (delta is None or delta.ci is None or delta.ci[0] <= 0):
            if len(bare):
                return "it has only the lessons that a person wrote, and it is not shown that the others do harm"
            return "it has no lessons, and it is not shown that the lessons at the start do harm"
        if validated is not None and not validated.judged and _unseen(self.standings, self.start):
            return "nothing is known of it: no rollout on validation tasks could be judged"
        return ""

    def _tasks(self, delta: Delta | None) -> str:
        """The validation tasks in words; with a difference, those it is about: a version leaves after any round."""
        count = len(self.validated.tasks) if self.validated is not None else 0
        count = count if delta is None or not delta.n else delta.n
        one = "task" if count == 1 else "tasks"
        return f"{count} {one} learned from" if self.learned_from else f"{count} validation {one}"


def shown_better(held_out: Delta, validation: Delta | None) -> bool:
    """Whether a version is shown to be better than the start.

    It is by the verdict on held-out tasks, or where the differences on held-out and on validation tasks, weighted by
    their precision, lie above zero by a one-sided test at 5 %.
    """
    if held_out.verdict == "better":
        return True
    known = [(one.mean, one.ci) for one in (held_out, validation) if one is not None and one.mean is not None]
    weighed = [(mean, (2 * _Z / (ci[1] - ci[0])) ** 2) for mean, ci in known if ci is not None and ci[1] > ci[0]]
    total = sum(weight for _, weight in weighed)
    return sum(mean * weight for mean, weight in weighed) > _Z_ONE_SIDED * total**0.5 > 0


def arms_of(candidates: Candidates, finalists: int) -> tuple[Library, ...]:
    """Return the versions to compare on validation tasks: the start, the start without learned lessons, the finalists.

    Of versions with the same lessons only the first is compared.
    """
    arms: dict[tuple[str, ...], Library] = {}

    def add(library: Library) -> None:
        arms.setdefault(tuple(one.lesson for one in library.experiences), library)

    add(candidates.start)
    add(candidates.bare)
    fixed = len(arms)
    for one in candidates.finalists(len(candidates.libraries)):
        if len(arms) < fixed + finalists:
            add(one)
    return tuple(arms.values())


def _unseen(standings: Sequence[Standing], start: Library) -> bool:
    """Whether no version that the run made was shown to a judged rollout."""
    fixed = {start.version, start.only_written().version}
    return not any(one.rollouts for one in standings if one.library.version not in fixed)


def _numbers(delta: Delta) -> str:
    mean = "no number" if delta.mean is None else f"{delta.mean:+.2f}"
    return mean if delta.ci is None else f"{mean} [{delta.ci[0]:+.2f}, {delta.ci[1]:+.2f}]"
