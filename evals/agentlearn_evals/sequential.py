"""A comparison that stops as soon as it knows: cluster by cluster, by evidence that may be looked at every time.

Clusters come in an order drawn by the seed, each whole; what is averaged are the means of clusters, each of which
counts once. Tasks of no cluster count by themselves.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from agentlearn.stats import Anytime, anytime, benjamini_hochberg, holm
from agentlearn.types.ids import derive_seed
from agentlearn.types.task import Task
from agentlearn_evals.comparison import Contrast
from agentlearn_evals.contrasts import Rules
from agentlearn_evals.eval_tasks import EvalTasks
from agentlearn_evals.plan import ComparePlan
from agentlearn_evals.score_table import ScoreTable

METHOD = "bets"


@dataclass(frozen=True, slots=True)
class SequentialDesign:
    """The order in which tasks are tried, and when it is enough."""

    plan: ComparePlan
    rules: Rules

    def blocks(self) -> Iterator[tuple[EvalTasks, tuple[Task, ...]]]:
        """All tasks, a few clusters at a time."""
        units = [(task_set, unit) for task_set in self.plan.task_sets for unit in _units(task_set.tasks)]
        Random(derive_seed(self.plan.settings.seed, "sequential")).shuffle(units)
        waiting: list[Task] = []
        for place, (task_set, unit) in enumerate(units):
            waiting += unit
            last = place + 1 == len(units) or units[place + 1][0] is not task_set
            if last or len(waiting) >= self.plan.settings.block:
                yield task_set, tuple(waiting)
                waiting = []

    def has_verdict(self, table: ScoreTable) -> bool:
        """Whether every arm is told from the baseline by now."""
        ps = [found.p for found in self._evidence(table).values()]
        adjusted = {"holm": holm, "bh": benjamini_hochberg, "none": tuple}[self.rules.correction](ps)
        return all(p <= self.rules.alpha for p in adjusted)

    def anytime_contrasts(self, drafts: Sequence[Contrast], table: ScoreTable) -> list[Contrast]:
        """The drafts with what holds at any time in place of what holds for a size fixed beforehand."""
        evidence = self._evidence(table)
        return [
            draft.model_copy(
                update={
                    "mean": evidence[draft.arm].mean,
                    "low": evidence[draft.arm].low,
                    "high": evidence[draft.arm].high,
                    "p": evidence[draft.arm].p,
                    "method": METHOD,
                    "standard_error": None,
                    "degrees": None,
                    "detectable": None,
                    "mcnemar_p": None,
                    "caution": "",
                }
            )
            for draft in drafts
        ]

    def summary(self, table: ScoreTable, *, early: bool) -> str:
        """How it ended. A task without a decided rollout in some arm was tried, too, but is not on the board."""
        tried, every = len(table.tasks), self.plan.tasks
        how = "stopped early, all arms being told apart" if early else "went through all tasks"
        return (
            f"{how}: {tried} of {every} tasks; interval and p hold at any time, over the means of"
            f" {len(set(table.clusters()))} clusters"
        )

    def _evidence(self, table: ScoreTable) -> Mapping[str, Anytime]:
        baseline, *others = table.arms
        return {
            arm: anytime(_means(table.differences(arm, baseline), table.clusters()), alpha=self.rules.alpha)
            for arm in others
        }


def _units(tasks: Sequence[Task]) -> list[tuple[Task, ...]]:
    """Tasks of one family together; others by themselves."""
    members: dict[str, list[Task]] = {}
    for task in tasks:
        members.setdefault(task.family or f"task {task.id}", []).append(task)
    return [tuple(own) for own in members.values()]


def _means(differences: Sequence[float], clusters: Sequence[str]) -> list[float]:
    """The mean of each cluster, in the order in which the clusters came."""
    members: dict[str, list[float]] = {}
    for difference, cluster in zip(differences, clusters, strict=True):
        members.setdefault(cluster, []).append(difference)
    return [sum(own) / len(own) for own in members.values()]
