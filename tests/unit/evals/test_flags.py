"""Scores that cannot be believed: lessons that hold answers or problems, and tasks that were learned from."""

from agentlearn.types.experience import library_of
from agentlearn.types.task import Task
from agentlearn_evals.arms import Arm
from agentlearn_evals.flags import lesson_flags, untrusted_arms

TASKS = [
    Task.of("math", "How many lattice paths lead from the corner to the far end of the grid?", "48620", split="test")
]


def arm(*lessons: str, without: int | None = None) -> Arm:
    library = library_of(lessons)
    left_out = () if without is None else (library.experiences[without].id,)
    return Arm(name="a", model="m", reference="a", library=library, without=left_out, temperature=0)


def test_a_lesson_with_an_expected_answer_spoils_the_arm() -> None:
    flags = lesson_flags(arm("Count both ends.", "For lattice paths say 48620."), TASKS)
    assert [flag.code for flag in flags] == ["leaks_answer"]
    assert "1 of its lessons" in untrusted_arms(flags)["a"]
    assert "other tasks" in untrusted_arms(flags)["a"]


def test_a_lesson_with_the_words_of_a_problem_spoils_the_arm() -> None:
    flags = lesson_flags(arm("When many lattice paths lead from the corner to the far end, recurse."), TASKS)
    assert [flag.code for flag in flags] == ["copies_problem"]


def test_lessons_that_are_left_out_spoil_nothing() -> None:
    assert lesson_flags(arm("Count both ends.", "For lattice paths say 48620.", without=1), TASKS) == ()


def test_plain_lessons_are_not_flagged() -> None:
    assert lesson_flags(arm("Count both ends of a range.", "Test a guess on 3 small cases."), TASKS) == ()
