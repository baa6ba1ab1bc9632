"""A service that falls silent: calls wait, one asks again, and the time does not count against a rollout."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from pydantic_ai.exceptions import ModelConnectionError, ModelHTTPError, UnexpectedModelBehavior
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from agentlearn.config import BudgetOptions
from agentlearn.errors import BudgetExceeded, EndpointError, EndpointGone, Interrupted
from agentlearn.models import outage as outage_module
from agentlearn.models.budget import Budget
from agentlearn.models.call_context import CallContext, WorkUnit
from agentlearn.models.client import ModelClient
from agentlearn.models.endpoint_state import EndpointState, Limiter
from agentlearn.models.outage import Outage, RetryPolicy, duration_words
from tests.support.stages import RUN, ListJournal

UNAVAILABLE = ModelHTTPError(503, "m", "busy")
Script = Callable[[], Awaitable[None]]


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage_module, "FIRST_WAIT_S", 0.002)
    monkeypatch.setattr(outage_module, "LONGEST_WAIT_S", 0.01)
    monkeypatch.setattr(outage_module, "TOLD_AFTER_S", 0.005)


class Service:
    """A service that raises `failure` while one is set; it counts its requests and those at the same time."""

    def __init__(self, limit_s: float = 60.0, *, concurrency: int = 64) -> None:
        self.failure: Exception | None = None
        self.requests = self.at_once = self.most_at_once = 0
        self.said: list[tuple[str, bool]] = []
        outage = Outage(limit_s=limit_s, name="stub", tell=lambda words, silent: self.said.append((words, silent)))
        retry = RetryPolicy(attempts=3, base_s=0.0)
        self.state = EndpointState(Limiter(concurrency), deadline_s=5.0, retry=retry, outage=outage)
        self.call_context = CallContext(RUN, ListJournal(), Budget(BudgetOptions()))

    async def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        failure = self.failure
        self.requests += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(0.001)
        finally:
            self.at_once -= 1
        if failure is not None:
            raise failure
        return ModelResponse(parts=[TextPart("yes")], usage=RequestUsage(input_tokens=5, output_tokens=1))

    def client(self, name: str = "u") -> ModelClient:
        return ModelClient(FunctionModel(self.answer), self.state, WorkUnit(self.call_context, "rollout", name, 7))

    async def ask(self, name: str = "u") -> ModelResponse:
        return await self.client(name).request([ModelRequest.user_text_prompt("hi")], None, ModelRequestParameters())

    async def until_down(self) -> None:
        while not self.state.outage.down:
            await asyncio.sleep(0)

    async def ask_many(self, count: int) -> list[ModelResponse | BaseException]:
        return await asyncio.gather(*(self.ask(f"u{one}") for one in range(count)), return_exceptions=True)


def test_all_calls_go_on_after_an_outage_and_one_at_a_time_asks_again(subtests: pytest.Subtests) -> None:
    for failure in [
        *(ModelHTTPError(status, "m", "later") for status in (408, 409, 425, 429, 500, 502, 503, 504, 522, 529, 599)),
        ModelConnectionError("m", "refused"),
        TimeoutError(),
    ]:
        with subtests.test(repr(failure)):
            service = Service()

            async def main() -> list[ModelResponse | BaseException]:
                await service.ask()
                service.failure = failure
                waiting = asyncio.create_task(service.ask_many(96))
                await service.until_down()
                await asyncio.sleep(0.02)
                service.most_at_once, before = 0, service.requests
                await asyncio.sleep(0.1)
                assert service.most_at_once == 1
                assert service.requests - before >= 2
                service.failure = None
                return await waiting

            ended = asyncio.run(main())
            assert all(isinstance(one, ModelResponse) for one in ended), ended
            assert [silent for _, silent in service.said] == [True, False]
            assert "no answer from stub for " in service.said[0][0]
            assert "asking again until" in service.said[0][0]
            assert (service.state.outage.count, service.state.outage.down) == (1, False)
            assert service.state.outage.total_s > 0.05


def test_few_requests_are_sent_before_an_outage_is_noticed() -> None:
    service = Service(concurrency=8)

    async def main() -> None:
        await service.ask()
        service.failure = UNAVAILABLE
        waiting = asyncio.create_task(service.ask_many(100))
        await service.until_down()
        assert service.requests < 8 * 3 + 30
        service.failure = None
        await waiting

    asyncio.run(main())


def test_after_the_limit_the_run_stops_and_can_be_resumed() -> None:
    service = Service(limit_s=1.0)

    async def main() -> None:
        await service.ask()
        service.failure = UNAVAILABLE
        await service.call_context.until_stopped(service.ask_many(50))

    with pytest.raises(EndpointGone, match=r"\(HTTP 503\), longer than --max-outage-minutes") as caught:
        asyncio.run(main())
    assert caught.value.resumable


def test_a_service_that_never_answered_is_not_waited_for() -> None:
    service = Service()
    service.failure = UNAVAILABLE
    ended = asyncio.run(service.ask_many(1))
    assert isinstance(ended[0], EndpointError)
    assert service.requests == 3
    assert not service.state.outage.down


def test_the_last_calls_left_are_lost_when_the_service_answers_them_with_500_only() -> None:
    service = Service(concurrency=8)

    async def run() -> None:
        await service.ask()
        service.failure = ModelHTTPError(500, "m", "cannot read this")
        lost = await service.ask_many(2)
        assert [getattr(one, "code", "") for one in lost] == ["endpoint_500"] * 2
        assert service.requests < 30
        waiting = asyncio.create_task(service.ask("next"))  # a third one in a row is an outage
        await asyncio.sleep(0.2)
        assert service.state.outage.down
        assert not waiting.done()
        service.failure = None
        await waiting

    asyncio.run(run())


def test_one_request_that_always_fails_is_lost_while_others_are_answered() -> None:
    service = Service()

    async def main() -> None:
        await service.ask()

        async def others() -> None:
            while True:
                await service.ask("other")

        going = asyncio.create_task(others())
        lost = service.client("lost")

        async def fail(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            await asyncio.sleep(0.01)
            raise UNAVAILABLE

        lost.wrapped = FunctionModel(fail)
        with pytest.raises(EndpointError, match="asked 3 times"):
            await lost.request([ModelRequest.user_text_prompt("hi")], None, ModelRequestParameters())
        going.cancel()
        await asyncio.wait([going])

    asyncio.run(main())
    assert service.state.outage.count == 0


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_refusal_ends_an_outage(status: int) -> None:
    service = Service()

    async def main() -> list[ModelResponse | BaseException]:
        await service.ask()
        service.failure = UNAVAILABLE
        waiting = asyncio.create_task(service.ask_many(5))
        await service.until_down()
        service.failure = ModelHTTPError(status, "m", "no")
        return await waiting

    ended = asyncio.run(main())
    assert all(isinstance(one, EndpointError) and one.code == f"endpoint_{status}" for one in ended), ended


def test_a_page_for_visitors_during_an_outage_does_not_end_it() -> None:
    service = Service()

    async def main() -> list[ModelResponse | BaseException]:
        await service.ask()
        service.failure = UNAVAILABLE
        waiting = asyncio.create_task(service.ask_many(5))
        await service.until_down()
        service.failure = UnexpectedModelBehavior("we are back soon")
        await asyncio.sleep(0.05)
        assert service.state.outage.down
        service.failure = None
        return await waiting

    assert all(isinstance(one, ModelResponse) for one in asyncio.run(main()))


def test_garbled_replies_stop_a_run_that_was_answered_only_after_very_many() -> None:
    service = Service(concurrency=4)

    async def main() -> None:
        await service.ask()
        service.failure = UnexpectedModelBehavior("not a completion")
        ended = await service.ask_many(99)
        assert {one.code for one in ended if isinstance(one, EndpointError)} == {"endpoint_garbled"}
        assert service.call_context.stopped is None
        await service.ask_many(1)
        assert isinstance(service.call_context.stopped, EndpointGone)

    asyncio.run(main())


def test_neither_the_wait_nor_the_failed_requests_count_against_the_time_limit() -> None:
    service = Service()

    async def main() -> float:
        await service.ask()
        service.failure = UNAVAILABLE
        client, loop = service.client(), asyncio.get_running_loop()

        async def end_later() -> None:
            await asyncio.sleep(1.5)
            service.failure = None

        ending = asyncio.create_task(end_later())
        async with asyncio.timeout(1.0) as deadline:
            client.unit.deadline = deadline
            await client.request([ModelRequest.user_text_prompt("hi")], None, ModelRequestParameters())
            left_s = (deadline.when() or 0.0) - loop.time()
        await ending
        return left_s

    assert 0 < asyncio.run(main()) <= 1.1


@pytest.mark.parametrize("stop", ["user", "minutes"])
def test_a_run_that_is_stopped_does_not_wait_any_longer(stop: str) -> None:
    service = Service()

    async def main() -> None:
        await service.ask()
        service.failure = UNAVAILABLE
        working = asyncio.create_task(service.call_context.until_stopped(service.ask_many(20)))
        await asyncio.sleep(0.05)
        if stop == "user":
            service.call_context.stop(Interrupted("interrupted"))
        else:
            service.call_context.budget.limits = BudgetOptions(max_minutes=0.0001)
            service.call_context.budget.started -= 60
        async with asyncio.timeout(5):
            await working

    with pytest.raises(Interrupted if stop == "user" else BudgetExceeded):
        asyncio.run(main())


@pytest.mark.parametrize("pause_s", [0.0, 0.0005, 0.001, 0.002, 0.003, 0.007])
def test_a_call_that_is_cancelled_while_it_asks_passes_its_turn_on(pause_s: float) -> None:
    service = Service()

    async def main() -> None:
        await service.ask()
        service.failure = UNAVAILABLE
        calls = [asyncio.create_task(service.ask(f"u{one}")) for one in range(10)]
        await service.until_down()
        for call in calls[:9]:
            call.cancel()
            await asyncio.sleep(pause_s)
        service.failure = None
        async with asyncio.timeout(20):
            assert await calls[9]
        await asyncio.wait(calls)

    asyncio.run(main())


def test_a_wait_that_the_service_asks_for_is_kept_within_the_limit() -> None:
    now = 0.0
    outage = Outage(limit_s=100.0, clock=lambda: now)
    outage.silence(0.0, "HTTP 503")
    assert outage.begin()
    now = 1.0
    assert outage.asked(silence=True, wanted_s=40.0)
    assert outage._next_at == 41.0  # pyright: ignore[reportPrivateUsage]
    now = 41.0
    assert outage.asked(silence=True, wanted_s=500.0)
    assert outage._next_at == 100.0  # pyright: ignore[reportPrivateUsage]
    now = 100.0
    assert not outage.asked(silence=True)
    assert not outage.begin() or outage.given_up


@pytest.mark.parametrize(("seconds", "words"), [(0.2, "0 s"), (40, "40 s"), (150, "2.5 min")])
def test_a_duration_is_said_in_words(seconds: float, words: str) -> None:
    assert duration_words(seconds) == words
