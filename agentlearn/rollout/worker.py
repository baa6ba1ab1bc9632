"""A worker: a process that makes rollouts. It holds agents, sandboxes and browsers, and no store, no key and no limit.

Every model call is made by the driver, and every result of a tool is committed by the driver before it is used, so that
a worker can be killed at any moment: what it had done is repeated from records.
"""

import asyncio
import itertools
import resource
from contextlib import AsyncExitStack
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from agentlearn.config import BudgetOptions, RolloutOptions
from agentlearn.errors import AgentlearnError
from agentlearn.library.capability import Experiences
from agentlearn.models.budget import Budget
from agentlearn.models.call_context import CallContext, CallRecord, WorkUnit, open_tracing
from agentlearn.models.endpoint import Endpoint
from agentlearn.models.endpoint_state import EndpointState, Limiter
from agentlearn.rollout.link import (
    Answered,
    Ask,
    Drop,
    Keep,
    Link,
    Made,
    Make,
    ModelDescription,
    OpenedRollouts,
    OpenRollouts,
    Recall,
    WorkerPlan,
    can_be_sent,
    sendable,
)
from agentlearn.rollout.runner import Rollouts, open_rollouts
from agentlearn.types.ids import CallId

_MAKING: ContextVar[Make] = ContextVar("making")
"""The rollout that the current asyncio task belongs to."""


@dataclass(slots=True)
class _Worker:
    """One end of the link: it makes rollouts, and sends on what they ask."""

    link: Link
    where: str
    """The machine, for errors that are about it; empty: that of the driver."""
    waiting: dict[int, "asyncio.Future[Answered]"] = field(default_factory=dict[int, "asyncio.Future[Answered]"])
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)
    rollouts: dict[int, Rollouts] = field(default_factory=dict[int, Rollouts])
    """By the number of what was opened."""

    async def asked(self, message: Ask | Keep | Recall) -> Answered:
        """Return the driver's answer to a message. Raises the error that it met."""
        self.waiting[message.call] = answer = asyncio.get_running_loop().create_future()
        try:
            await self.link.send(message)
            found = await answer
        finally:
            self.waiting.pop(message.call, None)
        if found.error is not None:
            raise found.error
        return found

    async def record(self, record: CallRecord) -> None:
        """Let the driver commit the result of a tool."""
        await self.asked(Keep(_MAKING.get().number, next(self.numbers), record))

    async def recorded(self, identity: CallId) -> CallRecord | None:
        """Return the record with that id; None when there is none."""
        making = _MAKING.get()
        if not making.begun:
            return None
        return (await self.asked(Recall(making.number, next(self.numbers), identity))).record

    def began(self, unit: str) -> bool:
        """Return False: the driver has chosen the attempt."""
        return False

    async def serve(self, plan: WorkerPlan) -> None:
        """Open rollouts and make them until the driver is gone."""
        making = dict[int, asyncio.Task[None]]()
        async with AsyncExitStack() as stack:
            tracing = await stack.enter_async_context(open_tracing(wanted=plan.otel))
            context = CallContext(plan.run, self, Budget(BudgetOptions()), tracing=tracing)
            try:
                while True:
                    message = await self.link.receive()
                    if isinstance(message, OpenRollouts):
                        await self.link.send(await self._open(message, plan.options, context, stack))
                    elif isinstance(message, Make):
                        making[message.number] = asyncio.create_task(self._make(message))
                    elif isinstance(message, Drop) and message.number in making:
                        making.pop(message.number).cancel()
                    elif isinstance(message, Answered) and (waiting := self.waiting.pop(message.call, None)):
                        waiting.set_result(message)
                    making = {number: task for number, task in making.items() if not task.done()}
            except (EOFError, ConnectionError):
                pass
            finally:
                for task in making.values():
                    task.cancel()
                await asyncio.gather(*making.values(), return_exceptions=True)

    async def _open(
        self, message: OpenRollouts, options: RolloutOptions, context: CallContext, stack: AsyncExitStack
    ) -> OpenedRollouts:
        endpoints = {role: _endpoint(self, role, known, context) for role, known in message.models.items()}
        opening = open_rollouts(
            message.domain,
            endpoints["model"],
            options,
            call_context=context,
            judge=endpoints["judge"],
            user=endpoints["user"],
        )
        try:
            rollouts = self.rollouts[message.opened] = await stack.enter_async_context(opening)
        except Exception as error:  # noqa: BLE001  the driver raises it
            if self.where and isinstance(error, AgentlearnError):
                error.message = f"{self.where}: {error.message}"
            return OpenedRollouts(message.opened, error=sendable(error))
        return OpenedRollouts(message.opened, rollouts.isolation, rollouts.notes)

    async def _make(self, message: Make) -> None:
        _MAKING.set(message)
        rollouts = self.rollouts[message.opened]
        if message.instructions:
            rollouts = rollouts.with_instructions(message.instructions)
        lessons = Experiences(message.library, masked=message.masked).with_choice(message.choice)
        finished, error = None, None
        try:
            finished = await rollouts.attempts(message.task, message.slot, message.treatment, lessons)
        except Exception as raised:  # noqa: BLE001  the driver raises it
            error = sendable(raised)
        peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        if finished is not None and not can_be_sent(finished.output):
            finished = replace(finished, output=None)
        await self.link.send(Made(message.number, finished, error, peak_mib))


class _AskedModel(Model):
    """A model that the driver asks, for one unit of work."""

    def __init__(
        self, worker: _Worker, role: str, known: ModelDescription, unit: WorkUnit, history_tokens: int | None
    ) -> None:
        super().__init__(profile=known.profile)
        self._worker, self._role, self._known, self._unit = worker, role, known, unit
        self._history_tokens = history_tokens
        self._sent: list[ModelMessage] = []

    @property
    def model_name(self) -> str:
        return self._known.name

    @property
    def system(self) -> str:
        return self._known.system

    @property
    def base_url(self) -> str | None:
        return self._known.url or None

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Return the committed response. While it waits, the driver's clock counts the time of the rollout."""
        kept = 0
        while kept < min(len(self._sent), len(messages)) and self._sent[kept] is messages[kept]:
            kept += 1
        self._sent, unit = list(messages), self._unit
        until, loop = None if unit.deadline is None else unit.deadline.when(), asyncio.get_running_loop()
        ask = Ask(
            number=_MAKING.get().number,
            call=next(self._worker.numbers),
            role=self._role,
            stage=unit.stage,
            unit=unit.name,
            seed=unit.seed,
            kept=kept,
            messages=messages[kept:],
            settings=model_settings,
            parameters=model_request_parameters,
            live=unit.live,
            history_tokens=self._history_tokens,
            seconds=None if until is None else until - loop.time(),
        )
        if unit.deadline is not None and not unit.deadline.expired():
            unit.deadline.reschedule(None)
        answer = await self._worker.asked(ask)
        if unit.deadline is not None and answer.seconds is not None:
            unit.deadline.reschedule(loop.time() + answer.seconds)
        assert answer.response is not None
        assert answer.record is not None
        unit.live = answer.live
        unit.calls.append(answer.record)
        return answer.response


@dataclass(frozen=True, slots=True)
class _AskedEndpoint(Endpoint):
    """An endpoint whose calls the driver makes."""

    worker: Any = None
    role: str = ""
    known: Any = None

    def client(self, unit: WorkUnit, *, history_tokens: int | None = None) -> Any:
        """Return the model for one unit of work."""
        return _AskedModel(self.worker, self.role, self.known, unit, history_tokens)


def _endpoint(worker: _Worker, role: str, known: ModelDescription, context: CallContext) -> Endpoint:
    model = _AskedModel(worker, role, known, WorkUnit(context, "probe", role, 0), None)
    state = EndpointState(Limiter(1), name=known.endpoint)
    shown = (known.endpoint, model, state, known.simulated, known.url)
    return _AskedEndpoint(*shown, worker=worker, role=role, known=known)


async def work(link: Link, where: str = "") -> None:
    """Make rollouts until the driver is gone. where: the machine, if it is another one than the driver's."""
    plan = await link.receive()
    assert isinstance(plan, WorkerPlan)
    await _Worker(link, where).serve(plan)
