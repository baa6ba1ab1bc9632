"""Walks of the simulated solver: right without flaws, wrong with any flaw, and based on the pages alone."""

import ast
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from math import prod
from pathlib import Path
from random import Random

import pytest

import agentlearn_demo.web.novice
from agentlearn.types.task import Task
from agentlearn_demo.math.novice import skills as math_skills
from agentlearn_demo.sim.lessons import LessonReader, ShownLesson
from agentlearn_demo.sim.novice import Novice, SolverInput
from agentlearn_demo.sim.oracle import Case, success_probability
from agentlearn_demo.sim.skills import Conversation, FollowedLessons, Situation, ToolExchange, ToolUse
from agentlearn_demo.sim.trap_model import TrapModel
from agentlearn_demo.web.novice import skills
from agentlearn_demo.web.novice.traps import TRAPS
from agentlearn_demo.web.questions import LEARNING, UNSEEN
from agentlearn_demo.web.tasks import generate_walk_tasks
from agentlearn_web.observation import PageObservation, TabLine, render_observation
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


def test_every_generated_task_is_recognised_as_what_it_is() -> None:
    for split in ("train", "validation", "test"):
        for task in generate_walk_tasks(split, 4):
            first = situation(task)
            assert (first.family, first.traps) == (task.family, ())
            assert use(first).arguments == {"url": task.start}
            assert math_skills.recognise(Conversation("", question(task), (*TOOLS, "run_python"))) is None


def test_the_solver_imports_no_sites_and_no_answers() -> None:
    folder = Path(agentlearn_demo.web.novice.__file__).parent
    for file in folder.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("agentlearn"):
                known = ("agentlearn_demo.sim.skills", "agentlearn_demo.web.novice", "agentlearn_web.observation")
                assert node.module is not None
                assert node.module.startswith((*known, "agentlearn_demo.web.question_templates")), (
                    file.name,
                    node.module,
                )
