"""Observations of rollouts, and the score table: scores of all arms over the tasks that they share.

This module decides what is counted.

`Gaps` says how far rollouts without a score could change a difference.

A rollout in which the agent failed to answer counts as 0. An undecided rollout is left out, and so are the rollouts of
all other arms with the same task and index; the worst-case bounds in `contrasts` show the possible effect. Missing
rollouts are listed, and the others of their task count. Tasks with the same text, or of one template, are one cluster.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from pydantic import Field, model_validator

from agentlearn.errors import DataError
from agentlearn.measure.clustered import Interval, bounded_mean, clustered_mean, text_clusters
from agentlearn.measure.contrast import Missing, Pass, Undecided
from agentlearn.measure.difference import estimate_difference
from agentlearn.measure.score import pass_at_k, pass_hat_k
from agentlearn.types.trajectory import RolloutOutcome
from agentlearn.types.value import Value


class Observation(Value):
    """The result of one rollout of one arm on one task. Fields that were not recorded are None or empty."""

    arm: str = Field(min_length=1)
    task: str = Field(min_length=1)
    """Id of the task, the same in all arms."""
    g: int = Field(default=0, ge=0)
    """Index among the arm's rollouts on this task, from 0. The same index has the same seed in all arms."""
    score: float | None = Field(allow_inf_nan=False)
    """Usually 0 to 1. 0 for a rollout that failed; None only for an undecided one."""
    status: RolloutOutcome = "ok"
    error: str = ""
    """Stable code of what made the rollout fail or left it undecided; `no_answer` for one whose reply had no answer."""
    cluster: str = ""
    """Source, template or site shared with other tasks. Standard errors are clustered by it. Empty: its own cluster."""
    domain: str = ""
    """Domain of the task; results are also shown by domain."""
    tags: tuple[str, ...] = ()
    """Further labels of the task; results are also shown by tag."""
    problem: str = ""
    """Text of the task, as a person would recognise it."""
    rollout: str = ""
    """Id of the full record, in the store or in the log it was read from."""
    cost_usd: float | None = Field(default=None, ge=0)
    tokens_in: int | None = Field(default=None, ge=0)
    tokens_cached: int | None = Field(default=None, ge=0)
    """Part of `tokens_in` that the service had cached."""
    tokens_library: int | None = Field(default=None, ge=0)
    """Estimated part of `tokens_in` that lessons took."""
    tokens_out: int | None = Field(default=None, ge=0)
    tool_calls: int | None = Field(default=None, ge=0)
    seconds: float | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _none_means_undecided(self) -> Self:
        if (self.score is None) != (self.status == "undecided"):
            raise ValueError("the score must be None exactly when the status is undecided")
        return self


_PASSES = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True, slots=True)
class _TaskFacts:
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
    facts: Mapping[str, _TaskFacts]
    scores: Mapping[str, Mapping[str, tuple[float, ...]]]
    """Scores of the decided rollouts, by arm and task, in order of index."""
    all: Mapping[str, tuple[Observation, ...]]
    """All rollouts by arm, including those that are left out."""
    dropped: int
    """Number of (task, index) pairs left out of every arm because of an undecided rollout."""
    missing: tuple[Missing, ...]
    """Tasks of which an arm has no rollout, or fewer than another arm."""
    alike: tuple[str, ...] = ()
    """Tasks that were put in the cluster of an earlier task because of their texts; see `text_clusters`."""

    def means(self, arm: str, tasks: Sequence[str] | None = None) -> list[float]:
        """Return the arm's mean score on each task."""
        return [sum(self.scores[arm][task]) / len(self.scores[arm][task]) for task in tasks or self.tasks]

    def differences(self, arm: str, baseline: str, tasks: Sequence[str] | None = None) -> list[float]:
        """Return arm minus baseline for each task."""
        pairs = zip(self.means(arm, tasks), self.means(baseline, tasks), strict=True)
        return [mine - other for mine, other in pairs]

    @property
    def only_cluster(self) -> str:
        """The cluster of all tasks; empty when they are in several, or in none."""
        labels = {self.facts[task].cluster for task in self.tasks}
        return labels.pop() if len(labels) == 1 else ""

    def score(self, arm: str, level: float, score_range: tuple[float, float] | None = None) -> Interval:
        """Return the arm's mean over tasks with its interval, as `clustered_score` computes it. None: 0 to 1."""
        return clustered_score(self.means(arm), self.clusters(), level=level, score_range=score_range or (0.0, 1.0))

    def passes(self, arm: str) -> tuple[Pass, ...]:
        """Return pass@k and pass^k for each usual k up to the fewest rollouts of a task; none unless scores are 0 or
        1."""
        rollouts = [self.scores[arm][task] for task in self.tasks]
        if any(value not in {0.0, 1.0} for scores in rollouts for value in scores):
            return ()

        def mean(values: Iterable[float | None]) -> float | None:
            known = [value for value in values if value is not None]
            return sum(known) / len(known) if known else None

        counts = [(len(scores), round(sum(scores))) for scores in rollouts]
        return tuple(
            Pass(
                k=k,
                at_least_one=mean(pass_at_k(n, right, k) for n, right in counts),
                all_of_them=mean(pass_hat_k(n, right, k) for n, right in counts),
            )
            for k in _PASSES
            if k <= min(n for n, _ in counts)
        )

    def seen(self, arm: str, baseline: str) -> tuple[float, float]:
        """Return the lowest and highest score of two arms."""
        seen = [one.score for name in (arm, baseline) for one in self.all[name] if one.score is not None]
        return min(seen), max(seen)

    def clusters(self, tasks: Sequence[str] | None = None) -> list[str]:
        """Return the cluster of each task; a task without a cluster is its own cluster.

        When all tasks are in one cluster, each task is its own: the result then holds for tasks of that cluster.
        """
        wanted = tasks or self.tasks
        labels = [self.facts[task].cluster or f"task {task}" for task in wanted]
        return labels if len(set(labels)) > 1 else [f"task {task}" for task in wanted]


_MISSING = "missing"
"""Code of a rollout that only the other arm has."""
_CODES = 3
"""Number of codes that are named per arm."""
_HALVINGS = 12
"""Bisections of the factor of `Gaps.sensitivity`."""
_Differences = tuple[list[float], list[str]]
"""Arm minus baseline of each task, and the cluster of each task."""


@dataclass(frozen=True, slots=True)
class _Side:
    """The rollouts of one arm that it should have, by task and index: scores, and codes of those without a score."""

    scores: dict[tuple[str, int], float]
    codes: dict[tuple[str, int], str]

    @property
    def mean(self) -> float:
        """Mean score of the decided rollouts."""
        return math.fsum(self.scores.values()) / len(self.scores)

    def means(self, fill: float, slope: float = 0.0) -> dict[str, float]:
        """Return the mean of each task, with `fill` in place of every score that is not known.

        slope: change of `fill` with the arm's mean score. Each task's share in the error of that mean is then added to
        its value, which leaves the mean over tasks as it is and gives it its full variance.
        """
        by_task: defaultdict[str, list[float]] = defaultdict(list)
        lost: Counter[str] = Counter(task for task, _ in self.codes)
        for (task, _), score in self.scores.items():
            by_task[task].append(score)
        found = {
            task: math.fsum((*by_task[task], lost[task] * fill)) / (len(by_task[task]) + lost[task])
            for task in dict.fromkeys((*by_task, *lost))
        }
        if not slope:
            return found
        filled = math.fsum(lost[task] / (len(by_task[task]) + lost[task]) for task in lost)
        mean = self.mean
        return {
            task: value + slope * filled * math.fsum(score - mean for score in by_task[task]) / len(self.scores)
            for task, value in found.items()
        }


class Gaps:
    """The rollouts of two arms without a score, those that an arm should have and does not have included.

    An arm that was run with fewer rollouts of every task has lost none.
    """

    def __init__(self, table: ScoreTable, arm: str, baseline: str) -> None:
        self._table = table
        found = [{(one.task, one.g): one for one in table.all[name]} for name in (arm, baseline)]
        every = dict.fromkeys(pair for rollouts in reversed(found) for pair in rollouts)
        self._sides: list[_Side] = []
        for rollouts in found:
            by_task: defaultdict[str, set[int]] = defaultdict(set)
            for task, g in rollouts:
                by_task[task].add(g)
            k = len(next(iter(by_task.values())))
            limit = k if all(indexes == set(range(k)) for indexes in by_task.values()) else math.inf
            side = _Side({}, {})
            for pair in (pair for pair in every if pair[1] < limit):
                one = rollouts.get(pair)
                if one is not None and one.score is not None:
                    side.scores[pair] = one.score
                else:
                    side.codes[pair] = _MISSING if one is None else one.error or "undecided"
            self._sides.append(side)

    def count(self) -> Undecided:
        """Return how many rollouts of both arms have no score."""
        if not self._table.dropped and not self._table.missing:
            return Undecided()
        mine, other = self._sides
        return Undecided(
            arm=len(mine.codes),
            baseline=len(other.codes),
            arm_codes=tuple(Counter(mine.codes.values()).most_common(_CODES)),
            baseline_codes=tuple(Counter(other.codes.values()).most_common(_CODES)),
            rollouts=sum(len(side.codes) + len(side.scores) for side in self._sides),
        )

    def worst_differences(self, score_range: tuple[float, float], *, against: bool) -> _Differences:
        """Return the differences of all tasks when every rollout without a score went against the arm, or in its
        favour.

        score_range: lowest and highest possible score.
        """
        lowest, highest = score_range if against else score_range[::-1]
        return self._differences(self._sides[0].means(lowest), self._sides[1].means(highest))

    def sensitivity(self, score_range: tuple[float, float], level: float, *, against: bool) -> float | None:
        """Return how many times as often as the others the rollouts without a score may be wrong, or right, at most.

        With `against`, lost rollouts of the arm fall short of the highest score by this factor times as much as its
        others do, and those of the baseline exceed the lowest score by this factor times as much; otherwise the other
        way around. Up to this factor the interval at `level` excludes 0. None when it does not even at 1, when the
        factor has no limit, or when an arm has no wrong (right) rollout among the decided ones.
        """
        (low, high), falls = score_range, (against, not against)
        width = high - low
        gaps = [high - side.mean if short else side.mean - low for side, short in zip(self._sides, falls, strict=True)]
        lost = [gap for side, gap in zip(self._sides, gaps, strict=True) if side.codes]
        if not lost or min(lost) <= 0:
            return None

        def holds(factor: float) -> bool:
            means: list[dict[str, float]] = []
            for side, short, gap in zip(self._sides, falls, gaps, strict=True):
                away = min(width, factor * gap)
                means.append(side.means(high - away if short else low + away, factor * (away < width)))
            differences, clusters = self._differences(*means)
            found = estimate_difference(differences, clusters=clusters, level=level, largest=2 * width)
            if found.low is None or found.high is None:
                return False
            return found.low > 0 if against else found.high < 0

        reached, beyond = 1.0, max(width / gap for gap in lost)
        if not holds(reached) or holds(beyond):
            return None
        for _ in range(_HALVINGS):
            middle = math.sqrt(reached * beyond)
            reached, beyond = (middle, beyond) if holds(middle) else (reached, middle)
        return reached

    def _differences(self, mine: Mapping[str, float], other: Mapping[str, float]) -> _Differences:
        tasks = [task for task in mine if task in other]
        return [mine[task] - other[task] for task in tasks], self._table.clusters(tasks)


def tabulate(observations: Sequence[Observation], arms: Sequence[str], *, allow_missing: bool = False) -> ScoreTable:
    """Return the score table of the observations.

    arms: the baseline first. allow_missing: compare on the tasks that all arms have, by all their decided rollouts, and
    list what is missing. Raises DataError for an arm without observations, for a duplicate rollout, and, without
    allow_missing, for different tasks or rollout indexes.
    """
    by_arm: dict[str, list[Observation]] = {arm: [] for arm in arms}
    for one in observations:
        if one.arm in by_arm:
            by_arm[one.arm].append(one)
    for arm, rollouts in by_arm.items():
        if not rollouts:
            raise DataError(f"the arm {arm!r} has no rollouts; leave the arm out, or give its log")
        (task, g), count = Counter((one.task, one.g) for one in rollouts).most_common(1)[0]
        if count > 1:
            raise DataError(
                f"the arm {arm!r} has rollout {g} of task {task!r} {count} times; give each its own index (column g),"
                " or remove the copies"
            )
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
            " failures and undecided verdicts"
        )
    facts: dict[str, _TaskFacts] = {}
    for one in observations:
        known = facts.get(one.task)
        if known is None or (not known.cluster and one.cluster):
            facts[one.task] = _TaskFacts(one.domain, one.cluster, one.problem, one.tags)
        elif one.cluster and known.cluster != one.cluster:
            raise DataError(
                f"task {one.task!r} has the clusters {known.cluster!r} and {one.cluster!r}; give it one cluster"
            )
    labels = text_clusters((task, one.cluster, one.problem) for task, one in facts.items())
    # The tasks whose cluster changed, without the first of each new cluster.
    firsts = {label: task for task, label in reversed(labels.items())}
    moved = [task for task, label in labels.items() if facts[task].cluster != label and firsts[label] != task]
    return ScoreTable(
        arms=tuple(arms),
        tasks=shared,
        facts={task: replace(one, cluster=labels.get(task, one.cluster)) for task, one in facts.items()},
        scores=scores,
        all={arm: tuple(rollouts) for arm, rollouts in by_arm.items()},
        dropped=len(undecided),
        missing=missing,
        alike=tuple(moved),
    )


def comparable(observations: Sequence[Observation], arms: Sequence[str]) -> bool:
    """Return whether some task has a decided rollout in every arm, so that a score table can be made."""
    undecided = {(one.task, one.g) for one in observations if one.arm in arms and one.score is None}
    decided = {(one.arm, one.task) for one in observations if (one.task, one.g) not in undecided}
    return any(all((arm, task) in decided for arm in arms) for task in {one.task for one in observations})


def in_score_range(observations: Sequence[Observation], score_range: tuple[float, float]) -> tuple[Observation, ...]:
    """Return the observations; rollouts that failed and have a score of 0 get the lowest score.

    score_range: lowest and highest possible score. Raises DataError for a score outside.
    """
    low, high = score_range
    failed = {"score": low}
    found = [
        one.model_copy(update=failed) if one.status == "failed" and one.score == 0 and low else one
        for one in observations
    ]
    outside = [one for one in found if one.score is not None and not low <= one.score <= high]
    if outside:
        one = outside[0]
        count = f" and {len(outside) - 1:,} more" if len(outside) > 1 else ""
        raise DataError(
            f"the score {one.score!r} of {one.arm!r} (task {one.task!r}, rollout {one.g}){count} is outside the stated"
            f" range {low:g} to {high:g}; give a range that holds all scores with --score-range LOW,HIGH"
        )
    return tuple(found)


def _missing(by_arm: Mapping[str, Sequence[Observation]], *, allow_missing: bool) -> tuple[Missing, ...]:
    """Return what each arm lacks of the rollouts that another arm has. Raises DataError unless that is allowed."""
    pairs = {arm: {(one.task, one.g) for one in rollouts} for arm, rollouts in by_arm.items()}
    every = dict.fromkeys((one.task, one.g) for rollouts in by_arm.values() for one in rollouts)
    if all(len(own) == len(every) for own in pairs.values()):
        return ()
    tasks = {arm: {task for task, _ in own} for arm, own in pairs.items()}
    whole: list[Missing] = []
    within: dict[tuple[str, str], list[int]] = {}
    for arm, own in pairs.items():
        for task, g in every:
            if task in tasks[arm] and (task, g) not in own:
                within.setdefault((arm, task), []).append(g)
    for task in dict.fromkeys(task for task, _ in every):
        whole += [Missing(arm=arm, task=task, reason="no rollout") for arm in by_arm if task not in tasks[arm]]
    if whole and not allow_missing:
        first = whole[0]
        raise DataError(
            f"the arms were run on different tasks: {first.arm!r} has no rollout of task {first.task!r}"
            f" ({len(whole)} such pairs in total); run the same tasks, or add --allow-missing to compare on the tasks"
            " that all arms share"
        )
    if not allow_missing:
        (arm, task), lacking = next(iter(within.items()))
        numbers = ", ".join(f"{name!r} {len(own):,}" for name, own in pairs.items())
        raise DataError(
            f"the arms have different rollouts of the same tasks: {arm!r} has no rollout {min(lacking)} of task"
            f" {task!r} (rollouts: {numbers}, of {len(every):,}); lost rollouts are often the wrong ones, so find them,"
            " or add --allow-missing to compare without them and see how far they could change the result"
        )
    parts = [
        Missing(arm=arm, task=task, reason=f"no rollout {', '.join(map(str, sorted(lacking)))}")
        for (arm, task), lacking in within.items()
    ]
    return (*whole, *parts)


def clustered_score(
    means: Sequence[float], clusters: Sequence[str], *, level: float = 0.95, score_range: tuple[float, float] = (0, 1)
) -> Interval:
    """Return the mean of the tasks' mean scores, with its interval over clusters.

    means, clusters: shape (tasks,). The interval is that of `bounded_mean` when all means are in `score_range`, else
    that of `clustered_mean`.
    """
    low, high = score_range
    if all(low <= mean <= high for mean in means):
        return bounded_mean(means, clusters, level=level, smallest=low, largest=high)
    return clustered_mean(means, clusters, level=level)
