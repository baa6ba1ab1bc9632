"""Stopping a run: calls in flight finish, no new call starts, and the reason is raised once."""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from agentlearn.config import BudgetOptions
from agentlearn.errors import BudgetExceeded, Interrupted
from agentlearn.models.budget import Budget
from agentlearn.models.call_context import CallContext
from agentlearn.types.trajectory import Usage
from tests.support.stages import RUN, ListJournal

STOP = Interrupted("interrupted")


def call_context(**limits: Any) -> CallContext:
    return CallContext(RUN, ListJournal(), Budget(BudgetOptions(**limits)))


def run(work: Callable[[], Coroutine[Any, Any, Any]]) -> tuple[Any, list[str]]:
    """Return the result, and the errors that the event loop reported."""
    complaints: list[str] = []

    async def watched() -> Any:
        asyncio.get_running_loop().set_exception_handler(lambda _, told: complaints.append(str(told["message"])))
        try:
            return await work()
        finally:
            gc.collect(1)  # what the work left; a full collection takes a second

    return asyncio.run(watched()), complaints


def test_work_that_is_not_stopped_returns_its_result() -> None:
    async def work() -> int:
        return 42

    async def main() -> int:
        return await call_context().until_stopped(work())

    assert run(main) == (42, [])


def test_calls_in_flight_finish_and_no_other_starts() -> None:
    ended, begun = list[int](), list[int]()
    one = call_context()

    async def call(number: int, place: asyncio.Semaphore) -> None:
        async with place, one.one_call():
            begun.append(number)
            await asyncio.sleep(0.01)
            ended.append(number)

    async def work() -> None:
        place = asyncio.Semaphore(3)
        async with asyncio.TaskGroup() as group:
            for number in range(30):
                group.create_task(call(number, place))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            one.stop(STOP)

    async def main() -> None:
        with pytest.raises(Interrupted) as told:
            await one.until_stopped(work())
        assert told.value is STOP

    assert run(main)[1] == []
    assert ended == begun
    assert len(begun) <= 3
    assert one.in_flight == 0


def test_a_budget_that_is_reached_lets_the_others_end() -> None:
    ended = list[int]()
    one = call_context(max_tokens=10)

    async def call(number: int) -> None:
        async with one.one_call():
            await asyncio.sleep(0.01 * number)
            one.budget.spend(Usage(requests=1, tokens_in=6, tokens_out=0), None)
            ended.append(number)

    async def work() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(3):
                group.create_task(call(number))
        await call(3)

    async def main() -> None:
        with pytest.raises(BudgetExceeded, match="18 tokens"):
            await one.until_stopped(work())

    assert run(main)[1] == []
    assert ended == [0, 1, 2]


def test_errors_while_work_is_cancelled_are_not_reported() -> None:
    one = call_context()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("while cancelled")

    async def main() -> None:
        stopping = asyncio.get_running_loop().call_soon(lambda: one.stop(STOP))
        with pytest.raises(Interrupted):
            await one.until_stopped(work())
        stopping.cancel()

    assert run(main)[1] == []


def test_an_error_of_the_work_is_raised_as_it_is() -> None:
    async def work() -> None:
        raise ValueError("broken")

    async def main() -> None:
        with pytest.raises(ValueError, match="broken"):
            await call_context().until_stopped(work())

    assert run(main)[1] == []


def test_outside_of_a_run_the_reason_is_raised_at_once() -> None:
    one = call_context()
    one.stop(STOP)

    async def main() -> None:
        with pytest.raises(Interrupted):
            async with one.one_call():
                pass

    run(main)


def test_a_task_that_the_cancelling_did_not_reach_ends_too() -> None:
    one, strays = call_context(), list[asyncio.Task[None]]()

    async def ask() -> None:
        async with one.one_call():
            raise AssertionError("asked")

    async def work() -> None:
        one.stop(STOP)
        strays.append(asyncio.create_task(ask()))
        await asyncio.Event().wait()

    async def main() -> None:
        with pytest.raises(Interrupted):
            await one.until_stopped(work())
        assert all(stray.cancelled() for stray in strays)

    assert run(main)[1] == []
