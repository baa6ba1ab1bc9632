"""Generated tasks: reproducible, balanced, no site in two splits, and no hint of the path in the question."""

from urllib.parse import urlsplit

import pytest

from agentlearn.answers.matching import answer_match_key
from agentlearn.types.task import Split
from agentlearn_demo.web.question_templates import TEMPLATES
from agentlearn_demo.web.sites import NUMBERS
from agentlearn_demo.web.tasks import SITES
from agentlearn_web import domain

SPLITS: tuple[Split, ...] = ("train", "validation", "test")


@pytest.mark.parametrize("split", SPLITS)
def test_the_same_seed_gives_the_same_tasks_and_another_seed_others(split: Split) -> None:
    assert domain.tasks(split, seed=3) == domain.tasks(split, seed=3)
    same = {task.id for task in domain.tasks(split, seed=3)} & {task.id for task in domain.tasks(split, seed=4)}
    assert len(same) < 8


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
