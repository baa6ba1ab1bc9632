"""Expected answers in lessons: which are found, which prove nothing."""

import pytest

from agentlearn.library.curate.answer_search import AnswerSearch


@pytest.mark.parametrize(
    ("answer", "lesson"),
    [
        ("1729", "The result is 1729."),
        ("1729", "expect 1,729 here"),
        ("1,729", "expect 1729 here"),
        ("1729", "so x=1729, done"),
        ("$1729$", "expect 1729"),
        ("\\boxed{1729}", "expect 1729"),
        ("1729", "expect １７２９ here"),
        ("1729.", "expect 1729 here"),
        ("100", "about 100 of them"),
        ("-128", "between -128 and 127"),
        ("3/4", "it is \\frac{3}{4} in the end"),
        ("\\dfrac{3}{4}", "it is 3/4 in the end"),
        ("3.14", "roughly 3.14"),
        ("x^2+1", "always x^2 + 1"),
        ("x + 1", "always x+1"),
        ("(2, 3)", "the point (2,3) works"),
        ("(2,3)", "point( 2, 3 )"),
        ("[0, 1)", "on [0,1) only"),
        ("Ada Lovelace", "think of ada lovelace"),
        ("北京", "答案在北京附近"),
        ("2^{10}", "it is 2^{10}"),
        ("12 cm", "measure 12 cm"),
        ("50000%", "grows by 50000% or so"),
    ],
)
def test_a_distinctive_answer_is_found_as_a_whole_token(answer: str, lesson: str):
    assert AnswerSearch.of([answer]).found(lesson) == "distinctive"


@pytest.mark.parametrize(
    ("answer", "lesson"),
    [
        ("1729", "check 17290 and 21729 and 1729.5 and 3.1729"),
        ("172", "expect 1,729 here"),
        ("3/4", "take 13/4 or 3/47"),
        ("3.14", "roughly 3.141 or 13.14"),
        ("-128", "take x-128"),
        ("Ada", "Adaptive steps and lambada"),
        ("1729", "no number here"),
        ("", "anything"),
        ("  ", "anything"),
        ("$$", "anything $ at all"),
    ],
)
def test_part_of_a_token_is_not_the_answer(answer: str, lesson: str):
    assert AnswerSearch.of([answer]).found(lesson) is None


@pytest.mark.parametrize(
    ("answer", "lesson"),
    [
        ("B", "When unsure choose B over the rest."),
        ("(B)", "When unsure choose (B)."),
        ("b", "When unsure choose B."),
        ("A, C", "pick a, c"),
        ("yes", "Say yes or no."),
        ("True", "it is true"),
        ("7", "Check 7 first."),
        ("-99", "down to -99 only"),
        ("99", "up to 99"),
        ("007", "agent 007"),
        ("42.0", "it is 42.0"),
        ("50%", "half is 50%"),
        ("90°", "a right angle is 90°"),
    ],
)
def test_a_common_answer_is_only_flagged_as_common(answer: str, lesson: str):
    assert AnswerSearch.of([answer]).found(lesson) == "common"


@pytest.mark.parametrize(
    ("answer", "lesson"),
    [
        ("A", "A prime has two divisors; a square has an odd number."),
        ("B", "Begin with b."),
        ("7", "17 and 70 and 7.5"),
    ],
)
def test_an_article_is_not_a_choice_and_a_digit_not_a_number(answer: str, lesson: str):
    assert AnswerSearch.of([answer]).found(lesson) is None


def test_distinctive_wins_over_common():
    assert AnswerSearch.of(["7", "1729"]).found("7 divides 1729") == "distinctive"


def test_no_answers_find_nothing():
    assert AnswerSearch.of([]).found("7 divides 1729") is None
    assert AnswerSearch.of([]).found("") is None
