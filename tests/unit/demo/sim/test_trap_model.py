"""The law of the novice, its draws, and the oracle that states it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn_demo.sim.controls import useless_library
from agentlearn_demo.sim.lessons import LessonReader
from agentlearn_demo.sim.novice import Novice, SolverInput
from agentlearn_demo.sim.oracle import Case, mean_success, success_probability
from agentlearn_demo.sim.skills import Conversation, FinalMessage, ToolUse
from agentlearn_demo.sim.trap_model import INTERACTIONS, TrapModel, crowding_penalty, temperature_scale
from tests.unit.demo.sim.loop import shown
from tests.unit.demo.sim.toy import ENDPOINTS, SMALL_CASE, ToySkills, problems

SKILLS = ToySkills()
GOOD = "When a loop runs over an interval, include both endpoints of the range."
BAD = "When a loop runs over an interval, there is no need to include both endpoints of the range."
CHECK = "When code is trusted, check the program on a small case first."
MULTIPLES = "How many multiples of 7 lie from 3 to 70?"
SEEDS = range(300)


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


@given(st.floats(0, 2), st.floats(0, 2))
def test_temperature_scales_monotonously(one: float, other: float) -> None:
    colder, warmer = sorted((one, other))
    assert temperature_scale(colder) <= temperature_scale(warmer)


def test_bloat_begins_after_twenty_irrelevant_lessons_and_two_thousand_tokens() -> None:
    assert crowding_penalty(20, 2_000) == 0
    assert crowding_penalty(25, 2_000) == pytest.approx(0.02)
    assert crowding_penalty(0, 3_500) == pytest.approx(0.03)
    useless = list(useless_library(25, 1, skills=[SKILLS]))
    assert falls(useless[:20]) == falls([])
    assert falls(useless)[ENDPOINTS.name] == pytest.approx(falls([])[ENDPOINTS.name] + 0.02)


def test_a_declared_interaction_holds_only_for_a_heeded_cause() -> None:
    factor = INTERACTIONS[SMALL_CASE.name, ENDPOINTS.name]
    assert falls([CHECK])[ENDPOINTS.name] == pytest.approx(falls([])[ENDPOINTS.name] * factor)
    undone = CHECK.replace("check", "never check")
    assert falls([CHECK, undone])[ENDPOINTS.name] == falls([])[ENDPOINTS.name]


def test_a_narrow_lesson_helps_in_its_family_only() -> None:
    narrow = ["When counting multiples, check the program on a small case first."]
    here = trap_model().probabilities((SMALL_CASE.name,), "multiples", narrow, 0.7)
    there = trap_model().probabilities((SMALL_CASE.name,), "committees", narrow, 0.7)
    assert here[SMALL_CASE.name] < 0.05 < there[SMALL_CASE.name]


def test_a_lesson_for_one_trap_never_changes_the_draw_of_another() -> None:
    for seed in SEEDS:
        without, with_lesson = flaws([], seed), flaws([GOOD], seed)
        assert with_lesson - {ENDPOINTS.name} == without - {ENDPOINTS.name}
        assert with_lesson <= without


def test_irrelevant_lessons_leave_behaviour_byte_identical() -> None:
    useless = list(useless_library(20, 3, skills=[SKILLS]))
    assert all(ask(useless, seed) == ask([], seed) for seed in SEEDS)


@pytest.mark.parametrize("lessons", [[], [GOOD], [BAD], [CHECK], [GOOD, CHECK]])
def test_the_oracle_states_what_the_novice_does(lessons: list[str]) -> None:
    situation = SKILLS.recognise(Conversation("", MULTIPLES, ("run_python",)))
    assert situation is not None
    exact = success_probability(Case((situation,)), lessons, trap_model())
    rolled = sum(not flaws(lessons, seed) for seed in range(4_000)) / 4_000
    assert rolled == pytest.approx(exact, abs=0.03)


def test_the_oracle_sums_over_the_flaw_sets_that_are_right() -> None:
    situation = SKILLS.recognise(Conversation("", MULTIPLES, ("run_python",)))
    assert situation is not None
    chances = falls([])
    harmless = Case((situation,), right=lambda found: ENDPOINTS.name not in found)
    assert success_probability(harmless, [], trap_model()) == pytest.approx(1 - chances[ENDPOINTS.name])
    assert success_probability(Case((situation,), right=lambda found: True), [], trap_model()) == pytest.approx(1)


def test_each_lesson_has_its_true_effect() -> None:
    found = [SKILLS.recognise(Conversation("", question, ())) for question in problems(3)]
    cases = [Case((situation,)) for situation in found if situation is not None]
    lessons = [GOOD, BAD.replace("both endpoints of the range", "the boundary"), CHECK, "When it rains, stay in."]
    whole = mean_success(cases, lessons, trap_model())
    effects = [whole - mean_success(cases, [one for one in lessons if one != left], trap_model()) for left in lessons]
    assert effects[0] > 0 > effects[1]
    assert effects[2] > effects[0]  # it lives in every family
    assert effects[3] == 0
    assert mean_success(cases, [GOOD, CHECK], trap_model()) > mean_success(cases, [], trap_model())
