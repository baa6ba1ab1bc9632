"""Controls of a comparison find what is planted: drift, a gain from any lessons at all, and nothing otherwise."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agentlearn import Task, compare_sync
from agentlearn.errors import ConfigError
from agentlearn.types.trajectory import measures
from agentlearn_evals.compare_settings import CompareSettings
from agentlearn_evals.comparison import Comparison
from agentlearn_evals.plan import plan_comparison

RULE = "A zork is 7 plims."
TASKS = [Task.of("zorks", f"How many plims are {n} zorks?", str(7 * n), split="test") for n in range(2, 26)]
Answer = Callable[[Task, str], str]


def knows(task: Task, lessons: str) -> str:
    """Answer rightly where the rule is among the lessons."""
    return str(task.answer) if RULE in lessons else "0"


def believes(task: Task, lessons: str) -> str:
    """Answer rightly where there are any lessons at all."""
    return str(task.answer) if lessons else "0"


class Tires:
    """Answers rightly with the rule; without it, only for as long as the service is good."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, task: Task, lessons: str) -> str:
        self.calls += 1
        return str(task.answer) if RULE in lessons or self.calls > 6 * len(TASKS) else "0"


def compared(answer: Answer, store: Path, **options: object) -> Comparison:
    def program(task: Task, lessons: str) -> str:
        return answer(task, lessons)

    arms = {"none": None, "zorks": [RULE]}
    return compare_sync(program, TASKS, arms=arms, reward="exact", k=2, store=store, controls=True, **options)


@pytest.mark.parametrize(
    ("answer", "doubts"),
    [
        (knows, set()),
        (believes, {("none", "placebo"), ("placebo", "zorks")}),
        (Tires(), {("none", "none-again"), ("none-again", "zorks-again")}),
    ],
    ids=["nothing", "a gain from any lessons", "drift"],
)
def test_what_is_planted_is_found(answer: Answer, doubts: set[tuple[str, str]], tmp_path: Path) -> None:
    found = compared(answer, tmp_path)
    assert [one.verdict for one in found.contrasts] == ["better"]
    assert found.names == ("none", "zorks")
    assert {(one.baseline, one.arm) for one in found.controls if not one.holds} == doubts


def test_controls_are_for_one_library_beside_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="one library beside no lessons"):
        compare_sync(
            knows, TASKS, arms={"a": [RULE], "b": ["Be brief."]}, reward="exact", store=tmp_path, controls=True
        )
    with pytest.raises(ConfigError, match="placebo='x' is for controls=True"):
        compare_sync(knows, TASKS, arms={"none": None, "a": [RULE]}, reward="exact", store=tmp_path, placebo="x")


def test_each_lesson_is_hidden_from_half_of_the_rollouts_of_each_task(tmp_path: Path) -> None:
    tasks, lessons = tmp_path / "zorks.csv", tmp_path / "zorks.json"
    tasks.write_text("problem,answer\nHow many plims are 2 zorks?,14\nHow many plims are 3 zorks?,21\n")
    lessons.write_text(json.dumps([RULE, "Be brief.", "Answer with a number."]))
    settings = CompareSettings(arms=(str(lessons),), domains=(str(tasks),), reward="exact", k=4, store=tmp_path / "s")
    plan = replace(plan_comparison(settings, fewest=1), hides=True)
    (arm,), (task_set,) = plan.arms, plan.task_sets
    for task in plan.all_tasks:
        masked = [plan.treatment(arm, task, g).masked for g in range(4)]
        assert [sum(one in mask for mask in masked) for one in arm.library.by_id] == [2, 2, 2]
    assert not measures(plan.conditions(arm, task_set).phase), "these rollouts are evidence on lessons"
