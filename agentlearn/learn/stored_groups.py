"""Learning from stored rollouts: groups made of rollouts that the store already holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from agentlearn.config import LearnSettings
from agentlearn.data.overlap import overlaps
from agentlearn.domain.base import Domain
from agentlearn.domain.task_source import read_source
from agentlearn.errors import ConfigError
from agentlearn.learn.task_sets import TaskSets
from agentlearn.store import Selection, StoreReader
from agentlearn.types.group import Group
from agentlearn.types.ids import RolloutId, RunId, TaskId
from agentlearn.types.task import Task
from agentlearn.types.trajectory import measures


@dataclass(frozen=True, slots=True)
class StoredGroups:
    """For each task, the rollouts of one run and phase, which were all shown the same library."""

    rollouts: Mapping[TaskId, tuple[RolloutId, ...]]
    """Ids of the rollouts, by task."""
    runs: int
    """Number of runs that made them."""
    left_out: int = 0
    """Tasks that were left out because they, or near-copies of them, are held out now."""

    @classmethod
    def of(cls, reader: StoreReader, settings: LearnSettings) -> "StoredGroups":
        """Return the stored groups that match the settings: for each task the largest, and of equal ones the latest.

        Raises ConfigError when there is none.
        """
        run = reader.run(settings.from_run).run if settings.from_run is not None else None
        rows = reader.selected(Selection(run=run, phase=settings.from_phase, domain=settings.domain))
        groups: dict[tuple[TaskId, RunId, str], list[RolloutId]] = {}
        for row in rows:
            if settings.from_phase is not None or not measures(
                row.phase
            ):  # measurements teach only when asked for by name
                groups.setdefault((row.task, row.run, row.phase), []).append(row.id)
        best: dict[TaskId, tuple[int, RunId, tuple[RolloutId, ...]]] = {}
        for (task, run_of, _), members in groups.items():  # run ids increase with time
            found = (len(members), run_of, tuple(members))
            if len(members) >= settings.min_rollouts and found[:2] >= best.get(task, (0, RunId("")))[:2]:
                best[task] = found
        if not best:
            raise ConfigError(
                f"the store {str(settings.store)!r} holds no task of domain {settings.domain!r} with"
                f" {settings.min_rollouts} rollouts to learn from; `agentlearn runs list` shows what it holds, and"
                " `agentlearn store import` imports other programs' logs",
                code="no_logs",
            )
        kept = sorted(best)[: settings.limit]
        return cls({task: best[task][2] for task in kept}, len({best[task][1] for task in kept}))

    def without(self, tasks: Sequence[Task]) -> "StoredGroups":
        """Return these groups without those of the given tasks."""
        out = {task.id for task in tasks}
        kept = {task: members for task, members in self.rollouts.items() if task not in out}
        return replace(self, rollouts=kept, left_out=len(self.rollouts) - len(kept))

    def group(self, task: Task, reader: StoreReader) -> Group:
        """Return the stored group of a task."""
        members = tuple(whole.trajectory for whole in reader.whole(self.rollouts[task.id]))
        return Group(task=task, trajectories=members)

    def note(self) -> str:
        """Return a note for the report on where the groups came from."""
        rollouts = sum(len(members) for members in self.rollouts.values())
        left = f"; {self.left_out} more tasks were left out because they are held out now" if self.left_out else ""
        runs = "1 run" if self.runs == 1 else f"{self.runs} runs"
        return f"learned from stored rollouts: {rollouts} rollouts of {len(self.rollouts)} tasks, made by {runs}{left}"


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
    stored: StoredGroups, settings: LearnSettings, domain: Domain, reader: StoreReader
) -> tuple[StoredGroups, TaskSets]:
    """Return the groups and the tasks of a run that learns from stored rollouts, without tasks that are held out."""
    test: Sequence[Task] = ()
    notes: tuple[str, ...] = ()
    if settings.evaluate and settings.test_data:
        read = [read_source(domain, source, settings, split="test") for source in settings.test_data]
        test, notes = [task for one in read for task in one.tasks], tuple(one.note for one in read if one.note)
    elif settings.evaluate:
        test = domain.tasks("test", seed=settings.seed)
    train = [reader.task(task) for task in stored.rollouts]
    held = {task.id for task in test}
    copies = [learned for learned, _ in overlaps([one for one in train if one.id not in held], test, domain.answer_key)]
    kept = stored.without([*(one for one in train if one.id in held), *copies])
    if not kept.rollouts:
        raise ConfigError(
            "every task of the stored rollouts is held out now; add --no-eval, or give other tasks with --test-data",
            code="no_logs",
        )
    return kept, TaskSets(tuple(one for one in train if one.id in kept.rollouts), tuple(test), notes=notes)
