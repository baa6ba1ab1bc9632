"""Questions about real sites: public acts reach each answer, and the walker's own comparison accepts it."""

from collections.abc import Iterator
from typing import get_args

import pytest

from agentlearn.answers.answer_text import normal_text
from agentlearn.answers.matching import match_answers
from tests.web.real_sites.question_script import Kind, RealQuestion, read_questions, run_script
from tests.web.real_sites.real_walks import RealWalks, real_walks
from tests.web.real_sites.site_files import REAL_SITES, SITES

QUESTIONS = read_questions()
LEAST = 40
WALKED = list({(one.site, one.kind): one for one in QUESTIONS}.values())[::2]
"""Every second pair of a site and a kind of question, with one question each."""


@pytest.fixture(scope="module")
def walks() -> Iterator[RealWalks]:
    with real_walks() as one:
        yield one


def test_there_are_enough_questions_of_every_kind_and_site() -> None:
    assert len({one.id for one in QUESTIONS}) == len(QUESTIONS) >= LEAST
    assert {one.site for one in QUESTIONS} == set(SITES)
    assert {one.kind for one in QUESTIONS} == set(get_args(Kind))


def test_no_question_script_or_pattern_holds_the_answer(subtests: pytest.Subtests) -> None:
    for question in QUESTIONS:
        gold = f" {normal_text(question.gold)} "
        told = (question.question, question.read, *(str(value) for step in question.script for value in step.values()))
        with subtests.test(question.id):
            assert not [text for text in told if gold in f" {normal_text(text)} "]
            assert match_answers(question.gold, question.gold, question.question).status == "equal"


class TestOnTheSites:
    """With a browser and the installed sites."""

    pytestmark = REAL_SITES

    @pytest.mark.parametrize("question", WALKED, ids=lambda one: one.id)
    def test_the_script_reaches_the_answer(self, walks: RealWalks, question: RealQuestion) -> None:
        result = walks.run(lambda walk: run_script(walk, question))
        match = match_answers(result.answer, question.gold, question.question)
        assert match.status == "equal", (result.answer, question.gold, match.reason, result.statuses, result.words)
