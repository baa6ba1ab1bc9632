"""Advantages of a batch: computed within a treatment, scaled as configured, without unjudged rollouts."""

import math
import statistics
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.errors import VerifierError
from agentlearn.train.update.advantages import (
    SeveralRewards,
    batch_advantages,
    group_advantages,
    length_penalised,
    scaled_advantages,
)
from agentlearn.types.group import Group
from agentlearn.types.ids import LibraryVersion, RolloutId, RunId, TaskId
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Failure, Trajectory, Treatment, Verdict

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


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=8))
def test_leave_one_out_is_the_reward_minus_the_mean_of_the_others(rewards: list[float]) -> None:
    found = scaled_advantages(rewards, "leave_one_out", eps=0.5, batch_std=7.0)
    written = [own - statistics.fmean(rewards[:g] + rewards[g + 1 :]) for g, own in enumerate(rewards)]
    assert found == pytest.approx(written, abs=1e-9)


@given(st.lists(st.floats(0, 3), min_size=1, max_size=8))
def test_max_rl_divides_by_the_mean(rewards: list[float]) -> None:
    found = scaled_advantages(rewards, "max_rl", eps=0.5, batch_std=7.0)
    mean = statistics.fmean(rewards)
    if mean > 1e-300:
        assert found == pytest.approx([(own - mean) / mean for own in rewards], abs=1e-9)
    assert math.fsum(found) == pytest.approx(0, abs=1e-9)


def test_max_rl_favours_rare_successes() -> None:
    """The only success in G has the advantage G - 1, and each failure -1, whatever a success is worth."""
    for worth in (1.0, 0.01, 5e-324):
        assert scaled_advantages([0.0, worth, 0.0, 0.0], "max_rl", eps=1, batch_std=1) == pytest.approx((-1, 3, -1, -1))


@pytest.mark.parametrize("scaling", ["group", "batch", "none", "leave_one_out", "max_rl"])
def test_a_group_of_one_and_equal_rewards_have_no_advantage(scaling) -> None:
    for rewards in ([0.7], [0.0], [0.1, 0.1, 0.1], [0.0, 0.0]):
        assert scaled_advantages(rewards, scaling, eps=1e-6, batch_std=0.5) == (0.0,) * len(rewards)


def test_max_rl_refuses_negative_rewards() -> None:
    with pytest.raises(VerifierError) as refused:
        batch_advantages([group("t", -0.5, 1.0)], scaling="max_rl")
    assert str(refused.value) == (
        "a rollout has the reward -0.5, but advantages=max_rl divides by the mean of the group's rewards and needs "
        "rewards of at least 0; give such rewards, or set advantages=group"
    )
    assert refused.value.code == "negative_reward"


def several(weights: tuple[float, ...], combination, *groups: list[tuple[float, ...]]) -> SeveralRewards:
    parts = {RolloutId(f"t{n}-{g}"): part for n, one in enumerate(groups) for g, part in enumerate(one)}
    return SeveralRewards(parts, weights, combination)


def test_the_weighted_sum_of_several_rewards_has_the_advantage() -> None:
    groups = [group("t0", 0.0, 1.0, 1.0), group("t1", 1.0, 1.0)]
    parts = ([(0.0, 1.0), (1.0, 0.5), (1.0, 0.0)], [(1.0, 0.2), (1.0, 0.2)])
    found = batch_advantages(groups, scaling="none", several=several((2.0, 0.5), "sum_then_normalise", *parts))
    sums = [0.5, 2.25, 2.0]
    written = [one - statistics.fmean(sums) for one in sums]
    assert list(found.by_rollout.values()) == pytest.approx([*written, 0.0, 0.0])
    assert (found.groups, found.zero_std) == (2, 1)


@given(
    st.lists(
        st.lists(st.tuples(st.floats(0, 1), st.sampled_from([0.0, 1.0]), st.floats(0, 1)), min_size=1, max_size=5),
        min_size=1,
        max_size=4,
    )
)
def test_rewards_normalised_one_by_one_equal_gdpo(parts: list[list[tuple[float, ...]]]) -> None:
    weights, eps = (1.0, 0.5, 2.0), 0.01
    groups = [group(f"t{n}", *(part[0] for part in one)) for n, one in enumerate(parts)]
    found = batch_advantages(groups, eps=eps, several=several(weights, "normalise_then_sum", *parts))
    sums: list[float] = []
    for one in parts:
        of_kind = list(zip(*one, strict=True))
        normal = [
            [(own - statistics.fmean(kind)) / (statistics.pstdev(kind) + eps) for own in kind] for kind in of_kind
        ]
        sums += [sum(weight * kind[g] for weight, kind in zip(weights, normal, strict=True)) for g in range(len(one))]
    written = [(own - statistics.fmean(sums)) / (statistics.pstdev(sums) + eps) for own in sums]
    assert list(found.by_rollout.values()) == pytest.approx(written, abs=1e-6)


def test_several_rewards_leave_a_group_without_differences_at_exactly_0() -> None:
    groups = [group("t0", 0.0, 1.0, 1.0), group("t1", 1.0, 1.0)]
    parts = ([(0.0, 1.0), (1.0, 0.5), (1.0, 0.0)], [(1.0, 0.1), (1.0, 0.1)])
    found = batch_advantages(groups, several=several((1.0, 1.0), "normalise_then_sum", *parts))
    assert [found.by_rollout[RolloutId(f"t1-{g}")] for g in range(2)] == [0.0, 0.0]
    assert (found.groups, found.zero_std) == (2, 1)


@pytest.mark.parametrize("combination", ["sum_then_normalise", "normalise_then_sum"])
def test_a_rollout_without_one_of_its_rewards_is_left_out_and_counted(combination) -> None:
    given = several((1.0, 1.0), combination, [(0.0, 0.0), (1.0, 1.0), (1.0, 0.0)])
    parts = {name: part for name, part in given.parts.items() if name != "t0-1"}
    found = batch_advantages(
        [group("t0", 0.0, 1.0, 1.0, "undecided")], several=SeveralRewards(parts, (1.0, 1.0), combination)
    )
    assert set(found.by_rollout) == {"t0-0", "t0-2"}
    assert (found.without_part, found.undecided) == (1, 1)
    assert found.by_rollout[RolloutId("t0-0")] == pytest.approx(-1, abs=1e-4)


@pytest.mark.parametrize("scaling", ["group", "batch", "none", "leave_one_out", "max_rl"])
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
    scaling=st.sampled_from(["group", "batch", "none", "leave_one_out"]),
    shift=st.floats(-3, 3),
)
def test_they_sum_to_nothing_and_ignore_shifts(rewards: list[list[float]], scaling, shift: float) -> None:
    groups = [group(f"t{n}", *map(float, one)) for n, one in enumerate(rewards)]
    plain = batch_advantages(groups, scaling=scaling, eps=0.1)
    assert math.fsum(plain.by_rollout.values()) == pytest.approx(0, abs=1e-9)
    moved = dict.fromkeys(plain.by_rollout, 0.0)
    for n, one in enumerate(rewards):
        moved |= {RolloutId(f"t{n}-{g}"): reward + shift for g, reward in enumerate(one)}
    if scaling in (
        "none",
        "leave_one_out",
    ):  # the others divide by a std, which may be rounding of the shift
        shifted = batch_advantages(groups, scaling=scaling, rewards=moved)
        assert list(shifted.by_rollout.values()) == pytest.approx(list(plain.by_rollout.values()), abs=1e-9)
