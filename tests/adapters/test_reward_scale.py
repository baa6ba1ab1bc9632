"""Weighted rewards become a number from 0 to 1 that keeps their order, or nothing is decided."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agentlearn_adapters.bfcl import json_schema
from agentlearn_adapters.verifiers_tasks import _verdict_of_rewards

WEIGHTED = st.dictionaries(st.text(), st.tuples(st.floats(0, 1), st.floats(-5, 5)), min_size=1, max_size=5)


@given(WEIGHTED)
def test_the_reward_is_from_0_to_1_and_names_every_score(rewards: dict[str, tuple[float, float]]) -> None:
    assume(sum(abs(weight) for _, weight in rewards.values()) > 1e-6)
    verdict = _verdict_of_rewards(rewards, {})
    assert verdict.reward is not None
    assert 0 <= verdict.reward <= 1
    assert all(name in verdict.reason for name in rewards)


@given(WEIGHTED)
def test_the_best_scores_are_1_and_the_worst_0(rewards: dict[str, tuple[float, float]]) -> None:
    assume(sum(abs(weight) for _, weight in rewards.values()) > 1e-6)
    best = {name: (float(weight > 0), weight) for name, (_, weight) in rewards.items()}
    worst = {name: (float(weight < 0), weight) for name, (_, weight) in rewards.items()}
    assert _verdict_of_rewards(best, {}).reward == pytest.approx(1)
    assert _verdict_of_rewards(worst, {}).reward == pytest.approx(0)


@pytest.mark.parametrize("rewards", [{}, {"a": None}, {"a": (7.0, 1.0)}, {"a": (float("nan"), 1.0)}, {"a": (1.0, 0.0)}])
def test_what_has_no_place_on_the_scale_is_undecided(rewards: dict[str, tuple[float, float] | None]) -> None:
    assert _verdict_of_rewards(rewards, {}).status == "undecided"


def test_an_error_of_the_rewards_is_undecided_with_its_words() -> None:
    verdict = _verdict_of_rewards({"a": (1.0, 1.0)}, {}, "the reward broke")
    assert (verdict.status, verdict.reason) == ("undecided", "the reward broke")


def test_types_of_function_calls_become_json_schema() -> None:
    types = {"dict": "object", "float": "number", "tuple": "array", "any": "string", "string": "string"}
    schema = json_schema(
        {
            "type": "dict",
            "properties": {
                "type": {"type": "float", "description": "Kind."},
                "at": {"type": "tuple", "items": {"type": "float"}},
            },
        },
        types,
    )
    assert schema["type"] == "object"
    assert schema["properties"]["type"]["type"] == "number"
    assert schema["properties"]["at"] == {"type": "array", "items": {"type": "number"}}
