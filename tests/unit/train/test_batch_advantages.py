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


def test_max_rl_refuses_negative_rewards() -> None:
    with pytest.raises(VerifierError) as refused:
        batch_advantages([group("t", -0.5, 1.0)], scaling="max_rl")
    assert str(refused.value) == (
        "a rollout has the reward -0.5, but advantages=max_rl divides by the mean of the group's rewards and needs "
        "rewards of at least 0; give such rewards, or set advantages=group"
    )
    assert refused.value.code == "bad_reward"


def several(weights: tuple[float, ...], combination, *groups: list[tuple[float, ...]]) -> SeveralRewards:
    parts = {RolloutId(f"t{n}-{g}"): part for n, one in enumerate(groups) for g, part in enumerate(one)}
    return SeveralRewards(parts, weights, combination)


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


@pytest.mark.parametrize("combination", ["sum_then_normalise", "normalise_then_sum"])
def test_a_rollout_without_one_of_its_rewards_is_left_out_and_counted(combination) -> None:
    given = several((1.0, 1.0), combination, [(0.0, 0.0), (1.0, 1.0), (1.0, 0.0)])
    parts = {name: part for name, part in given.parts.items() if name != "t0-1"}
    found = batch_advantages(
        [group("t0", 0.0, 1.0, 1.0, "undecided")], several=SeveralRewards(parts, (1.0, 1.0), combination)
    )
    assert set(found.by_rollout) == {"t0-0", "t0-2"}
    assert found.undecided == 1
    assert found.by_rollout[RolloutId("t0-0")] == pytest.approx(-1, abs=1e-4)


def test_an_undecided_rollout_is_left_out_and_a_failed_one_counts_as_zero() -> None:
    found = batch_advantages(
        [group("t", 0.0, "undecided", 1.0, "failed"), group("u", "failed", "failed")], scaling="none"
    )
    assert dict(found.by_rollout) == pytest.approx({"t-0": -1 / 3, "t-2": 2 / 3, "t-3": -1 / 3, "u-0": 0, "u-1": 0})
    assert (found.undecided, found.failed, found.groups) == (1, 3, 2)


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
    if scaling in ("none", "leave_one_out"):  # the others divide by a std, which may be rounding of the shift
        shifted = batch_advantages(groups, scaling=scaling, rewards=moved)
        assert list(shifted.by_rollout.values()) == pytest.approx(list(plain.by_rollout.values()), abs=1e-9)
