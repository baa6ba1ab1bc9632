"""The board: scores of all arms side by side, over the tasks that they share. Here denominators are decided.

Failures and timeouts are zeros and are counted. An undecided rollout leaves with its index from every arm, so that all
arms are held against the same; how far that could matter is bounded later. Rollouts that an arm lacks are listed.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentlearn.errors import DataError
from agentlearn_evals.comparison import Missing
from agentlearn_evals.observation import Observation


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """What is known of a task beside its scores."""

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
    """Tasks that every arm has at least one decided rollout of, in the order in which they came."""
    facts: Mapping[str, TaskFacts]
    scores: Mapping[str, Mapping[str, tuple[float, ...]]]
    """By arm, by task: the scores of its decided rollouts, in order of index."""
    all: Mapping[str, tuple[Observation, ...]]
    """By arm: every rollout, also those that were left out."""
    dropped: int
    """(task, index) pairs that an undecided rollout took out of every arm."""
    missing: tuple[Missing, ...]

    def means(self, arm: str, tasks: Sequence[str] | None = None) -> list[float]:
        """The arm's mean score of each task."""
        return [sum(self.scores[arm][task]) / len(self.scores[arm][task]) for task in tasks or self.tasks]

    def differences(self, arm: str, baseline: str, tasks: Sequence[str] | None = None) -> list[float]:
        """Arm minus baseline, task by task."""
        pairs = zip(self.means(arm, tasks), self.means(baseline, tasks), strict=True)
        return [mine - other for mine, other in pairs]

    def clusters(self, tasks: Sequence[str] | None = None) -> list[str]:
        """Where the tasks belong; a task of no cluster belongs to itself."""
        return [self.facts[task].cluster or f"task {task}" for task in tasks or self.tasks]


def tabulate(observations: Sequence[Observation], arms: Sequence[str], *, allow_missing: bool = False) -> ScoreTable:
    """The observations side by side.

    arms: the baseline first; every one of them must have observations. Raises DataError for an arm without any, for a
    rollout that is there twice, and for arms over other tasks, unless `allow_missing`: then they are compared over the
    tasks that all have, and the others are listed.
    """
    by_arm: dict[str, list[Observation]] = {arm: [] for arm in arms}
    for one in observations:
        if one.arm in by_arm:
            by_arm[one.arm].append(one)
    for arm, seen in by_arm.items():
        if not seen:
            raise DataError(f"the arm {arm!r} has no rollouts; leave it out, or give its log", code="empty_arm")
        _refuse_twice(arm, seen)
    missing = _missing(by_arm, allow_missing=allow_missing)
    undecided = {(one.task, one.g) for seen in by_arm.values() for one in seen if one.score is None}
    scores: dict[str, dict[str, tuple[float, ...]]] = {}
    for arm, seen in by_arm.items():
        kept: defaultdict[str, list[float]] = defaultdict(list)
        for one in sorted(seen, key=lambda each: each.g):
            if one.score is not None and (one.task, one.g) not in undecided:
                kept[one.task].append(one.score)
        scores[arm] = {task: tuple(values) for task, values in kept.items()}
    order = dict.fromkeys(one.task for seen in by_arm.values() for one in seen)
    shared = tuple(task for task in order if all(task in scores[arm] for arm in arms))
    if not shared:
        raise DataError(
            "no task has a decided rollout in every arm, so there is nothing to compare; look at the failures and"
            " undecided verdicts with `agentlearn runs show`",
            code="nothing_to_compare",
        )
    return ScoreTable(
        arms=tuple(arms),
        tasks=shared,
        facts=_facts(observations),
        scores=scores,
        all={arm: tuple(seen) for arm, seen in by_arm.items()},
        dropped=len(undecided),
        missing=missing,
    )


def comparable(observations: Sequence[Observation], arms: Sequence[str]) -> bool:
    """Whether some task has a decided rollout in every arm, so that there can be a board."""
    undecided = {(one.task, one.g) for one in observations if one.arm in arms and one.score is None}
    decided = {(one.arm, one.task) for one in observations if (one.task, one.g) not in undecided}
    return any(all((arm, task) in decided for arm in arms) for task in {one.task for one in observations})


def _refuse_twice(arm: str, seen: Sequence[Observation]) -> None:
    counts = Counter((one.task, one.g) for one in seen)
    (task, g), count = counts.most_common(1)[0]
    if count > 1:
        raise DataError(
            f"rollout {g} of task {task!r} is there {count} times in the arm {arm!r}; give each an index of its own"
            " (column g), or leave the copies out",
            code="rollout_twice",
        )


def _missing(by_arm: Mapping[str, Sequence[Observation]], *, allow_missing: bool) -> tuple[Missing, ...]:
    tasks = {arm: {one.task for one in seen} for arm, seen in by_arm.items()}
    every = dict.fromkeys(one.task for seen in by_arm.values() for one in seen)
    missing = tuple(
        Missing(arm=arm, task=task, reason="no rollout")
        for task in every
        for arm, own in tasks.items()
        if task not in own
    )
    if missing and not allow_missing:
        first = missing[0]
        raise DataError(
            f"the arms were run on other tasks: {first.arm!r} has no rollout of task {first.task!r}, and {len(missing)}"
            " such pairs are missing in all; run the same tasks, or add --allow-missing to compare on those that all"
            " arms share",
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
                f"task {one.task!r} stands in the clusters {known.cluster!r} and {one.cluster!r}; a task has one",
                code="two_clusters",
            )
    return facts
