"""Asking a model one question of a stage and reading its typed reply."""

import json
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_ai import Agent, ModelRetry, RunContext, TextOutput, ToolOutput, UsageLimits
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import UnexpectedModelBehavior, UsageLimitExceeded
from pydantic_ai.messages import ModelMessage
from pydantic_ai.output import OutputContext

from agentlearn.answers.thoughts import split_thoughts
from agentlearn.learning.lessons.reply_schema import ListKey, ProposalsReply, Salvaged, StepsReply, salvage
from agentlearn.models.endpoint import Endpoint
from agentlearn.models.work_unit import WorkUnit
from agentlearn.text import storable

MAX_RAW_CHARACTERS = 4_000
"""Largest number of characters of a reply that is stored."""


@dataclass(frozen=True, slots=True)
class Raw:
    """A reply that does not fit the schema: text, or arguments that could not be parsed."""

    text: str


@dataclass
class _KeepRaw(AbstractCapability[Any]):
    """Pass an invalid structured reply on unchanged, for `salvage` to read, instead of asking again."""

    async def on_output_validate_error(
        self, ctx: RunContext[Any], *, output_context: OutputContext, output: Any, error: ValidationError | ModelRetry
    ) -> Any:
        return Raw(output if isinstance(output, str) else str(output))


@dataclass(frozen=True, slots=True)
class StageReply:
    """A stage's reply."""

    salvaged: Salvaged
    """The items of the reply."""
    raw: str
    """The text that the model wrote, at most 4,000 characters."""
    messages: tuple[ModelMessage, ...] = ()
    """The conversation so far, for a repair round; empty when the model gave no reply."""


@dataclass(frozen=True, slots=True)
class StageAgent:
    """The agent of one stage."""

    agent: Agent[None, Any]
    key: ListKey
    """Key of the reply object that holds the items."""

    async def ask(
        self,
        question: str,
        endpoint: Endpoint,
        unit: WorkUnit,
        *,
        history: tuple[ModelMessage, ...] = (),
    ) -> StageReply:
        """Ask once. Raises EndpointError when the call fails. A malformed reply does not raise; its items are kept.

        history: the conversation that the question continues.
        """
        try:
            with unit.traced() as tracing:
                result = await self.agent.run(
                    question,
                    model=endpoint.client(unit),
                    message_history=list(history) or None,
                    usage_limits=UsageLimits(request_limit=2),
                    capabilities=tracing,
                )
        except (UnexpectedModelBehavior, UsageLimitExceeded) as error:
            return StageReply(Salvaged((), ("no_reply",)), raw=storable(str(error))[:MAX_RAW_CHARACTERS])
        output: object = result.output
        content = _content(output)
        return StageReply(
            salvage(split_thoughts(content).said if isinstance(content, str) else content, self.key),
            raw=storable(content if isinstance(content, str) else _json(output))[:MAX_RAW_CHARACTERS],
            messages=tuple(result.all_messages()),
        )


def stage_agent(instructions: str, key: ListKey) -> StageAgent:
    """An agent that replies through the tool `submit`, or in text when the model does not call tools."""
    schema: type[BaseModel] = StepsReply if key == "steps" else ProposalsReply
    output: Any = [ToolOutput(schema, name="submit", description="Hand in your result."), TextOutput(Raw)]
    agent = Agent(None, output_type=output, instructions=instructions, capabilities=[_KeepRaw()], retries=0)
    return StageAgent(agent, key)


def _content(output: object) -> object:
    return output.text if isinstance(output, Raw) else output.model_dump() if isinstance(output, BaseModel) else output


def _json(output: object) -> str:
    return json.dumps(output.model_dump() if isinstance(output, BaseModel) else output, default=str)
