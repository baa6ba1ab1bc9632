"""The web demo: sites that never change, questions that their pages answer, and walks that are right by their flaws
alone."""

import ast
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from random import Random
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

import agentlearn_demo.web.novice
from agentlearn.answers.matching import answer_match_key
from agentlearn.types.task import Split, Task
from agentlearn_demo.math.novice import skills as math_skills
from agentlearn_demo.sim.skills import Conversation, FollowedLessons, Situation, ToolExchange, ToolUse
from agentlearn_demo.web.novice import skills
from agentlearn_demo.web.questions import TEMPLATES, _QuestionTemplate
from agentlearn_demo.web.site import KINDS, SEARCH, GeneratedSite, SiteKind, SiteProblem, target
from agentlearn_demo.web.tasks import LEARNING, NUMBERS, SITES, UNSEEN, site, walk_tasks
from agentlearn_web import domain
from agentlearn_web.observation import PageObservation, TabLine, render_observation
from tests.support.paper_walk import NONCE, TOOLS, PaperWalk, leads, nodes, question, tree, walked

FROZEN = "acb7420cf01591bf481c7b19de73deb2"

FAMILIES = {**LEARNING, **UNSEEN}
SPLITS: tuple[Split, ...] = ("train", "validation", "test")

every_kind = pytest.mark.parametrize("kind", KINDS)
every_family = pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.family)


def html_at(one: GeneratedSite, at: str) -> str:
    path, _, query = at.partition("?")
    status, html = one.respond(path, query)
    assert status == 200, f"{one.host}{at}"
    return html


@every_kind
def test_every_link_leads_to_a_page_and_every_page_can_be_reached(kind: SiteKind) -> None:
    one = site(kind, NUMBERS[-1])
    pages: dict[str, str] = {}
    todo = ["/"]
    while todo:
        at = todo.pop()
        if at not in pages:
            pages[at] = html_at(one, at)
            todo += leads(pages[at])
    linked = {target(urlsplit(at).path, parse_qsl(urlsplit(at).query)) for at in pages}
    searched = {
        a.attributes["href"]
        for entry in one.entries
        for a in nodes(html_at(one, f"{SEARCH}?{urlencode({'q': entry.title})}"), "a")
    }
    assert set(one.pages) - linked <= searched
    for at in searched:
        html_at(one, at)


def test_the_sites_never_change() -> None:
    """Recorded tasks, libraries and results depend on the pages: changing a page changes the benchmark."""
    lines = sha256()
    for number in (NUMBERS[0], NUMBERS[-1]):
        for one in (site(kind, number) for kind in KINDS):
            for at in sorted(one.pages):
                lines.update(html_at(one, at).encode())
    assert lines.hexdigest()[:32] == FROZEN


@every_kind
def test_pages_are_complete_and_load_nothing_else(kind: SiteKind) -> None:
    one = site(kind, 2)
    for at in one.pages:
        text = html_at(one, at)
        tree(text)
        assert "src=" not in text
        assert "<script" not in text
        assert all(a.attributes["href"].startswith("/") for a in nodes(text, "a"))
        assert len(nodes(text, "h1")) == 1
        for name in ("header", "nav", "main", "footer", "form"):
            assert nodes(text, name), (at, name)


# Questions.


def problems(family: str, numbers: range) -> Iterator[tuple[GeneratedSite, SiteProblem]]:
    sites = [site(FAMILIES[family], number) for number in numbers]
    return ((one, problem) for one in sites for problem in one.problems[family])


def main_text(one: GeneratedSite, at: str) -> str:
    return nodes(html_at(one, at), "main")[0].text()


@every_family
def test_the_path_can_be_walked_and_its_last_page_contains_the_answer(template: _QuestionTemplate) -> None:
    for one, problem in problems(template.family, range(2)):
        texts = [main_text(one, at) for at in problem.targets]
        parts = problem.answer.split("; ")
        assert all(any(part in text for text in texts[-2:]) for part in parts), problem
        assert parts[-1] in texts[-1]
        searchable = {entry.target for entry in one.entries}
        for before, after in zip(("/", *problem.targets), problem.targets, strict=False):
            linked = {target(*split_query(at)) for at in leads(html_at(one, before))}
            assert target(*split_query(after)) in linked | searchable, (before, after)


def split_query(at: str) -> tuple[str, list[tuple[str, str]]]:
    path, _, query = at.partition("?")
    return path, parse_qsl(query)


# Tasks.


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
            first = situation(task)
            assert (first.family, first.traps) == (task.family, ())
            assert use(first).arguments == {"url": task.start}
            assert math_skills.recognise(Conversation("", question(task), (*TOOLS, "run_python"))) is None


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


# Traps and walks.


@cache
def drawn_tasks() -> tuple[Task, ...]:
    return walk_tasks("test", 6, 54)


def tasks_of(family: str) -> tuple[Task, ...]:
    return tuple(task for task in drawn_tasks() if task.family == family)[:3]


def subsets(traps: tuple[str, ...]) -> Iterator[frozenset[str]]:
    return (frozenset(some) for size in range(len(traps) + 1) for some in combinations(traps, size))


def situation(task: Task, *turns: ToolExchange) -> Situation:
    found = skills.recognise(Conversation("", question(task), TOOLS, turns))
    assert found is not None
    return found


def use(of: Situation) -> ToolUse:
    act = of.act(frozenset(), FollowedLessons(), Random(0))
    assert isinstance(act, ToolUse)
    return act


@every_family
def test_rightness_depends_on_the_flaws_alone(template: _QuestionTemplate) -> None:
    met: set[str] = set()
    for task in tasks_of(template.family):
        careful = walked(skills, task)
        assert careful.answer == task.answer
        assert careful.url == careful.visited[-1] == task.path[-1]
        assert [url for url in careful.visited if url in task.path] == list(task.path)
        traps = tuple(trap for turn in careful.traps for trap in turn)
        met |= set(traps)
        for flaws in subsets(traps):
            walk = walked(skills, task, flaws)
            assert (walk.answer == task.answer) == (not flaws), (flaws, walk.answer)
            assert walk.url in walk.visited
    assert met


@every_family
@pytest.mark.parametrize("status", ["stale_ref", "ok"])
def test_a_disturbed_walk_starts_again_and_succeeds(template: _QuestionTemplate, status: str) -> None:
    task = tasks_of(template.family)[0]
    plain = walked(skills, task)
    tabs = (TabLine(id="t1", url="http://fernhill-outfitters.test/"),)
    nothing = render_observation(PageObservation(status=status, note="n", tab="t1", tabs=tabs), NONCE)
    turns = (*plain.turns[:1], ToolExchange("click", {"ref": "t1:e1"}, nothing))
    walk = PaperWalk()
    while len(turns) < 9:
        act = use(situation(task, *turns))
        if act.tool == "answer":
            assert len(turns) <= 7
            # The answer is not found only if too few turns are left for a second attempt.
            assert act.arguments["answer"] == (task.answer if len(plain.turns) + 2 <= 7 else "not found")
            return
        turns = (*turns, ToolExchange(act.tool, act.arguments, walk.act(act)))
    raise AssertionError(turns)


def test_the_solver_imports_no_sites_and_no_answers() -> None:
    known = {
        "agentlearn_demo.sim.skills", "agentlearn_demo.web.traps", "agentlearn_demo.web.questions",
        "agentlearn_demo.tasks", "agentlearn_web.observation",
    }  # fmt: skip
    folder = Path(agentlearn_demo.web.novice.__file__).parent
    for name in ("novice", "traps", "questions"):
        for node in ast.walk(ast.parse((folder / f"{name}.py").read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("agentlearn"):
                assert node.module in known, (name, node.module)
