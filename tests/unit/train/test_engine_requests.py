# ruff: noqa: E402  what needs torch is imported after it is known to be there
"""Requests of the torch engine that share a forward pass: each keeps its own settings, positions and place."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from agentlearn.serving.engine import Sampled, Sampling
from agentlearn.train.engine.torch_engine import TorchEngine
from tests.support.tiny_model import forward_logprobs, tiny_network

SHARED = [(7 * at + 3) % 200 for at in range(60)]
"""Its first token is not the one that pads."""


def engine_of(network: Any, **how: Any) -> TorchEngine:
    return TorchEngine(network, stop_ids=frozenset(), context=512, **how)


async def together(engine: TorchEngine, prompts: Sequence[list[int]], **how: Any) -> list[Sampled]:
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(engine.sample(one, Sampling(seed=at, **how))) for at, one in enumerate(prompts)]
    return [one.result() for one in running]


@pytest.mark.parametrize("lengths", [(50, 40, 30), (9, 9, 6)], ids=str)
def test_prompts_of_different_length_continue_a_prefix_that_is_known(lengths: tuple[int, ...]) -> None:
    """They are computed in one pass, with padding, which must not reach the prefix."""
    network = tiny_network()
    engine = engine_of(network)
    prompts = [[*SHARED, *range(100 + at, 100 + at + length)] for at, length in enumerate(lengths)]

    async def once() -> list[Sampled]:
        await engine.sample(SHARED, Sampling(seed=1, max_tokens=2))
        return await together(engine, prompts, max_tokens=4)

    with engine.running():
        found = asyncio.run(once())
    for prompt, one in zip(prompts, found, strict=True):
        assert one.cached >= len(SHARED)
        assert one.logprobs == pytest.approx(forward_logprobs(network, prompt, one.ids), abs=1e-4)


def test_each_request_has_its_own_limits_of_the_vocabulary() -> None:
    network = tiny_network()
    engine = engine_of(network)
    ways = [{"top_p": 1e-6}, {"top_k": 1}, {"temperature": 0.0}, {"temperature": 1.7}, {}]

    async def mixed() -> list[Sampled]:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(engine.sample(SHARED, Sampling(seed=3, max_tokens=6, **way))) for way in ways]
        return [one.result() for one in running]

    with engine.running():
        likeliest_p, likeliest_k, greedy, hot, plain = asyncio.run(mixed())
    assert likeliest_p.ids == likeliest_k.ids == greedy.ids != plain.ids
    assert hot.logprobs == pytest.approx(forward_logprobs(network, SHARED, hot.ids, 1.7), abs=1e-4)
    assert plain.logprobs == pytest.approx(forward_logprobs(network, SHARED, plain.ids), abs=1e-4)


def test_nothing_is_computed_for_a_request_that_was_cancelled() -> None:
    network = tiny_network()
    engine = engine_of(network, max_batch=1)
    passes: list[int] = []
    network.register_forward_hook(lambda *_: passes.append(1))

    async def once() -> int:
        long = asyncio.create_task(engine.sample(SHARED, Sampling(seed=1, max_tokens=400)))
        while len(passes) < 3:
            await asyncio.sleep(0.002)
        long.cancel()
        await asyncio.wait({long})
        before = len(passes)
        await engine.sample([5, 6], Sampling(seed=1, max_tokens=3))
        return len(passes) - before

    with engine.running():
        assert asyncio.run(once()) < 100
