"""What is known before the first call: verdicts that cannot be given, and scores that cannot be believed."""

from pathlib import Path
from typing import Any

import pytest

from agentlearn.errors import ConfigError
from agentlearn_evals import CompareSettings
from agentlearn_evals.before_calls import BeforeCalls
from agentlearn_evals.plan import plan_comparison

LESSONS = '{"experiences": {"G0": "Check the units before you answer."}, "next_id": 1}'


@pytest.mark.parametrize(
    ("tasks", "given", "needed"),
    [(2, {}, 6), (5, {}, 6), (6, {}, 0), (30, {}, 0), (6, {"planned_looks": 2}, 0), (6, {"planned_looks": 4}, 7)],
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
    cautions = BeforeCalls(plan_comparison(settings), None).cautions()
    assert len(cautions) == (needed > 0)
    if needed:
        assert cautions[0].startswith(f"{tasks} tasks are too few for any verdict")
        assert cautions[0].endswith(f"give at least {needed} tasks")


def test_tasks_that_a_lesson_gives_away_are_not_compared_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f"How much is {number} times {number}?,{number * number}" for number in range(11, 31)]
    Path("squares.csv").write_text("\n".join(["problem,answer", *rows]) + "\n")
    Path("lib.json").write_text('{"experiences": {"G0": "For such a square the result is 729."}, "next_id": 1}')
    given = {"domains": ("squares.csv",), "reward": "number", "store": tmp_path}
    plan = plan_comparison(CompareSettings.model_validate({"arms": ("none", "lib.json"), **given}))
    assert len(plan.all_tasks) == 19
    assert plan.task_sets[0].note.startswith("1 of 20 tasks is not counted: 1 lesson (")
    Path("squares.csv").write_text("problem,answer\nHow much is 27 times 27?,729\n")
    with pytest.raises(ConfigError, match="Cannot tell anything: 1 of 1 tasks is not counted"):
        plan_comparison(CompareSettings.model_validate({"arms": ("none", "lib.json"), **given}))
