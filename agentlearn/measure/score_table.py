"""The score table: scores of all arms over the tasks that they share. This module decides what is counted.

A rollout in which the agent failed to answer counts as 0. An undecided rollout is left out, and so are the rollouts of
all other arms with the same task and index; the worst-case bounds in `contrasts` show the possible effect. Missing
rollouts are listed.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentlearn.errors import DataError
from agentlearn.measure.contrast import Missing
from agentlearn.measure.observation import Observation


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """What is known about a task besides its scores."""

    domain: str
    cluster: str
    problem: str
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """Scores by arm, task and index."""

    arms: tuple[str, ...]
    """The baseline first."""
    tasks: tuple[str, ...]
    """Tasks with at least one decided rollout in every arm, in order of first appearance."""
    facts: Mapping[str, TaskFacts]
    scores: Mapping[str, Mapping[str, tuple[float, ...]]]
    """Scores of the decided rollouts, by arm and task, in order of index."""
    all: Mapping[str, tuple[Observation, ...]]
    """All rollouts by arm, including those that are left out."""
    dropped: int
    """Number of (task, index) pairs left out of every arm because of an undecided rollout."""
    missing: tuple[Missing, ...]
    """Tasks that an arm has no rollout of."""

    def means(self, arm: str, tasks: Sequence[str] | None = None) -> list[float]:
        """Return the arm's mean score on each task."""
        return [sum(self.scores[arm][task]) / len(self.scores[arm][task]) for task in tasks or self.tasks]

    def differences(self, arm: str, baseline: str, tasks: Sequence[str] | None = None) -> list[float]:
        """Return arm minus baseline for each task."""
        pairs = zip(self.means(arm, tasks), self.means(baseline, tasks), strict=True)
        return [mine - other for mine, other in pairs]

    def clusters(self, tasks: Sequence[str] | None = None) -> list[str]:
        """Return the cluster of each task; a task without a cluster is its own cluster."""
        return [self.facts[task].cluster or f"task {task}" for task in tasks or self.tasks]


def tabulate(observations: Sequence[Observation], arms: Sequence[str], *, allow_missing: bool = False) -> ScoreTable:
    """Return the score table of the observations.

    arms: the baseline first. allow_missing: compare on the tasks that all arms share, and list the others. Raises
    DataError for an arm without observations, for a duplicate rollout, and, without allow_missing, for different tasks.
    """
    by_arm: dict[str, list[Observation]] = {arm: [] for arm in arms}
    for one in observations:
        if one.arm in by_arm:
            by_arm[one.arm].append(one)
    for arm, rollouts in by_arm.items():
        if not rollouts:
            raise DataError(f"the arm {arm!r} has no rollouts; leave the arm out, or give its log", code="empty_arm")
        _refuse_twice(arm, rollouts)
    missing = _missing(by_arm, allow_missing=allow_missing)
    undecided = {(one.task, one.g) for rollouts in by_arm.values() for one in rollouts if one.score is None}
    scores: dict[str, dict[str, tuple[float, ...]]] = {}
    for arm, rollouts in by_arm.items():
        kept: defaultdict[str, list[float]] = defaultdict(list)
        for one in sorted(rollouts, key=lambda each: each.g):
            if one.score is not None and (one.task, one.g) not in undecided:
                kept[one.task].append(one.score)
        scores[arm] = {task: tuple(values) for task, values in kept.items()}
    order = dict.fromkeys(one.task for rollouts in by_arm.values() for one in rollouts)
    shared = tuple(task for task in order if all(task in scores[arm] for arm in arms))
    if not shared:
        raise DataError(
            "no task has a decided rollout in every arm, so nothing can be compared; `agentlearn runs show` shows the"
            " failures and undecided verdicts",
            code="nothing_to_compare",
        )
    return ScoreTable(
        arms=tuple(arms),
        tasks=shared,
        facts=_facts(observations),
        scores=scores,
        all={arm: tuple(rollouts) for arm, rollouts in by_arm.items()},
        dropped=len(undecided),
        missing=missing,
    )


def comparable(observations: Sequence[Observation], arms: Sequence[str]) -> bool:
    """Return whether some task has a decided rollout in every arm, so that a score table can be made."""
    undecided = {(one.task, one.g) for one in observations if one.arm in arms and one.score is None}
    decided = {(one.arm, one.task) for one in observations if (one.task, one.g) not in undecided}
    return any(all((arm, task) in decided for arm in arms) for task in {one.task for one in observations})


def _refuse_twice(arm: str, rollouts: Sequence[Observation]) -> None:
    counts = Counter((one.task, one.g) for one in rollouts)
    (task, g), count = counts.most_common(1)[0]
    if count > 1:
        raise DataError(
            f"the arm {arm!r} has rollout {g} of task {task!r} {count} times; give each its own index (column g), or"
            " remove the copies",
            code="rollout_twice",
        )


def _missing(by_arm: Mapping[str, Sequence[Observation]], *, allow_missing: bool) -> tuple[Missing, ...]:
    tasks = {arm: {one.task for one in rollouts} for arm, rollouts in by_arm.items()}
    every = dict.fromkeys(one.task for rollouts in by_arm.values() for one in rollouts)
    missing = tuple(
        Missing(arm=arm, task=task, reason="no rollout")
        for task in every
        for arm, own in tasks.items()
        if task not in own
    )
    if missing and not allow_missing:
        first = missing[0]
        raise DataError(
            f"the arms were run on different tasks: {first.arm!r} has no rollout of task {first.task!r}"
            f" ({len(missing)} such pairs in total); run the same tasks, or add --allow-missing to compare on the tasks"
            " that all arms share",
            code="unequal_tasks",
        )
    return missing


def _facts(observations: Sequence[Observation]) -> dict[str, TaskFacts]:
    facts: dict[str, TaskFacts] = {}
    for one in observations:
        known = facts.get(one.task)
        if known is None or (not known.cluster and one.cluster):
            facts[one.task] = TaskFacts(one.domain, one.cluster, one.problem, one.tags)
        elif one.cluster and known.cluster != one.cluster:
            raise DataError(
                f"task {one.task!r} has the clusters {known.cluster!r} and {one.cluster!r}; give it one cluster",
                code="two_clusters",
            )
    return facts
