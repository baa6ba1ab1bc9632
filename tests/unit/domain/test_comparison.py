"""The rewards that compare: every verdict with its reason, and keys that agree with them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.domain.custom import find_reward
from agentlearn.domain.custom.comparison import CHOICE, CONTAINS, EXACT, NUMBER, ComparisonReward
from agentlearn.types.trajectory import Verdict
from tests.unit.domain.rollouts import own_task, rollout

ALL = [EXACT, NUMBER, CHOICE, CONTAINS]


def judged(reward: ComparisonReward, answer: str | None, gold: str | None) -> Verdict:
    one = own_task(gold)
    return reward.judge(one, rollout(one, answer))


@pytest.mark.parametrize(
    ("name", "answer", "gold", "right"),
    [
        ("exact", "the Moon.", "The moon", True),
        ("exact", "the moon", "moon", False),
        ("number", "12 zorks", "12", True),
        ("number", "twelve", "12", False),
        ("number", "12 or 13", "12", False),
        ("choice", "(b)", "B", True),
        ("choice", "A, B", "B", False),
        ("contains", "It is the Red Fox, I think", "red fox", True),
        ("contains", "It is the redfox", "red", False),
        ("contains", "predator", "red", False),
        ("contains", "a+b", "a+b", True),
    ],
)
def test_right_and_wrong(name: str, answer: str, gold: str, right: bool) -> None:
    reward = find_reward(name)
    assert isinstance(reward, ComparisonReward)
    verdict = judged(reward, answer, gold)
    assert (verdict.status, verdict.reward) == (("correct", 1.0) if right else ("incorrect", 0.0))
    assert verdict.reason


@pytest.mark.parametrize("reward", ALL, ids=lambda reward: reward.name)
@pytest.mark.parametrize("answer", [None, "", "  "])
def test_no_answer_is_said_so(reward: ComparisonReward, answer: str | None) -> None:
    assert judged(reward, answer, "B 1").status in {"no_answer", "undecided"}
    assert judged(EXACT, answer, "1") == Verdict(status="no_answer", reward=0.0, reason="no answer")


@pytest.mark.parametrize("gold", [None, "many"])
def test_without_a_number_to_compare_with_nothing_is_decided(gold: str | None) -> None:
    verdict = judged(NUMBER, "12", gold)
    assert (verdict.status, verdict.reward) == ("undecided", None)


def test_an_expected_answer_that_cannot_be_compared_is_refused_when_it_is_read() -> None:
    with pytest.raises(
        ValueError, match=r"^has the answer '3,5', which holds no single number; write one, or choose another --reward$"
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


def test_what_contains_something_has_no_key() -> None:
    assert CONTAINS.answer_key("red fox") is None
    assert [reward.answer_key("B 1.") for reward in (EXACT, NUMBER, CHOICE)] == ["b 1", "1", "B"]
