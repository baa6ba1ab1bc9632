"""Learning from stored rollouts: groups made of rollouts that the store already holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from agentlearn.config import LearnSettings
from agentlearn.data.overlap import overlaps
from agentlearn.domain.base import Domain
from agentlearn.domain.task_source import read_source
from agentlearn.errors import ConfigError
from agentlearn.learning.live_groups import live_groups
from agentlearn.learning.live_tasks import NOT_MEASURED, held_out_tasks, is_recorded
from agentlearn.learning.task_sets import TaskSets
from agentlearn.store import Selection, StoreReader
from agentlearn.types.group import Group
from agentlearn.types.groups import Groups
from agentlearn.types.ids import RolloutId, RunId, TaskId
from agentlearn.types.task import Task
from agentlearn.types.trajectory import DEMONSTRATION, LIVE, measures


@dataclass(frozen=True, slots=True)
class StoredGroups:
    """For each task, rollouts that were all shown the same library: of one run and phase, or of live traffic."""

    rollouts: Mapping[TaskId, tuple[RolloutId, ...]]
    """Ids of the rollouts, by task."""
    runs: int
    """Number of runs that made them."""
    left_out: int = 0
    """Tasks that were left out because they, or near-copies of them, are held out now."""
    others: Mapping[TaskId, tuple[Task, ...]] = field(default_factory=dict[TaskId, tuple[Task, ...]])
    """For the task of a group of neighbours, the other tasks of the group."""
    live: str = ""
    """How live traffic was grouped; empty when there is none."""

    @classmethod
    def of(cls, reader: StoreReader, settings: LearnSettings) -> "StoredGroups":
        """Return the stored groups that match the settings: for each task the largest, and of equal ones the latest.

        Raises ConfigError when there is none.
        """
        run = reader.run(settings.from_run).run if settings.from_run is not None else None
        rows = reader.selected(Selection(run=run, phase=settings.from_phase, domain=settings.domain))
        groups: dict[tuple[TaskId, RunId, str], list[RolloutId]] = {}
        for row in rows:
            # measurements teach only when asked for by name; live traffic is grouped across runs
            teaches = not measures(row.phase) if settings.from_phase is None else row.phase != LIVE
            if teaches and (row.phase not in (LIVE, DEMONSTRATION) or settings.from_phase == DEMONSTRATION):
                groups.setdefault((row.task, row.run, row.phase), []).append(row.id)
        best: dict[TaskId, tuple[int, RunId, tuple[RolloutId, ...]]] = {}
        for (task, run_of, _), members in groups.items():  # run ids increase with time
            found = (len(members), run_of, tuple(members))
            if len(members) >= settings.min_rollouts and found[:2] >= best.get(task, (0, RunId("")))[:2]:
                best[task] = found
        live = _live_groups(reader, settings, run)
        if not best and not len(live) and (live.single or live.set_aside or live.without_reward):
            raise _no_group(live)
        if not best and not len(live):
            raise ConfigError(
                f"the store {str(settings.store)!r} holds no task of domain {settings.domain!r} with"
                f" {settings.min_rollouts} rollouts to learn from; `agentlearn runs list` shows what it holds, and"
                " `agentlearn store import` imports other programs' logs",
                code="no_logs",
            )
        found_live = {group.task.id: group for group in live.groups if group.task.id not in best}
        kept = sorted(best.keys() | found_live.keys())[: settings.limit]
        return cls(
            {task: best[task][2] if task in best else found_live[task].rollouts for task in kept},
            len({best[task][1] for task in kept if task in best}),
            others={task: found_live[task].others for task in kept if task in found_live},
            live=live.summary if found_live else "",
        )

    @classmethod
    def given(cls, groups: Groups) -> "StoredGroups":
        """Return the groups that a recorder made. Raises ConfigError when there is none."""
        if not len(groups):
            raise _no_group(groups)
        return cls(
            {group.task.id: group.rollouts for group in groups.groups},
            0,
            others={group.task.id: group.others for group in groups.groups},
            live=groups.summary,
        )

    def without(self, tasks: Sequence[Task]) -> "StoredGroups":
        """Return these groups without those of the given tasks."""
        out = {task.id for task in tasks}
        kept = {task: members for task, members in self.rollouts.items() if task not in out}
        return replace(self, rollouts=kept, left_out=len(self.rollouts) - len(kept))

    def group(self, task: Task, reader: StoreReader) -> Group:
        """Return the stored group of a task."""
        members = tuple(whole.trajectory for whole in reader.whole(self.rollouts[task.id]))
        if task.id not in self.others:
            return Group(task=task, trajectories=members)
        # recorded rollouts of several runs can have the same number
        numbered = tuple(member.model_copy(update={"g": g}) for g, member in enumerate(members))
        return Group(task=task, trajectories=numbered, others=self.others[task.id])

    def note(self) -> str:
        """Return a note for the report on where the groups came from."""
        rollouts = sum(len(members) for members in self.rollouts.values())
        left = f"; {self.left_out} more tasks were left out because they are held out now" if self.left_out else ""
        if self.live and not self.runs:
            return f"learned from live traffic: {self.live}{left}"
        runs = ("1 run" if self.runs == 1 else f"{self.runs} runs") + (" and by live traffic" if self.live else "")
        return f"learned from stored rollouts: {rollouts} rollouts of {len(self.rollouts)} tasks, made by {runs}{left}"


def _no_group(groups: Groups) -> ConfigError:
    """Why the recorded rollouts of a recorder form no group, and what to do."""
    judged = groups.single + groups.set_aside
    counts = f"{groups.without_reward} without a reward and {judged} with one"
    next_step = "give feedback on more of them" if groups.without_reward else "record more rollouts with feedback"
    return ConfigError(
        f"the recorded rollouts of {groups.name!r} form no group to learn from: there are {counts}, and a group needs"
        f" two or more with equal or similar tasks; {next_step}",
        code="no_groups",
    )


def _live_groups(reader: StoreReader, settings: LearnSettings, run: RunId | None) -> Groups:
    if settings.from_phase not in (None, LIVE):
        return Groups(name=settings.domain, store=reader.directory)
    return live_groups(reader, settings.domain, run=run, min_size=settings.min_rollouts)


def refuse_contradictions(settings: LearnSettings) -> None:
    """Raise ConfigError when settings for stored rollouts are combined with settings that contradict them."""
    if settings.from_store:
        other = {"data": "--data", "pilot": "--pilot"}
        given = [option for name, option in other.items() if getattr(settings, name) is not None]
        if given:
            raise ConfigError(
                f"--from-store learns from stored rollouts and cannot be combined with {given[0]}; leave one out",
                code="contradiction",
            )
    elif settings.from_run is not None or settings.from_phase is not None:
        raise ConfigError("--from-run and --from-phase select stored rollouts; add --from-store", code="contradiction")


def stored_task_sets(
    stored: StoredGroups,
    settings: LearnSettings,
    domain: Domain,
    reader: StoreReader,
    held_out: tuple[Task, ...] | None = None,
) -> tuple[StoredGroups, TaskSets]:
    """Return the groups and the tasks of a run that learns from stored rollouts, without tasks that are held out.

    held_out: tasks that a program gave to measure on.
    """
    test: Sequence[Task] = ()
    notes: tuple[str, ...] = ()
    if settings.evaluate and held_out is not None:
        test = held_out
    elif settings.evaluate and settings.test_data:
        read = [read_source(domain, source, settings, split="test") for source in settings.test_data]
        test, notes = [task for one in read for task in one.tasks], tuple(one.note for one in read if one.note)
    elif settings.evaluate and is_recorded(settings, reader):
        test = held_out_tasks(stored.rollouts, reader)
    elif is_recorded(settings, reader):
        notes = (NOT_MEASURED,)
    elif settings.evaluate:
        test = domain.tasks("test", seed=settings.seed)
    train = [reader.task(task) for task in stored.rollouts]
    kept = stored.without(_held_out(stored, train, test, domain))
    if not kept.rollouts:
        raise ConfigError(
            "every task of the stored rollouts is held out now; learn without measuring (--no-eval, in Python"
            " evaluate=False), or measure on other tasks (--test-data, in Python test=...)",
            code="no_logs",
        )
    return kept, TaskSets(tuple(one for one in train if one.id in kept.rollouts), tuple(test), notes=notes)


def _held_out(stored: StoredGroups, train: Sequence[Task], test: Sequence[Task], domain: Domain) -> list[Task]:
    """Return the tasks whose group holds a task that is held out now, or a near-copy of one."""
    held = {task.id for task in test}
    asked = {one.id: one for task in train for one in (task, *stored.others.get(task.id, ()))}
    copies = overlaps([one for one in asked.values() if one.id not in held], test, domain.answer_key)
    out = held | {learned.id for learned, _ in copies}
    return [task for task in train if {task.id, *(one.id for one in stored.others.get(task.id, ()))} & out]
