"""Breaks a score table down: by arm, by domain, cluster and tag, by task, and into tasks on which arms differ."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, product

from agentlearn.measure.contrast import Contrast
from agentlearn.measure.contrasts import Rules, estimate_of
from agentlearn.measure.observation import Observation
from agentlearn.measure.score_table import ScoreTable, arm_score, passes
from agentlearn_evals.comparison import ArmLine, Flip, Slice, TaskLine

Places = Mapping[tuple[str, str, int], str]
"""Where rollouts are in logs, by arm, task and index."""


def arm_line(table: ScoreTable, arm: str, level: float, arm_facts: Mapping[str, object]) -> ArmLine:
    """Return the results of one arm. arm_facts: further fields of `ArmLine`."""
    rollouts = table.all[arm]
    interval = arm_score(table, arm, level)
    statuses = Counter(one.status for one in rollouts)
    seconds = sorted(one.seconds for one in rollouts if one.seconds is not None)
    calls = [one.tool_calls for one in rollouts if one.tool_calls is not None]
    fields = {
        "arm": arm,
        "label": arm,
        "tasks": len(table.tasks),
        "rollouts": len(rollouts),
        "counted": sum(len(table.scores[arm][task]) for task in table.tasks),
        "score": interval.mean,
        "low": interval.low,
        "high": interval.high,
        "passes": passes(table, arm),
        "failed": statuses["failed"],
        "timeouts": sum("time" in one.error for one in rollouts if one.status == "undecided"),
        "undecided": statuses["undecided"],
        "errors": dict(Counter(one.error or one.status for one in rollouts if one.status != "ok")),
        "cost_usd": _total([one.cost_usd for one in rollouts]),
        "tokens_in": _total([one.tokens_in for one in rollouts]),
        "tokens_library": _library_tokens(rollouts),
        "tokens_out": _total([one.tokens_out for one in rollouts]),
        "tool_calls": sum(calls) / len(calls) if calls else None,
        "seconds_p50": _percentile(seconds, 0.5),
        "seconds_p95": _percentile(seconds, 0.95),
    }
    return ArmLine.model_validate(fields | dict(arm_facts))


def slices(table: ScoreTable, rules: Rules) -> tuple[Slice, ...]:
    """Return the results of every arm in each domain, cluster and tag. A single domain or cluster is left out."""
    parts: dict[tuple[str, str], list[str]] = {}
    for task in table.tasks:
        facts = table.facts[task]
        named = [("domain", facts.domain), ("cluster", facts.cluster), *(("tag", tag) for tag in facts.tags)]
        for by, name in named:
            if name:
                parts.setdefault((by, name), []).append(task)
    kinds = Counter(by for by, _ in parts)
    baseline = table.arms[0]
    found: list[Slice] = []
    for (by, name), tasks in sorted(parts.items()):
        if kinds[by] < 2 and by != "tag":
            continue
        for arm in table.arms:
            fields: dict[str, object] = {
                "by": by,
                "name": name,
                "arm": arm,
                "score": _mean(table.means(arm, tasks)),
                "mean": None,
                "tasks": len(tasks),
            }
            if arm != baseline:
                estimate = estimate_of(table, arm, baseline, rules, tasks)
                safe = not estimate.unsafe
                fields |= {
                    "mean": estimate.mean,
                    "low": estimate.low if safe else None,
                    "high": estimate.high if safe else None,
                }
            found.append(Slice.model_validate(fields))
    return tuple(found)


def task_lines(table: ScoreTable) -> tuple[TaskLine, ...]:
    """Return the scores of each task in all arms."""
    return tuple(
        TaskLine(
            task=task,
            domain=table.facts[task].domain,
            cluster=table.facts[task].cluster,
            problem=table.facts[task].problem,
            scores=tuple(_mean(table.scores[arm][task]) for arm in table.arms),
            rollouts=tuple(len(table.scores[arm][task]) for arm in table.arms),
        )
        for task in table.tasks
    )


def flips(table: ScoreTable, contrasts: Sequence[Contrast], places: Places | None = None) -> tuple[Flip, ...]:
    """Return the tasks on which the arms of a contrast differ, largest first, each with a rollout of both.

    places: of rollouts in logs of other programs.
    """
    places = places or {}
    records = {arm: _by_task_and_index(table.all[arm]) for arm in table.arms}
    found: list[Flip] = []
    for contrast in contrasts:
        arm, baseline = contrast.arm, contrast.baseline
        of_pair: list[Flip] = []
        for task in table.tasks:
            mine, other = _mean(table.scores[arm][task]), _mean(table.scores[baseline][task])
            if mine == other:
                continue
            shown = _example_rollouts(records[arm].get(task, {}), records[baseline].get(task, {}), won=mine > other)
            of_pair.append(
                Flip(
                    task=task,
                    problem=table.facts[task].problem,
                    arm=arm,
                    baseline=baseline,
                    score=mine,
                    baseline_score=other,
                    rollout=shown[0].rollout if shown else "",
                    baseline_rollout=shown[1].rollout if shown else "",
                    place=places.get(_key(shown[0]), "") if shown else "",
                    baseline_place=places.get(_key(shown[1]), "") if shown else "",
                )
            )
        found += sorted(of_pair, key=lambda one: (-abs(one.score - one.baseline_score), one.task))
    return tuple(found)


def _by_task_and_index(rollouts: Sequence[Observation]) -> dict[str, dict[int, Observation]]:
    places: dict[str, dict[int, Observation]] = {}
    for one in rollouts:
        places.setdefault(one.task, {})[one.g] = one
    return places


def _example_rollouts(
    mine: Mapping[int, Observation], other: Mapping[int, Observation], *, won: bool
) -> tuple[Observation, Observation] | None:
    """Return a rollout of the arm and one of the baseline that differ in the same direction as the means.

    Rollouts with the same index are preferred. None when there are none.
    """
    same_index = ((mine[g], other[g]) for g in sorted(mine.keys() & other.keys()))
    for one, two in chain(same_index, product(mine.values(), other.values())):
        if one.score is None or two.score is None or one.score == two.score:
            continue
        if (one.score > two.score) == won:
            return one, two
    return None


def _key(one: Observation) -> tuple[str, str, int]:
    return one.arm, one.task, one.g


def _mean(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known)


def _total(values: Sequence[float | None]) -> float | None:
    """Return the sum; None when any value is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _library_tokens(rollouts: Sequence[Observation]) -> float | None:
    """Return the estimated tokens of lessons; None when the estimate exceeds the counted input, so that it is wrong."""
    pairs = [(one.tokens_library, one.tokens_in) for one in rollouts]
    if any(part is not None and whole is not None and part > whole for part, whole in pairs):
        return None
    return _total([part for part, _ in pairs])


def _percentile(ordered: Sequence[float], share: float) -> float | None:
    """Return the smallest value that is at least as large as this share of the values; None for no values."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None
