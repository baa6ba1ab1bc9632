"""Advantages: mean 0, blind to shifts, to scale up to eps, and to what ran under another treatment."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.errors import RolloutError, VerifierError
from agentlearn.train.update.group_advantages import advantages_by_treatment, group_advantages
from agentlearn.types.ids import LibraryVersion
from agentlearn.types.treatment import Treatment

rewards = st.floats(-10, 10).map(lambda reward: round(reward, 4))
groups = st.lists(rewards, min_size=1, max_size=16)
A, B, C = (Treatment(model="sim:novice", library=LibraryVersion("v"), arm=arm) for arm in ("main", "canary", "mask"))
treated = st.lists(st.tuples(rewards, st.sampled_from([A, B, C])), min_size=1, max_size=16)


@given(groups)
def test_advantages_sum_to_zero_and_keep_the_order(rewards_G: list[float]):
    advantages_G = group_advantages(rewards_G)
    assert len(advantages_G) == len(rewards_G)
    assert math.fsum(advantages_G) == pytest.approx(0, abs=1e-9)
    for one, reward in zip(advantages_G, rewards_G, strict=True):
        for other, other_reward in zip(advantages_G, rewards_G, strict=True):
            assert (one < other) == (reward < other_reward)


@given(groups, st.integers(-1_000, 1_000))
def test_a_shift_of_all_rewards_changes_nothing(rewards_G: list[float], shift: int):
    assert group_advantages([reward + shift for reward in rewards_G]) == pytest.approx(
        group_advantages(rewards_G), abs=1e-6
    )


@given(groups, st.floats(0.5, 100))
def test_scale_shows_only_through_eps(rewards_G: list[float], scale: float):
    scaled_G = [reward * scale for reward in rewards_G]
    assert group_advantages(scaled_G, eps=1e-6 * scale) == pytest.approx(group_advantages(rewards_G), abs=1e-6)
    assert group_advantages([-reward for reward in rewards_G]) == pytest.approx(
        [-one for one in group_advantages(rewards_G)]
    )


@given(groups)
def test_the_variance_is_one_short_by_eps(rewards_G: list[float]):
    advantages_G = group_advantages(rewards_G, eps=1e-12)
    variance = math.fsum(one**2 for one in advantages_G) / len(advantages_G)
    assert variance == pytest.approx(0 if len(set(rewards_G)) == 1 else 1, abs=1e-6)


@given(rewards, st.integers(1, 16))
def test_equal_rewards_give_exactly_zero(reward: float, G: int):
    assert group_advantages([reward] * G) == (0.0,) * G


def test_worked_by_hand():
    assert group_advantages([1, 0, 0, 1], eps=0) == (1, -1, -1, 1)
    assert group_advantages([1, 0], eps=0.5) == (0.5, -0.5)


@given(treated)
def test_each_treatment_stands_alone(trajectories: list[tuple[float, Treatment]]):
    rewards_G = [reward for reward, _ in trajectories]
    treatments_G = [treatment for _, treatment in trajectories]
    advantages_G = advantages_by_treatment(rewards_G, treatments_G)
    for treatment in (A, B, C):
        mine = [g for g, one in enumerate(treatments_G) if one == treatment]
        if not mine:
            continue
        assert [advantages_G[g] for g in mine] == list(group_advantages([rewards_G[g] for g in mine]))
    moved_G = [reward + 5 * (one == A) for reward, one in trajectories]
    assert advantages_by_treatment(moved_G, treatments_G) == pytest.approx(advantages_G, abs=1e-6)


@given(groups)
def test_one_treatment_is_the_plain_group(rewards_G: list[float]):
    assert advantages_by_treatment(rewards_G, [A] * len(rewards_G)) == group_advantages(rewards_G)


def test_the_only_trajectory_of_a_treatment_has_no_advantage():
    assert advantages_by_treatment([1.0, 0.0, 5.0], [A, A, B], eps=0) == (1, -1, 0)


def test_a_group_of_none_is_refused():
    for call in (lambda: group_advantages([]), lambda: advantages_by_treatment([], [])):
        with pytest.raises(RolloutError) as caught:
            call()
        assert caught.value.code == "empty_group"
        assert str(caught.value) == "a group without a rewarded trajectory has no advantages; leave it out"


def test_a_reward_that_is_no_number_is_refused():
    with pytest.raises(VerifierError) as caught:
        group_advantages([0.0, math.nan])
    assert str(caught.value) == "trajectory 1 of the group has the reward nan; a reward is a finite number"


def test_lengths_must_agree():
    with pytest.raises(ValueError, match="shorter"):
        advantages_by_treatment([1.0, 0.0], [A])
