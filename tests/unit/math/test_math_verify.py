"""Judging an answer exactly, and the key that equal answers share."""

from agentlearn.types.task import Task
from agentlearn.types.trajectory import Verdict
from agentlearn_math import domain
from agentlearn_math.verify import answer_key, judge_exactly, rational
from tests.unit.domain.rollouts import rollout


def test_no_box_is_no_answer() -> None:
    for answer in (None, "", "  ", "$ $"):
        verdict = judge_exactly(answer, "5")
        assert verdict is not None
        assert (verdict.status, verdict.reward, verdict.reason) == ("no_answer", 0.0, "no boxed answer")


def test_equal_answers_share_their_key_and_others_have_another_or_none() -> None:
    equal = {"033": "33", "1/2": "0.5", "1,000": "1000.0", r"\frac{2}{4}": ".5", "x + 1": "x+1"}
    for left, right in equal.items():
        assert answer_key(left) == answer_key(right) == domain.answer_key(left)
    keys = {"33": "33", "1/2": "1/2", r"50\%": "50%", "x = 5": "5", r"12\text{ cm}": "12", "(B)": "B"}
    for text, key in {**keys, r"\text{Yes}": "yes", "": None, " ": None, "$$": None, "{}": None}.items():
        assert answer_key(text) == key
    assert answer_key("-1/2") != answer_key("1/2")


def test_what_is_no_plain_number_has_no_rational_value() -> None:
    for text in ("x", "1/0", r"\frac{1}{0}", "1,2", "--7", "1e5", "5 million", r"50\%", "1 2", "9" * 2000):
        assert rational(text) is None, text


def test_a_task_without_an_expected_answer_is_undecided() -> None:
    task = Task.of("math", "What is 1+1?", None)
    verdict = domain.verify(task, rollout(task, "2"))
    assert verdict == Verdict(status="undecided", reason="the task has no expected answer")
