"""One engine over those of several processes. The other process is a thread here, at the end of a pipe."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.errors import EndpointError
from agentlearn.serving.chat_service import Sampled, Sampling
from agentlearn.train.distributed.spread_engine import (
    ConversationPlaces,
    RemoteEngine,
    SpreadEngine,
    share_in_sampling,
)
from agentlearn.train.engine.torch_engine import TorchEngine
from agentlearn.train.weights.loading import LoadedModel
from tests.support.lost_process import end_of_process
from tests.support.tiny_model import tiny_network, tiny_tokenizer

STOP = frozenset({tiny_tokenizer().eos_token_id})
PROMPTS = [[5 + number, 9, 11 + number] for number in range(6)]


def engine_of(network: Any) -> TorchEngine:
    return TorchEngine(network, stop_ids=STOP, context=512)


@contextmanager
def spread() -> Iterator[tuple[SpreadEngine, Connection]]:
    """An engine over two equal models, and the other process's connection."""
    ours, theirs = Pipe()
    loaded = LoadedModel(tiny_network(), tiny_tokenizer(), "tiny")
    own = engine_of(tiny_network())
    links: Any = SimpleNamespace(requests=theirs)
    with own.running(), share_in_sampling(loaded, links, wanted=True):
        try:
            yield SpreadEngine(own, [RemoteEngine(ours)]), theirs
        finally:
            end_of_process(theirs)
            for thread in threading.enumerate():
                if thread.name in {"agentlearn-share", "agentlearn-answers"}:
                    thread.join(10)
            theirs.close()
            ours.close()


def asked(engine: Any, prompts: Sequence[Sequence[int]], *, backwards: bool = False) -> list[Sampled]:
    """Sample an answer to each prompt at the same time, with the prompt's number as its seed."""

    async def all_at_once() -> list[Sampled]:
        made: dict[int, asyncio.Task[Sampled]] = {}
        async with asyncio.TaskGroup() as tasks:
            for number in sorted(range(len(prompts)), reverse=backwards):
                sampling = Sampling(seed=number, max_tokens=8)
                made[number] = tasks.create_task(engine.sample(prompts[number], sampling))
                await asyncio.sleep(0.01 if backwards else 0)
        return [made[number].result() for number in range(len(prompts))]

    return asyncio.run(all_at_once())


def test_answers_are_those_of_one_engine_and_both_take_part(monkeypatch: pytest.MonkeyPatch) -> None:
    shares: list[int] = []
    original = RemoteEngine.ask

    async def counted(self: RemoteEngine, requests: Any, *, together: bool) -> Any:
        shares.append(len(requests))
        return await original(self, requests, together=together)

    monkeypatch.setattr(RemoteEngine, "ask", counted)
    alone = engine_of(tiny_network())
    with alone.running():
        wanted = asked(alone, PROMPTS)
    with spread() as (engine, _):
        found = asked(engine, PROMPTS)
        assert [one.ids for one in found] == [one.ids for one in wanted]
        assert sum(shares) == 3
        with engine.rounds(len(PROMPTS), at_once=len(PROMPTS)):
            in_round = asked(engine, PROMPTS)
        assert [one.ids for one in in_round] == [one.ids for one in wanted]
        assert shares[-1] == 3


def test_in_rounds_the_order_of_arrival_changes_no_bit() -> None:
    found: list[list[Sampled]] = []
    for backwards in (False, True):
        with spread() as (engine, _), engine.rounds(len(PROMPTS), at_once=len(PROMPTS)):
            first = asked(engine, PROMPTS, backwards=backwards)
            continued = [[*prompt, *one.ids, 7] for prompt, one in zip(PROMPTS, first, strict=True)]
            found.append([*first, *asked(engine, continued, backwards=backwards)])
    assert found[0] == found[1]
    assert all(one.cached for one in found[0][len(PROMPTS) :])  # each turn went to the process of the turn before


def test_a_round_starts_when_the_others_have_left() -> None:
    with spread() as (engine, _), engine.rounds(3, at_once=3) as rounds:

        async def one_of_three() -> Sampled:
            async with asyncio.TaskGroup() as tasks:
                waiting = tasks.create_task(engine.sample([5, 6], Sampling(seed=1, max_tokens=2)))
                await asyncio.sleep(0.05)
                assert not waiting.done()
                await asyncio.to_thread(rounds.leave)
                await asyncio.to_thread(rounds.leave)
            return waiting.result()

        assert asyncio.run(one_of_three()).ids


@pytest.mark.parametrize("in_rounds", [False, True])
def test_a_lost_process_fails_its_requests_and_not_the_others(in_rounds: bool) -> None:
    with spread() as (engine, theirs):
        end_of_process(theirs)

        async def all_at_once() -> list[Any]:
            calls = [engine.sample(one, Sampling(seed=1, max_tokens=2)) for one in PROMPTS]
            return await asyncio.gather(*calls, return_exceptions=True)

        if in_rounds:
            with engine.rounds(len(PROMPTS), at_once=len(PROMPTS)):
                found = asyncio.run(all_at_once())
        else:
            found = asyncio.run(all_at_once())
    failed = [one for one in found if isinstance(one, EndpointError)]
    assert len(failed) == 3 if in_rounds else 0 < len(failed) < len(PROMPTS)
    assert {str(one) for one in failed} == {"a process that samples has ended"}


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), max_size=12), st.integers(1, 4))
def test_a_conversation_keeps_its_place(prompts: list[list[int]], places: int) -> None:
    known = ConversationPlaces(places)
    homes: dict[tuple[int, ...], int] = {}
    for prompt in prompts:
        begun = [ids for ids in homes if len(ids) < len(prompt) and tuple(prompt[: len(ids)]) == ids]
        with known.taken(prompt) as place:
            assert 0 <= place < places
            if begun:
                assert place == homes[max(begun, key=len)]
        known.remember(prompt, place)
        homes[tuple(prompt)] = place
