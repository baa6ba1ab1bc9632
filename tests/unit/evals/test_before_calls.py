"""What is known before the first call: verdicts that cannot be given, and scores that cannot be believed."""

from pathlib import Path
from typing import Any

import pytest

from agentlearn.types.experience import library_of
from agentlearn.types.task import Task
from agentlearn_evals import CompareSettings
from agentlearn_evals.arms import Arm
from agentlearn_evals.before_calls import BeforeCalls, _lesson_flags, untrusted_arms
from agentlearn_evals.plan import plan_comparison

LESSONS = '{"experiences": {"G0": "Check the units before you answer."}, "next_id": 1}'


@pytest.mark.parametrize(
    ("tasks", "given", "needed"),
    [(2, {}, 6), (5, {}, 6), (6, {}, 0), (30, {}, 0), (6, {"planned_looks": 2}, 7)],
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


TASKS = [
    Task.of("math", "How many lattice paths lead from the corner to the far end of the grid?", "48620", split="test")
]


def arm(*lessons: str, without: int | None = None) -> Arm:
    library = library_of(lessons)
    left_out = () if without is None else (library.experiences[without].id,)
    return Arm(name="a", model="m", reference="a", library=library, without=left_out, temperature=0)


def test_a_lesson_with_an_expected_answer_spoils_the_arm() -> None:
    flags = _lesson_flags(arm("Count both ends.", "For lattice paths say 48620."), TASKS)
    assert [flag.code for flag in flags] == ["leaks_answer"]
    assert "1 of its lessons" in untrusted_arms(flags)["a"]
    assert "other tasks" in untrusted_arms(flags)["a"]


def test_a_lesson_with_the_words_of_a_problem_spoils_the_arm() -> None:
    flags = _lesson_flags(arm("When many lattice paths lead from the corner to the far end, recurse."), TASKS)
    assert [flag.code for flag in flags] == ["copies_problem"]


def test_lessons_that_are_left_out_spoil_nothing() -> None:
    assert _lesson_flags(arm("Count both ends.", "For lattice paths say 48620.", without=1), TASKS) == ()


def test_plain_lessons_are_not_flagged() -> None:
    assert _lesson_flags(arm("Count both ends of a range.", "Test a guess on 3 small cases."), TASKS) == ()
