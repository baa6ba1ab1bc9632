"""How lessons change what the simulated solver does, and its draws."""

from math import prod
from random import Random

import pytest

from agentlearn_demo.sim.lessons import LessonReader
from agentlearn_demo.sim.skills import Conversation, FinalMessage, ToolUse
from agentlearn_demo.sim.solver import Novice, SolverInput, TrapModel
from agentlearn_demo.sim.vocabulary import Vocabulary
from tests.unit.demo.sim.loop import shown
from tests.unit.demo.sim.toy import ENDPOINTS, SMALL_CASE, ToySkills

SKILLS = ToySkills()
GOOD = "When a loop runs over an interval, include both endpoints of the range."
BAD = "When a loop runs over an interval, there is no need to include both endpoints of the range."
CHECK = "When code is trusted, check the program on a small case first."
MULTIPLES = "How many multiples of 7 lie from 3 to 70?"
SEEDS = range(300)
USELESS = list(dict.fromkeys(Vocabulary(SKILLS).neutral(Random(seed)) or "" for seed in range(40)))[:25]


def trap_model(world: int = 0) -> TrapModel:
    return TrapModel(LessonReader(SKILLS), world)


def falls(lessons: list[str], *, temperature: float = 0.7, world: int = 0) -> dict[str, float]:
    return trap_model(world).probabilities((ENDPOINTS.name, SMALL_CASE.name), "multiples", lessons, temperature)


def ask(lessons: list[str], seed: int, *, world: int = 0, question: str = MULTIPLES) -> ToolUse | FinalMessage:
    conversation = Conversation("", question, ("run_python",))
    return Novice([SKILLS], world=world).answer(SolverInput((conversation,), shown(lessons), seed, 0.7)).act


def flaws(lessons: list[str], seed: int, *, question: str = MULTIPLES) -> frozenset[str]:
    conversation = Conversation("", question, ("run_python",))
    return Novice([SKILLS]).answer(SolverInput((conversation,), shown(lessons), seed, 0.7)).flaws


def test_lessons_move_only_the_trap_that_they_speak_of() -> None:
    plain, good, bad, both = (falls(lessons) for lessons in ([], [GOOD], [BAD], [GOOD, BAD]))
    assert [one[ENDPOINTS.name] for one in (good, bad, both)] == pytest.approx([0.04, 0.8, 0.42])
    assert len({one[SMALL_CASE.name] for one in (plain, good, bad, both)}) == 1


def test_a_narrow_lesson_helps_in_its_family_only() -> None:
    narrow = ["When counting multiples, check the program on a small case first."]
    here = trap_model().probabilities((SMALL_CASE.name,), "multiples", narrow, 0.7)
    there = trap_model().probabilities((SMALL_CASE.name,), "committees", narrow, 0.7)
    assert here[SMALL_CASE.name] < 0.05 < there[SMALL_CASE.name]


def test_irrelevant_lessons_leave_behaviour_byte_identical() -> None:
    assert all(ask(USELESS[:20], seed) == ask([], seed) for seed in SEEDS)


@pytest.mark.parametrize("lessons", [[], [GOOD], [BAD], [CHECK], [GOOD, CHECK]])
def test_the_solver_falls_as_often_as_its_probabilities_say(lessons: list[str]) -> None:
    exact = prod(1 - fall for fall in falls(lessons).values())
    rolled = sum(not flaws(lessons, seed) for seed in range(2_000)) / 2_000
    assert rolled == pytest.approx(exact, abs=0.03)
