"""Group advantages: mean 0, unchanged by a shift of all rewards, and by their scale up to eps."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.errors import RolloutError, VerifierError
from agentlearn.train.update.advantages import group_advantages

rewards = st.floats(-10, 10).map(lambda reward: round(reward, 4))
groups = st.lists(rewards, min_size=1, max_size=16)


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


def test_a_group_of_none_is_refused():
    with pytest.raises(RolloutError) as caught:
        group_advantages([])
    assert str(caught.value) == "a group without a rewarded trajectory has no advantages; leave it out"


def test_a_reward_that_is_no_number_is_refused():
    with pytest.raises(VerifierError) as caught:
        group_advantages([0.0, math.nan])
    assert str(caught.value) == "trajectory 1 of the group has the reward nan; a reward is a finite number"
