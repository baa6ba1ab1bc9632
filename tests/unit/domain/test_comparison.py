"""The rewards that compare: every verdict with its reason, and keys that agree with them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.domain.custom.reward import CHOICE, CONTAINS, EXACT, NUMBER, ComparisonReward
from agentlearn.types.trajectory import Verdict
from tests.unit.domain.rollouts import own_task, rollout

ALL = [EXACT, NUMBER, CHOICE, CONTAINS]


def judged(reward: ComparisonReward, answer: str | None, gold: str | None) -> Verdict:
    one = own_task(gold)
    return reward.judge(one, rollout(one, answer))


@pytest.mark.parametrize("reward", ALL, ids=lambda reward: reward.name)
@pytest.mark.parametrize("answer", [None, "", "  "])
def test_no_answer_is_said_so(reward: ComparisonReward, answer: str | None) -> None:
    assert judged(reward, answer, "B 1").status in {"no_answer", "undecided"}
    assert judged(EXACT, answer, "1") == Verdict(status="no_answer", reward=0.0)


@pytest.mark.parametrize("gold", [None, "many"])
def test_without_a_number_to_compare_with_nothing_is_decided(gold: str | None) -> None:
    verdict = judged(NUMBER, "12", gold)
    assert (verdict.status, verdict.reward) == ("undecided", None)


def test_an_expected_answer_that_cannot_be_compared_is_refused_when_it_is_read() -> None:
    with pytest.raises(
        ValueError,
        match=r"^has the answer '3,5', which holds no single number; write a point before its decimals, or choose",
    ):
        NUMBER.gold("3,5")
    assert NUMBER.gold(" 3.5 m ") == "3.5 m"
    assert EXACT.gold("") == ""


@given(st.text())
@pytest.mark.parametrize("reward", ALL, ids=lambda reward: reward.name)
def test_a_key_is_its_own_key_and_equal_to_its_answer(reward: ComparisonReward, text: str) -> None:
    key = reward.key(text)
    if key is not None and text.strip():
        assert reward.key(key) == key
        assert reward.equal(text, text)


@pytest.mark.parametrize("gold", ["9 p.m.", "9pm", "5 o'clock", "noon or 5", "2 thirds"])
def test_a_time_or_a_fraction_in_words_is_no_number(gold: str) -> None:
    assert judged(NUMBER, "9", gold).status == "undecided"
    assert judged(NUMBER, "9 a.m.", "9").status == "incorrect"


@given(st.integers(1, 999), st.integers(1, 999))
@pytest.mark.parametrize("reward", [EXACT, NUMBER, CONTAINS], ids=lambda reward: reward.name)
def test_white_space_between_two_numbers_is_never_dropped(reward: ComparisonReward, one: int, other: int) -> None:
    if len(str(other)) < 3:
        assert judged(reward, f"{one} {other}", f"{one}{other}").status != "correct"
        assert judged(reward, f"{one}{other}", f"{one} {other}").status != "correct"


def test_what_contains_something_has_no_key() -> None:
    assert CONTAINS.answer_key("red fox") is None
    assert [reward.answer_key("B 1.") for reward in (EXACT, NUMBER, CHOICE)] == ["b 1", "1", "B"]
