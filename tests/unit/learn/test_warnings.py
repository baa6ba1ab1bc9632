"""Warnings: each names its cause with numbers and a remedy, is reported once, and is in the notes of the report."""

import asyncio
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.learning.warnings import RunSnapshot, RunWarning, fallen_reward, run_warnings
from agentlearn.models.limiter import Limiter


def lowered(*, refusals: int) -> Limiter:
    """A limiter of 32 after one round with that many refusals."""
    limiter = Limiter(32)

    async def a_round() -> None:
        for number in range(32):
            async with limiter.slot() as ticket:
                if number < refusals:
                    ticket.refused(None)
                else:
                    ticket.answered(1.0)

    asyncio.run(a_round())
    return limiter


def test_a_warning_names_its_cause_and_a_remedy(subtests: pytest.Subtests) -> None:
    for seen, words in [
        (
            RunSnapshot(groups={"all_right": 41, "mixed": 9}),
            "41 of 50 groups were all right and teach nothing: use harder tasks or a weaker model",
        ),
        (
            RunSnapshot(groups={"all_wrong": 10}),
            "10 of 10 groups were all wrong and teach nothing: use easier tasks or a stronger model",
        ),
        (
            RunSnapshot(groups={"undecided": 9, "mixed": 1}),
            "9 of 10 groups were undecided and teach nothing: agentlearn trace lists them by task",
        ),
        (
            RunSnapshot(rollouts=30, undecided=12),
            "12 of 30 rollouts are undecided and teach nothing: agentlearn trace lists them by task",
        ),
        (
            RunSnapshot(rollouts=40, failures={"too_many_turns": 8, "tool": 1}),
            "8 of 40 rollouts failed with too_many_turns: set a larger max_turns in a recipe",
        ),
        (
            RunSnapshot(rollouts=20, failures={"own_code": 20}),
            "20 of 20 rollouts failed with own_code: agentlearn trace lists them by task",
        ),
        (
            RunSnapshot(limiters=(Limiter(64), lowered(refusals=32))),
            ("the service accepted only 16 of 32 calls at once, because it refused more (429): use --concurrency 16"),
        ),
        (
            RunSnapshot(max_cost_usd=5, unpriced_calls=12),
            (
                "12 calls have no known price and do not count towards --max-cost-usd 5:"
                " use --max-tokens, which counts them"
            ),
        ),
        (
            RunSnapshot(replies={"compare": 20, "summarise": 50}, malformed={"compare": 7, "summarise": 15}),
            "7 of 20 replies of the stage compare were malformed: use a stronger --reflector",
        ),
    ]:
        with subtests.test(repr((seen, words))):
            assert [one.words for one in run_warnings(seen)] == [words]


counts = st.integers(min_value=0, max_value=60)


@given(groups=st.dictionaries(st.sampled_from(["mixed", "all_right", "all_wrong", "undecided", "failed"]), counts))
def test_warnings_about_groups_depend_only_on_shares(groups: dict[str, int]) -> None:
    """n groups and twice as many groups in the same shares give the same warnings."""
    twice = {kind: 2 * count for kind, count in groups.items()}
    subjects = [one.subject for one in run_warnings(RunSnapshot(groups=groups))]
    assert len(subjects) <= 1
    if subjects:
        assert [one.subject for one in run_warnings(RunSnapshot(groups=twice))] == subjects
        assert groups[subjects[0]] >= 0.8 * sum(groups.values())


def fallen(before: dict[str, float], now: dict[str, float], comparisons: int = 1) -> RunWarning | None:
    return fallen_reward(2, before, now, comparisons=comparisons, seed=0, best="version abc is the best so far")


def test_a_reward_that_falls_on_the_same_tasks_is_a_warning_with_the_best_version() -> None:
    before = {f"t{n}": 0.8 for n in range(20)} | {"other": 0.0}
    warning = fallen(before, {f"t{n}": 0.8 - 0.04 * (n % 5) for n in range(20)} | {"new": 0.0})
    assert warning is not None
    assert warning.words == (
        "the reward on the same 20 tasks fell from 0.80 in epoch 1 to 0.72 in epoch 2, so new lessons may do harm;"
        " version abc is the best so far"
    )
    assert fallen(before, before) is None
    assert fallen({}, before) is None
    assert fallen({"t1": 1.0}, {"t1": 0.0}) is None, "one task shows nothing"


def test_noise_is_a_warning_in_at_most_one_run_of_twenty() -> None:
    """Tasks of all difficulties, G = 5 with an early stop after 3 that agree, 3 epochs in which nothing changes."""
    warned, runs = 0, 400
    for seed in range(runs):
        rng = Random(seed)
        rates = [rng.random() for _ in range(12)]

        def epoch(rng: Random = rng, rates: list[float] = rates) -> dict[str, float]:
            means: dict[str, float] = {}
            for n, rate in enumerate(rates):
                drawn = [float(rng.random() < rate) for _ in range(5)]
                kept = drawn[:3] if len(set(drawn[:3])) == 1 else drawn
                means[f"t{n}"] = sum(kept) / len(kept)
            return means

        epochs = [epoch() for _ in range(3)]
        warned += any(fallen(one, following, comparisons=2) for one, following in pairwise(epochs))
    assert warned <= 0.05 * runs + 2 * (0.05 * 0.95 * runs) ** 0.5
