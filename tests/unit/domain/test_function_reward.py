"""A reward of the user's own: found, called, and never turned into a zero in silence."""

import asyncio
import sys
from collections.abc import Awaitable, Iterator
from inspect import isawaitable
from pathlib import Path
from typing import Any

import pytest

from agentlearn.domain.custom.reward import FunctionReward, find_reward, function_reward, load_function
from agentlearn.errors import ConfigError, VerifierError
from agentlearn.types.trajectory import Verdict
from tests.support.cases import cases
from tests.unit.domain.rollouts import own_task, rollout

MODULE = """
from agentlearn import Verdict

def exact(task, answer): return answer == task.answer
def fixed(value):
    return lambda task, answer: value
def steps(task, answer, trajectory): return 0.25 * (trajectory.g + 1)
def raises(task, answer): raise KeyError("no such zork")
async def slow(task, answer): return 0.5, "the unit is missing"
async def slow_and_wrong(task, answer): return "much"
async def slow_and_broken(task, answer, trajectory): raise KeyError("no such zork")
def none(task): return 1
def keyed(task, answer): return True
keyed.answer_key = str.casefold
nothing = 5
class Scale:
    def half(self, task, answer): return 0.5
scale = Scale()
undecided = fixed(Verdict(status="undecided", reason="who knows"))
partial = fixed(Verdict(status="partial", reward=0.3))
beyond = fixed(Verdict(status="correct", reward=3.0))
torn = fixed(Verdict(status="correct", reward=None))
"""


def _made(*names: str) -> FunctionReward:
    function: Any = eval(f"lambda {', '.join(names)}: (1.0, repr(({', '.join(names).replace('*, ', '')})))")
    return function_reward("mine", function)


@pytest.mark.parametrize(
    ("names", "given"),
    cases(__file__, "parameters_get_what_they_name_in_any_order"),
)
def test_parameters_get_what_they_name_in_any_order(names: tuple[str, ...], given: str) -> None:
    one, of = own_task(), rollout(own_task(), "12")
    found = {"task": one, "answer": "12", "trajectory": of}
    verdict = _made(*names).judge(one, of)
    assert isinstance(verdict, Verdict)
    assert verdict.reason == repr(tuple(found[name] for name in given.split()))


@pytest.mark.parametrize("names", [("answer", "expected"), ("trajectory", "answer"), ("x", "y", "z"), ("answer",)])
def test_parameters_that_may_mean_something_else_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match="may be in any order"):
        _made(*names)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[str]:
    """A module in the working directory, of a name of its own."""
    name = f"own_reward_{abs(hash(request.node.nodeid))}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield name
    sys.modules.pop(name, None)


def judged(reward: FunctionReward, answer: str | None = "12", g: int = 0) -> Verdict:
    one = own_task()
    verdict = reward.judge(one, rollout(one, answer, g=g))
    return asyncio.run(_awaited(verdict)) if isawaitable(verdict) else verdict


async def _awaited(verdict: Awaitable[Verdict]) -> Verdict:
    return await verdict


def returning(value: Any) -> FunctionReward:
    return FunctionReward("mine:score", lambda task, answer: value)


def test_a_function_in_the_working_directory_is_found_and_judges(module: str) -> None:
    reward = find_reward(f"{module}:exact")
    assert isinstance(reward, FunctionReward)
    assert judged(reward) == Verdict(status="correct", reward=1.0)
    assert judged(reward, "13").status == "incorrect"
    assert judged(reward, None) == Verdict(status="no_answer", reward=0.0)
    assert (reward.answer_key("A"), reward.gold(" as it is "), reward.needs_gold) == (None, "as it is", False)


def test_methods_keys_verdicts_and_async_functions_are_used(module: str) -> None:
    for name, verdict in (
        ("scale.half", Verdict(status="partial", reward=0.5)),
        ("undecided", Verdict(status="undecided", reason="who knows")),
        ("partial", Verdict(status="partial", reward=0.3)),
        ("slow", Verdict(status="partial", reward=0.5, reason="the unit is missing")),
    ):
        assert judged(load_function(f"{module}:{name}")) == verdict
    assert load_function(f"{module}:keyed").answer_key("PARIS") == "paris"
    verdicts = [judged(load_function(f"{module}:steps"), g=g) for g in range(4)]
    assert [one.reward for one in verdicts] == [0.25, 0.5, 0.75, 1.0]
    assert {one.status for one in verdicts[:3]} == {"partial"} != {verdicts[3].status}


@pytest.mark.parametrize("name", ["beyond", "torn"])
def test_verdicts_that_contradict_themselves_break_the_verifier(module: str, name: str) -> None:
    with pytest.raises(VerifierError, match=r"gave Verdict\(status='correct'.* return True, False, or a number from 0"):
        judged(load_function(f"{module}:{name}"))


def test_what_is_no_reward_breaks_the_verifier(subtests: pytest.Subtests) -> None:
    for value in [None, "1", float("nan"), float("inf"), -0.1, 1.5, [1], 10**400]:
        for form in ["alone", "with a reason"]:
            with (
                subtests.test(repr((value, form))),
                pytest.raises(
                    VerifierError,
                    match=r"^the reward 'mine:score' gave .* for the answer '12' to task 'prices\.csv:2'; return",
                ),
            ):
                judged(returning(value if form == "alone" else (value, "for a reason")))


@pytest.mark.parametrize("value", [(), (1,), (0.5, 3), (0.5, None), [0.5, "a"], (0.5, "a", "b"), ("a", 0.5)])
def test_what_is_no_pair_of_a_reward_and_a_reason_breaks_the_verifier(value: Any) -> None:
    with pytest.raises(VerifierError, match=r"alone or with a reason, as in \(0\.5, 'the unit is missing'\)$"):
        judged(returning(value))


def test_numbers_of_other_libraries_are_rewards() -> None:
    numpy = pytest.importorskip("numpy")
    values = (numpy.float32(0.5), numpy.float64(1), numpy.bool_(True), (numpy.float32(0.5), "half of it"))
    assert [judged(returning(value)).reward for value in values] == [0.5, 1.0, 1.0, 0.5]


def test_an_exception_is_told_with_its_answer_and_its_task(module: str) -> None:
    with pytest.raises(VerifierError) as caught:
        judged(load_function(f"{module}:raises"))
    assert str(caught.value) == (
        f"the reward '{module}:raises' raised KeyError: 'no such zork' ({module}.py:8) for the answer '12' to task"
        " 'prices.csv:2'; correct the function, which must give a reward for any answer"
    )


@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        ((1, "it counts both ends"), Verdict(status="correct", reward=1.0, reason="it counts both ends")),
        ((0.5, " half of it "), Verdict(status="partial", reward=0.5, reason="half of it")),
        ((False, "no unit"), Verdict(status="incorrect", reward=0.0, reason="no unit")),
        ((0.0, ""), Verdict(status="incorrect", reward=0.0)),
        ((0.0, "\ud800"), Verdict(status="incorrect", reward=0.0, reason="\\ud800")),
    ],
)
def test_a_reward_may_come_with_its_reason(value: object, verdict: Verdict) -> None:
    assert judged(returning(value)) == verdict
    without = judged(returning((0, "it stopped early")), None)
    assert without == Verdict(status="no_answer", reward=0.0, reason="it stopped early")


@pytest.mark.parametrize(("reference", "words"), cases(__file__, "what_cannot_be_found_or_called_is_refused_at_once"))
def test_what_cannot_be_found_or_called_is_refused_at_once(module: str, reference: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        find_reward(reference.replace("MODULE", module))
    assert words in str(caught.value)


@pytest.mark.parametrize(("source", "words"), cases(__file__, "a_module_that_breaks_is_told"))
def test_a_module_that_breaks_is_told(source: str, words: str, module: str, tmp_path: Path) -> None:
    (tmp_path / f"{module}.py").write_text(source)
    with pytest.raises(ConfigError) as caught:
        find_reward(f"{module}:score")
    assert words in str(caught.value)


def test_an_unknown_reward_names_the_known_ones() -> None:
    with pytest.raises(ConfigError) as caught:
        find_reward("nubmer")
    assert str(caught.value) == (
        "there is no reward 'nubmer'; give one of exact, number, choice, contains, judge, gym, or your own as"
        " module:function"
    )
