"""The controls do not move the novice."""

import pytest

from agentlearn.errors import ConfigError
from agentlearn.types.experience import estimated_tokens, library_of
from agentlearn_demo.sim.controls import placebo, useless_library
from agentlearn_demo.sim.draws import random_stream
from agentlearn_demo.sim.lessons import LessonReader
from agentlearn_demo.sim.neutral import neutral_lessons
from agentlearn_demo.sim.novice import Novice, SolverInput
from agentlearn_demo.sim.oracle import JUDGING_WORLDS, TUNING_WORLDS
from agentlearn_demo.sim.skills import Conversation
from tests.unit.demo.sim.loop import shown
from tests.unit.demo.sim.toy import ToySkills, problems

SKILLS = [ToySkills()]


def test_useless_lessons_have_proper_form_and_no_cue() -> None:
    lessons = useless_library(100, 5, skills=SKILLS)
    assert len(library_of(lessons)) == len(set(lessons)) == 100
    assert not any(LessonReader(SKILLS[0]).read(lesson).cues for lesson in lessons)
    assert lessons == useless_library(100, 5, skills=SKILLS) != useless_library(100, 6, skills=SKILLS)


def test_more_useless_lessons_than_there_are_is_refused() -> None:
    with pytest.raises(ConfigError, match="only 1024 useless lessons can be made for these traps, not 5000"):
        useless_library(5_000, 0, skills=[])


@pytest.mark.parametrize("tokens", [*range(40), 62, 63, 64, 65, 400, 1_999])
def test_placebo_has_exactly_the_tokens_asked_for(tokens: int) -> None:
    lines = placebo(tokens, 1, skills=SKILLS)
    assert sum(map(estimated_tokens, lines)) == tokens
    assert len(library_of(lines)) == len(lines)


def test_controls_leave_every_draw_as_it_was() -> None:
    novice = Novice(SKILLS)
    controls = [useless_library(20, 2, skills=SKILLS), placebo(500, 2, skills=SKILLS)]
    for question in problems(3):
        conversation = Conversation("", question, ("run_python",))
        for seed in range(100):
            plain = novice.answer(SolverInput((conversation,), (), seed))
            assert all(novice.answer(SolverInput((conversation,), shown(one), seed)) == plain for one in controls)


def test_neutral_lessons_are_distinct() -> None:
    lessons = list(neutral_lessons(random_stream("any"), lambda lesson: True))
    assert len(lessons) == len(set(lessons))


def test_worlds_for_tuning_and_judging_are_apart() -> None:
    assert not set(TUNING_WORLDS) & set(JUDGING_WORLDS)
