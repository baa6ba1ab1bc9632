"""Learning from stored rollouts: groups made of rollouts that the store already holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from agentlearn.config import LearnSettings
from agentlearn.data.overlap import overlaps
from agentlearn.domain.base import Domain, installed_domains
from agentlearn.domain.chosen_settings import read_source
from agentlearn.domain.custom import custom_tasks
from agentlearn.errors import ConfigError
from agentlearn.learning.live_groups import live_groups
from agentlearn.learning.open_run import TaskSets, domain_of, with_validation
from agentlearn.store import Selection, StoreReader
from agentlearn.types.group import Group, Groups
from agentlearn.types.ids import RolloutId, RunId, TaskId
from agentlearn.types.task import Task
from agentlearn.types.trajectory import DEMONSTRATION, LIVE, measures

_REWARD = "exact"
"""How answers to held-out tasks of a recorder are judged where `--reward` says nothing else."""
_HELD_OUT = 4
"""One in this many tasks with a right answer is held out."""

_NOT_MEASURED = (
    "the lessons were not measured: recorded tasks seldom have a right answer; --eval holds out those that have one,"
    " and --test-data takes tasks of yours"
)


def held_out_tasks(
    rollouts: Mapping[TaskId, tuple[RolloutId, ...]], reader: StoreReader, most: int | None = None
) -> list[Task]:
    """Return the tasks to measure on: a quarter of those with a right answer, chosen by their ids. Raises ConfigError.

    rollouts: the groups, by task. The right answer is the task's own, or the one that a person wrote. most: the largest
    number of tasks; the first ones are taken.
    """
    found, quarter = list[Task](), [one for one in rollouts if not int(one[:8], 16) % _HELD_OUT]
    tasks = reader.tasks(quarter)
    for task_id in quarter:
        if len(found) == most:
            break
        task = tasks[task_id]
        if task.answer is None:
            written = (one.trajectory for one in reader.whole(rollouts[task_id]))
            demonstrations = (one for one in written if one.phase == DEMONSTRATION and one.task == task_id)
            answer = next((one.answer for one in demonstrations if one.answer), None)
            task = task.model_copy(update={"answer": answer, "split": "test"})
        if task.answer is not None:
            found.append(task)
    if not found:
        raise ConfigError(
            "none of the recorded tasks that would be held out has a right answer; leave out --eval, give test tasks"
            " with --test-data, or record demonstrations with feedback"
        )
    return found


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
        live = Groups(name=settings.domain, store=reader.directory)
        if settings.from_phase in (None, LIVE):
            live = live_groups(reader, settings.domain, run=run, min_size=settings.min_rollouts)
            if settings.all_wrong == "skip":
                large = tuple(group for group in live.groups if len(group.rollouts) >= settings.min_rollouts)
                single = live.single + len(live.groups) - len(large)
                live = live.model_copy(update={"groups": large, "single": single})
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
        f" two or more with equal or similar tasks, or one that is wrong with a comment; {next_step}",
        code="no_groups",
    )


def refuse_contradictions(settings: LearnSettings) -> None:
    """Raise ConfigError when settings for stored rollouts are combined with settings that contradict them."""
    if settings.from_store:
        other = {"data": "--data", "pilot": "--pilot"}
        given = [option for name, option in other.items() if getattr(settings, name) is not None]
        if given:
            raise ConfigError(
                f"--from-store learns from stored rollouts and cannot be combined with {given[0]}; leave one out"
            )
    elif settings.from_run is not None or settings.from_phase is not None:
        raise ConfigError("--from-run and --from-phase select stored rollouts; add --from-store")


def stored_run(
    settings: LearnSettings,
    reader: StoreReader,
    *,
    domain: Domain | None = None,
    groups: Groups | None = None,
    test: Sequence[Task] | None = None,
) -> tuple[LearnSettings, Domain, StoredGroups, TaskSets]:
    """Return what a run that learns from stored rollouts is made of: settings, domain, groups, and tasks to measure on.

    A recorder needs no domain that is installed. Its tasks are held out only when `evaluate` is set by name: most of
    them have no right answer, and the application's own agent is not here to be measured. Groups with a task that is
    held out, or a near-copy of one, are left out. Raises ConfigError.

    domain, groups, test: what a program gave, the tasks to measure on among it.
    """
    recorded = settings.domain not in installed_domains() and reader.is_live(settings.domain)
    if domain is None and recorded and settings.reward is None:
        domain = custom_tasks(settings.domain, _REWARD)
    domain = domain or domain_of(settings)
    asked = "evaluate" in settings.model_fields_set or bool(settings.test_data) or test is not None
    if recorded and not asked:
        settings = settings.model_copy(update={"evaluate": False})
    stored = StoredGroups.of(reader, settings) if groups is None else StoredGroups.given(groups)
    held_out: Sequence[Task] = ()
    notes: tuple[str, ...] = ()
    if settings.evaluate and test is not None:
        held_out = test
    elif settings.evaluate and settings.test_data:
        read = [read_source(domain, source, settings, split="test") for source in settings.test_data]
        held_out, notes = [task for one in read for task in one.tasks], tuple(one.note for one in read if one.note)
    elif settings.evaluate:
        held_out = held_out_tasks(stored.rollouts, reader) if recorded else domain.tasks("test", seed=settings.seed)
    elif recorded:
        notes = (_NOT_MEASURED,)
    known = reader.tasks([*stored.rollouts]) if groups is None else {task.id: task for task in groups.tasks}
    train = [known[task] for task in stored.rollouts]
    members = {task.id: (task, *stored.others.get(task.id, ())) for task in train}
    held = {task.id for task in held_out}
    every = {one.id: one for tasks in members.values() for one in tasks if one.id not in held}
    held |= {learned.id for learned, _ in overlaps([*every.values()], held_out, domain.answer_key)}
    out = {task for task, tasks in members.items() if held & {one.id for one in tasks}}
    kept = {task: rollouts for task, rollouts in stored.rollouts.items() if task not in out}
    if not kept:
        raise ConfigError(
            "every task of the stored rollouts is held out now; learn without measuring (--no-eval, in Python"
            " evaluate=False), or measure on other tasks (--test-data, in Python test=...)",
            code="no_logs",
        )
    stored = replace(stored, rollouts=kept, left_out=len(out))
    sets = TaskSets(tuple(one for one in train if one.id in kept), tuple(held_out), notes=notes)
    if settings.evaluate or not recorded:  # recorded tasks seldom have a right answer
        sets = with_validation(sets, settings, domain, own=True)
    return settings, domain, stored, sets
