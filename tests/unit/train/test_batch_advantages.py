"""Advantages of a batch: computed within a treatment, scaled as configured, without unjudged rollouts."""

import math
import statistics
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.errors import VerifierError
from agentlearn.train.update.advantages import batch_advantages, group_advantages, length_penalised
from agentlearn.types.group import Group
from agentlearn.types.ids import LibraryVersion, RolloutId, RunId, TaskId
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Failure, Trajectory, Verdict
from agentlearn.types.treatment import Treatment

ONE, OTHER = (Treatment(model="sim:novice", library=LibraryVersion(name)) for name in ("a" * 16, "b" * 16))


def group(name: str, *rewards: float | str, treatments: tuple[Treatment, ...] | None = None) -> Group:
    """Rewards in order of g; `undecided` and `failed` as words."""
    made = []
    for g, reward in enumerate(rewards):
        verdict = None
        if isinstance(reward, float):
            verdict = Verdict(status="partial", reward=reward)
        elif reward == "undecided":
            verdict = Verdict(status="undecided")
        made.append(
            Trajectory(
                id=RolloutId(f"{name}-{g}"),
                run=RunId("0" * 26),
                phase="epoch-1",
                task=TaskId(name),
                g=g,
                seed=g,
                treatment=ONE if treatments is None else treatments[g],
                verdict=verdict,
                failure=None if verdict else Failure(code="too_many_turns", message="no answer", boundary="output"),
                started_at=datetime(2026, 1, 1, tzinfo=UTC),
            )
        )
    return Group(task=Task(id=TaskId(name), domain="math", problem="?"), trajectories=tuple(made))


def test_within_a_group_less_its_mean_over_its_std() -> None:
    found = batch_advantages([group("t", 0.0, 1.0, 1.0, 1.0)])
    std = statistics.pstdev([0, 1, 1, 1])
    assert list(found.by_rollout.values()) == pytest.approx([-0.75 / (std + 1e-6), *[0.25 / (std + 1e-6)] * 3])


def test_by_the_batch_and_unscaled() -> None:
    groups = [group("t", 0.0, 1.0), group("u", 0.5, 1.5, 1.0)]
    std = statistics.pstdev([0.0, 1.0, 0.5, 1.5, 1.0])
    expected = [-0.5, 0.5, -0.5, 0.5, 0.0]
    assert list(batch_advantages(groups, scaling="none").by_rollout.values()) == pytest.approx(expected)
    by_batch = batch_advantages(groups, scaling="batch", eps=1e-4).by_rollout.values()
    assert list(by_batch) == pytest.approx([one / (std + 1e-4) for one in expected])


def test_each_treatment_by_itself() -> None:
    found = batch_advantages([group("t", 0.0, 1.0, 5.0, 7.0, treatments=(ONE, ONE, OTHER, OTHER))], scaling="none")
    assert list(found.by_rollout.values()) == [-0.5, 0.5, -1.0, 1.0]
    assert found.groups == 2


@given(st.lists(st.tuples(st.floats(-5, 5), st.sampled_from([ONE, OTHER])), min_size=1, max_size=12))
def test_a_treatment_s_advantages_are_those_of_its_rollouts_alone(rollouts: list[tuple[float, Treatment]]) -> None:
    found = batch_advantages([group("t", *(one for one, _ in rollouts), treatments=tuple(one for _, one in rollouts))])
    for treatment in (ONE, OTHER):
        own = [g for g, (_, one) in enumerate(rollouts) if one == treatment]
        if own:
            alone = group_advantages([rollouts[g][0] for g in own])
            assert tuple(found.by_rollout[RolloutId(f"t-{g}")] for g in own) == alone


@pytest.mark.parametrize("scaling", ["group", "batch", "none"])
def test_a_reward_that_is_not_finite_is_refused(scaling) -> None:
    with pytest.raises(VerifierError, match="a reward is a finite number"):
        batch_advantages([group("t", 0.0, 1.0)], scaling=scaling, rewards={RolloutId("t-0"): math.inf})


def test_an_undecided_rollout_is_left_out_and_a_failed_one_counts_as_zero() -> None:
    found = batch_advantages(
        [group("t", 0.0, "undecided", 1.0, "failed"), group("u", "failed", "failed")], scaling="none"
    )
    assert dict(found.by_rollout) == pytest.approx({"t-0": -1 / 3, "t-2": 2 / 3, "t-3": -1 / 3, "u-0": 0, "u-1": 0})
    assert (found.undecided, found.failed, found.groups) == (1, 3, 2)


def test_groups_without_variance_are_counted_and_teach_nothing() -> None:
    found = batch_advantages([group("t", 0.1, 0.1, 0.1), group("u", 0.0, 1.0), group("v", 1.0)], scaling="batch")
    assert (found.groups, found.zero_std) == (3, 2)
    assert found.zero_std_share == pytest.approx(2 / 3)
    assert [found.by_rollout[RolloutId(f"t-{g}")] for g in range(3)] == [0.0, 0.0, 0.0]
    assert batch_advantages([]).zero_std_share == 0.0


def test_punished_rewards_stand_in_for_the_verdicts() -> None:
    found = batch_advantages([group("t", 1.0, 1.0)], scaling="none", rewards={RolloutId("t-0"): 0.0})
    assert list(found.by_rollout.values()) == [-0.5, 0.5]


def test_the_punishment_rises_over_the_window() -> None:
    found = [length_penalised(1.0, tokens, longest=100, window=20) for tokens in (10, 80, 85, 90, 100, 130)]
    assert found == pytest.approx([1.0, 1.0, 0.75, 0.5, 0.0, 0.0])


@given(
    rewards=st.lists(st.lists(st.floats(-5, 5), min_size=1, max_size=6), min_size=1, max_size=4),
    scaling=st.sampled_from(["group", "batch", "none"]),
    shift=st.floats(-3, 3),
)
def test_they_sum_to_nothing_and_ignore_shifts(rewards: list[list[float]], scaling, shift: float) -> None:
    groups = [group(f"t{n}", *map(float, one)) for n, one in enumerate(rewards)]
    plain = batch_advantages(groups, scaling=scaling, eps=0.1)
    assert math.fsum(plain.by_rollout.values()) == pytest.approx(0, abs=1e-9)
    moved = dict.fromkeys(plain.by_rollout, 0.0)
    for n, one in enumerate(rewards):
        moved |= {RolloutId(f"t{n}-{g}"): reward + shift for g, reward in enumerate(one)}
    if scaling == "none":  # the others divide by a std, where rounding of a shift can be all there is
        shifted = batch_advantages(groups, scaling=scaling, rewards=moved)
        assert list(shifted.by_rollout.values()) == pytest.approx(list(plain.by_rollout.values()), abs=1e-9)
