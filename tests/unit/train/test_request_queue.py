"""The engine's queue: the order of requests, none of which is lost, and pauses in which no step runs."""

import asyncio
import threading
from collections.abc import Callable, Iterable

import pytest

pytest.importorskip("torch")

from agentlearn.serving.engine import Sampling
from agentlearn.train.engine.active_batch import SamplingRequest
from agentlearn.train.engine.torch_engine import RequestQueue


def request(seed: int) -> SamplingRequest:
    async def made() -> SamplingRequest:
        return SamplingRequest.create([1, 2], Sampling(seed=seed, max_tokens=4))

    return asyncio.run(made())


def seeds(requests: Iterable[SamplingRequest]) -> list[int]:
    return [one.sampling.seed for one in requests]


def test_a_round_is_in_the_order_of_seeds_and_none_of_it_is_lost_when_rounds_end() -> None:
    queue = RequestQueue()
    with queue.rounds(2, at_once=2):
        for seed in (2, 1):
            queue.submit(request(seed))
        assert queue.begin_step(busy=False) == "step_after_change"
        queue.end_step()
    queue.submit(request(0))
    assert seeds(queue.take()) == [1, 2, 0]


def test_requests_that_have_to_wait_stay_before_later_ones() -> None:
    queue = RequestQueue()
    for seed in (1, 2):
        queue.submit(request(seed))
    taken = queue.take()
    queue.submit(request(3))
    queue.put_back(taken)
    assert seeds(queue.drain()) == [1, 2, 3]


def begun(wait: Callable[[], object]) -> threading.Event:
    """Wait in another thread; the event is set when the waiting is over."""
    over = threading.Event()
    threading.Thread(target=lambda: (wait(), over.set()), daemon=True).start()
    return over


def test_a_pause_waits_for_the_running_step() -> None:
    queue = RequestQueue()
    queue.submit(request(1))
    queue.begin_step(busy=False)
    paused = begun(queue.paused().__enter__)
    assert not paused.wait(0.05)
    queue.end_step()
    assert paused.wait(5)


def test_a_step_waits_for_the_end_of_a_pause() -> None:
    queue = RequestQueue()
    queue.submit(request(1))
    with queue.paused():
        stepping = begun(lambda: queue.begin_step(busy=True))
        assert not stepping.wait(0.05)
    assert stepping.wait(5)
