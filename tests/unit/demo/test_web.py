"""The web demo: sites that never change, questions that their pages answer, and walks that are right by their flaws
alone."""

import ast
import asyncio
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from itertools import combinations, product
from pathlib import Path
from random import Random
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agentlearn_demo.web.novice
from agentlearn.answers.matching import answer_match_key, match_answers
from agentlearn.types.task import Split, Task
from agentlearn_demo.math.novice import skills as math_skills
from agentlearn_demo.sim.lessons import LessonReader, ShownLesson
from agentlearn_demo.sim.skills import Conversation, FollowedLessons, Situation, ToolExchange, ToolUse
from agentlearn_demo.sim.solver import Novice, SolverInput
from agentlearn_demo.tasks import templates
from agentlearn_demo.web.novice import skills
from agentlearn_demo.web.questions import TEMPLATES, QuestionTemplate
from agentlearn_demo.web.site import (
    KINDS,
    SEARCH,
    Site,
    SiteHtml,
    SiteKind,
    SiteProblem,
    as_html,
    html_element,
    link,
    respond,
    serve_sites,
    target,
    teaser,
)
from agentlearn_demo.web.tasks import LEARNING, NUMBERS, SITES, UNSEEN, all_sites, site, walk_tasks
from agentlearn_demo.web.traps import TRAPS
from agentlearn_web import domain
from agentlearn_web.observation import PageObservation, TabLine, render_observation
from tests.support.paper_walk import NONCE, TOOLS, PaperWalk, leads, nodes, question, tree, walked

FROZEN = "acb7420cf01591bf481c7b19de73deb2"
FAMILIES = {**LEARNING, **UNSEEN}
SPLITS: tuple[Split, ...] = ("train", "validation", "test")

every_kind = pytest.mark.parametrize("kind", KINDS)
every_family = pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.family)


def html_at(one: Site, at: str) -> str:
    path, _, query = at.partition("?")
    response = respond(one, path, query)
    assert response.status == 200, f"{one.host}{at}"
    return response.html


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


@settings(max_examples=25)
@given(path=st.text(max_size=20), query=st.text(max_size=30))
def test_any_request_is_answered_and_any_text_is_escaped(path: str, query: str) -> None:
    response = respond(site("documentation", 4), f"/{path}", query)
    assert response.status in {200, 404}
    assert response == respond(site("documentation", 4), f"/{path}", query)
    for text in (path, query):
        assert "<" not in as_html(text)
        empty = html_element("article", link("", ""), SiteHtml("<h3></h3><p></p>"))
        assert teaser(text, text, text).count("<") == empty.count("<")
        assert html_element("a", href=text).count('"') == 2


def test_all_sites_are_served_under_their_names_on_one_port() -> None:
    async def asked() -> None:
        async with serve_sites(all_sites()) as served:
            assert set(served) == {one.host for one in all_sites()}
            ((host, port),) = set(served.values())
            async with httpx.AsyncClient(base_url=f"http://{host}:{port}", trust_env=False) as client:

                async def get(name: str, at: str = "/") -> httpx.Response:
                    return await client.get(at, headers={"host": name})

                for one in all_sites()[::7]:
                    response = await get(one.host.upper())
                    assert response.status_code == 200
                    assert response.text == respond(one, "/").html
                    assert response.headers["content-type"] == "text/html; charset=utf-8"
                one = site("shop", 0)
                listed = await get(f"{one.host}:80", "/lamps/all?page=2")
                assert listed.text == respond(one, "/lamps/all", "page=2").html != respond(one, "/lamps/all").html
                assert (await get(one.host, "/nowhere")).status_code == 404
                assert (await get("elsewhere.test")).status_code == 404
                posted = await client.post("/", headers={"host": one.host}, content=b"x")
                assert posted.status_code == 405

    asyncio.run(asked())


# Questions.


def problems(family: str, numbers: range) -> Iterator[tuple[Site, SiteProblem]]:
    kind, asked = FAMILIES[family]
    return ((site(kind, number), problem) for number in numbers for problem in asked(number))


def main_text(one: Site, at: str) -> str:
    return nodes(html_at(one, at), "main")[0].text()


@every_family
def test_the_path_can_be_walked_and_its_last_page_contains_the_answer(template: QuestionTemplate) -> None:
    for one, problem in problems(template.family, range(2)):
        texts = [main_text(one, at) for at in problem.targets]
        parts = problem.answer.split("; ")
        assert all(any(part in text for text in texts[-2:]) for part in parts), problem
        assert parts[-1] in texts[-1]
        searchable = {entry.target for entry in one.entries}
        for before, after in zip(("/", *problem.targets), problem.targets, strict=False):
            linked = {target(*split_query(at)) for at in leads(html_at(one, before))}
            assert target(*split_query(after)) in linked | searchable, (before, after)


@every_family
def test_questions_are_recognised_only_by_their_own_family(template: QuestionTemplate) -> None:
    for number, (_, problem) in enumerate(problems(template.family, range(4))):
        for wording in templates(template.text):
            text = wording.format_map(problem.params)
            assert [other.family for other in TEMPLATES if other.recognise(text) is not None] == [template.family], text
            spread = "Please tell me:\n" + text.replace(" ", "\n", number % 9) + "\nThank you."
            assert template.recognise(text) == template.recognise(spread) == problem.params


@every_family
def test_the_verifier_distinguishes_the_answers_of_a_site(template: QuestionTemplate) -> None:
    *before, one = [problem for _, problem in problems(template.family, range(1))]
    others = [problem for problem in before if problem.answer != one.answer]
    text = templates(template.text)[0].format_map(one.params)
    assert match_answers(one.answer, one.answer, text).status == "equal"
    assert "equal" not in {match_answers(other.answer, one.answer, text).status for other in others}


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


def test_each_advice_is_read_as_meant_and_says_nothing_to_the_solver_of_the_other_domain() -> None:
    reader, other = LessonReader(skills), LessonReader(math_skills)
    for trap in TRAPS:
        for when, advice in product(trap.situations, trap.advice):
            read = reader.read(f"When {when}, {advice}.")
            assert (dict(read.stances), read.families) == ({trap.name: "addresses"}, frozenset()), (when, advice)
            assert reader.read(f"When {when}, do not {advice}.").stances.get(trap.name) == "contradicts", (when, advice)
            assert not other.read(f"When {when}, {advice}.").stances
    for trap in math_skills.traps:
        assert not any(reader.read(f"When {trap.situations[0]}, {advice}.").stances for advice in trap.advice)


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
def test_rightness_depends_on_the_flaws_alone(template: QuestionTemplate) -> None:
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


def test_every_trap_lies_on_a_walk_to_learn_from() -> None:
    met = {trap for name in LEARNING for turn in walked(skills, tasks_of(name)[0]).traps for trap in turn}
    assert met == {trap.name for trap in TRAPS}


def test_lessons_make_a_drawn_solver_right_more_often() -> None:
    task = tasks_of("product_weight")[0]
    novice, shares = Novice([skills], world=1), list[int]()
    for lessons in ((), tuple(f"When {trap.situations[0]}, {trap.advice[0]}." for trap in TRAPS)):
        known = tuple(ShownLesson(f"G{at}", lesson) for at, lesson in enumerate(lessons, start=1))
        shares.append(sum(drawn(novice, task, known, seed) == task.answer for seed in range(60)))
    assert shares[0] < 45 < 52 < shares[1]


def drawn(novice: Novice, task: Task, known: tuple[ShownLesson, ...], seed: int) -> str:
    """The answer of a rollout; each request has a different seed."""
    walk, turns = PaperWalk(), ()
    for call in range(8):
        talk = Conversation("", question(task), TOOLS, turns)
        act = novice.answer(SolverInput((talk,), known, seed * 100 + call, 0.7)).act
        assert isinstance(act, ToolUse)
        if act.tool == "answer":
            return str(act.arguments["answer"])
        turns = (*turns, ToolExchange(act.tool, act.arguments, walk.act(act)))
    raise AssertionError(turns)


@every_family
@pytest.mark.parametrize("status", ["stale_ref", "ok"])
def test_a_disturbed_walk_starts_again_and_succeeds(template: QuestionTemplate, status: str) -> None:
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
        "agentlearn_demo.sim.skills", "agentlearn_demo.web.walking", "agentlearn_demo.web.traps",
        "agentlearn_demo.web.questions", "agentlearn_demo.tasks", "agentlearn_web.observation",
    }  # fmt: skip
    folder = Path(agentlearn_demo.web.novice.__file__).parent
    for name in ("novice", "walking", "traps", "questions"):
        for node in ast.walk(ast.parse((folder / f"{name}.py").read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("agentlearn"):
                assert node.module in known, (name, node.module)
