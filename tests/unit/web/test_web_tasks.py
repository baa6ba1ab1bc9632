"""Generated tasks: reproducible, balanced, no site in two splits, and no hint of the path in the question."""

from collections import Counter
from typing import cast
from urllib.parse import urlsplit

import pytest

from agentlearn.answers.matching import answer_match_key
from agentlearn.errors import ConfigError
from agentlearn.types.task import Split
from agentlearn_web import domain
from agentlearn_web.question_templates import TEMPLATES
from agentlearn_web.questions import LEARNING, UNSEEN
from agentlearn_web.sites import NUMBERS
from agentlearn_web.tasks import SITES

SPLITS: tuple[Split, ...] = ("train", "validation", "test")


def test_default_sizes() -> None:
    assert [len(domain.tasks(split, seed=0)) for split in SPLITS] == [24, 16, 30]


@pytest.mark.parametrize("split", SPLITS)
def test_the_same_seed_gives_the_same_tasks_and_another_seed_others(split: Split) -> None:
    assert domain.tasks(split, seed=3) == domain.tasks(split, seed=3)
    same = {task.id for task in domain.tasks(split, seed=3)} & {task.id for task in domain.tasks(split, seed=4)}
    assert len(same) < 8


@pytest.mark.parametrize("split", SPLITS)
def test_a_limit_takes_the_first_tasks(split: Split) -> None:
    longest = domain.tasks(split, seed=1, limit=120)
    assert len(longest) == len({task.id for task in longest}) == 120
    for limit in (1, 7, 40):
        assert domain.tasks(split, seed=1, limit=limit) == longest[:limit]


def test_no_site_or_problem_is_in_two_splits_for_any_seeds() -> None:
    homes: dict[str, set[str]] = {}
    problems: dict[object, set[str]] = {}
    for split in SPLITS:
        for seed in range(4):
            for task in domain.tasks(split, seed=seed, limit=100):
                homes.setdefault(task.start, set()).add(split)
                template = next(one for one in TEMPLATES if one.family == task.family)
                params = template.recognise(task.problem)
                assert params is not None
                problems.setdefault((task.family, *sorted(params.items())), set()).add(split)
    assert [site for site, splits in homes.items() if len(splits) > 1] == []
    assert [problem for problem, splits in problems.items() if len(splits) > 1] == []
    assert sorted(number for numbers in SITES.values() for number in numbers) == list(NUMBERS)


@pytest.mark.parametrize("split", ["train", "validation"])
def test_splits_to_learn_on_are_balanced_over_the_learning_families(split: str) -> None:
    for limit in (11, 16, 24, 50):
        counts = Counter(task.family for task in domain.tasks(cast("Split", split), seed=5, limit=limit))
        assert set(counts) <= set(LEARNING)
        assert max(counts.values()) - min(counts[name] for name in LEARNING) <= 1


def test_one_task_in_three_of_the_test_split_is_of_an_unseen_family() -> None:
    tasks = domain.tasks("test", seed=5)
    assert [task.family in UNSEEN for task in tasks] == [False, False, True] * 10
    for families in (LEARNING, UNSEEN):
        counts = Counter(task.family for task in tasks if task.family in families)
        assert max(counts.values()) - min(counts[name] for name in families) <= 1


def test_a_task_has_its_family_and_start_page() -> None:
    for split in SPLITS:
        for task in domain.tasks(split, seed=0):
            assert (task.domain, task.split, task.source) == ("web", split, "generated")
            assert task.answer
            assert answer_match_key(task.answer)
            assert urlsplit(task.start).path == "/"
            assert task.path
            assert all(url.startswith(task.start) and url != task.start for url in task.path)
            assert domain.question(task) == f"Start page: {task.start}\n\n{task.problem}"


def test_the_question_reveals_neither_path_nor_answer() -> None:
    for split in SPLITS:
        for task in domain.tasks(split, seed=2, limit=60):
            assert "://" not in task.problem
            assert urlsplit(task.start).netloc not in task.problem
            assert task.answer not in task.problem.split()


def test_too_many_tasks_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"^the web domain can generate \d+ train tasks, not 5000; ask for fewer$"):
        domain.tasks("train", seed=0, limit=5000)
