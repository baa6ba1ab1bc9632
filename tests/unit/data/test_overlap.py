"""Near-copies, and splitting without them."""

import pytest

from agentlearn.data.overlap import hold_out, overlaps
from agentlearn.types.task import Task
from agentlearn_math import domain

LONG = (
    "A farmer has 12 cows and 7 goats in a field of 30 acres, and every spring each of the cows has one calf while the"
    " goats have two kids each. After how many springs are there more than 100 animals on the farm of the old farmer?"
)


def task(problem: str, answer: str | None = "5") -> Task:
    return Task.of("toy", problem, answer)


def twins(one: Task, other: Task) -> bool:
    return bool(list(overlaps([one], [other])))


def test_what_counts_as_a_copy(subtests: pytest.Subtests) -> None:
    for other, answer, same in [
        (LONG.upper().replace(" ", "\n"), "6", True),  # the same text, whatever its answer
        (LONG.replace("12", "$12$"), "6", True),
        (LONG.replace("spring each", "autumn each"), "5", True),
        ("Solve this. " + LONG, "5", True),
        (LONG.replace("spring each", "autumn each"), "6", False),  # near, but it asks for something else
        (LONG.replace("spring each", "autumn each"), None, True),
        (LONG.replace("12 cows", "13 cows"), "5", False),  # the same wording about other numbers
        ("How many animals are on a farm with 12 cows, 7 goats, 30 acres and 100 springs?", "5", False),
    ]:
        with subtests.test(repr((other, answer, same))):
            assert twins(task(LONG), task(other, answer)) is same
            assert twins(task(other, answer), task(LONG)) is same


def test_short_problems_are_told_apart_by_their_signs() -> None:
    assert not twins(task("$1+1=?$", "2"), task("$1-1=?$", "0"))
    assert twins(task("$1 + 1=?$", "2"), task("1+1=?", "0"))


def test_names_in_capitals_are_given() -> None:
    rows = "The letters of {} are laid in a row, and a row read backwards counts as the same row. How many are there?"
    assert not twins(task(rows.format("BECLL")), task(rows.format("MMGGM")))


@pytest.mark.parametrize("seed", range(6))
def test_generated_tasks_are_no_copies_of_each_other(seed: int) -> None:
    train, test = domain.tasks("train", seed=seed), domain.tasks("test", seed=seed)
    assert not list(overlaps(train, test, domain.answer_key))


def test_a_split_depends_on_content_alone() -> None:
    tasks = [task(f"Problem {number}") for number in range(40)]
    train, test = hold_out(tasks, 0.3)
    assert (len(train), len(test)) == (28, 12)
    assert {one.split for one in test} == {"test"}
    again = hold_out(tasks[::-1], 0.3)
    assert {one.id for one in again[1]} == {one.id for one in test}
    # One task more can push one over the edge, not reshuffle the others.
    more = hold_out([*tasks, task("another")], 0.3)[1]
    assert len({one.id for one in more} & {one.id for one in test}) >= len(test) - 1


def test_a_split_keeps_copies_on_the_side_that_is_learned_from() -> None:
    copies = [task(LONG.replace("farmer?", f"farmer{'!' * number}?")) for number in range(10)]
    tasks = [*copies, *(task(f"Problem {number}") for number in range(30))]
    train, test = hold_out(tasks, 0.5)
    assert not list(overlaps(train, test))
    assert {one.id for one in copies} <= {one.id for one in train}
    assert 5 <= len(test) <= 20


@pytest.mark.parametrize(("count", "share", "held"), [(1, 0.5, 0), (2, 0.01, 1), (2, 0.99, 1), (10, 0, 0), (3, 0.5, 2)])
def test_both_sides_get_a_task(count: int, share: float, held: int) -> None:
    assert len(hold_out([task(f"Problem {number}") for number in range(count)], share)[1]) == held
