"""The model client: seeds, retries, deadlines, the journal before use, the budget before spending."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from agentlearn.config import BudgetOptions, RequestOptions
from agentlearn.errors import EndpointError, EndpointGone, NeverAnswered
from agentlearn.models.budget import Budget
from agentlearn.models.call_context import CallContext, CallRecord, Stage, WorkUnit
from agentlearn.models.call_settings import call_settings
from agentlearn.models.client import ModelClient
from agentlearn.models.endpoint_state import FIRST, EndpointState, Limiter
from agentlearn.models.outage import RetryPolicy
from agentlearn.pages.groups import reply_text
from agentlearn.types.ids import RunId
from tests.support.stages import ListJournal

Script = Callable[[list[ModelMessage], AgentInfo], ModelResponse | Awaitable[ModelResponse]]


def answer(text: str = "done", tokens: int = 5) -> ModelResponse:
    return ModelResponse(parts=[TextPart(text)], usage=RequestUsage(input_tokens=tokens, output_tokens=tokens))


def client(
    script: Script, *, limits: BudgetOptions | None = None, endpoint_state: EndpointState | None = None
) -> ModelClient:
    unit = WorkUnit(CallContext(RunId("r"), ListJournal(), Budget(limits or BudgetOptions())), "rollout", "u", 7)
    retry = RetryPolicy(attempts=3, base_s=0.0)
    return ModelClient(
        FunctionModel(script), endpoint_state or EndpointState(Limiter(4), deadline_s=30.0, retry=retry), unit
    )


async def ask(one: ModelClient, text: str = "hello") -> ModelResponse:
    return await one.request([ModelRequest.user_text_prompt(text)], None, ModelRequestParameters())


def journal(one: ModelClient) -> list[CallRecord]:
    assert isinstance(one.unit.call_context.journal, ListJournal)
    return one.unit.call_context.journal.records


def test_each_request_has_its_own_seed_and_the_same_one_again() -> None:
    seeds: list[object] = []

    def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seeds.append((info.model_settings or {}).get("seed"))
        return answer()

    async def twice() -> None:
        one = client(script)
        await ask(one)
        await ask(one)

    asyncio.run(twice())
    asyncio.run(twice())
    assert len(set(seeds)) == 2
    assert seeds[:2] == seeds[2:]


def test_a_response_is_committed_before_it_is_seen() -> None:
    one = client(lambda messages, info: answer("forty-two", tokens=3))
    response = asyncio.run(ask(one))
    (record,) = journal(one)
    assert response.text == "forty-two"
    assert "forty-two" in record.response
    assert (record.kind, record.ordinal, record.tokens_in, record.attempts) == ("model", 0, 3, 1)


@pytest.mark.parametrize(("stage", "kept"), [("compare", True), ("summarise", True), ("rollout", False)])
def test_what_a_stage_asked_is_kept_with_the_reply(stage: Stage, *, kept: bool) -> None:
    one = client(lambda messages, info: answer())
    one.unit = WorkUnit(one.unit.call_context, stage, "c", 7)
    asyncio.run(ask(one, "Compare \ud800 these."))
    (record,) = journal(one)
    assert ("Compare \ud800 these." in reply_text(record.asked)) is kept
    assert bool(record.asked) is kept


def test_a_journal_that_fails_keeps_the_response_from_being_used() -> None:
    class Broken(ListJournal):
        async def record(self, record: CallRecord) -> None:
            raise RuntimeError("disk")

    one = client(lambda messages, info: answer())
    one.unit.call_context.journal = Broken()
    with pytest.raises(RuntimeError, match="disk"):
        asyncio.run(ask(one))


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_transient_failures_are_tried_again_and_counted(status: int) -> None:
    failures = iter([True, True, False])

    def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if next(failures):
            raise ModelHTTPError(status, "m", None)
        return answer()

    one = client(script)
    asyncio.run(ask(one))
    assert journal(one)[0].attempts == 3
    assert one.endpoint_state.failures == {f"status_{status}": 2}


def test_a_lasting_failure_names_status_and_tries() -> None:
    def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        raise ModelHTTPError(500, "m", {"error": "no memory"})

    one = client(script)
    with pytest.raises(EndpointError, match=r"refused with status 500 \(asked 3 times\): .*no memory") as caught:
        asyncio.run(ask(one))
    assert caught.value.code == "endpoint_500"
    assert journal(one) == []


def test_a_refusal_is_not_tried_again() -> None:
    asked: list[int] = []

    def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked.append(1)
        raise ModelHTTPError(401, "m", "bad key")

    with pytest.raises(EndpointError, match=r"status 401 \(asked once\)"):
        asyncio.run(ask(client(script)))
    assert len(asked) == 1


@pytest.mark.parametrize(("status", "stops"), [(400, False), (413, False), (422, False), (404, True), (503, True)])
def test_refusals_of_a_request_say_little_about_the_service(status: int, *, stops: bool) -> None:
    def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        raise ModelHTTPError(status, "m", "no")

    one = client(script)

    async def three() -> None:
        for _ in range(3):
            with pytest.raises(EndpointError):
                await ask(one)

    asyncio.run(three())
    assert isinstance(one.unit.call_context.stopped, NeverAnswered if stops else type(None))


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_run_stops_when_its_first_calls_are_all_refused(status: int) -> None:
    def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        raise ModelHTTPError(status, "m", {"error": {"message": "we do not serve you"}})

    one = client(script)

    async def calls() -> None:
        for number in range(FIRST):
            assert one.unit.call_context.stopped is None, number
            with pytest.raises(EndpointError):
                await ask(one)

    asyncio.run(calls())
    why = one.unit.call_context.stopped
    assert isinstance(why, NeverAnswered)
    assert "no call has been answered (8 tried)" in str(why)
    assert "we do not serve you" in str(why)
    assert not why.resumable


def test_one_answer_among_the_first_calls_keeps_the_run_going(subtests: pytest.Subtests) -> None:
    """Refusals come faster than answers: the answer arrives after all other first calls were refused."""
    for answered in range(FIRST):
        with subtests.test(repr(answered)):
            late = asyncio.Event()

            async def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
                if "good" in str(messages):
                    await late.wait()
                    return answer()
                raise ModelHTTPError(400, "m", "no")

            one = client(script, endpoint_state=EndpointState(Limiter(64), deadline_s=30.0))

            async def ask_for(number: int) -> None:
                with contextlib.suppress(EndpointError):
                    await ask(one, "good" if number == answered else "bad")

            async def run() -> None:
                async with asyncio.TaskGroup() as calls:
                    for number in range(40):
                        calls.create_task(ask_for(number))
                    await asyncio.sleep(0.05)
                    late.set()
                one.endpoint_state.refuse_silence(one.unit.call_context.budget)

            asyncio.run(run())
            assert one.unit.call_context.stopped is None


def test_a_stage_without_an_answer_is_named_and_a_paid_run_can_be_resumed() -> None:
    def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        raise ModelHTTPError(400, "m", "too long")

    rollouts = client(lambda messages, info: answer())
    lessons = client(script, endpoint_state=rollouts.endpoint_state)
    lessons.unit = WorkUnit(rollouts.unit.call_context, "compare", "c", 7)

    async def run() -> None:
        await ask(rollouts)
        with pytest.raises(EndpointError):
            await ask(lessons)
        lessons.endpoint_state.refuse_silence(lessons.unit.call_context.budget)

    with pytest.raises(EndpointGone, match="no call of the model that writes the lessons has been answered") as caught:
        asyncio.run(run())
    assert caught.value.resumable


def test_other_settings_are_another_kind_of_call() -> None:
    def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if "temperature" in (info.model_settings or {}):
            raise ModelHTTPError(400, "m", {"error": {"message": "Unsupported value", "param": "temperature"}})
        return answer()

    one = client(script)

    async def run() -> None:
        await ask(one)
        with pytest.raises(EndpointError, match="--temperature none"):
            await one.request(
                [ModelRequest.user_text_prompt("x")], ModelSettings(temperature=0.3), ModelRequestParameters()
            )
        one.endpoint_state.refuse_silence(one.unit.call_context.budget)

    with pytest.raises(NeverAnswered, match="leave the temperature out with --temperature none"):
        asyncio.run(run())


def test_settings_of_the_endpoint_are_added_and_left_out() -> None:
    seen: list[dict[str, object]] = []

    def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(dict(info.model_settings or {}))
        return answer()

    one = client(script)
    options = RequestOptions(no_seed=True, top_p=0.9, max_output_tokens=50, reasoning_effort="low")
    one.call_settings = call_settings(options, temperature=False)
    settings = ModelSettings(temperature=0.0)
    asyncio.run(one.request([ModelRequest.user_text_prompt("x")], settings, ModelRequestParameters()))
    assert seen == [{"top_p": 0.9, "max_tokens": 50, "openai_reasoning_effort": "low"}]


def test_the_system_message_becomes_the_start_of_the_first_user_message() -> None:
    from pydantic_ai import Agent

    seen: list[list[ModelMessage]] = []

    def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(messages)
        assert not info.instructions
        return answer()

    one = client(script)
    one.call_settings = call_settings(RequestOptions(fold_system=True))
    agent = Agent(one, system_prompt="Be brief.", instructions="Use metres.")

    async def talk() -> None:
        first = await agent.run("How far?")
        await agent.run("And back?", message_history=first.all_messages())

    asyncio.run(talk())
    for messages in seen:
        kinds = [part.part_kind for message in messages for part in message.parts]
        assert "system-prompt" not in kinds
        first = messages[0].parts[0]
        assert isinstance(first, UserPromptPart)
        assert first.content == "Be brief.\n\nUse metres.\n\nHow far?"
    assert len(seen) == 2


def test_calls_that_fail_while_others_are_answered_do_not_stop_the_run() -> None:
    """Calls that fail in all attempts take the longest, so they end last and together."""
    answered = asyncio.Event()

    async def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if "lost" not in str(messages):
            return answer()
        await answered.wait()
        raise ModelHTTPError(503, "m", "busy")

    one = client(script)

    async def lose() -> None:
        with pytest.raises(EndpointError):
            await ask(one, "lost")

    async def run() -> None:
        async with asyncio.TaskGroup() as calls:
            for _ in range(3):
                calls.create_task(lose())
            await asyncio.sleep(0)
            await ask(one, "fine")
            answered.set()
        assert one.unit.call_context.stopped is None
        for _ in range(3):
            await lose()
        assert isinstance(one.unit.call_context.stopped, EndpointGone), "these began after the last answer"

    asyncio.run(run())


def test_a_deadline_really_cancels() -> None:
    cancelled: list[bool] = []

    async def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        return answer()

    endpoint_state = EndpointState(Limiter(1), deadline_s=0.02, retry=RetryPolicy(attempts=2, base_s=0.0))
    one = client(lambda messages, info: answer(), endpoint_state=endpoint_state)
    one.wrapped = FunctionModel(script)
    with pytest.raises(EndpointError, match=r"did not answer within 0\.02 s \(asked 2 times\)"):
        asyncio.run(ask(one))
    assert cancelled == [True, True]


def test_an_unknown_price_is_unknown_and_not_zero() -> None:
    one = client(lambda messages, info: answer())
    asyncio.run(ask(one))
    assert journal(one)[0].cost_usd is None
    assert one.unit.call_context.budget.unpriced_calls == 1
