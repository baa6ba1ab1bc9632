"""The one letter in an answer."""

import pytest

from agentlearn.domain.custom.choice_answer import single_choice
from tests.support.cases import cases


def test_the_usual_ways_of_writing_it(subtests: pytest.Subtests) -> None:
    for text, letter in cases(__file__, "the_usual_ways_of_writing_it"):
        with subtests.test(repr((text, letter))):
            assert single_choice(text) == letter


def test_no_letter_or_more_than_one_is_none(subtests: pytest.Subtests) -> None:
    for text in cases(__file__, "no_letter_or_more_than_one_is_none"):
        with subtests.test(repr(text)):
            assert single_choice(text) is None
