"""Finds interim looks: earlier comparisons of the same two arms on other data."""

import json
from collections.abc import Mapping, Sequence
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


def earlier_looks(reports: Sequence[EvalReport], contrast: Contrast) -> tuple[InterimLook, ...]:
    """Return the earlier looks at the contrast's two arms, oldest first, whatever tasks and seeds they had.

    Two looks at the same scores count as one, and scores that were looked at before keep the look that they had then.
    """
    found: dict[str, InterimLook] = {}
    for row, report in reports:
        for one in report["contrasts"]:
            if not {*one["key"].split()} & {*contrast.key.split()}:
                continue
            if one["data"] == contrast.data:
                return tuple(found.values())
            look = InterimLook(
                arm=contrast.arm,
                baseline=contrast.baseline,
                run=row.run,
                at=row.started_at.isoformat(),
                pairs=one["pairs"],
                p=one["p"],
            )
            found.setdefault(one["data"], look)
    return tuple(found.values())
