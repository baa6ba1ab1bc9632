"""Learning without expected answers: the majority answer counts as right, and ties decide nothing."""

from collections.abc import Sequence

import pytest

from agentlearn.learning.batch_runner import by_majority
from agentlearn.types.group import Group
from agentlearn.types.trajectory import Failure
from tests.support.cases import cases
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
    cases(__file__, "a_majority_judges_the_group"),
)
def test_a_majority_judges_the_group(values: list[str | None], rewards: list[float | None]) -> None:
    judged = by_majority(answers(values), Votes())  # type: ignore[arg-type]
    assert [one.reward for one in judged.trajectories] == rewards
    assert all(one.verdict and "labels none: majority of" in one.verdict.reason for one in judged.trajectories)


def test_without_a_quorum_nothing_is_decided_and_the_reason_says_why(subtests: pytest.Subtests) -> None:
    for values, reason in cases(__file__, "without_a_quorum_nothing_is_decided_and_the_reason_says_why"):
        with subtests.test(repr((values, reason))):
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
