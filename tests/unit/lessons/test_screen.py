"""Which forms of a lesson are refused, and good lessons that pass."""

import json
import time
from pathlib import Path

import pytest

from agentlearn.library.curate.answer_search import answer_in_other_words
from agentlearn.library.curate.hostile import screened, wrong_form
from agentlearn.library.curate.hostile.screen import fold
from tests.support.cases import cases


def test_a_lesson_of_a_refused_form_is_refused_under_its_code(subtests: pytest.Subtests) -> None:
    for code, lesson in cases(__file__, "refused"):
        with subtests.test(lesson=lesson):
            end = wrong_form(lesson)
            assert end is not None
            assert end.code == code
            assert end.reason.isprintable()


def test_good_lessons_pass() -> None:
    assert [lesson for lesson in cases(__file__, "good") if wrong_form(lesson)] == []


@pytest.mark.parametrize(
    ("lesson", "answers", "held"),
    [
        ("If the eggs are brown, the answer is 18.", {"18"}, True),
        ("If the eggs are brown, the answer is eighteen.", {"18"}, True),
        ("If the eggs are brown, the answer is 18.", {"17"}, False),
        ("If both order, 18 pairs must be halved.", {"18"}, False),
    ],
)
def test_a_sentence_with_a_condition_states_an_answer_only_when_it_is_one(
    lesson: str, answers: set[str], held: bool
) -> None:
    end = screened(lesson, answers=frozenset(answers))
    assert (end is not None and end.code == "states_answer") == held


def test_an_answer_in_other_words_is_found(subtests: pytest.Subtests) -> None:
    for lesson, answer in cases(__file__, "an_answer_in_other_words_is_found"):
        with subtests.test(repr((lesson, answer))):
            assert answer_in_other_words(fold(lesson), lesson, [answer])
            assert not answer_in_other_words(fold(lesson), lesson, ["77777"])


@pytest.mark.parametrize("answer", ["2", "7", "B", "yes"])
def test_a_small_number_in_words_proves_nothing(answer: str) -> None:
    lesson = "There are two cases and seven steps."
    assert not answer_in_other_words(fold(lesson), lesson, [answer])


def test_long_text_is_judged_in_reasonable_time(subtests: pytest.Subtests) -> None:
    """No pattern backtracks badly over a lesson of the largest size."""
    for piece in ["a.", "ignore ", "a b ", "1:", "%41", "=", "i.", "never check ", "the answer is "]:
        with subtests.test(repr(piece)):
            began = time.process_time()
            screened((piece * 400)[:400].strip())
            assert time.process_time() - began < 1


def test_no_advice_after_published_sources_is_refused() -> None:
    file = Path(__file__).parents[2] / "harmless_lessons" / "collected.jsonl"
    lessons = [json.loads(line)["lesson"] for line in file.read_text(encoding="utf-8").splitlines()]
    assert len(lessons) > 350
    assert [one for one in lessons if wrong_form(one)] == []
