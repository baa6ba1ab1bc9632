"""Which texts may be lessons, judged by the text alone."""

import pytest
from pydantic import TypeAdapter

from agentlearn.library.curate.lesson_text import checked_lesson
from agentlearn.types.experience import Lesson
from agentlearn.types.operation import Rejected
from tests.support.cases import cases

GOOD = cases(__file__, "good")


def test_plain_advice_passes(subtests: pytest.Subtests):
    for lesson in GOOD:
        with subtests.test(repr(lesson)):
            assert checked_lesson(lesson) == lesson
            assert TypeAdapter(Lesson).validate_python(lesson) == lesson


def test_an_invalid_lesson_is_refused_with_its_code(subtests: pytest.Subtests):
    for code, lesson in [*cases(__file__, "invalid"), ("wrong_type", b"bytes")]:
        with subtests.test(repr((code, lesson))):
            refusal = checked_lesson(lesson)
            assert isinstance(refusal, Rejected)
            assert refusal.code == code
            assert refusal.reason.isprintable()


def test_a_refusal_shows_what_was_found():
    refusal = checked_lesson("As [G3] says, count.")
    assert isinstance(refusal, Rejected)
    assert refusal.reason == (
        "'[G3]' in the lesson reads as a label or an id; labels mean nothing outside their prompt"
    )
    refusal = checked_lesson("word " * 202 + "word")
    assert isinstance(refusal, Rejected)
    assert refusal.reason == (
        "the lesson has 203 words and 1014 characters; at most 32 words and 400 characters are allowed"
    )
