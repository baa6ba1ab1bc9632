"""The model of a rollout, as code of another project calls it: counted, with the lessons, and recorded in order."""

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pydantic_ai.direct import model_request
from pydantic_ai.exceptions import UsageLimitExceeded
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings, merge_model_settings
from pydantic_ai.tools import ToolDefinition

from agentlearn.domain.base import Work

T = TypeVar("T")


@dataclass(slots=True)
class ModelCalls:
    """The calls of one rollout."""

    work: Work
    messages: list[ModelMessage] = field(default_factory=list[ModelMessage])
    """What was said, each response once. Calls that do not continue one conversation stand one after the other."""
    count: int = 0
    error: Exception | None = None
    """The first error of a call."""
    failed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a call has failed."""

    async def ask(
        self,
        messages: Sequence[ModelMessage],
        tools: Sequence[ToolDefinition] = (),
        settings: ModelSettings | None = None,
        *,
        lessons: bool = True,
    ) -> ModelResponse:
        """Return the model's response to a conversation.

        settings: what the other project asks for; the rollout's own settings win. lessons: whether to send the lessons.
        """
        said = _with_instructions(messages, self.work.lessons if lessons else "")
        self.count += 1
        try:
            self._check_count()
            response = await model_request(
                self.work.model,
                said,
                model_settings=merge_model_settings(settings, self.work.settings),
                model_request_parameters=ModelRequestParameters(
                    function_tools=list(tools), output_mode="text", allow_text_output=True
                ),
            )
        except Exception as error:
            self.error = self.error or error
            self.failed.set()
            raise
        self.messages += [*_new(said, first=not self.messages), response]
        return response

    def _check_count(self) -> None:
        if self.count > self.work.max_turns:
            raise UsageLimitExceeded(f"more than {self.work.max_turns} model calls")

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of the other project's code. Ends it when a call fails, and raises the error of the call.

        Such code may hide the error in one of its own, or ask again and again.
        """
        running, failing = asyncio.ensure_future(work), asyncio.ensure_future(self.failed.wait())
        try:
            await asyncio.wait({running, failing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            failing.cancel()
            running.cancel()
            await asyncio.gather(running, failing, return_exceptions=True)
        if self.error is not None:
            raise self.error
        return running.result()


def text_of(response: ModelResponse) -> str:
    """Return the text of a response, without its thoughts and tool calls."""
    return "\n".join(part.content for part in response.parts if isinstance(part, TextPart))


def joined(messages: Iterable[ModelMessage]) -> list[ModelMessage]:
    """Return the messages with neighbouring requests as one, as model services expect them."""
    said: list[ModelMessage] = []
    for one in messages:
        if said and isinstance(one, ModelRequest) and isinstance(last := said[-1], ModelRequest):
            said[-1] = replace(last, parts=[*last.parts, *one.parts])
        else:
            said.append(one)
    return said


def _with_instructions(messages: Sequence[ModelMessage], lessons: str) -> list[ModelMessage]:
    """Return the messages with the lessons as instructions of the last request, where models look for them."""
    said = list(messages)
    if lessons and said and isinstance(said[-1], ModelRequest):
        said[-1] = replace(said[-1], instructions="\n\n".join(filter(None, [said[-1].instructions, lessons])))
    return said


def _new(messages: Sequence[ModelMessage], *, first: bool) -> list[ModelMessage]:
    """Return the requests since the last response; of the first call, all requests."""
    last = max((at for at, one in enumerate(messages) if isinstance(one, ModelResponse)), default=-1)
    return [one for one in (messages if first else messages[last + 1 :]) if isinstance(one, ModelRequest)]
