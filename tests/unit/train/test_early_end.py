"""When a run ends early, and when it says that there is hardly anything to learn."""

from typing import Any

import pytest

from agentlearn.train.arguments import GradientArguments, gradient_arguments
from agentlearn.train.update.metrics import (
    DISTINCT,
    ENTROPY,
    HIGHEST,
    LOWEST,
    PARTIAL,
    STD,
    WINDOW,
    collapsed,
    early_end,
    nothing_left,
)


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


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [(0.5, 0.5, "rewards lie between 0.5 and 0.5"), (0.2, 0.8, "rewards lie between 0.2 and 0.8")],
)
def test_graded_rewards_are_described_by_their_spread(low: float, high: float, words: str) -> None:
    graded = groups(0, 1, 9) | {LOWEST: low, HIGHEST: high, PARTIAL: 40.0}
    assert f"different rewards ({words})," in nothing_left([graded] * 3, 3)


def entropies(*pairs: tuple[float, float]) -> list[dict[str, float]]:
    return [{ENTROPY: entropy, "reward": reward} for entropy, reward in pairs]


def test_a_model_that_says_the_same_for_everything_and_earns_no_more_has_collapsed() -> None:
    words = collapsed(entropies((4.3, 0.2), (2.0, 0.3), (0.08, 0.1)))
    assert words.startswith("entropy fell from 4.3 to 0.08 nats per token, and the mean reward went from 0.2 to 0.1")
    assert words.endswith("lower learning_rate")
    assert collapsed([*entropies((4.3, 0.2)), {"loss": 0.0}, *entropies((0.08, 0.2)), {}]) != ""
    assert collapsed(entropies((4.3, 0.2), (0.08, 0.9))) == ""  # it has learned
    assert collapsed(entropies((4.3, 0.2), (0.5, 0.1))) == ""
    start, now = entropies((4.3, 0.2), (0.08, 0.1))
    assert collapsed([start, now | groups(2, 0, 8)]) == ""  # it still learns
    assert collapsed([start, now | groups(0, 3, 7)]) != ""
    right = entropies((0.3, 1.0), (0.01, 1.0))
    assert collapsed([right[0], right[1] | groups(0, 9)]) == ""
    assert collapsed([]) == ""


@pytest.mark.parametrize(("answers", "earned"), [(1, False), (4, False), (16, True)])
def test_a_model_with_few_answers_earns_more_by_chance(answers: float, earned: bool) -> None:
    start, now = entropies((4.3, 0.2), (0.08, 0.3))
    assert bool(collapsed([start | {STD: 0.15}, now | {DISTINCT: answers}])) is not earned


def test_a_run_ends_below_the_entropy_that_is_set() -> None:
    limit = gradient_arguments({"stop_at_entropy": 0.1})
    assert early_end(entropies((0.05, 0.0), (0.1, 0.0)), limit) == ""
    assert early_end(entropies((0.2, 0.0), (0.05, 0.9)), limit) == (
        "the entropy of the sampled tokens is 0.05 nats, below stop_at_entropy 0.1"
    )
