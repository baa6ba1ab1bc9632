"""Learning without expected answers: the majority answer counts as right, and ties decide nothing."""

from collections.abc import Sequence

import pytest

from agentlearn.learning.majority import by_majority
from agentlearn.types.group import Group
from agentlearn.types.trajectory import Failure
from tests.support.stages import group


class Votes:
    """Just enough of a domain: equal answers have equal keys, "?" has none."""

    def answer_key(self, answer: str) -> str | None:
        return None if answer == "?" else answer.lstrip("0")


def answers(values: Sequence[str | None]) -> Group:
    base = group([1.0] * len(values))
    members = tuple(
        one.model_copy(update={"answer": value}) for one, value in zip(base.trajectories, values, strict=True)
    )
    return Group(task=base.task, trajectories=members)


@pytest.mark.parametrize(
    ("values", "rewards"),
    [
        (["7", "07", "8"], [1.0, 1.0, 0.0]),
        (["7", "7", "8", None], [1.0, 1.0, 0.0, 0.0]),
        (["7", "7", "?", None], [1.0, 1.0, 0.0, 0.0]),
        (["7", "7", "7", "8", "8"], [1.0, 1.0, 1.0, 0.0, 0.0]),
    ],
)
def test_a_majority_judges_the_group(values: list[str | None], rewards: list[float | None]) -> None:
    judged = by_majority(answers(values), Votes())  # type: ignore[arg-type]
    assert [one.reward for one in judged.trajectories] == rewards
    assert all(one.verdict and "labels none: majority of" in one.verdict.reason for one in judged.trajectories)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (["7", "8"], "no two of 2 answers agree"),
        (["7", "7", "8", "8", "9"], "2 of 5 answers agree, and more than half must"),
        (["7", "7", "8", "8"], "2 of 4 answers agree, and more than half must"),
        (["7", "7", "8", "9", "10"], "2 of 5 answers agree, and more than half must"),
        (["7", "8", "9", "10", "11"], "no two of 5 answers agree"),
        (["7"], "no two of 1 answers agree"),
        (["7", None], "no two of 1 answers agree"),
        (["7", None, None, None, None], "1 of 5 rollouts gave an answer that can be read, and half of them must"),
        (["7", "7", "?", "?", None], "2 of 5 rollouts gave an answer that can be read, and half of them must"),
        (["?", "?", "7"], "1 of 3 rollouts gave an answer that can be read, and half of them must"),
        ([None, None], "0 of 2 rollouts gave an answer that can be read, and half of them must"),
    ],
)
def test_without_a_quorum_nothing_is_decided_and_the_reason_says_why(values: list[str | None], reason: str) -> None:
    judged = by_majority(answers(values), Votes())  # type: ignore[arg-type]
    assert [one.reward for one in judged.trajectories] == [None] * len(values)
    assert {one.verdict and one.verdict.reason for one in judged.trajectories} == {
        f"labels none: no majority: {reason}"
    }


def test_a_failed_rollout_does_not_vote() -> None:
    whole = answers(["7", "8", "8"])
    failed = whole.trajectories[0].model_copy(
        update={"failure": Failure(code="x", message="x", boundary="tool"), "verdict": None}
    )
    judged = by_majority(Group(task=whole.task, trajectories=(failed, *whole.trajectories[1:])), Votes())  # type: ignore[arg-type]
    assert [one.outcome for one in judged.trajectories] == ["undecided", "ok", "ok"]
