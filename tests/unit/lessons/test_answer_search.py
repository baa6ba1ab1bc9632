"""Expected answers in lessons: which are found, which prove nothing."""

import pytest

from agentlearn.library.curate.answer_search import AnswerSearch
from tests.support.cases import cases


def test_a_distinctive_answer_is_found_as_a_whole_token(subtests: pytest.Subtests):
    for answer, lesson in cases(__file__, "a_distinctive_answer_is_found_as_a_whole_token"):
        with subtests.test(repr((answer, lesson))):
            assert AnswerSearch.of([answer]).found(lesson) == "distinctive"


def test_part_of_a_token_is_not_the_answer(subtests: pytest.Subtests):
    for answer, lesson in cases(__file__, "part_of_a_token_is_not_the_answer"):
        with subtests.test(repr((answer, lesson))):
            assert AnswerSearch.of([answer]).found(lesson) is None


def test_a_common_answer_is_only_flagged_as_common(subtests: pytest.Subtests):
    for answer, lesson in cases(__file__, "a_common_answer_is_only_flagged_as_common"):
        with subtests.test(repr((answer, lesson))):
            assert AnswerSearch.of([answer]).found(lesson) == "common"


@pytest.mark.parametrize(
    ("answer", "lesson"),
    cases(__file__, "an_article_is_not_a_choice_and_a_digit_not_a_number"),
)
def test_an_article_is_not_a_choice_and_a_digit_not_a_number(answer: str, lesson: str):
    assert AnswerSearch.of([answer]).found(lesson) is None


def test_distinctive_wins_over_common():
    assert AnswerSearch.of(["7", "1729"]).found("7 divides 1729") == "distinctive"


def test_no_answers_find_nothing():
    assert AnswerSearch.of([]).found("7 divides 1729") is None
    assert AnswerSearch.of([]).found("") is None
