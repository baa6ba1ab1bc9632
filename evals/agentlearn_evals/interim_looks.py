"""Earlier looks: comparisons of the same arms on the same tasks whose data have grown since."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from agentlearn.store import RunRow
from agentlearn_evals.comparison import Contrast, InterimLook


def earlier_reports(runs: Sequence[RunRow]) -> list[tuple[RunRow, Mapping[str, Any]]]:
    """The finished comparisons among the runs, each with its report, oldest first. Read once for all contrasts."""
    finished = [row for row in runs if row.kind == "eval" and row.report]
    return [(row, json.loads(row.report)) for row in sorted(finished, key=lambda one: one.started_at)]


def earlier_looks(
    reports: Sequence[tuple[RunRow, Mapping[str, Any]]], contrast: Contrast, tasks: Collection[str]
) -> tuple[InterimLook, ...]:
    """The looks at the contrast's question before this one, oldest first.

    reports: of `earlier_reports`.
    The same number of pairs is the same look again; a comparison on none of these tasks was another question.
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
