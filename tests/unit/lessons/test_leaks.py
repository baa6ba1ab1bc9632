"""Tasks that lessons give away: no verdict counts them, and the others keep theirs."""

import pytest

from agentlearn.library.audit import leaks
from agentlearn.types.experience import library_of
from agentlearn.types.task import Task
from tests.support.cases import cases

TASKS = [
    Task.of("math", "How many lattice paths lead from the corner to the far end of the grid?", "48620"),
    Task.of("math", "How many committees of three can nine people form?", "84"),
    *(
        Task.of("desk", f"Which team gets the message {word!r}?", "billing")
        for word in ["due", "paid", "late", "open", "lost", "new", "old"]
    ),
]


@pytest.mark.parametrize(
    ("lesson", "given_away"),
    cases(__file__, "only_the_tasks_that_a_lesson_gives_away_are_left_out"),
)
def test_only_the_tasks_that_a_lesson_gives_away_are_left_out(lesson: str, given_away: list[int]) -> None:
    library = library_of(["Check the units.", lesson])
    found = leaks(library.experiences, TASKS)
    assert set(found.lessons) == {TASKS[at].id for at in given_away}
    assert len(found.kept(TASKS)) == len(TASKS) - len(given_away)
    assert all(ids == {library.experiences[1].id} for ids in found.lessons.values())
    assert found.sentence.startswith("1 of 9 tasks is not counted: 1 lesson (") is bool(given_away)
