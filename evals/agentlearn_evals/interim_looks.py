"""Finds interim looks: earlier comparisons of the same arms, with the same seed, on fewer data."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from agentlearn.measure.contrast import Contrast
from agentlearn.store import RunRow
from agentlearn_evals.comparison import InterimLook

EvalReport = tuple[RunRow, Mapping[str, Any]]
"""A finished comparison: its run and its stored report."""


def earlier_reports(runs: Sequence[RunRow]) -> list[EvalReport]:
    """Return the finished comparisons among the runs, oldest first."""
    finished = [row for row in runs if row.kind == "eval" and row.report]
    return [(row, json.loads(row.report)) for row in sorted(finished, key=lambda one: one.started_at)]


def earlier_looks(reports: Sequence[EvalReport], contrast: Contrast, tasks: Collection[str]) -> tuple[InterimLook, ...]:
    """Return the earlier looks at the contrast's question, oldest first.

    Two looks with the same number of pairs count as one. A comparison that shares no task does not count.
    """
    found: dict[int, InterimLook] = {}
    for row, report in reports:
        if not any(one["task"] in tasks for one in report["tasks"]):
            continue
        for one in report["contrasts"]:
            if one["key"] == contrast.key and one["pairs"] < contrast.pairs:
                look = InterimLook(
                    arm=contrast.arm, run=row.run, at=row.started_at.isoformat(), pairs=one["pairs"], p=one["p"]
                )
                found.setdefault(look.pairs, look)
    return tuple(found.values())
