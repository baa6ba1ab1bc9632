"""A support desk in pydantic-ai: an agent with an output type, and a model that learns from one lesson."""

import json
import re
from typing import Any

from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agentlearn import Task
from tests.support.openai_script import TAGS, digest

LESSON = "When a ticket is about money, choose the team that sends the bills."
TICKETS = [(f"Invoice {number} is wrong, and I have paid {number} euros", "billing") for number in range(1, 9)]


class Ticket(BaseModel):
    """What the agent returns."""

    team: str


def said_by_user(messages: list[ModelMessage]) -> str:
    """Return what the user said, as one text."""
    parts = [part for message in messages if isinstance(message, ModelRequest) for part in message.parts]
    return "\n".join(str(part.content) for part in parts if isinstance(part, UserPromptPart))


def knows(messages: list[ModelMessage], info: AgentInfo) -> bool:
    """Whether the model was shown the lesson, or guesses right this time."""
    return LESSON in (info.instructions or "") or digest((info.model_settings or {}).get("seed"), "desk") % 2 == 0


def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Answer as the agent's model, or as the model that writes lessons."""
    if (reflected := reflecting(messages, info)) is not None:
        return reflected
    team = "billing" if knows(messages, info) else "it"
    return _submit(info, {"team": team}) if info.output_tools else ModelResponse(parts=[TextPart(team)])


def reflecting(messages: list[ModelMessage], info: AgentInfo, lesson: str = LESSON) -> ModelResponse | None:
    """Answer as the model that writes lessons; None when nobody asks it."""
    said = said_by_user(messages)
    stage = next((stage for tag, stage in TAGS.items() if tag in said), None)
    if stage is None:
        return None
    if stage == "summarise":
        return _submit(info, {"steps": [{"text": "Named a team.", "used": []}]})
    labels = {} if stage == "compare" else {"rests_on": list(dict.fromkeys(re.findall(r"\b(P\d+)\b", said)))}
    return _submit(info, {"proposals": [{"op": "add", "lesson": lesson, **labels}]})


def _submit(info: AgentInfo, payload: dict[str, Any]) -> ModelResponse:
    if not info.output_tools:
        return ModelResponse(parts=[TextPart(json.dumps(payload))])
    return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, payload)])


def desk_model() -> FunctionModel:
    """Return the model of the desk. It is right about half of the time, and always with the lesson."""
    return FunctionModel(reply, model_name="desk")


def desk_agent(**changes: Any) -> "Agent[Any, Any]":
    """Return the agent of the desk."""
    given: dict[str, Any] = {"output_type": Ticket, "name": "support", **changes}
    return Agent(desk_model(), **given)


def right_team(task: Task, ticket: Ticket) -> bool:
    """Judge a ticket."""
    return ticket.team == task.answer


def right_text(task: Task, text: str) -> bool:
    """Judge a text."""
    return text == task.answer
