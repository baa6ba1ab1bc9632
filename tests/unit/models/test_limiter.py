"""The limiter: never more than its limit, in order, down on refusals and slowness, up again after them."""

import asyncio
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.models.endpoint_state import Limiter


class Clock:
    """A clock that moves only when it is set."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def a_round(limiter: Limiter, *, refused: int = 0, seconds: float = 1.0, retry_after_s: float | None = None) -> None:
    """As many requests as one round has, one after another, the first of them refused."""

    async def main() -> None:
        for n in range(max(8, int(limiter.limit))):
            async with limiter.slot() as ticket:
                if n < refused:
                    ticket.refused(retry_after_s)
                else:
                    ticket.answered(seconds)

    asyncio.run(main())


def test_no_more_than_the_limit_are_in_flight_and_slots_are_given_in_order() -> None:
    limiter, order, most = Limiter(3), list[int](), 0

    async def one(number: int) -> None:
        nonlocal most
        async with limiter.slot():
            order.append(number)
            most = max(most, limiter.in_flight)
            await asyncio.sleep(0)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(40):
                group.create_task(one(number))

    asyncio.run(main())
    assert order == list(range(40))
    assert most == 3
    assert limiter.in_flight == 0


@given(leavers=st.sets(st.integers(0, 19)), after=st.integers(0, 6))
def test_a_cancelled_waiter_does_not_keep_a_slot(leavers: set[int], after: int) -> None:
    limiter, served = Limiter(2), set[int]()

    async def one(number: int) -> None:
        async with limiter.slot():
            await asyncio.sleep(0)
            served.add(number)

    async def main() -> None:
        tasks = [asyncio.create_task(one(number)) for number in range(20)]
        for _ in range(after):
            await asyncio.sleep(0)
        for number in leavers:
            tasks[number].cancel()
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), timeout=240)

    asyncio.run(main())
    assert limiter.in_flight == 0
    assert set(range(20)) - leavers <= served


def test_a_round_with_many_refusals_halves_the_limit_and_a_good_one_raises_it_a_little() -> None:
    limiter = Limiter(32, clock=Clock())
    a_round(limiter, refused=16)
    assert limiter.limit == 16
    a_round(limiter, refused=16)
    assert limiter.limit == 8
    for expected in (10, 12, 14):
        a_round(limiter)
        assert limiter.limit == expected
    assert (limiter.refused_rounds, limiter.slow_rounds, limiter.lowest) == (2, 0, 8)


def test_a_few_refusals_are_noise() -> None:
    limiter = Limiter(32, clock=Clock())
    for _ in range(20):
        a_round(limiter, refused=15)
    assert limiter.limit == 32


@given(rounds=st.lists(st.tuples(st.integers(0, 40), st.floats(0.001, 100)), max_size=60), most=st.integers(1, 40))
def test_the_limit_stays_between_one_and_most(rounds: list[tuple[int, float]], most: int) -> None:
    limiter = Limiter(most, clock=Clock())
    for refused, seconds in rounds:
        a_round(limiter, refused=refused, seconds=seconds)
        assert 1 <= limiter.limit <= most


def test_slow_answers_lower_the_limit_until_they_are_the_new_normal() -> None:
    limiter = Limiter(20, clock=Clock())
    a_round(limiter, seconds=1.0)
    assert limiter.limit == 20
    a_round(limiter, seconds=3.0)
    assert (limiter.limit, limiter.lowest) == (18, 18)
    assert (limiter.refused_rounds, limiter.slow_rounds) == (0, 1)
    for _ in range(60):
        a_round(limiter, seconds=3.0)
    assert limiter.limit == 20


def test_kinds_of_answers_are_not_compared_with_each_other() -> None:
    limiter = Limiter(8, clock=Clock())

    async def main() -> None:
        for n in range(60):
            async with limiter.slot() as ticket:
                ticket.answered(0.1 if n % 2 else 20.0, "rollout" if n % 2 else "consolidate")

    asyncio.run(main())
    assert limiter.lowered == 0


def test_refusals_that_come_sooner_than_answers_do_not_look_like_more() -> None:
    limiter = Limiter(16, clock=Clock())

    async def one(number: int) -> None:
        async with limiter.slot() as ticket:
            if number % 5 == 0:
                ticket.refused(None)
                return
            for _ in range(20):
                await asyncio.sleep(0)
            ticket.answered(1.0)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(400):
                group.create_task(one(number))

    asyncio.run(main())
    assert limiter.lowered == 0


def test_one_burst_of_refusals_halves_the_limit_once() -> None:
    limiter = Limiter(16, clock=Clock())

    async def one(ticks: int) -> None:
        async with limiter.slot() as ticket:
            for _ in range(ticks):
                await asyncio.sleep(0)
            ticket.refused(None)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(32):  # the later ones begin while the earlier end one by one
                group.create_task(one(1 + number % 16))

    asyncio.run(main())
    assert (limiter.limit, limiter.lowered) == (8, 1)


def test_after_refusals_no_request_is_sent_before_the_service_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, slept = Clock(), list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock.now_s += seconds

    limiter = Limiter(4, clock=clock)
    a_round(limiter, refused=8, retry_after_s=7.0)

    async def main() -> None:
        async with limiter.slot():
            assert clock.now_s == 7.0

    with monkeypatch.context() as patched:
        patched.setattr("agentlearn.models.endpoint_state.asyncio.sleep", sleep)
        asyncio.run(main())
    assert slept == [7.0]
