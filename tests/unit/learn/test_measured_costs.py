"""Estimates after a run: what its service told of cached input counts at the price of cached input."""

import asyncio
from pathlib import Path

import pytest

from agentlearn.config import LearnSettings
from agentlearn.learning.costs import FEWEST_ROLLOUTS, RolloutSize, StageEstimate, estimate, known_price, measured_size
from agentlearn.store import open_store
from agentlearn.types.trajectory import Usage
from tests.support.shared_options import AS_PUBLISHED
from tests.unit.store import nouns

MODEL = "openai:gpt-5-mini"


def learned_before(store: Path, *, cached: int) -> LearnSettings:
    """A finished run with two calls per rollout of 1,000 tokens in together, that many of them cached."""

    async def write() -> None:
        usage = Usage(requests=2, tokens_in=1_000, tokens_cached=cached, tokens_out=50)
        tokens = {"tokens_in": 500, "tokens_out": 25, "name": MODEL}
        async with open_store(store) as opened:
            await opened.save_tasks([nouns.TASK])
            for state in ("running", "done"):
                settings = LearnSettings(domain="math", model=MODEL, store=store, **AS_PUBLISHED)
                await opened.save_run(nouns.run_event(state=state, model=MODEL, settings=settings.resolved()))
            for g in range(FEWEST_ROLLOUTS):
                await opened.save_trajectory(nouns.trajectory(g, usage=usage), b"[]")
                for ordinal in range(2):
                    spent = {**tokens, "tokens_cached": cached * ordinal}
                    await opened.record(nouns.call(ordinal, unit=f"u{g}", **spent))

    asyncio.run(write())
    return LearnSettings(domain="math", model=MODEL, store=store, **AS_PUBLISHED)


def test_input_that_was_cached_has_the_price_of_cached_input(tmp_path: Path) -> None:
    sizes, rollouts = dict[int, RolloutSize](), dict[int, StageEstimate]()
    for cached in (0, 400):
        settings = learned_before(tmp_path / str(cached), cached=cached)
        size = measured_size(settings, tasks=20)
        assert size is not None
        sizes[cached] = size.rollout
        found = estimate(settings, train=20, size=size)
        rollouts[cached] = found.stages[0]
        assert (" cached)" in found.sentence()) == bool(cached)
        assert found.most is not None
        assert found.most.stages[0].tokens_cached == 0
    assert [sizes[one].cached for one in (0, 400)] == [0.0, pytest.approx(0.4)]
    full, less = rollouts[0], rollouts[400]
    price = known_price(MODEL)
    assert price is not None
    assert (full.tokens_in, full.tokens_cached) == (less.tokens_in, 0)
    assert less.tokens_cached == pytest.approx(0.4 * less.tokens_in, abs=1)
    assert full.cost_usd is not None
    saved = less.tokens_cached * (price.read - price.cached) / 1e6
    assert less.cost_usd == pytest.approx(full.cost_usd - saved)
