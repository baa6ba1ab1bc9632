"""A pydantic-ai model that limits, retries, prices and journals every request.

A `ModelClient` belongs to one unit of work (a rollout, a summary, a comparison); the units of an endpoint share its
limiter. The `seed` of a request is derived from the unit's seed and the request's index, so the answer of a seeded
service depends on nothing else. Each response is committed to the journal before it is used. A resumed run takes the
responses of the interrupted run from the journal.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from random import Random

from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, UnexpectedModelBehavior
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from agentlearn.config.endpoint_address import without_credentials
from agentlearn.errors import EndpointError, EndpointGone, NeverAnswered, StoreError
from agentlearn.log import get_log
from agentlearn.models.call_settings import DEFAULT_CALL_SETTINGS, CallSettings, folded
from agentlearn.models.endpoint_state import EndpointState
from agentlearn.models.first_calls import unanswered
from agentlearn.models.journal import CallRecord
from agentlearn.models.price import cost_usd
from agentlearn.models.refusal import SYSTEM, TOOLS, refused_settings, remedy, service_words
from agentlearn.models.retry import is_garbled, is_transient, retry_after_s
from agentlearn.models.work_unit import WorkUnit
from agentlearn.secret_values import without_secrets
from agentlearn.text import storable
from agentlearn.types.ids import CallId, content_hash, derive_seed
from agentlearn.types.trajectory import Usage

_LOG = get_log()

SendOnce = Callable[[], Awaitable[ModelResponse]]

_KEY_REFUSED = frozenset({"endpoint_401", "endpoint_403"})
"""Error codes that concern the API key, so every request would be refused."""
_REQUEST_REFUSED = frozenset({"endpoint_400", "endpoint_413", "endpoint_422"})
"""Error codes that concern one request, such as a prompt that is too long. They say nothing about the service."""

GONE_AFTER = 3
"""Number of failed calls after which the service counts as gone.

Only calls during which no other call was answered count. Where many requests fail, the calls that fail in all attempts
take the longest and so end last and together, although others were answered in the meantime.
"""


@dataclass(frozen=True, slots=True)
class _Request:
    """One request, as the journal identifies it."""

    id: CallId
    ordinal: int
    hash: str
    sent: frozenset[str]
    """Names of the settings and parts that it has and that a service may refuse."""
    kind: str
    """Its sampling settings as text, without the seed."""


class ModelClient(WrapperModel):
    """`model` for one unit of work. Raises EndpointError when the service fails, BudgetExceeded at a limit."""

    def __init__(
        self,
        model: Model,
        endpoint_state: EndpointState,
        unit: WorkUnit,
        call_settings: CallSettings = DEFAULT_CALL_SETTINGS,
    ) -> None:
        super().__init__(model)
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
        unit, ordinal = self.unit, self.unit.next_ordinal("model")
        settings = ModelSettings(**(model_settings or {}))
        seed = settings["seed"] = derive_seed(unit.seed, ordinal)
        request_hash = _request_hash(messages, settings)
        sampling = self.call_settings.applied(settings)
        request = _Request(
            unit.call_id("model", ordinal, request_hash),
            ordinal,
            request_hash,
            _sent(messages, sampling, model_request_parameters, self.call_settings),
            _kind_of_settings(sampling),
        )
        if (past := unit.recorded(request.id)) is not None:
            return self._replay(past, request)
        if self.call_settings.fold_system:
            messages, model_request_parameters = folded(messages, model_request_parameters)
        started, attempts = time.perf_counter(), 0

        async def send() -> ModelResponse:
            nonlocal attempts
            async with self.endpoint_state.limiter.slot() as ticket, unit.call_context.one_call():
                attempts += 1
                sent = time.perf_counter()
                try:
                    async with asyncio.timeout(self.endpoint_state.deadline_s):
                        given = await self.wrapped.request(messages, sampling, model_request_parameters)
                except ModelHTTPError as error:
                    if error.status_code == 429:
                        ticket.refused(retry_after_s(error))
                    raise
                ticket.answered(time.perf_counter() - sent, unit.stage)
                response = _storable(given)
                await self._record(response, request, attempts, time.perf_counter() - started)
            return response

        return await self._send_until_answered(send, Random(seed), request)

    def _replay(self, past: CallRecord, request: _Request) -> ModelResponse:
        """Return the response that an interrupted run recorded."""
        (response,) = ModelMessagesTypeAdapter.validate_json(past.response)
        assert isinstance(response, ModelResponse)
        self._count_answer(response)
        kind, _ = self.endpoint_state.first_calls.begin(self.unit.stage, request.kind)
        kind.answered = True
        self.endpoint_state.replayed[self.unit.stage] += 1
        self.unit.calls.append(past)
        return response

    def _count_answer(self, response: ModelResponse) -> None:
        self.endpoint_state.models[response.model_name or self.wrapped.model_name] += 1
        self.endpoint_state.answered[self.unit.stage] += 1

    async def _record(self, response: ModelResponse, request: _Request, attempts: int, seconds: float) -> None:
        """Commit a response to the journal and add its cost to the budget."""
        unit = self.unit
        self.endpoint_state.failed_in_a_row = 0
        self._count_answer(response)
        usage, cost = _usage(response), 0.0 if self.endpoint_state.free else cost_usd(response)
        unit.call_context.budget.spend(usage, cost)
        record = CallRecord(
            id=request.id,
            run=unit.call_context.run,
            stage=unit.stage,
            unit=unit.name,
            ordinal=request.ordinal,
            kind="model",
            name=self.wrapped.model_name,
            ok=True,
            response=ModelMessagesTypeAdapter.dump_json([response]).decode(),
            request_hash=request.hash,
            tokens_in=usage.tokens_in,
            tokens_cached=usage.tokens_cached,
            tokens_out=usage.tokens_out,
            cost_usd=cost,
            attempts=attempts,
            seconds=seconds,
            at=datetime.now(UTC),
        )
        try:
            await unit.call_context.journal.record(record)
        except StoreError as error:
            unit.call_context.stop(error)  # further responses could not be recorded either
            raise
        unit.calls.append(record)

    async def _send_until_answered(self, send: SendOnce, rng: Random, request: _Request) -> ModelResponse:
        """Send, and retry as the policy says. Raises EndpointError after the last attempt."""
        policy, answers_before = self.endpoint_state.retry, self.endpoint_state.answers
        kind, number = self.endpoint_state.first_calls.begin(self.unit.stage, request.kind)
        for attempt in range(policy.attempts):
            try:
                response = await send()
            except (TimeoutError, ModelAPIError, UnexpectedModelBehavior) as error:
                self.endpoint_state.failures[_kind(error)] += 1
                wanted_s = retry_after_s(error)
                last = attempt == policy.attempts - 1
                if last or not is_transient(error) or (wanted_s or 0.0) > policy.retry_after_cap_s:
                    refused = _refused(error, request.sent)
                    failure = self._endpoint_error(error, attempt + 1, refused)
                    failure.refused = refused
                    if self.endpoint_state.first_calls.fail(kind, number, failure, permanent=bool(refused)):
                        self.unit.call_context.stop(unanswered(kind, any_answer=self._any_answer))
                    self._count_failure(failure, answers_before)
                    await self.unit.call_context.wait_if_stopped()
                    raise failure from error
                wait_s = policy.wait_s(attempt, wanted_s, rng)
                _LOG.info(
                    "call.retried",
                    stage=self.unit.stage,
                    attempt=attempt + 1,
                    wait_s=round(wait_s, 3),
                    cause=_kind(error),
                )
                await asyncio.sleep(wait_s)
            else:
                kind.answered = True
                return response
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _count_failure(self, failure: EndpointError, answers_before: int) -> None:
        """Count a failed call, and stop the run when the service no longer answers.

        answers_before: number of answers of the endpoint when the call began.
        """
        state = self.endpoint_state
        state.failed_in_a_row += failure.code not in _REQUEST_REFUSED and state.answers == answers_before
        if state.failed_in_a_row >= GONE_AFTER or (failure.code in _KEY_REFUSED and not state.models):
            failed = state.failed_in_a_row
            self.unit.call_context.stop(
                EndpointGone(f"none of the last {failed} calls has been answered: {failure.message}")
                if self._any_answer
                else NeverAnswered(f"no call has been answered ({max(failed, 1)} tried): {failure.message}")
            )

    @property
    def _any_answer(self) -> bool:
        """Whether the run has any answer, which a resumed run can use."""
        return bool(self.endpoint_state.models) or self.unit.call_context.budget.usage.requests > 0

    def _endpoint_error(self, error: Exception, attempts: int, refused: tuple[str, ...]) -> EndpointError:
        where = without_credentials(self.wrapped.base_url or self.wrapped.system)
        tries = "once" if attempts == 1 else f"{attempts} times"
        if isinstance(error, TimeoutError):
            return EndpointError(
                f"{where} did not answer within {self.endpoint_state.deadline_s:g} s (asked {tries})",
                code="endpoint_timeout",
            )
        if isinstance(error, ModelHTTPError):
            step = remedy(error.status_code, error.body, refused)
            return EndpointError(
                f"{where} refused with status {error.status_code} (asked {tries}): {service_words(error.body)}"
                f"{f'; {step}' if step else ''}",
                code=f"endpoint_{error.status_code}",
            )
        cause = error.__cause__ or error
        return EndpointError(f"{where} could not be used (asked {tries}): {_short(cause)}", code="endpoint_broken")


def _refused(error: Exception, sent: frozenset[str]) -> tuple[str, ...]:
    """Return the settings that the service refuses, if the error names any."""
    return refused_settings(error.status_code, error.body, sent) if isinstance(error, ModelHTTPError) else ()


def _sent(
    messages: list[ModelMessage],
    sampling: ModelSettings,
    parameters: ModelRequestParameters,
    call_settings: CallSettings,
) -> frozenset[str]:
    """Return the names of what a request has and a service may refuse."""
    sent = set(sampling)
    if not call_settings.fold_system and (parameters.instruction_parts or any(map(_has_system, messages))):
        sent.add(SYSTEM)
    if parameters.function_tools or parameters.output_tools:
        sent.add(TOOLS)
    return frozenset(sent)


def _has_system(message: ModelMessage) -> bool:
    return isinstance(message, ModelRequest) and (
        bool(message.instructions) or any(part.part_kind == "system-prompt" for part in message.parts)
    )


def _kind_of_settings(sampling: ModelSettings) -> str:
    return repr(sorted((name, str(value)) for name, value in sampling.items() if name != "seed"))


def _usage(response: ModelResponse) -> Usage:
    """The tokens that the service reports for one response."""
    usage = response.usage
    return Usage(
        requests=1, tokens_in=usage.input_tokens, tokens_cached=usage.cache_read_tokens, tokens_out=usage.output_tokens
    )


def _kind(error: Exception) -> str:
    if isinstance(error, ModelHTTPError):
        return f"status_{error.status_code}"
    if is_garbled(error):
        return "no_completion"
    return "timeout" if isinstance(error, TimeoutError) else "connection"


def _storable(response: ModelResponse) -> ModelResponse:
    """The response without known secrets, and without lone surrogates, which can be neither stored nor sent back."""
    address = response.provider_url and without_credentials(response.provider_url)
    return replace(response, parts=[_storable_part(part) for part in response.parts], provider_url=address)


def _storable_part(part: ModelResponsePart) -> ModelResponsePart:
    match part:
        case TextPart() | ThinkingPart():
            text = without_secrets(storable(part.content))
            return part if text == part.content else replace(part, content=text)
        case ToolCallPart(args=str(args)):
            text = without_secrets(storable(args))
            return part if text == args else replace(part, args=text)
        case _:
            return part


def _short(value: object) -> str:
    text = " ".join(str(value).split()) or type(value).__name__
    return text if len(text) <= 300 else text[:297] + "..."


def _request_hash(messages: list[ModelMessage], settings: ModelSettings) -> str:
    """Hash of the newest message and the settings; earlier messages of the unit have records of their own."""
    last = messages[-1]
    instructions = last.instructions if isinstance(last, ModelRequest) else None
    (plain,) = ModelMessagesTypeAdapter.dump_python([last], mode="json")
    parts = [[part["part_kind"], part.get("tool_call_id"), part.get("content")] for part in plain["parts"]]
    return content_hash(len(messages), settings.get("seed"), settings.get("temperature"), instructions, parts)
