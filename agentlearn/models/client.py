"""A pydantic-ai model that limits, retries, prices and journals every request; and one for programs with their own.

A `ModelClient` belongs to one unit of work (a rollout, a summary, a comparison); the units of an endpoint share its
limiter. The `seed` of a request is derived from the unit's seed and the request's index, so the answer of a seeded
service depends on nothing else. Each response is committed to the journal before it is used. A resumed run takes the
responses of the interrupted run from the journal.

Only the request is shortened. The trajectory keeps every text, and its tokens are those of the request, as the model
saw it. What is left out depends on the messages alone, so a resumed run sends the same requests. It changes rarely:
each time room is needed, more is left out than needed, so most requests extend the one before and a prompt cache holds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import pairwise

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from agentlearn.errors import ConfigError
from agentlearn.models.call import ModelCall
from agentlearn.models.call_context import WorkUnit
from agentlearn.models.call_settings import DEFAULT_CALL_SETTINGS, CallSettings
from agentlearn.models.endpoint_state import EndpointState
from agentlearn.models.token_estimate import BYTES_PER_TOKEN, message_bytes, request_bytes
from agentlearn.types.trajectory import PLACE, STATUS

_ROOM = 0.75
"""Share of the largest size to which a request is shortened once it is larger."""

_EPOCH = datetime.fromtimestamp(0, UTC)


def shortened_history(
    messages: Sequence[ModelMessage], parameters: ModelRequestParameters, max_tokens: int
) -> list[ModelMessage]:
    """Return the messages of a request that has at most `max_tokens` tokens (estimated), if that is possible.

    The first request and the newest turn with its results always stay whole, so a request is larger than `max_tokens`
    only if these are. A tool call and its result stay together. max_tokens: at least 1; counts instructions and tools
    too.
    """
    return _History(messages, parameters).within(max_tokens * BYTES_PER_TOKEN)


@dataclass(frozen=True)
class _Turn:
    """An answer of the model and what came back, whole and with notes."""

    whole: tuple[ModelMessage, ...]

    @cached_property
    def noted(self) -> tuple[ModelMessage, ...]:
        """The turn with notes in place of its tool results and pictures, where a note is shorter."""
        return tuple(
            replace(one, parts=[_noted_part(part) for part in one.parts]) if isinstance(one, ModelRequest) else one
            for one in self.whole
        )

    @cached_property
    def whole_bytes(self) -> int:
        return sum(map(message_bytes, self.whole))

    @cached_property
    def noted_bytes(self) -> int:
        return sum(map(message_bytes, self.noted))


class _History:
    """The messages of a request in turns, after what was asked first."""

    def __init__(self, messages: Sequence[ModelMessage], parameters: ModelRequestParameters) -> None:
        starts = [at for at, one in enumerate(messages) if isinstance(one, ModelResponse)]
        self._asked = list(messages[: starts[0]] if starts else messages)
        bounds = pairwise([*starts, len(messages)])
        self._turns = [_Turn(tuple(messages[start:end])) for start, end in bounds]
        own = [messages[-1]] if messages else []
        # Instructions, tools and what was asked first: in every request
        self._fixed = request_bytes(own, parameters) - sum(map(message_bytes, own))
        self._fixed += sum(map(message_bytes, self._asked))

    def within(self, most_bytes: float) -> list[ModelMessage]:
        """Return the messages, the oldest turns with notes or left out, as turn after turn was made."""
        noted = left_out = 0
        size = self._fixed
        for newest, turn in enumerate(self._turns):
            size += turn.whole_bytes
            if size <= most_bytes:
                continue
            while noted < newest and size > _ROOM * most_bytes:
                size -= self._turns[noted].whole_bytes - self._turns[noted].noted_bytes
                noted += 1
            if size <= most_bytes:
                continue
            while left_out < newest and size > _ROOM * most_bytes:
                size += self._summary_bytes(left_out + 1) - self._summary_bytes(left_out)
                size -= self._turns[left_out].noted_bytes
                left_out += 1
        kept = [*(one.noted for one in self._turns[left_out:noted]), *(one.whole for one in self._turns[noted:])]
        asked = self._asked
        if left_out and asked and isinstance(last := asked[-1], ModelRequest):
            asked = [*asked[:-1], replace(last, parts=[*last.parts, _summary(left_out)])]
        return [*asked, *(message for turn in kept for message in turn)]

    def _summary_bytes(self, left_out: int) -> int:
        return message_bytes(ModelRequest(parts=[_summary(left_out)])) if left_out else 0


def _summary(left_out: int) -> UserPromptPart:
    turns = "turn was" if left_out == 1 else f"{left_out} turns were"
    return UserPromptPart(f"[Your first {turns} left out here to save room.]", timestamp=_EPOCH)


def _noted_part(part: ModelRequestPart) -> ModelRequestPart:
    if isinstance(part, UserPromptPart) and not isinstance(part.content, str):
        texts = [one for one in part.content if isinstance(one, str)]
        return replace(part, content=[*texts, "[A picture was left out here to save room.]"])
    if not isinstance(part, ToolReturnPart):
        return part
    text = part.model_response_str()
    metadata: object = part.metadata
    known: dict[object, object] = metadata if isinstance(metadata, dict) else {}  # pyright: ignore[reportUnknownVariableType]
    place = f", {known[PLACE]}" if known.get(PLACE) else ""
    note = (
        f"[The result of {part.tool_name} was left out here to save room: status {known.get(STATUS, 'ok')}{place},"
        f" {len(text):,} characters.]"
    )
    return replace(part, content=note) if len(note) < len(text) else part


class ModelClient(WrapperModel):
    """`model` for one unit of work. Raises EndpointError when the service fails, BudgetExceeded at a limit."""

    def __init__(
        self,
        model: Model,
        endpoint_state: EndpointState,
        unit: WorkUnit,
        call_settings: CallSettings = DEFAULT_CALL_SETTINGS,
        *,
        history_tokens: int | None = None,
    ) -> None:
        """history_tokens: largest size of a request (estimated); None: no limit."""
        super().__init__(model)
        self.history_tokens = history_tokens
        self.call_settings = call_settings
        self.endpoint_state = endpoint_state
        self.unit = unit

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Return the committed response, from the journal or from the service."""
        if self.history_tokens is not None:
            messages = shortened_history(messages, model_request_parameters, self.history_tokens)
        given = (messages, model_settings, model_request_parameters)
        return await ModelCall.following(
            self.wrapped, self.endpoint_state, self.unit, self.call_settings, *given
        ).answer()


class NoModel(Model):
    """Stands where a rollout's model would be. It cannot be called."""

    @property
    def model_name(self) -> str:
        """Name for the record."""
        return "own"

    @property
    def system(self) -> str:
        """Name of what calls the models."""
        return "program"

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Raise ConfigError."""
        raise ConfigError(
            "the program calls work.model, and no model was given; add model=, such as model='openai:gpt-5-mini'"
        )
