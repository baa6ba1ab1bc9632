"""What a comparison says before its first call about verdicts that cannot be given."""

from pathlib import Path
from typing import Any

import pytest

from agentlearn_evals import CompareSettings
from agentlearn_evals.before_calls import check_verdicts
from agentlearn_evals.plan import plan_comparison

LESSONS = '{"experiences": {"G0": "Check the units before you answer."}, "next_id": 1}'


@pytest.mark.parametrize(
    ("tasks", "given", "needed"),
    [(2, {}, 6), (5, {}, 6), (6, {}, 0), (30, {}, 0), (6, {"planned_looks": 2}, 7), (3, {"sequential": True}, 10)],
)
def test_too_few_tasks_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tasks: int, given: dict[str, Any], needed: int
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lib.json").write_text(LESSONS)
    rows = [f"How much is {number} and {number}?,{2 * number}" for number in range(tasks)]
    Path("sums.csv").write_text("\n".join(["problem,answer", *rows]) + "\n")
    settings = CompareSettings.model_validate(
        {"arms": ("none", "lib.json"), "domains": ("sums.csv",), "reward": "number", "store": tmp_path} | given
    )
    cautions = check_verdicts(plan_comparison(settings), None)
    assert len(cautions) == (needed > 0)
    if needed:
        assert cautions[0].startswith(f"{tasks} tasks are too few for any verdict")
        assert cautions[0].endswith(f"give at least {needed} tasks")
