"""The door: a pydantic-ai model that limits, retries, prices and journals every request that goes through it.

What an interrupted run had recorded is answered from its journal.

A `ModelClient` belongs to one unit of work (a rollout, a summary, a comparison); units share the endpoint's limiter.
Each request's `seed` is derived from the unit's seed and the request's ordinal, so that what a seeded service answers
depends on nothing else. A response is committed to the journal before anyone sees it.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
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

from agentlearn.errors import EndpointError, EndpointGone, StoreError
from agentlearn.log import get_log
from agentlearn.models.call_context import CallContext
from agentlearn.models.journal import CallRecord, Stage
from agentlearn.models.limiter import Limiter
from agentlearn.models.price import cost_usd
from agentlearn.models.retry import RetryPolicy, is_garbled, is_transient, retry_after_s
from agentlearn.text import storable
from agentlearn.types.ids import CallId, content_hash, derive_seed
from agentlearn.types.trajectory import Usage

_LOG = get_log()

Once = Callable[[], Awaitable[ModelResponse]]

_NOBODY_MAY = frozenset({"endpoint_401", "endpoint_403"})
"""Refusals that are about the key, not about the request."""


_ABOUT_THE_REQUEST = frozenset({"endpoint_400", "endpoint_413", "endpoint_422"})
"""Refusals of what was asked, such as a prompt that is too long: they say nothing about the service."""

GONE_AFTER = 3
"""Calls that failed for good, and since whose beginning nobody was answered: with so many the service is gone.

A call that began while others were answered says nothing: where many requests fail, those that fail for good take the
longest, and so come last, together.
"""


@dataclass(slots=True)
class EndpointState:
    """What all units of one endpoint share: places, deadline, retries."""

    limiter: Limiter
    deadline_s: float = 120.0
    """Seconds that one request may take."""
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    free: bool = False
    """Whether answers cost nothing, as those of a simulated model do."""
    failures: Counter[str] = field(default_factory=Counter[str])
    """Requests that got no answer, by the kind of failure, the ones that a retry mended included."""
    models: Counter[str] = field(default_factory=Counter[str])
    """Answers by the model name that they carry: who really answered."""
    answered: Counter[str] = field(default_factory=Counter[str])
    """Answers by stage, those on record from an interrupted run included."""
    replayed: Counter[str] = field(default_factory=Counter[str])
    """Calls that were not made because an interrupted run had made them, by stage."""
    lost: int = 0
    """Calls that began after the last answer and failed for good."""

    @property
    def heard(self) -> int:
        """Answers so far."""
        return self.models.total()


@dataclass(slots=True)
class WorkUnit:
    """One unit of work and what it has asked so far."""

    call_context: CallContext
    stage: Stage
    name: str
    """A rollout id, or the stage's own key; unique within run and stage."""
    seed: int
    asked: Counter[str] = field(default_factory=Counter[str])
    calls: list[CallRecord] = field(default_factory=list[CallRecord])
    """Every model call that was answered, in order."""
    live: bool = False
    """Whether it has asked something that no interrupted run had asked; from then on nothing is replayed."""

    def next_ordinal(self, kind: str) -> int:
        """The place of the next record of that kind."""
        self.asked[kind] += 1
        return self.asked[kind] - 1

    def call_id(self, kind: str, ordinal: int, request_hash: str) -> CallId:
        """The same question of the same run has the same id when the run is resumed."""
        return CallId(content_hash("call", self.call_context.run, self.stage, self.name, kind, ordinal, request_hash))

    def recorded(self, identity: CallId) -> CallRecord | None:
        """What was recorded under that id before the run was interrupted; None from the first new question on."""
        past = None if self.live else self.call_context.journal.recorded(identity)
        self.live = past is None
        return past


def usage_of(response: ModelResponse) -> Usage:
    """The tokens that the service reports for one response."""
    usage = response.usage
    return Usage(
        requests=1, tokens_in=usage.input_tokens, tokens_cached=usage.cache_read_tokens, tokens_out=usage.output_tokens
    )


class ModelClient(WrapperModel):
    """`model` as one unit sees it. Raises EndpointError when the service cannot be had, BudgetExceeded at a limit."""

    def __init__(self, model: Model, endpoint_state: EndpointState, unit: WorkUnit) -> None:
        super().__init__(model)
        self.endpoint_state = endpoint_state
        self.unit = unit

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """One answered, committed request."""
        unit, ordinal = self.unit, self.unit.next_ordinal("model")
        settings = ModelSettings(**(model_settings or {}))
        settings["seed"] = derive_seed(unit.seed, ordinal)
        request_hash = _request_hash(messages, settings)
        identity = unit.call_id("model", ordinal, request_hash)
        if (past := unit.recorded(identity)) is not None:
            return self._replayed(past)
        started, attempts = time.perf_counter(), 0

        async def once() -> ModelResponse:
            nonlocal attempts
            async with self.endpoint_state.limiter.place() as ticket, unit.call_context.asking():
                attempts += 1
                asked_at = time.perf_counter()
                try:
                    async with asyncio.timeout(self.endpoint_state.deadline_s):
                        given = await self.wrapped.request(messages, settings, model_request_parameters)
                except ModelHTTPError as error:
                    if error.status_code == 429:
                        ticket.refused(retry_after_s(error))
                    raise
                ticket.answered(time.perf_counter() - asked_at, unit.stage)
                response = _storable(given)
                await self._record(response, identity, ordinal, request_hash, attempts, time.perf_counter() - started)
            return response

        return await self._until_answered(once, Random(settings["seed"]))

    def _replayed(self, past: CallRecord) -> ModelResponse:
        """The response that an interrupted run had recorded."""
        (response,) = ModelMessagesTypeAdapter.validate_json(past.response)
        assert isinstance(response, ModelResponse)
        self.endpoint_state.models[response.model_name or self.wrapped.model_name] += 1
        self.endpoint_state.answered[self.unit.stage] += 1
        self.endpoint_state.replayed[self.unit.stage] += 1
        self.unit.calls.append(past)
        return response

    async def _record(
        self,
        response: ModelResponse,
        identity: CallId,
        ordinal: int,
        request_hash: str,
        attempts: int,
        seconds: float,
    ) -> None:
        """Commit an answer, and count what it cost."""
        unit = self.unit
        self.endpoint_state.lost = 0
        self.endpoint_state.models[response.model_name or self.wrapped.model_name] += 1
        self.endpoint_state.answered[unit.stage] += 1
        usage, cost = usage_of(response), 0.0 if self.endpoint_state.free else cost_usd(response)
        unit.call_context.budget.spend(usage, cost)
        record = CallRecord(
            id=identity,
            run=unit.call_context.run,
            stage=unit.stage,
            unit=unit.name,
            ordinal=ordinal,
            kind="model",
            name=self.wrapped.model_name,
            ok=True,
            response=ModelMessagesTypeAdapter.dump_json([response]).decode(),
            request_hash=request_hash,
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
        except StoreError as lost:
            unit.call_context.stop(lost)  # what else would be answered could not be kept either
            raise
        unit.calls.append(record)

    async def _until_answered(self, once: Once, rng: Random) -> ModelResponse:
        policy, heard = self.endpoint_state.retry, self.endpoint_state.heard
        for attempt in range(policy.attempts):
            try:
                return await once()
            except (TimeoutError, ModelAPIError, UnexpectedModelBehavior) as error:
                self.endpoint_state.failures[_kind(error)] += 1
                wanted_s = retry_after_s(error)
                last = attempt == policy.attempts - 1
                if last or not is_transient(error) or (wanted_s or 0.0) > policy.retry_after_cap_s:
                    told = self._given_up(error, attempt + 1, heard)
                    await self.unit.call_context.hold()
                    raise told from error
                wait_s = policy.wait_s(attempt, wanted_s, rng)
                self._retrying(error, attempt + 1, wait_s)
                await asyncio.sleep(wait_s)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _given_up(self, error: Exception, attempts: int, heard: int) -> EndpointError:
        """The error of this call; the run is stopped when no call comes through any more.

        heard: answers there were as the call began.
        """
        told = self._endpoint_error(error, attempts)
        self.endpoint_state.lost += told.code not in _ABOUT_THE_REQUEST and self.endpoint_state.heard == heard
        if self.endpoint_state.lost >= GONE_AFTER or (told.code in _NOBODY_MAY and not self.endpoint_state.models):
            calls = (
                "no call has"
                if not self.endpoint_state.models
                else f"none of the last {self.endpoint_state.lost} calls has"
            )
            self.unit.call_context.stop(EndpointGone(f"{calls} been answered: {told.message}"))
        return told

    def _retrying(self, error: Exception, attempt: int, wait_s: float) -> None:
        _LOG.info("call.retried", stage=self.unit.stage, attempt=attempt, wait_s=round(wait_s, 3), cause=_kind(error))

    def _endpoint_error(self, error: Exception, attempts: int) -> EndpointError:
        where = self.wrapped.base_url or self.wrapped.system
        tries = "once" if attempts == 1 else f"{attempts} times"
        if isinstance(error, TimeoutError):
            return EndpointError(
                f"{where} did not answer within {self.endpoint_state.deadline_s:g} s (asked {tries})",
                code="endpoint_timeout",
            )
        if isinstance(error, ModelHTTPError):
            return EndpointError(
                f"{where} refused with status {error.status_code} (asked {tries}): {_short(error.body)}",
                code=f"endpoint_{error.status_code}",
            )
        cause = error.__cause__ or error
        return EndpointError(f"{where} could not be used (asked {tries}): {_short(cause)}", code="endpoint_broken")


def _kind(error: Exception) -> str:
    if isinstance(error, ModelHTTPError):
        return f"status_{error.status_code}"
    if is_garbled(error):
        return "no_completion"
    return "timeout" if isinstance(error, TimeoutError) else "connection"


def _storable(response: ModelResponse) -> ModelResponse:
    """The response without lone surrogates: it could be neither journalled nor sent back."""
    return replace(response, parts=[_storable_part(part) for part in response.parts])


def _storable_part(part: ModelResponsePart) -> ModelResponsePart:
    match part:
        case TextPart() | ThinkingPart():
            return part if storable(part.content) == part.content else replace(part, content=storable(part.content))
        case ToolCallPart(args=str(args)):
            return part if storable(args) == args else replace(part, args=storable(args))
        case _:
            return part


def _short(value: object) -> str:
    text = " ".join(str(value).split()) or type(value).__name__
    return text if len(text) <= 300 else text[:297] + "..."


def _request_hash(messages: list[ModelMessage], settings: ModelSettings) -> str:
    """What is asked beside the unit's earlier questions and answers, which are recorded themselves."""
    last = messages[-1]
    instructions = last.instructions if isinstance(last, ModelRequest) else None
    (plain,) = ModelMessagesTypeAdapter.dump_python([last], mode="json")
    said = [[part["part_kind"], part.get("tool_call_id"), part.get("content")] for part in plain["parts"]]
    return content_hash(len(messages), settings.get("seed"), settings.get("temperature"), instructions, said)
