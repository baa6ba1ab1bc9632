"""Small parts of the loop."""

import asyncio

from agentlearn.config import LearnSettings
from agentlearn.errors import BudgetExceeded, ConfigError, root_cause
from agentlearn.learning.batch import GroupStream
from agentlearn.learning.costs import estimate
from tests.support.shared_options import AS_PUBLISHED
from tests.support.stages import group


def test_our_own_error_is_found_in_a_tree_of_groups() -> None:
    inner = BaseExceptionGroup("inner", [ValueError("a bug"), BudgetExceeded("enough")])
    tree = BaseExceptionGroup("outer", [asyncio.CancelledError(), inner])
    assert isinstance(root_cause(tree), BudgetExceeded)
    assert isinstance(root_cause(ConfigError("x")), ConfigError)
    assert isinstance(root_cause(BaseExceptionGroup("g", [KeyError("k")])), KeyError)


def test_groups_come_in_the_order_of_completion_and_end() -> None:
    async def collect() -> list[int]:
        stream = GroupStream(2)
        stream.put(group([1.0]))
        stream.put(group([0.0, 1.0]))
        return [len(one.trajectories) async for one in stream]

    assert asyncio.run(collect()) == [1, 2]


def test_the_estimate_is_the_published_one_for_the_published_setting() -> None:
    settings = LearnSettings(
        domain="math", model="deepseek:deepseek-chat", evaluate=False, epochs=3, group_size=5, **AS_PUBLISHED
    )
    found = estimate(settings, train=100)
    assert found.rollouts == 1500
    assert abs(found.tokens_in / 38e6 - 1) < 0.25
    assert abs(found.tokens_out / 6.6e6 - 1) < 0.25
    assert found.cost_usd is not None
    assert "about 1,500 rollouts" in found.sentence()


def test_a_reward_that_asks_a_model_is_counted() -> None:
    given = {"domain": "prices", "reward": "judge", "model": "http://127.0.0.1:1/v1#m", "reflector": "openai:gpt-5"}
    settings = LearnSettings.model_validate(given | {"epochs": 3, "group_size": 5} | AS_PUBLISHED)
    found = estimate(settings, train=10, test=5)
    stages = {one.stage: one for one in found.stages}
    assert (stages["judge"].calls, stages["judge held out"].calls) == (10 * 5 * 3, 2 * 5 * 4)
    assert stages["judge"].calls + stages["judge held out"].calls == found.rollouts
    assert stages["judge"].cost_usd, "the reflector judges, and its price is known"
    assert stages["judge"].tokens_in > stages["judge"].calls * 100
    assert "judge" in {one.stage for one in found.learning}
    assert "judge held out" not in {one.stage for one in found.learning}
    other = estimate(settings.model_copy(update={"reward": "number"}), train=10, test=5)
    assert not [one.stage for one in other.stages if "judge" in one.stage]
    assert other.tokens_in < found.tokens_in
