"""Sequential comparisons: they stop as soon as every arm has a verdict, with evidence that is valid at any time.

Whole clusters of tasks are tried in a random order. The evidence averages the means of clusters; each cluster counts
once. A task without a cluster is a cluster of one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from agentlearn.measure.contrast import Contrast, Worst
from agentlearn.measure.contrasts import Rules, estimate_contrasts, with_verdicts
from agentlearn.measure.score_table import Gaps, ScoreTable, text_clusters
from agentlearn.stats import Anytime, anytime
from agentlearn.stats.clustered import grouped
from agentlearn.types.ids import derive_seed
from agentlearn.types.task import Task
from agentlearn_evals.eval_tasks import EvalTasks
from agentlearn_evals.plan import ComparePlan

_METHOD = "bets"
"""`Contrast.method` of a sequential comparison."""
_ASSUMES = (
    "p is valid for clusters that come in a random order and have the same mean difference, however it is distributed"
    " in -1..1; it may be looked at after every cluster"
)
"""What the evidence assumes. It bets on the mean within its range, so it needs no further test of the mean."""


@dataclass(frozen=True, slots=True)
class SequentialDesign:
    """The order in which tasks are tried, and the rule for stopping."""

    plan: ComparePlan
    rules: Rules
    looks: Mapping[tuple[str, str], int]
    """Which look at two arms this is, by (baseline, arm); see `Contrast.look`."""

    def blocks(self) -> Iterator[tuple[EvalTasks, tuple[Task, ...]]]:
        """All tasks, a few clusters at a time."""
        clusters = [(task_set, tasks) for task_set in self.plan.task_sets for tasks in _clusters(task_set.tasks)]
        Random(derive_seed(self.plan.settings.seed, "sequential")).shuffle(clusters)
        block: list[Task] = []
        for index, (task_set, tasks) in enumerate(clusters):
            block += tasks
            last = index + 1 == len(clusters) or clusters[index + 1][0] is not task_set
            if last or len(block) >= self.plan.settings.block:
                yield task_set, tuple(block)
                block = []

    def has_verdict(self, table: ScoreTable) -> bool:
        """Return whether every arm is already known to be better or worse than its baseline.

        An arm that gets no verdict because its score cannot be trusted does not keep the comparison going.
        """
        drafts = self.anytime_contrasts(estimate_contrasts(table, self.rules), table)
        return all(
            one.verdict in {"better", "worse"}
            or (one.unsafe and one.p_adjusted is not None and one.p_adjusted <= self.rules.alpha)
            for one in with_verdicts(drafts, table, self.rules)
        )

    def anytime_contrasts(self, drafts: Sequence[Contrast], table: ScoreTable) -> list[Contrast]:
        """Return the contrasts with anytime-valid estimates in place of those for a size fixed beforehand."""
        evidence = [
            self._anytime(table.differences(one.arm, one.baseline), table.clusters(), one, table) for one in drafts
        ]
        return [
            draft.model_copy(
                update={
                    **found.model_dump(include={"mean", "low", "high", "p"}),
                    **dict.fromkeys(("p_mean", "standard_error", "degrees", "detectable", "mcnemar_p")),
                    "look": self.looks.get((draft.baseline, draft.arm), 1),
                    "assumes": _ASSUMES,
                    "method": _METHOD,
                    "caution": "",
                    "carried": "",
                    "worst": self._worst(draft, found.mean, table),
                }
            )
            for draft, found in zip(drafts, evidence, strict=True)
        ]

    def summary(self, table: ScoreTable, *, early: bool) -> str:
        """Return how the comparison ended, in words. Tasks without a decided rollout in some arm are not counted."""
        how = "stopped early because every arm had a verdict" if early else "went through all tasks"
        tasks, clusters = f"{len(table.tasks)} of {self.plan.tasks} tasks", len(set(table.clusters()))
        return f"{how}: {tasks}; interval and p are valid at any time, over the means of {clusters} clusters"

    def _anytime(
        self, differences: Sequence[float], clusters: Sequence[str], of: Contrast, table: ScoreTable
    ) -> Anytime:
        """Return the evidence on the differences of two arms, whose range is that of the scores."""
        low, high = self.rules.known_range(table, of.arm, of.baseline) or (0.0, 1.0)
        means = [sum(unit) / len(unit) / (high - low) for unit in grouped(differences, clusters)]
        found = anytime(means, alpha=self.rules.alpha)
        scaled = {name: getattr(found, name) * (high - low) for name in ("mean", "low", "high")}
        return found.model_copy(update=scaled)

    def _worst(self, draft: Contrast, mean: float, table: ScoreTable) -> Worst | None:
        """Return the bounds with a p that is valid at any time."""
        score_range = self.rules.known_range(table, draft.arm, draft.baseline)
        if draft.worst is None or draft.worst.p is None or score_range is None:
            return draft.worst
        filled = Gaps(table, draft.arm, draft.baseline).worst_differences(score_range, against=mean > 0)
        found = self._anytime(*filled, draft, table)
        return draft.worst.model_copy(update={"p": found.p if found.mean * mean > 0 else 1.0})


def _clusters(tasks: Sequence[Task]) -> list[tuple[Task, ...]]:
    """Return the tasks of each family or text together; a task without either is alone."""
    members: dict[str, list[Task]] = {}
    labels = text_clusters((task.id, task.cluster, task.problem) for task in tasks)
    for task in tasks:
        members.setdefault(labels.get(task.id, task.cluster) or f"task {task.id}", []).append(task)
    return [tuple(cluster) for cluster in members.values()]
