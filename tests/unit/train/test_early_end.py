"""When a run ends early, and when it says that there is hardly anything to learn."""

from typing import Any

import pytest

from agentlearn.train.arguments import GradientArguments, gradient_arguments
from agentlearn.train.teaching import WINDOW, early_end, nothing_left


def told(**fields: Any) -> GradientArguments:
    return gradient_arguments({"distillation.coef": 1.0, "reference": "copy"} | fields)


def lengths(*values: float) -> list[dict[str, float]]:
    return [{"answer_tokens": value} for value in values]


def test_answers_may_shrink_to_the_limit_and_not_below() -> None:
    assert WINDOW == 3
    assert early_end(lengths(100, 100, 100, 50, 50, 50), told()) == ""
    assert early_end(lengths(100, 100, 100, 50, 50, 49), told()) == (
        "answers have shrunk from 100 to 50 tokens, below 50% of their length at the start (stop_at_length)"
    )
    assert early_end(lengths(100, 100, 100, 1, 1, 1), told(**{"distillation.stop_at_length": 0})) == ""
    assert early_end(lengths(10, 10, 10, 80, 80, 80), told()) == ""


@pytest.mark.parametrize("known", [(), (100, 100, 1), (100, 100, 100, 1, 1)])
def test_few_updates_say_nothing_yet(known: tuple[float, ...]) -> None:
    assert early_end(lengths(*known), told()) == ""


def test_updates_without_a_length_do_not_count() -> None:
    assert early_end([*lengths(100, 100, 100, 10, 10), {}, {"loss": 1.0}], told()) == ""


def test_the_last_update_s_divergence_counts() -> None:
    limit = told(kl="k3", kl_beta=0.1, **{"distillation.stop_at_kl": 0.5})
    assert early_end([{"kl": 0.9}, {"kl": 0.5}], limit) == ""
    assert "0.51 nats per token, above stop_at_kl 0.5" in early_end([{"kl": 0.1}, {"kl": 0.51}], limit)


def groups(mixed: float, right: float = 0, wrong: float = 0) -> dict[str, float]:
    counts = {"groups/mixed": mixed, "groups/all_right": right, "groups/all_wrong": wrong}
    return {"groups": sum(counts.values()), **counts}


def test_updates_without_different_rewards_leave_hardly_anything_to_learn() -> None:
    alike = [groups(1, 9), groups(0, 9, 1), groups(2, 8)]
    assert nothing_left(alike, 3) == (
        "in the last 3 updates only 3 of 30 tasks had rollouts with different rewards (26 all right, 1 all wrong), so"
        " they leave hardly anything to learn"
    )
    assert nothing_left([*alike[:2], groups(3, 7)], 3) == ""
    assert nothing_left(alike[:2], 3) == ""
    assert nothing_left([{}, {}, {}], 3) == ""
    assert early_end(alike, gradient_arguments({})) == ""
    assert early_end(alike, gradient_arguments({"stop_after_equal": 3})).endswith("(stop_after_equal)")
