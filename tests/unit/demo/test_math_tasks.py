"""Generated tasks: reproducible, balanced, and no problem in two splits."""

from collections import Counter
from typing import cast

import pytest

from agentlearn.errors import ConfigError
from agentlearn.types.task import Split, Task
from agentlearn_demo.math.families import FAMILIES, LEARNING, UNSEEN
from agentlearn_math import domain

SPLITS: tuple[Split, ...] = ("train", "validation", "test")
KNOWN = {family.name for family in LEARNING}
HELD_OUT = {family.name for family in UNSEEN}


def problem_of(task: Task) -> object:
    """The problem itself, whatever its wording."""
    family = next(family for family in FAMILIES if family.name == task.family)
    return task.family, family.recognise(task.problem)


def test_default_sizes() -> None:
    assert [len(domain.tasks(split, seed=0)) for split in SPLITS] == [60, 40, 60]


@pytest.mark.parametrize("split", SPLITS)
def test_the_same_seed_gives_the_same_tasks_and_another_seed_others(split: Split) -> None:
    assert domain.tasks(split, seed=3) == domain.tasks(split, seed=3)
    same = {task.id for task in domain.tasks(split, seed=3)} & {task.id for task in domain.tasks(split, seed=4)}
    assert len(same) < 10


@pytest.mark.parametrize("split", SPLITS)
def test_a_limit_takes_the_beginning_and_may_ask_for_more(split: Split) -> None:
    longest = domain.tasks(split, seed=1, limit=90)
    assert len(longest) == 90
    for limit in (1, 7, 40):
        assert domain.tasks(split, seed=1, limit=limit) == longest[:limit]


def test_no_problem_stands_in_two_splits_even_for_different_seeds() -> None:
    homes: dict[object, set[str]] = {}
    for split in SPLITS:
        for seed in range(4):
            for task in domain.tasks(split, seed=seed, limit=100):
                homes.setdefault(problem_of(task), set()).add(split)
    assert [problem for problem, splits in homes.items() if len(splits) > 1] == []


@pytest.mark.parametrize("split", SPLITS)
def test_no_problem_stands_twice_in_a_split(split: Split) -> None:
    tasks = domain.tasks(split, seed=2, limit=150)
    assert len({problem_of(task) for task in tasks}) == len({task.id for task in tasks}) == 150


@pytest.mark.parametrize("split", ["train", "validation"])
def test_splits_to_learn_on_are_balanced_over_the_learning_families(split: str) -> None:
    for limit in (19, 40, 60):
        counts = Counter(task.family for task in domain.tasks(cast("Split", split), seed=5, limit=limit))
        assert set(counts) <= KNOWN
        assert max(counts.values()) - min(counts[name] for name in KNOWN) <= 1


def test_one_task_in_three_of_the_test_split_is_of_an_unseen_family() -> None:
    tasks = domain.tasks("test", seed=5)
    assert [task.family in HELD_OUT for task in tasks] == [False, False, True] * 20
    unseen = Counter(task.family for task in tasks if task.family in HELD_OUT)
    known = Counter(task.family for task in tasks if task.family in KNOWN)
    assert (sum(known.values()), sum(unseen.values())) == (40, 20)
    assert max(unseen.values()) - min(unseen[name] for name in HELD_OUT) <= 1
    assert max(known.values()) - min(known[name] for name in KNOWN) <= 1


def test_a_task_says_what_it_is() -> None:
    for split in SPLITS:
        for task in domain.tasks(split, seed=0):
            assert (task.domain, task.split, task.source) == ("math", split, "generated")
            assert task.answer is not None
            assert task.answer.lstrip("-").isdigit()
            assert domain.question(task) == task.problem


def test_more_than_the_families_hold_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"^the math domain can generate \d+ validation tasks, not 5000; ask for fewer$"
    ):
        domain.tasks("validation", seed=0, limit=5000)


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^a limit of 0 tasks leaves nothing to do; give at least 1$"):
        domain.tasks("train", seed=0, limit=0)
