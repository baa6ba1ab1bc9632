"""What the skills of every domain must keep for the simulated world to be lawful."""

from itertools import product
from random import Random

import pytest

from agentlearn_demo.sim.skills import LessonReader, Skills, installed_skills, stance
from agentlearn_demo.sim.vocabulary import Vocabulary, within_lesson_limits

ALL = pytest.mark.parametrize("skills", installed_skills(), ids=lambda skills: skills.domain)


@ALL
def test_each_advice_addresses_its_trap_and_no_advice_contradicts_another(skills: Skills) -> None:
    for trap in skills.traps:
        lessons = [f"When {situation}, {advice}." for situation in trap.situations for advice in trap.advice]
        assert {stance(lesson, trap) for lesson in lessons} == {"addresses"}
        others = (other for other in skills.traps if other.name != trap.name)
        assert not [
            (lesson, other.name) for other in others for lesson in lessons if stance(lesson, other) == "contradicts"
        ]


@ALL
def test_a_reflector_can_write_general_and_harmful_lessons_on_each_trap(skills: Skills) -> None:
    writer, reader = Vocabulary(skills), LessonReader(skills)
    for trap, seed in product(skills.traps, range(10)):
        read = reader.read(lesson := writer.lesson(trap, Random(seed)))
        assert within_lesson_limits(lesson)
        assert (read.stances[trap.name], read.families) == ("addresses", frozenset())
        harmful = writer.defective("harmful", trap, Random(seed))
        assert harmful is not None
        assert stance(harmful, trap) == "contradicts"
