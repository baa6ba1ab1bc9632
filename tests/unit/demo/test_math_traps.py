"""The traps' words: general, told apart by their cues, and understood by the simulated world as they are meant."""

import re
from itertools import product

import pytest

from agentlearn_demo.math.families import FAMILIES
from agentlearn_demo.math.novice import skills
from agentlearn_demo.math.traps import TRAPS
from agentlearn_demo.sim.lessons import LessonReader
from agentlearn_demo.sim.skills import Trap

NEGATIONS = re.compile(
    r"\b(not|no|never|without|avoid|skip|ignore|omit|forget|cannot|neither|nor|drop|exclude|unless|\w+n't)\b"
)
PEOPLE_SAY = {
    "endpoints_left_out": "Always include both endpoints when counting integers in a range.",
    "ordered_for_unordered": "When pairs are unordered, count each pair only once.",
    "fraction_not_reduced": "Reduce fractions to lowest terms before adding m+n.",
    "search_bound_too_small": "Choose search bounds large enough to contain all solutions.",
    "float_for_exact": "Avoid floating point; use exact integer arithmetic.",
    "distinct_ignored": "Check that drawn objects are different, since draws are without replacement.",
    "multiplicity_ignored": "Count roots with multiplicity.",
    "zero_case_forgotten": "Remember that zero may be a valid value.",
    "unit_mixed_up": "Convert minutes to hours so that units match.",
    "wrong_answer_form": "Make sure the answer is exactly what the question asks for.",
    "small_case_unchecked": "Verify a conjectured formula on small cases by brute force.",
}

every_trap = pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.name)


def addresses(lesson: str, trap: Trap) -> bool:
    """The cue rule by itself: every group has a stem at the start of a word."""
    return all(any(re.search(rf"\b{re.escape(stem)}", lesson.lower()) for stem in group) for group in trap.cues)


def lessons(trap: Trap) -> list[str]:
    return [f"When {situation}, {advice}." for situation, advice in product(trap.situations, trap.advice)]


def phrases(trap: Trap) -> tuple[str, ...]:
    return trap.careless + trap.careful


def test_the_families_know_exactly_these_traps() -> None:
    assert {trap.name for trap in TRAPS} == {name for family in FAMILIES for name in family.traps}
    assert len({trap.name for trap in TRAPS}) == len(TRAPS)


@every_trap
def test_there_are_enough_words_and_no_numbers(trap: Trap) -> None:
    assert min(len(trap.careless), len(trap.careful)) >= 2
    assert len(trap.advice) >= 4
    assert len(trap.situations) >= 3
    for text in (*phrases(trap), *trap.advice, *trap.situations):
        assert not re.search(r"\d", text)
        assert text == text.strip().rstrip(".")
        assert text.isprintable()
    assert 0.25 <= trap.base <= 0.4


@every_trap
def test_no_phrase_is_part_of_another_one(trap: Trap) -> None:
    for phrase in phrases(trap):
        assert [other for one in TRAPS for other in phrases(one) if phrase in other] == [phrase]


@every_trap
def test_each_advice_satisfies_its_own_cues(trap: Trap) -> None:
    for advice in trap.advice:
        assert addresses(advice, trap), advice


@every_trap
def test_each_lesson_is_short_and_speaks_of_its_own_trap_only(trap: Trap) -> None:
    for lesson in lessons(trap):
        assert len(lesson.split()) <= 32
        assert [other.name for other in TRAPS if addresses(lesson, other)] == [trap.name], lesson
        assert not NEGATIONS.search(lesson), lesson


@every_trap
def test_each_lesson_is_general(trap: Trap) -> None:
    for lesson, family in product(lessons(trap), FAMILIES):
        named = [stem for stem in family.topics if re.search(rf"\b{re.escape(stem)}", lesson.lower())]
        assert named == [], lesson


@every_trap
def test_the_simulated_world_reads_each_lesson_as_it_is_meant(trap: Trap) -> None:
    reader = LessonReader(skills)
    for lesson in lessons(trap):
        read = reader.read(lesson)
        assert (dict(read.stances), read.families) == ({trap.name: "addresses"}, frozenset()), lesson


@every_trap
def test_the_opposite_advice_contradicts(trap: Trap) -> None:
    reader = LessonReader(skills)
    for situation, advice in product(trap.situations, trap.advice):
        read = reader.read(f"When {situation}, do not {advice}.")
        assert read.stances.get(trap.name) == "contradicts", (situation, advice)


def test_lessons_in_other_words_count_too() -> None:
    reader = LessonReader(skills)
    assert PEOPLE_SAY.keys() == {trap.name for trap in TRAPS}
    for name, lesson in PEOPLE_SAY.items():
        assert dict(reader.read(lesson).stances) == {name: "addresses"}, lesson


def test_a_lesson_that_names_a_topic_is_narrow() -> None:
    read = LessonReader(skills).read("When dice are rolled, include both endpoints of the range.")
    assert read.families == {"dice_total"}
