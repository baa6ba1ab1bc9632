"""A reward of the user's own is tried before the first model call."""

import asyncio
from collections.abc import Callable
from fractions import Fraction

import pytest

from agentlearn.domain.custom import CustomTasks
from agentlearn.domain.custom.reward import FunctionReward
from agentlearn.domain.reward_trial import try_reward
from agentlearn.errors import ConfigError
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Verdict


def tasks(count: int = 8) -> list[Task]:
    return [Task.of("sums", f"What is {n} + 1?", str(n + 1), source=f"sums.jsonl:{n + 1}") for n in range(count)]


def domain(function: Callable[..., object], *, sees_trajectory: bool = False) -> CustomTasks:
    parameters = ("task", "answer", *(["trajectory"] if sees_trajectory else []))
    return CustomTasks("sums", FunctionReward("mine:score", function, parameters))


def strict(task: Task, answer: str) -> bool:
    return int(answer) == int(task.answer or "")


def tried(function: Callable[..., object], given: list[Task] | None = None, **more: bool) -> tuple[str, ...]:
    return asyncio.run(try_reward(domain(function, **more), tasks() if given is None else given))


def test_what_is_no_reward_is_refused_with_task_value_and_place(subtests: pytest.Subtests) -> None:
    for value in (7, None, float("nan"), "1", {"reward": 1}, (1.0, 5), (2.0, "much"), (1.0, "a", "b"), [1], -0.1):
        with subtests.test(repr(value)):
            with pytest.raises(ConfigError) as caught:
                tried(lambda task, answer, value=value: value)
            words = str(caught.value)
            assert words.startswith("before the first model call, the reward 'mine:score' gave ")
            assert repr(value)[:70] in words
            assert "(test_reward_trial.py:" in words
            assert "for the answer '1' to task 'sums.jsonl:1'" in words
            assert (caught.value.code, caught.value.exit_status) == ("bad_reward", 2)


def leaves(task: Task, answer: str) -> float:
    raise SystemExit(3)


def test_an_error_is_refused_with_the_line_that_raised_it() -> None:
    with pytest.raises(ConfigError, match=r"raised ValueError: invalid literal .* \(test_reward_trial\.py:\d+\)") as e:
        tried(strict)
    line = int(str(e.value).partition("test_reward_trial.py:")[2].partition(")")[0])
    assert line == strict.__code__.co_firstlineno + 1
    assert "for the answer ''" in str(e.value)
    with pytest.raises(ConfigError, match="raised SystemExit: 3"):
        tried(leaves)


@pytest.mark.parametrize("right", [True, 1, 1.0, Fraction(1), Verdict(status="correct", reward=1.0)])
def test_a_good_reward_gives_no_note_and_one_that_takes_everything_a_note(right: object) -> None:
    assert tried(lambda task, answer: right if answer == task.answer else 0) == ()
    (note,) = tried(lambda task, answer: right)
    assert note.endswith("counts every answer as right, also an empty one")


def test_expected_answers_that_never_count_as_right_are_refused_and_some_of_them_give_a_note() -> None:
    def counts(task: Task, answer: str) -> float:
        return 0.4

    with pytest.raises(ConfigError) as caught:
        tried(counts)
    assert "the expected answer '1' of task 'sums.jsonl:1' earns 0.4" in str(caught.value)
    assert "all 5 that were tried" in str(caught.value)
    assert "score.gold_is_answer = False" in str(caught.value)
    assert caught.value.code == "bad_config"
    vars(counts)["gold_is_answer"] = False
    assert tried(counts) == ()
    (note,) = tried(lambda task, answer: answer == task.answer and answer != "1")
    assert "1 of 5 expected answers" in note
