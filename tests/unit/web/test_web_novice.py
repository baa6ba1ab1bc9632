"""Walks of the simulated solver: right without flaws, wrong with any flaw, and based on the pages alone."""

import ast
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from math import prod
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agentlearn_web.novice
from agentlearn.sim.lessons import LessonReader, ShownLesson
from agentlearn.sim.novice import Novice, SolverInput
from agentlearn.sim.oracle import Case, success_probability
from agentlearn.sim.skills import Conversation, FollowedLessons, Situation, ToolExchange, ToolUse
from agentlearn.sim.trap_model import TrapModel
from agentlearn.types.task import Task
from agentlearn_math.novice import skills as math_skills
from agentlearn_web.novice import skills
from agentlearn_web.novice.traps import TRAPS
from agentlearn_web.observation import PageObservation, TabLine, render_observation
from agentlearn_web.question_templates import TEMPLATES
from agentlearn_web.questions import LEARNING, UNSEEN
from agentlearn_web.tasks import generate_walk_tasks
from tests.support.paper_walk import NONCE, TOOLS, PaperWalk, Walked, question, walked

FAMILIES = (*LEARNING, *UNSEEN)
BY_NAME = {trap.name: trap for trap in TRAPS}
PER_FAMILY = 3

every_family = pytest.mark.parametrize("family", FAMILIES)


@cache
def drawn_tasks() -> tuple[Task, ...]:
    return generate_walk_tasks("test", 6, 54)


def tasks_of(family: str) -> tuple[Task, ...]:
    return tuple(task for task in drawn_tasks() if task.family == family)[:PER_FAMILY]


def traps_of(walk: Walked) -> tuple[str, ...]:
    return tuple(trap for turn in walk.traps for trap in turn)


def subsets(traps: tuple[str, ...]) -> Iterator[frozenset[str]]:
    return (frozenset(some) for size in range(len(traps) + 1) for some in combinations(traps, size))


def situation(task: Task, *turns: ToolExchange) -> Situation:
    found = skills.recognise(Conversation("", question(task), TOOLS, turns))
    assert found is not None
    return found


def use(
    of: Situation, flaws: frozenset[str] = frozenset(), followed: FollowedLessons | None = None, seed: int = 0
) -> ToolUse:
    act = of.act(flaws, followed or FollowedLessons(), Random(seed))
    assert isinstance(act, ToolUse)
    return act


def shown(status: str = "ok", url: str = "http://norwell-university.test/") -> str:
    """An observation without a page."""
    return render_observation(
        PageObservation(status=status, note="n", tab="t1", tabs=(TabLine(id="t1", url=url),)), NONCE
    )


@every_family
def test_rightness_depends_on_the_flaws_alone(family: str) -> None:
    for task in tasks_of(family):
        careful = walked(skills, task)
        assert careful.answer == task.answer
        assert careful.url == careful.visited[-1] == task.path[-1]
        assert [url for url in careful.visited if url in task.path] == list(task.path)
        for flaws in subsets(traps_of(careful)):
            walk = walked(skills, task, flaws)
            assert (walk.answer == task.answer) == (not flaws), (flaws, walk.answer)
            assert walk.url in walk.visited


@every_family
def test_the_oracle_states_the_exact_share_of_right_walks(family: str) -> None:
    task = tasks_of(family)[0]
    turns = [Met(family, traps) for traps in walked(skills, task).traps]
    traps = tuple(trap for turn in turns for trap in turn.traps)
    trap_model = TrapModel(LessonReader(skills), 3)
    right = [flaws for flaws in subsets(traps) if walked(skills, task, flaws).answer == task.answer]
    for lessons in ((), tuple(trap.advice[0] for trap in TRAPS), (BY_NAME[traps[0]].advice[1],)):
        falls = trap_model.probabilities(traps, family, lessons, 0.7)
        share = sum(prod(falls[trap] if trap in flaws else 1 - falls[trap] for trap in traps) for flaws in right)
        assert share == pytest.approx(success_probability(Case(tuple(turns)), lessons, trap_model))


class Met:
    """A turn as the oracle sees it."""

    def __init__(self, family: str, traps: tuple[str, ...]) -> None:
        self.family, self.traps = family, traps


def test_a_drawn_solver_is_right_as_often_as_the_oracle_says() -> None:
    task, walks = tasks_of("library_hours")[0], 100
    novice, trap_model = Novice([skills], world=1), TrapModel(LessonReader(skills), 1)
    turns = [Met(task.family, traps) for traps in walked(skills, task).traps]
    for lessons in ((), ("Compare all links before you click one.", "Tell similar entries apart by their details.")):
        right = sum(drawn(novice, task, lessons, seed) == task.answer for seed in range(walks))
        expected = success_probability(Case(tuple(turns)), lessons, trap_model)
        deviation = (expected * (1 - expected) / walks) ** 0.5
        assert abs(right / walks - expected) < 3.5 * deviation


def drawn(novice: Novice, task: Task, lessons: tuple[str, ...], seed: int) -> str:
    """The answer of a rollout; each request has a different seed."""
    walk, turns = PaperWalk(), ()
    known = tuple(ShownLesson(f"G{at}", lesson) for at, lesson in enumerate(lessons, start=1))
    for call in range(8):
        talk = Conversation("", question(task), TOOLS, turns)
        act = novice.answer(SolverInput((talk,), known, seed * 100 + call, 0.7)).act
        assert isinstance(act, ToolUse)
        if act.tool == "answer":
            return str(act.arguments["answer"])
        turns = (*turns, ToolExchange(act.tool, act.arguments, walk.act(act)))
    raise AssertionError(turns)


@every_family
def test_each_trap_occurs_in_one_turn_and_walks_are_short(family: str) -> None:
    for task in tasks_of(family):
        walk = walked(skills, task)
        traps = traps_of(walk)
        assert 2 <= len(traps) == len(set(traps)) <= 3
        assert 2 <= len(walk.turns) - 1 <= 5
        for flaws in subsets(traps):
            flawed = walked(skills, task, flaws)
            assert len(flawed.turns) + 1 <= 8
            assert len(set(traps_of(flawed))) == len(traps_of(flawed))


def test_each_trap_occurs_in_three_families_and_several_kinds_of_site() -> None:
    homes = {family: set(traps_of(walked(skills, tasks_of(family)[0]))) for family in FAMILIES}
    kinds = {family: kind for family, (kind, _) in (*LEARNING.items(), *UNSEEN.items())}
    for trap in BY_NAME:
        assert sum(trap in traps for traps in homes.values()) >= 3, trap
        assert sum(trap in homes[family] for family in LEARNING) >= 2, trap
        assert len({kinds[family] for family in FAMILIES if trap in homes[family]}) >= 2, trap
    assert {trap for family in UNSEEN for trap in homes[family]} == set(BY_NAME)
    assert {trap for traps in homes.values() for trap in traps} == set(BY_NAME)


def test_success_without_lessons_leaves_room_and_all_lessons_nearly_close_it() -> None:
    lessons = tuple(f"When {trap.situations[0]}, {trap.advice[0]}." for trap in TRAPS)
    without, with_all = [], []
    for family in FAMILIES:
        case = Case(tuple(Met(family, traps) for traps in walked(skills, tasks_of(family)[0]).traps))
        for world in range(5):
            trap_model = TrapModel(LessonReader(skills), world)
            without.append(success_probability(case, (), trap_model))
            with_all.append(success_probability(case, lessons, trap_model))
    assert 0.35 <= sum(without) / len(without) <= 0.5
    assert min(with_all) >= 0.85


@every_family
def test_every_decision_uses_a_phrase_of_its_trap(family: str) -> None:
    task = tasks_of(family)[0]
    for flaws in subsets(traps_of(walked(skills, task))):
        walk = walked(skills, task, flaws, seed=2)
        for traps, text in zip(walk.traps, walk.said, strict=True):
            plain = text.casefold()
            for name, trap in BY_NAME.items():
                assert any(phrase in plain for phrase in trap.careless) == (name in flaws and name in traps)
                assert any(phrase in plain for phrase in trap.careful) == (name in traps and name not in flaws)
            assert text.endswith(".")


@every_family
def test_a_followed_lesson_is_named(family: str) -> None:
    task = tasks_of(family)[0]
    turns, walk = (), PaperWalk()
    followed = FollowedLessons({name: f"G{at}" for at, name in enumerate(BY_NAME)})
    while True:
        here = situation(task, *turns)
        act = use(here, followed=followed)
        fallen = use(here, frozenset(here.traps), followed)
        for at, name in enumerate(BY_NAME):
            assert (f"(G{at})." in act.text) == (name in here.traps)
            assert f"(G{at})" not in fallen.text
        if act.tool == "answer":
            return
        turns = (*turns, ToolExchange(act.tool, act.arguments, walk.act(act)))


def test_the_random_seed_changes_words_but_not_acts() -> None:
    for family in FAMILIES:
        task = tasks_of(family)[0]
        walks = [walked(skills, task, seed=seed) for seed in range(6)]
        assert len({walk.said for walk in walks}) > 1
        assert len({(walk.answer, walk.visited) for walk in walks}) == 1


@every_family
def test_the_answer_is_read_from_the_page(family: str) -> None:
    task = tasks_of(family)[0]
    assert task.answer is not None
    last = task.answer.split("; ")[-1]
    walk = walked(skills, task, walk=PaperWalk(change=lambda html: html.replace(f">{last}<", ">changed<")))
    changed = walk.answer != task.answer
    # A default is part of a sentence, in which only a number is read.
    digits = walked(skills, task, walk=PaperWalk(change=lambda html: html.replace(f": {last}.", ": 7654321.")))
    assert changed or digits.answer == "7654321"


def test_a_failed_start_is_tried_once_more_and_then_given_up() -> None:
    task = tasks_of("office_room")[0]
    first = use(situation(task))
    assert (first.tool, dict(first.arguments)) == ("open", {"url": task.start})
    failed = ToolExchange("open", first.arguments, shown("load_failed"))
    again = situation(task, failed)
    assert again.traps == ()
    assert (use(again).tool, dict(use(again).arguments)) == ("open", {"url": task.start})
    gone = use(situation(task, failed, failed))
    assert (gone.tool, gone.arguments["answer"]) == ("answer", "not found")


@every_family
@pytest.mark.parametrize("status", ["stale_ref", "ok"])
def test_a_disturbed_walk_starts_again_and_succeeds(family: str, status: str) -> None:
    task = tasks_of(family)[0]
    plain = walked(skills, task)
    turns = (*plain.turns[:1], ToolExchange("click", {"ref": "t1:e1"}, shown(status)))
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


@every_family
def test_pages_without_the_answer_end_in_not_found(family: str) -> None:
    task = tasks_of(family)[0]

    def emptied(html: str) -> str:
        return html.partition("<main>")[0] + "<main><p>Nothing.</p></main></body></html>"

    assert walked(skills, task, walk=PaperWalk(change=emptied)).answer == "not found"


ODD = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="?;"), min_size=1, max_size=12)


@every_family
@settings(max_examples=6)
@given(data=st.data())
def test_odd_words_in_a_question_never_break_a_walk(family: str, data: st.DataObject) -> None:
    task = tasks_of(family)[0]
    template = next(one for one in TEMPLATES if one.family == family)
    params = template.recognise(task.problem)
    assert params is not None
    odd = data.draw(st.sampled_from(sorted(params)))
    problem = template.templates[0].format_map({**params, odd: data.draw(ODD)})
    asked = task.model_copy(update={"problem": problem})
    recognised = skills.recognise(Conversation("", question(asked), TOOLS))
    if recognised is not None and recognised.family == family:
        assert walked(skills, asked).answer


def test_other_questions_and_missing_tools_are_not_recognised() -> None:
    task = tasks_of("office_room")[0]
    asked = question(task)
    assert skills.recognise(Conversation("", task.problem, TOOLS)) is None
    assert skills.recognise(Conversation("", asked, ("run_python",))) is None
    assert skills.recognise(Conversation("", f"Start page: {task.start}\n\nWho won?", TOOLS)) is None


def test_every_generated_task_is_recognised_as_what_it_is() -> None:
    for split in ("train", "validation", "test"):
        for task in generate_walk_tasks(split, 4):
            first = situation(task)
            assert (first.family, first.traps) == (task.family, ())
            assert use(first).arguments == {"url": task.start}
            assert math_skills.recognise(Conversation("", question(task), (*TOOLS, "run_python"))) is None


def test_the_solver_imports_no_sites_and_no_answers() -> None:
    folder = Path(agentlearn_web.novice.__file__).parent
    for file in folder.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("agentlearn"):
                known = ("agentlearn.sim.skills", "agentlearn_web.novice", "agentlearn_web.observation")
                assert node.module is not None
                assert node.module.startswith((*known, "agentlearn_web.question_templates")), (file.name, node.module)
