"""The words of the traps: general, distinguished by their cues, and understood by the simulated world."""

import re
from itertools import product

import pytest

from agentlearn_demo.math.novice import skills as math_skills
from agentlearn_demo.sim.lessons import LessonReader
from agentlearn_demo.sim.skills import Trap
from agentlearn_demo.web.novice import skills
from agentlearn_demo.web.novice.traps import TRAPS

every_trap = pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.name)


def addresses(lesson: str, trap: Trap) -> bool:
    """The cue rule by itself: every group has a stem at the start of a word."""
    return all(any(re.search(rf"\b{re.escape(stem)}", lesson.lower()) for stem in group) for group in trap.cues)


def lessons(trap: Trap) -> list[str]:
    return [f"When {situation}, {advice}." for situation, advice in product(trap.situations, trap.advice)]


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


def test_lessons_of_one_domain_say_nothing_to_the_solver_of_the_other() -> None:
    for mine, theirs in ((skills, math_skills), (math_skills, skills)):
        reader = LessonReader(theirs)
        for lesson in (lesson for trap in mine.traps for lesson in lessons(trap)):
            assert dict(reader.read(lesson).stances) == {}, lesson
