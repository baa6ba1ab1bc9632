"""The door: a pydantic-ai model that limits, retries, prices and journals every request that goes through it.

A `Door` belongs to one unit of work (a rollout, one summary, one comparison); units share the endpoint's limiter.
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
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from agentlearn.calls.budget import Budget
from agentlearn.calls.journal import CallRecord, Journal, Stage
from agentlearn.calls.price import cost_usd
from agentlearn.calls.retry import RetryPolicy, is_transient, retry_after_s
from agentlearn.errors import EndpointError
from agentlearn.ids import CallId, RunId, content_hash, derive_seed
from agentlearn.log import get_log
from agentlearn.text import storable
from agentlearn.trajectory import Usage

_LOG = get_log()

Once = Callable[[], Awaitable[ModelResponse]]


@dataclass(slots=True)
class Gate:
    """What all units of one endpoint share: places, deadline, retries."""

    places: asyncio.Semaphore
    deadline_s: float = 120.0
    """Seconds that one request may take."""
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    free: bool = False
    """Whether answers cost nothing, as those of a simulated model do."""
    failures: Counter[str] = field(default_factory=Counter[str])
    """Requests that got no answer, by the kind of failure, the ones that a retry mended included."""
    models: Counter[str] = field(default_factory=Counter[str])
    """Answers by the model name that they carry: who really answered."""


@dataclass(slots=True)
class Unit:
    """One unit of work and what it has asked so far."""

    run: RunId
    stage: Stage
    name: str
    """A rollout id, or the stage's own key; unique within run and stage."""
    seed: int
    journal: Journal
    budget: Budget
    asked: Counter[str] = field(default_factory=Counter[str])
    calls: list[CallRecord] = field(default_factory=list[CallRecord])
    """Every model call that was answered, in order."""

    def next_ordinal(self, kind: str) -> int:
        """The place of the next record of that kind."""
        self.asked[kind] += 1
        return self.asked[kind] - 1

    def call_id(self, kind: str, ordinal: int) -> CallId:
        """The same question of the same run has the same id when it is resumed."""
        return CallId(content_hash("call", self.run, self.stage, self.name, kind, ordinal))


def usage_of(response: ModelResponse) -> Usage:
    """The tokens that the service reports for one response."""
    usage = response.usage
    return Usage(
        requests=1, tokens_in=usage.input_tokens, tokens_cached=usage.cache_read_tokens, tokens_out=usage.output_tokens
    )


class Door(WrapperModel):
    """`model` as one unit sees it. Raises EndpointError when the service cannot be had, BudgetExceeded at a limit."""

    def __init__(self, model: Model, gate: Gate, unit: Unit) -> None:
        super().__init__(model)
        self.gate = gate
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
        started = time.perf_counter()
        attempts = 0

        async def once() -> ModelResponse:
            nonlocal attempts
            unit.budget.check()
            async with self.gate.places:
                attempts += 1
                async with asyncio.timeout(self.gate.deadline_s):
                    return await self.wrapped.request(messages, settings, model_request_parameters)

        response = _storable(await self._until_answered(once, Random(settings["seed"])))
        self.gate.models[response.model_name or self.wrapped.model_name] += 1
        usage, cost = usage_of(response), 0.0 if self.gate.free else cost_usd(response)
        unit.budget.spend(usage, cost)
        record = CallRecord(
            id=unit.call_id("model", ordinal),
            run=unit.run,
            stage=unit.stage,
            unit=unit.name,
            ordinal=ordinal,
            kind="model",
            name=self.wrapped.model_name,
            ok=True,
            response=ModelMessagesTypeAdapter.dump_json([response]).decode(),
            request_hash=_request_hash(messages, settings),
            tokens_in=usage.tokens_in,
            tokens_cached=usage.tokens_cached,
            tokens_out=usage.tokens_out,
            cost_usd=cost,
            attempts=attempts,
            seconds=time.perf_counter() - started,
            at=datetime.now(UTC),
        )
        await unit.journal.record(record)
        unit.calls.append(record)
        return response

    async def _until_answered(self, once: Once, rng: Random) -> ModelResponse:
        policy = self.gate.retry
        for attempt in range(policy.attempts):
            try:
                return await once()
            except (TimeoutError, ModelAPIError) as error:
                self.gate.failures[_kind(error)] += 1
                wait_s = policy.wait_s(attempt, retry_after_s(error), rng)
                last = attempt == policy.attempts - 1
                if last or not is_transient(error) or (retry_after_s(error) or 0.0) > policy.retry_after_cap_s:
                    raise self._endpoint_error(error, attempt + 1) from error
                self._retrying(error, attempt + 1, wait_s)
                await asyncio.sleep(wait_s)
            except UnexpectedModelBehavior as error:
                self.gate.failures["no_completion"] += 1
                # The body was no chat completion at all. Services recover from that as they do from a 5xx.
                if attempt == policy.attempts - 1:
                    raise self._endpoint_error(error, attempt + 1) from error
                await asyncio.sleep(policy.wait_s(attempt, None, rng))
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _retrying(self, error: Exception, attempt: int, wait_s: float) -> None:
        _LOG.info("call.retried", stage=self.unit.stage, attempt=attempt, wait_s=round(wait_s, 3), cause=_kind(error))

    def _endpoint_error(self, error: Exception, attempts: int) -> EndpointError:
        where = self.wrapped.base_url or self.wrapped.system
        tries = "once" if attempts == 1 else f"{attempts} times"
        if isinstance(error, TimeoutError):
            return EndpointError(
                f"{where} did not answer within {self.gate.deadline_s:g} s (asked {tries})", code="endpoint_timeout"
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
    last = ModelMessagesTypeAdapter.dump_python(
        messages[-1:], mode="json", exclude={"__all__": {"timestamp", "run_id"}}
    )
    return content_hash(len(messages), settings.get("seed"), [part.get("content") for part in last[0]["parts"]])
