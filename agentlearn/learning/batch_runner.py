"""Runs the rollouts of a batch or of an evaluation, and stores them as they finish.

Only lessons that the run started with are hidden: newer ones live for a few batches, too short to be measured.

Few votes say little, so three conditions must hold. At least half of the group's rollouts gave an answer that can be
read. At least two of them gave the winning answer. They are more than half of those with an answer that can be read.
"""

import asyncio
from asyncio import TaskGroup
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from types import MappingProxyType

from agentlearn.config import GroupOptions, RunSettings
from agentlearn.config.options import OwnTaskOptions
from agentlearn.domain.base import Domain
from agentlearn.errors import AllFailed
from agentlearn.learning.batch import Allocation, Batch, GroupStream, LearnerState
from agentlearn.learning.evaluate import Scores
from agentlearn.learning.evidence import LessonBlock, blocks_of
from agentlearn.learning.lessons.stage_agent import shown_reason
from agentlearn.learning.open_run import FinishedRollouts, TaskRollout
from agentlearn.learning.run_stats import RunMonitor
from agentlearn.learning.stored_groups import StoredGroups
from agentlearn.library.capability import Experiences
from agentlearn.library.retrieval import Retriever
from agentlearn.library.shown import masks
from agentlearn.rollout.recorded_run import FirstRollouts
from agentlearn.rollout.runner import Finished, Rollouts, RolloutSlot
from agentlearn.store import ExposedRow, Store
from agentlearn.types.experience import Library
from agentlearn.types.group import Group, GroupUse
from agentlearn.types.ids import ExperienceId, LibraryVersion, RolloutId, TaskId, derive_seed
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory, Treatment, Verdict


@dataclass(frozen=True, slots=True)
class HiddenLessons:
    """Which lessons the rollouts of a run are not shown."""

    start: Library
    """The library that the run started with."""
    hidden: int
    """Rollouts of each group that a lesson is hidden from."""
    seed: int
    """Seed of the run. A resumed run hides the same lessons."""

    def apply(self, batch: Batch, state: LearnerState) -> LearnerState:
        """Return the state with treatments that hide lessons from rollouts of this batch."""
        lessons = [one for one in state.library.by_id if one in self.start.by_id]
        if not lessons:
            return state
        hiding: dict[TaskId, tuple[Treatment, ...]] = {}
        for task, treatments in state.treatments.items():
            key = f"{self.seed}/{batch.phase}/{task}/{treatments[0].library}"
            chosen = masks(lessons, rollouts=len(treatments), hidden=self.hidden, key=key)
            pairs = zip(treatments, chosen, strict=True)
            hiding[task] = tuple(one.model_copy(update={"masked": mask}) for one, mask in pairs)
        return LearnerState(state.library, hiding)


TEACHING = frozenset[GroupUse]({"mixed", "all_wrong", "single"})
"""How groups are used whose attempts the model that writes lessons reads."""


@dataclass(frozen=True, slots=True)
class TeachingRules:
    """What the model that writes lessons sees, and what it learns from."""

    threshold: float = 1.0
    """Reward from which an answer counts as right."""
    margin: float = 0.0
    """Rewards that differ by no more than this count as equal."""
    reasons: bool = True
    """Whether the model sees the reasons of verdicts."""
    gold: bool = True
    """Whether it sees expected answers."""
    all_wrong: bool = True
    """Whether attempts that are all wrong are to teach."""

    def seen(self, group: Group) -> Group:
        """Return the group without the rollouts that failed while a lesson was hidden.

        Their failures may come from the missing lesson, so lessons learned from them would repeat it.
        """
        seen = tuple(
            one
            for one in group.trajectories
            if not one.treatment.masked or (one.reward is not None and one.reward >= self.threshold)
        )
        if len(seen) == len(group.trajectories):
            return group
        return Group(task=group.task, trajectories=seen, others=group.others)

    def use(self, seen: Group) -> GroupUse:
        """Return what is learned from in a group as it is seen, or why the group is left out.

        Attempts that are all wrong teach where something says what was wanted: a reason, or the expected answer.
        """
        kind = seen.kind(self.threshold, self.margin)
        if kind != "all_wrong":
            return kind
        told = self.gold and any(seen.task_of(one).answer is not None for one in seen.decided)
        told = told or (self.reasons and any(map(shown_reason, seen.decided)))
        if not told:
            return "nothing"
        if not self.all_wrong:
            return "not_wanted"
        return "single" if len(seen.decided) == 1 else "all_wrong"


def hiding_note(rows: Iterable[ExposedRow], run: str, threshold: float) -> str:
    """Return a sentence on the rollouts of a run that had hidden lessons, and on what that cost; empty without any."""
    own = [row for row in rows if row.run == run]
    hidden = [row for row in own if row.masked]
    if not hidden:
        return ""
    unseen = sum(row.reward is not None and row.reward < threshold for row in hidden)
    cost = hiding_cost(blocks_of(own), len(own))
    change = f"by about {abs(100 * cost):.1f} points (estimate)"
    direction = "lowered" if cost > 0 else "raised"
    return (
        f"lessons were hidden from {len(hidden)} of {len(own)} rollouts to measure them, which {direction} the mean"
        f" reward {change}; {unseen} failures among them were not shown to the model that writes lessons"
    )


def hiding_cost(blocks: Iterable[LessonBlock], rollouts: int) -> float:
    """Return the mean reward that hiding cost: each lesson's estimated effect, as often as it was hidden."""
    by_lesson: defaultdict[ExperienceId, list[LessonBlock]] = defaultdict(list)
    for block in blocks:
        by_lesson[block.lesson].append(block)
    lost = (fmean(one.effect for one in found) * sum(one.hidden for one in found) for found in by_lesson.values())
    return sum(lost) / rollouts if rollouts else 0.0


_FEWEST_VOTES = 2
"""Smallest number of rollouts that must agree on the winning answer."""


def by_majority(group: Group, domain: Domain, voters: Collection[RolloutId] | None = None) -> Group:
    """Return the group judged by its majority answer. Without a majority all are undecided, and the reason says why.

    So are all of a group of neighbours, whose tasks differ. voters: the rollouts whose answers count; None: all.
    """
    keys, size = _keys(group.trajectories, domain), len(group.trajectories if voters is None else voters)
    votes = Counter(key for one, key in keys.items() if key is not None and (voters is None or one in voters))
    readable, [(winner, most)] = votes.total(), votes.most_common(1) or [("", 0)]
    decided = False
    if group.others:
        why = "the rollouts are of different tasks"
    elif readable == 0 or 2 * readable < size:
        why = f"no majority: {readable} of {size} rollouts gave an answer that can be read, and half of them must"
    elif most < _FEWEST_VOTES:
        why = f"no majority: no two of {readable} answers agree"
    elif 2 * most <= readable:
        why = f"no majority: {most} of {readable} answers agree, and more than half must"
    else:
        decided, why = True, f"majority of {most} of {readable} answers is {winner}"
    reason = f"labels none: {why}"

    def judged(one: Trajectory) -> Trajectory:
        if one.failure is not None:
            return one
        if not decided:
            verdict = Verdict(status="undecided", reason=reason)
        elif one.answer is None:
            verdict = Verdict(status="no_answer", reward=0.0, reason=reason)
        else:
            verdict = Verdict.of(float(keys[one.id] == winner), reason)
        return one.model_copy(update={"verdict": verdict})

    return Group(task=group.task, trajectories=tuple(map(judged, group.trajectories)), others=group.others)


def typical(trajectories: Sequence[Trajectory], domain: Domain) -> RolloutId | None:
    """Return a rollout with the answer that is more frequent than every other one; None without such an answer."""
    keys = _keys(trajectories, domain)
    ranked = Counter(key for key in keys.values() if key is not None).most_common(2)
    if not ranked or (len(ranked) == 2 and ranked[0][1] == ranked[1][1]):
        return None
    return next(one for one, key in keys.items() if key == ranked[0][0])


def _keys(trajectories: Sequence[Trajectory], domain: Domain) -> dict[RolloutId, str | None]:
    """The answers that are compared, by rollout. A failed rollout has none."""
    return {t.id: domain.answer_key(t.answer) for t in trajectories if t.failure is None and t.answer is not None}


def rollouts_at_once(concurrency: int) -> int:
    """Number of rollouts to run for `concurrency` model calls in flight; some are running a tool or wait to retry."""
    return concurrency + concurrency // 2


@dataclass(slots=True)
class BatchRunner:
    """Runs rollouts, and takes those that an interrupted run had finished from the store."""

    settings: RunSettings
    allocation: Allocation
    store: Store
    rollouts: Rollouts
    monitor: RunMonitor
    finished: FinishedRollouts
    stored_groups: StoredGroups | None
    """Groups to learn from instead of new rollouts; None: make rollouts."""
    repeats_unfinished: bool
    """Whether a resumed run samples a batch of which a rollout is missing again as a whole. A stopped sampler finished
    some rollouts in a smaller batch, which rounds differently; those are kept in the store, but not learned from."""
    sampling_started: Callable[[int], Callable[[], None]]
    """Called before that many training rollouts start; returns a callback to call when each finishes."""
    group_done: Callable[[Group], None]
    """Called with each group when all its rollouts are judged, before it is learned from."""
    others: Mapping[LibraryVersion, Library] = field(default_factory=dict[LibraryVersion, Library])
    """Libraries besides the learner's own that treatments may name."""
    hidden_lessons: HiddenLessons | None = None
    """Which lessons rollouts to learn from are not shown; None: they are shown all."""
    reused: int = field(init=False, default=0)
    """Finished rollouts to learn from that a resumed run has taken from the store."""
    _repeated: dict[tuple[str, int], int] = field(init=False, default_factory=dict[tuple[str, int], int])
    """Attempt with which all rollouts of a batch are sampled again, by the batch's phase and number."""
    _experiences: dict[LibraryVersion, Experiences] = field(default_factory=dict[LibraryVersion, Experiences])
    _learned_on: dict[LibraryVersion, Mapping[TaskId, Collection[ExperienceId]]] = field(
        default_factory=dict[LibraryVersion, Mapping[TaskId, Collection[ExperienceId]]]
    )
    """The tasks that lessons of a version were learned from."""
    _first: FirstRollouts = field(init=False)
    _retriever: Retriever = field(init=False)
    _slots: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._first = FirstRollouts(
            "the run can be resumed", holds_back=not self.rollouts.endpoint.endpoint_state.takes_all
        )
        self._retriever = Retriever.in_store(self.settings.retrieval, self.settings.store)
        self._slots = asyncio.Semaphore(rollouts_at_once(self.settings.concurrency))

    def start(self, batch: Batch, state: LearnerState, under_way: TaskGroup) -> GroupStream:
        """Start the rollouts of the batch in `under_way`; return its groups as they complete.

        state: what they get from the learner.
        """
        groups = GroupStream(len(batch.tasks), rollouts=len(batch.tasks) * self.allocation.first_wave)
        if self.hidden_lessons is not None:
            state = self.hidden_lessons.apply(batch, state)
        if self.stored_groups is not None:
            self._read_stored(self.stored_groups, batch, groups)
            return groups
        if batch.first:
            self.monitor.callbacks.phase_started(batch.phase, batch.of_epoch * self.allocation.group_size)
        finished = self.finished.of(batch.phase, batch.number)
        attempts = [one.attempt for one in finished.values()]
        if self.repeats_unfinished and attempts:
            last = max(attempts)
            if attempts.count(last) < len(batch.tasks) * self.allocation.group_size:
                self._repeated[batch.phase, batch.number] = last + 1
        one_done = self.sampling_started(len(batch.tasks) * self.allocation.first_wave)
        for task in batch.tasks:
            under_way.create_task(self._group(task, batch, state, finished, one_done, groups))
        return groups

    async def _group(
        self,
        task: Task,
        batch: Batch,
        state: LearnerState,
        finished: Mapping[TaskRollout, Trajectory],
        one_done: Callable[[], None],
        groups: GroupStream,
    ) -> None:
        """Make the rollouts of one task: the first wave, and the others while all are wrong or one is undecided.

        The decision depends only on the first wave's rewards, so a resumed run makes the same rollouts.
        """
        allocation, domain = self.allocation, self.rollouts.domain

        async def wave(numbers: range, one_done: Callable[[], None], one_started: Callable[[], None]) -> list[Finished]:
            async def one(g: int) -> Finished:
                seed = derive_seed(self.settings.seed, batch.phase, task.id, g)
                slot = RolloutSlot(batch.phase, g, seed, batch.number)
                try:
                    treatment = state.treatments[task.id][g]
                    return await self._one(task, slot, treatment, state.library, finished, one_started)
                finally:
                    one_done()

            async with TaskGroup() as members:
                running = [members.create_task(one(g)) for g in numbers]
            return [member.result() for member in running]

        members = await wave(range(allocation.first_wave), one_done, groups.rollout_started)
        made = tuple(member.trajectory for member in members)
        if self.settings.labels == "none":  # their own majority judges them; the whole group is judged later
            made = by_majority(Group(task=task, trajectories=made), domain).trajectories
        if more := allocation.more([one.reward for one in made], domain.threshold):
            further = range(len(members), len(members) + more)
            members += await wave(further, self.sampling_started(more), lambda: None)
        group = Group(task=task, trajectories=tuple(member.trajectory for member in members))
        if self.settings.labels == "none":  # judge the rollouts by majority, and store them
            group = by_majority(group, domain)
            for member, judged in zip(members, group.trajectories, strict=True):
                await self._keep(replace(member, trajectory=judged))
        if saved := allocation.group_size - len(members):
            self.monitor.group_stopped(batch, saved)
        self._report(group)
        groups.put(group)

    def _report(self, group: Group) -> None:
        """Count a complete group."""
        domain, gold = self.rollouts.domain, self.settings.labels == "gold"
        teaching = TeachingRules(
            domain.threshold,
            self.allocation.margin,
            reasons=gold and domain.explains,
            gold=gold,
            all_wrong=isinstance(self.settings, GroupOptions) and self.settings.all_wrong == "teach",
        )
        kind, use = group.kind(domain.threshold, self.allocation.margin), teaching.use(teaching.seen(group))
        self.monitor.group_done(kind, teaches=use in TEACHING)
        self.group_done(group)

    async def evaluate(self, phases: Mapping[str, Library], tasks: Sequence[Task]) -> dict[str, Scores]:
        """Run k rollouts per held-out task in each phase, with the phase's library; return the scores by phase.

        All phases use the same seeds, so that only the library differs. Their rollouts are interleaved, so that a
        change of the service affects all of them alike.
        """
        k = self.settings.eval_rollouts
        found = await self.measure(phases, [(task, g) for g in range(k) for task in tasks], seeds="held-out")
        return {phase: Scores.of(members, tasks, k) for phase, members in found.items()}

    async def measure(
        self,
        phases: Mapping[str, Library],
        work: Sequence[tuple[Task, int]],
        *,
        seeds: str,
        hidden: Mapping[str, ExperienceId] = MappingProxyType({}),
        temperature: float | None = None,
    ) -> dict[str, list[Trajectory]]:
        """Run these rollouts in each phase, as `evaluate` does; return them by phase.

        work: task and number of each rollout. seeds: the same word gives the same seeds. hidden: lesson that the
        rollouts of a phase are not shown, by phase. temperature: None: that of measuring.
        """
        self.monitor.callbacks.phase_started("+".join(phases), len(phases) * len(work))
        finished = {phase: self.finished.of(phase, 0) for phase in phases}
        order = list(phases)
        running: dict[str, list[asyncio.Task[Finished]]] = {phase: [] for phase in phases}
        async with TaskGroup() as members:
            for task, g in work:
                for phase in order:
                    slot = RolloutSlot(phase, g, derive_seed(self.settings.seed, seeds, task.id, g))
                    library = phases[phase]
                    treatment = Treatment(
                        model=self.rollouts.endpoint.name,
                        library=library.version,
                        masked=(hidden[phase],) if phase in hidden else (),
                        temperature=self.settings.eval_temperature if temperature is None else temperature,
                    )
                    rollout = self._one(task, slot, treatment, library, finished[phase])
                    running[phase].append(members.create_task(rollout))
                order.reverse()  # each phase goes first equally often
        self.monitor.refuse_silence()
        return {phase: [one.result().trajectory for one in rollouts] for phase, rollouts in running.items()}

    def _read_stored(self, stored: StoredGroups, batch: Batch, groups: GroupStream) -> None:
        """Put the batch's groups from the store into `groups`."""
        if batch.first:
            self.monitor.callbacks.phase_started(batch.phase, sum(len(one) for one in stored.rollouts.values()))
        for task in batch.tasks:
            group = stored.group(task, self.store)
            if self.settings.labels == "none":
                group = by_majority(group, self.rollouts.domain)
            for trajectory in group.trajectories:
                self.monitor.stored_rollout_read(batch, trajectory)
            self._report(group)
            groups.put(group)

    async def _one(
        self,
        task: Task,
        slot: RolloutSlot,
        treatment: Treatment,
        library: Library,
        finished: Mapping[TaskRollout, Trajectory],
        started: Callable[[], None] = lambda: None,
    ) -> Finished:
        learning, before = slot.phase.startswith("epoch"), finished.get((task.id, slot.g))
        if attempt := self._repeated.get((slot.phase, slot.batch)):
            slot, before = replace(slot, attempt=attempt), None
        elif before is not None and before.outcome == "undecided" and self.finished.repeats_undecided:
            slot, before = replace(slot, attempt=before.attempt + 1), None
        if before is None:
            without = self._own_lessons(library).get(task.id, frozenset()) if learning else frozenset[ExperienceId]()
            async with self._slots:
                started()
                shown = self._shown(library, treatment)
                done = await self._first.make(lambda: self.rollouts.one(task, slot, treatment, shown, without=without))
        else:
            started()
            self._first.known(before)
            done = Finished(before, b"", stored=True)
            self.reused += learning
        waits_for_majority = learning and self.settings.labels == "none"
        if not waits_for_majority:
            await self._keep(done)
        try:
            self._first.refuse(done, task)
        except AllFailed:
            if waits_for_majority:
                await done.save(self.store)
            raise
        return done

    def _shown(self, library: Library, treatment: Treatment) -> Experiences:
        library = self.others.get(treatment.library, library)
        if treatment.masked:  # nearly every rollout hides other lessons
            return Experiences(library, masked=treatment.masked, retrieval=self._retriever)
        if library.version not in self._experiences:
            self._experiences[library.version] = Experiences(library, retrieval=self._retriever)
        return self._experiences[library.version]

    def _own_lessons(self, library: Library) -> Mapping[TaskId, Collection[ExperienceId]]:
        """The lessons that are not to be shown in rollouts to learn from, by task."""
        if not isinstance(self.settings, OwnTaskOptions) or self.settings.own_task_lessons == "show":
            return {}
        if library.version not in self._learned_on:
            self._learned_on[library.version] = self.store.learned_on(list(library.by_id))
        return self._learned_on[library.version]

    async def _keep(self, finished: Finished) -> None:
        if not finished.stored:
            await finished.save(self.store)
        self.monitor.rollout_done(finished.trajectory)
