"""A stage reads a reply of any form, and continues the conversation for a repair."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agentlearn.config import BudgetOptions
from agentlearn.learning.lessons.stage_agent import StageAgent, StageReply
from agentlearn.models.budget import Budget
from agentlearn.models.call_context import CallContext, WorkUnit
from agentlearn.types.ids import new_run_id
from tests.support.stages import ListJournal, scripted

STAGE = StageAgent("Summarise.", "steps")


def call(arguments: str | dict[str, object] | None, name: str = "submit", identity: str = "a") -> ToolCallPart:
    return ToolCallPart(name, arguments, tool_call_id=identity)


def asked(parts: Sequence[ModelResponsePart], rounds: int = 1) -> tuple[StageReply, list[list[ModelMessage]]]:
    """Ask a model that always answers with these parts, each time in the same conversation."""
    heard: list[list[ModelMessage]] = []

    def answer(messages: list[ModelMessage], _: object) -> ModelResponse:
        heard.append(list(messages))
        return ModelResponse(parts=list(parts))

    endpoint = replace(scripted(lambda _: ""), model=FunctionModel(answer))
    unit = WorkUnit(CallContext(new_run_id(), ListJournal(), Budget(BudgetOptions())), "summarise", "one", 0)

    async def ask() -> StageReply:
        reply = await STAGE.ask("What happened?", endpoint, unit)
        for _ in range(rounds - 1):
            reply = await STAGE.ask("Again.", endpoint, unit, history=reply.messages)
        return reply

    return asyncio.run(ask()), heard


@pytest.mark.parametrize(
    ("parts", "items", "faults"),
    [
        ([call('{"steps": [1]}')], (1,), ()),
        ([call({"steps": [1]})], (1,), ()),
        ([TextPart("Here it is."), call('{"steps": [1]}'), call('{"steps": [2]}', identity="b")], (1,), ()),
        ([call('{"steps": [1')], (1,), ("cut_json",)),
        ([call("[1]")], (1,), ("wrong_key",)),
        ([call(None)], (), ("no_reply",)),
        ([call('{"steps": [1]}', "other"), TextPart('{"steps": [2]}')], (2,), ()),
        ([call('{"steps": [1]}', "other")], (), ("no_reply",)),
        ([TextPart("I found nothing.")], (), ("prose",)),
        ([ThinkingPart("Hm.")], (), ("no_reply",)),
    ],
)
def test_a_reply_of_any_form_is_read(
    parts: list[ModelResponsePart], items: tuple[object, ...], faults: tuple[str, ...]
) -> None:
    reply, heard = asked(parts)
    assert (reply.salvaged.items, reply.salvaged.faults, len(heard)) == (items, faults, 1)


def test_a_repair_follows_the_results_of_all_calls() -> None:
    _, heard = asked([call('{"steps": [1]}'), call("{}", identity="b")], rounds=2)
    first, reply, last = heard[1]
    assert [part.content for part in first.parts if isinstance(part, UserPromptPart)] == ["What happened?"]
    assert isinstance(reply, ModelResponse)
    assert [part.tool_call_id for part in last.parts if isinstance(part, ToolReturnPart)] == ["a", "b"]
    assert isinstance(last.parts[-1], UserPromptPart)
    assert last.parts[-1].content == "Again."


@pytest.mark.parametrize(("refuses", "held"), [(False, [True]), (True, [True, False])])
def test_a_reply_is_held_to_the_schema_where_the_service_can(refuses: bool, held: list[bool]) -> None:
    heard: list[bool] = []

    def answer(_: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        heard.append(info.model_request_parameters.output_mode == "native")
        if heard[-1] and refuses:
            raise ModelHTTPError(400, "any", "response_format is not supported")
        return ModelResponse(parts=[TextPart('{"steps": [1]}')])

    endpoint = replace(scripted(lambda _: ""), model=FunctionModel(answer))
    unit = WorkUnit(CallContext(new_run_id(), ListJournal(), Budget(BudgetOptions())), "summarise", "one", 0)
    reply = asyncio.run(STAGE.ask("What happened?", endpoint, unit, held=True))
    assert (reply.salvaged.items, heard) == ((1,), held)
