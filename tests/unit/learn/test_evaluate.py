"""Held-out scores: failures are zero, unknowns leave both sides, the interval is the paired one."""

import pytest

from agentlearn.learn.evaluate import Scores, held_out
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Failure, FailureBoundary
from tests.support.stages import trajectory

TASKS = [Task.of("math", f"Problem {n}?", str(n), family=f"f{n % 2}") for n in range(4)]


def scores(rewards: list[list[float | None]]) -> Scores:
    return Scores.of(
        [trajectory(one, g, reward) for one, row in zip(TASKS, rewards, strict=True) for g, reward in enumerate(row)], 2
    )


def test_paired_difference_over_tasks() -> None:
    before = scores([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    after = scores([[1.0, 0.0], [1.0, 1.0], [1.0, 1.0], [0.0, 1.0]])
    result = held_out(TASKS, before, after, seed=0)
    assert (result.before.mean, result.after.mean, result.delta.mean) == (0.25, 0.75, 0.5)
    assert result.delta.ci == pytest.approx((0.5, 0.5))
    assert result.delta.p == pytest.approx(2 / 2**4)
    assert result.families == 2


def test_an_undecided_rollout_leaves_both_sides() -> None:
    before = scores([[None, 1.0], [0.0, 0.0], [0.0, 0.0], [None, None]])
    after = scores([[1.0, 1.0], [0.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    result = held_out(TASKS, before, after, seed=0)
    assert (result.before.n, result.delta.n) == (3, 3)
    assert result.delta.mean == 0


@pytest.mark.parametrize(
    ("boundary", "reward"), [("output", 0.0), ("endpoint", None), ("tool", None), ("deadline", None)]
)
def test_only_a_failure_of_the_agent_is_a_zero(boundary: FailureBoundary, reward: float | None) -> None:
    failed = trajectory(TASKS[0], 0, 1.0).model_copy(
        update={"failure": Failure(code="x", message="x", boundary=boundary), "verdict": None}
    )
    assert Scores.of([failed], 1).rewards == {TASKS[0].id: (reward,)}


def test_one_task_has_no_interval() -> None:
    one = Scores.of([trajectory(TASKS[0], 0, 1.0)], 1)
    assert held_out(TASKS[:1], one, one, seed=0).delta.ci is None
