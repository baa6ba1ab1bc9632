"""The web demo: sites and questions that never change, tasks that reveal nothing, and a solver that only reads."""

import ast
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

import agentlearn_demo.web.novice
from agentlearn.answers.matching import answer_match_key
from agentlearn.types.task import Split
from agentlearn_demo.math.novice import skills as math_skills
from agentlearn_demo.sim.skills import Conversation
from agentlearn_demo.web.novice import skills
from agentlearn_demo.web.site import KINDS, GeneratedSite
from agentlearn_demo.web.tasks import NUMBERS, SITES, UNSEEN, site
from agentlearn_web import domain

FROZEN = "b6f4b4c22a3fc1ccd22e569957c533a2"
TOOLS = ("open", "click", "type", "back", "find", "more", "tabs", "answer")
SPLITS: tuple[Split, ...] = ("train", "validation", "test")


def html_at(one: GeneratedSite, at: str) -> str:
    path, _, query = at.partition("?")
    status, html = one.respond(path, query)
    assert status == 200, f"{one.host}{at}"
    return html


def test_the_sites_and_their_questions_never_change() -> None:
    """Recorded tasks, libraries and results depend on them: changing a page changes the benchmark.

    `tests/web/test_novice_walks.py` shows that the questions can be answered from the pages.
    """
    lines = sha256()
    for number in (NUMBERS[0], NUMBERS[-1]):
        for one in (site(kind, number) for kind in KINDS):
            for at in sorted(one.pages):
                lines.update(html_at(one, at).encode())
            lines.update(repr(one.problems).encode())
    assert lines.hexdigest()[:32] == FROZEN


def test_tasks_are_reproducible_and_reveal_neither_path_nor_answer() -> None:
    for split in SPLITS:
        assert domain.tasks(split, seed=3) == domain.tasks(split, seed=3) != domain.tasks(split, seed=4)
        for task in domain.tasks(split, seed=2, limit=60):
            assert (task.domain, task.split, task.source) == ("web", split, "generated")
            assert task.answer
            assert answer_match_key(task.answer)
            assert urlsplit(task.start).path == "/"
            assert task.path
            assert all(url.startswith(task.start) and url != task.start for url in task.path)
            assert domain.question(task) == f"Start page: {task.start}\n\n{task.problem}"
            assert "://" not in task.problem
            assert urlsplit(task.start).netloc not in task.problem
            assert task.answer not in task.problem.split()
            asked = Conversation("", domain.question(task), (*TOOLS, "run_python"))
            first = skills.recognise(asked)
            assert first is not None
            assert (first.family, first.traps) == (task.family, ())
            assert math_skills.recognise(asked) is None


def test_no_site_is_in_two_splits() -> None:
    homes: dict[str, set[str]] = {}
    for split in SPLITS:
        for seed in range(3):
            for task in domain.tasks(split, seed=seed, limit=100):
                homes.setdefault(task.start, set()).add(split)
    assert [site for site, splits in homes.items() if len(splits) > 1] == []
    assert sorted(number for numbers in SITES.values() for number in numbers) == list(NUMBERS)
    families = [task.family for task in domain.tasks("test", seed=5)]
    assert [name in UNSEEN for name in families] == [False, False, True] * 10


def test_the_solver_imports_no_sites_and_no_answers() -> None:
    known = {
        "agentlearn_demo.sim.skills", "agentlearn_demo.web.questions",
        "agentlearn_demo.demos", "agentlearn_web.observation",
    }  # fmt: skip
    folder = Path(agentlearn_demo.web.novice.__file__).parent
    for name in ("novice", "questions"):
        for node in ast.walk(ast.parse((folder / f"{name}.py").read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("agentlearn"):
                assert node.module in known, (name, node.module)
    for node in ast.parse((folder.parent / "demos.py").read_text("utf-8")).body:  # its functions import sites later
        if isinstance(node, ast.ImportFrom):
            assert not (node.module or "").startswith("agentlearn_demo"), node.module
