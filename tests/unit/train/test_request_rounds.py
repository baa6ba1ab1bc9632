"""Sampling in rounds: results depend only on the conversations that take part, bit by bit."""

import asyncio
import random

import pytest

from agentlearn.serving.chat_service import Sampled, Sampling
from agentlearn.train.engine.torch_engine import TorchEngine
from tests.support.tiny_model import tiny_network

NETWORK = tiny_network()
PROMPTS = [[*range(40, 60), *(random.Random(n).randrange(10, 250) for _ in range(4 + 3 * n))] for n in range(8)]


def conversations(arrivals: int, *, rounds: bool, leaver: int | None = None) -> list[list[Sampled]]:
    """Eight conversations of two turns each, whose requests come at random times; one may end after its first."""
    chance = random.Random(arrivals)
    engine = TorchEngine(NETWORK, stop_ids=frozenset({2}), context=512)

    async def one(n: int, leave: object) -> list[Sampled]:
        await asyncio.sleep(chance.random() / 50)
        first = await engine.sample(PROMPTS[n], Sampling(seed=n, max_tokens=6))
        turns = [first]
        if n != leaver:
            await asyncio.sleep(chance.random() / 50)
            longer = [*PROMPTS[n], *first.ids, 30, 31]
            turns.append(await engine.sample(longer, Sampling(seed=100 + n, max_tokens=6)))
        if callable(leave):
            leave()
        return turns

    async def all_of_them() -> list[list[Sampled]]:
        with engine.running():
            if not rounds:
                return await asyncio.gather(*(one(n, None) for n in range(8)))
            with engine.rounds(8, at_once=8) as barrier:
                return await asyncio.gather(*(one(n, barrier.leave) for n in range(8)))

    return asyncio.run(asyncio.wait_for(all_of_them(), 60))


@pytest.mark.parametrize("leaver", [None, 3])
def test_the_times_at_which_requests_come_change_no_bit(leaver: int | None) -> None:
    first, *others = [conversations(arrivals, rounds=True, leaver=leaver) for arrivals in range(4)]
    assert all(other == first for other in others)


def test_earlier_requests_change_no_bit_of_a_round() -> None:
    engine = TorchEngine(NETWORK, stop_ids=frozenset({2}), context=512)

    async def drawn(before: int) -> list[Sampled]:
        with engine.running():
            for n in range(before):
                await engine.sample(PROMPTS[n], Sampling(seed=n, max_tokens=3))
            with engine.rounds(4, at_once=4):
                return await asyncio.gather(
                    *(engine.sample(PROMPTS[n], Sampling(seed=n, max_tokens=6)) for n in range(4))
                )

    alone = asyncio.run(drawn(0))
    engine = TorchEngine(NETWORK, stop_ids=frozenset({2}), context=512)
    assert asyncio.run(drawn(3)) == alone


def test_rounds_draw_the_same_tokens_as_no_rounds() -> None:
    ids = [[turn.ids for turn in one] for one in conversations(0, rounds=False)]
    assert [[turn.ids for turn in one] for one in conversations(0, rounds=True)] == ids
