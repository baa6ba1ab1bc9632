"""The words of the traps: general, distinguished by their cues, and understood by the simulated world."""

import re
from itertools import product
from random import Random

import pytest

from agentlearn.sim.habits import Vocabulary
from agentlearn.sim.lesson_writer import LessonWriter
from agentlearn.sim.lessons import LessonReader
from agentlearn.sim.skills import Trap
from agentlearn_math.novice import skills as math_skills
from agentlearn_web.novice import skills
from agentlearn_web.novice.traps import TRAPS
from agentlearn_web.question_templates import TEMPLATES

NEGATIONS = re.compile(
    r"\b(not|no|never|without|avoid|skip|ignore|omit|forget|cannot|neither|nor|drop|exclude|unless|\w+n't)\b"
)
PEOPLE_SAY = {
    "first_link_taken": "Don't click the first link; compare them and pick the closest one.",
    "stopped_at_footer": "Lists are often paginated: keep going to the next page until the end.",
    "search_unused": "Use the site's search box instead of browsing menus.",
    "wrong_year_opened": "Make sure the archive you open is for the right year.",
    "snippet_trusted": "Never rely on a search snippet, open the page itself.",
    "form_left_at_defaults": "Before submitting a form, fill in all its fields.",
    "near_duplicate_taken": "Similar names are common; check the details before choosing.",
}

every_trap = pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.name)


def addresses(lesson: str, trap: Trap) -> bool:
    """The cue rule by itself: every group has a stem at the start of a word."""
    return all(any(re.search(rf"\b{re.escape(stem)}", lesson.lower()) for stem in group) for group in trap.cues)


def lessons(trap: Trap) -> list[str]:
    return [f"When {situation}, {advice}." for situation, advice in product(trap.situations, trap.advice)]


def phrases(trap: Trap) -> tuple[str, ...]:
    return trap.careless + trap.careful


@every_trap
def test_there_are_enough_words_and_no_numbers(trap: Trap) -> None:
    assert min(len(trap.careless), len(trap.careful)) >= 2
    assert len(trap.advice) >= 4
    assert len(trap.situations) >= 3
    for text in (*phrases(trap), *trap.advice, *trap.situations):
        assert not re.search(r"\d", text)
        assert text == text.strip().rstrip(".")
        assert text.isprintable()
    assert 0.3 <= trap.base <= 0.4


@every_trap
def test_no_phrase_is_part_of_another_one(trap: Trap) -> None:
    for phrase in phrases(trap):
        assert [other for one in TRAPS for other in phrases(one) if phrase in other] == [phrase]


@every_trap
def test_each_lesson_is_short_and_speaks_of_its_own_trap_only(trap: Trap) -> None:
    for lesson in lessons(trap):
        assert len(lesson.split()) <= 32
        assert [other.name for other in TRAPS if addresses(lesson, other)] == [trap.name], lesson
        assert not NEGATIONS.search(lesson), lesson


@every_trap
def test_each_lesson_is_general(trap: Trap) -> None:
    for lesson, template in product(lessons(trap), TEMPLATES):
        named = [stem for stem in template.topics if re.search(rf"\b{re.escape(stem)}", lesson.lower())]
        assert named == [], lesson


@every_trap
def test_the_simulated_world_understands_each_lesson(trap: Trap) -> None:
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


@every_trap
def test_a_reflector_can_write_about_it(trap: Trap) -> None:
    writer, reader = LessonWriter(Vocabulary(skills)), LessonReader(skills)
    written = {writer.lesson(trap, Random(seed)) for seed in range(40)}
    assert len(written) > 20
    for lesson in written:
        assert dict(reader.read(lesson).stances) == {trap.name: "addresses"}, lesson


def test_lessons_in_other_words_count_too() -> None:
    reader = LessonReader(skills)
    assert PEOPLE_SAY.keys() == {trap.name for trap in TRAPS}
    for name, lesson in PEOPLE_SAY.items():
        assert dict(reader.read(lesson).stances) == {name: "addresses"}, lesson


def test_lessons_of_one_domain_say_nothing_to_the_solver_of_the_other() -> None:
    for mine, theirs in ((skills, math_skills), (math_skills, skills)):
        reader = LessonReader(theirs)
        for lesson in (lesson for trap in mine.traps for lesson in lessons(trap)):
            assert dict(reader.read(lesson).stances) == {}, lesson


def test_a_lesson_that_names_a_topic_is_narrow() -> None:
    read = LessonReader(skills).read(
        "When a library is asked about, open the page behind a teaser and read the value there."
    )
    assert read.families == {"library_hours"}
