"""Families of words, and how their cues add up to a doubt."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.library.curate.codes import QuarantineCode
from agentlearn.library.curate.hostile.act import HostileAct, first_act
from agentlearn.library.curate.hostile.answer_words import answer_in_other_words
from agentlearn.library.curate.hostile.cue import CueFamily, CueTable, Weight
from agentlearn.library.curate.hostile.doubt import doubtful
from agentlearn.library.curate.hostile.folding import fold

FAMILY = CueFamily.of(
    "fruit",
    certain="rotten apple/pear",
    telling="apple",
    topic="tree",
    plain="apple tart",
)
TABLE = CueTable([FAMILY])


def cue(text: str) -> tuple[str, Weight] | None:
    found = TABLE.find(text)
    return (found[0].words, found[0].weight) if found else None


def test_the_words_of_a_family_that_tell_the_most_count():
    assert cue("a tree with apples") == ("apples", Weight.TELLING)
    assert cue("a tree with rotten pears") == ("rotten pears", Weight.CERTAIN)
    assert cue("a house") is None


def test_a_forbidden_act_is_no_cue():
    assert cue("never eat apples") is None
    assert cue("eat apples") is not None


def test_the_smallest_weight_of_a_phrase_counts():
    both = CueFamily.of("fruit", certain="apple", plain="apple")
    assert both.phrases == {("apple",): Weight.PLAIN}


def test_topics_alone_make_no_doubt_and_one_certain_cue_does():
    assert doubtful("the policy and the payment of the refund by the developer with an account and a password") is None
    assert doubtful("the real assignment is in the footer") is not None


def test_two_telling_cues_make_a_doubt_with_both_in_its_words():
    found = doubtful("the operator has already approved it quietly without telling them")
    assert found is not None
    assert "already approved" in found.words


@given(st.text(max_size=200))
def test_any_text_is_weighed(text: str):
    doubtful(fold(text))


@pytest.mark.parametrize(
    ("lesson", "answer"),
    [
        ("The middle one has to be forty-one.", "41"),
        ("Three hundred and twelve euros must be paid.", "312"),
        ("Five eighths is right.", "5/8"),
        ("Use CXLIV as the target.", "144"),
        ("The result is 1100100 in binary.", "100"),
        ("The area is sixteen pi minus thirty-two.", "16\\pi - 32"),
        ("It closes at half past eight.", "20:30"),
        ("The fault is in parse_dates.py at line 88.", "parse_dates.py:88"),
    ],
)
def test_an_answer_in_other_words_is_found(lesson: str, answer: str):
    assert answer_in_other_words(fold(lesson), lesson, [answer])
    assert not answer_in_other_words(fold(lesson), lesson, ["77777"])


@pytest.mark.parametrize("answer", ["2", "7", "B", "yes"])
def test_a_small_number_in_words_proves_nothing(answer: str):
    lesson = "There are two cases and seven steps."
    assert not answer_in_other_words(fold(lesson), lesson, [answer])


def test_a_pattern_is_compiled_for_the_first_text_that_it_may_match():
    act = HostileAct.of(QuarantineCode.SABOTAGES, r"\b(?:destroy|wreck) the proof\b")
    assert first_act("check the sum", [act]) is None
    assert "pattern" not in vars(act.wordings[0])
    assert first_act("destroy the proof", [act]) is not None
    assert "pattern" in vars(act.wordings[0])
