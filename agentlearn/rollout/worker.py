"""A worker: a process that makes rollouts. It holds agents, sandboxes and browsers, and no store, no key and no limit.

Every model call is made by the driver, and every result of a tool is committed by the driver before it is used, so that
a worker can be killed at any moment: what it had done is repeated from records.
"""

import asyncio
import itertools
import pickle
import resource
import signal
import socket
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.settings import ModelSettings

from agentlearn.config import BudgetOptions, RolloutOptions
from agentlearn.domain.base import Domain
from agentlearn.errors import AgentlearnError
from agentlearn.library.capability import Experiences
from agentlearn.models.budget import Budget
from agentlearn.models.call_context import CallContext, CallRecord
from agentlearn.models.endpoint import Endpoint
from agentlearn.models.endpoint_state import EndpointState
from agentlearn.models.limiter import Limiter
from agentlearn.models.work_unit import WorkUnit
from agentlearn.rollout.link import Answered, Ask, Keep, Link, Made, Make, Opened, Recall, StreamLink
from agentlearn.rollout.runner import Rollouts, open_rollouts
from agentlearn.types.ids import CallId, RunId

_MAKING: ContextVar[Make] = ContextVar("making")
"""The rollout that the current asyncio task belongs to."""


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """What an agent has to know about a model that another process asks."""

    endpoint: str
    name: str
    system: str
    url: str
    profile: ModelProfile
    simulated: bool


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """Everything that a worker is opened with."""

    run: RunId
    domain: Callable[[], Domain]
    options: RolloutOptions
    model: ModelDescription
    judge: ModelDescription


@dataclass(slots=True)
class _Worker:
    """One end of the link: it makes rollouts, and sends on what they ask."""

    link: Link
    waiting: dict[int, "asyncio.Future[Answered]"] = field(default_factory=dict[int, "asyncio.Future[Answered]"])
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)

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

    async def serve(self, rollouts: Rollouts) -> None:
        """Make rollouts until the driver is gone."""
        making = set[asyncio.Task[None]]()
        try:
            while True:
                message = await self.link.receive()
                if isinstance(message, Make):
                    task = asyncio.create_task(self._make(message, rollouts))
                    making.add(task)
                    task.add_done_callback(making.discard)
                elif isinstance(message, Answered) and (waiting := self.waiting.get(message.call)) is not None:
                    waiting.set_result(message)
        except EOFError:
            pass
        finally:
            for task in list(making):
                task.cancel()
            await asyncio.gather(*making, return_exceptions=True)

    async def _make(self, message: Make, rollouts: Rollouts) -> None:
        _MAKING.set(message)
        if message.instructions:
            rollouts = rollouts.with_instructions(message.instructions)
        lessons = Experiences(message.library, masked=message.masked).with_choice(message.choice)
        finished, error = None, None
        try:
            finished = await rollouts.attempts(message.task, message.slot, message.treatment, lessons)
        except Exception as raised:  # noqa: BLE001  the driver raises it
            error = _sendable(raised)
        peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        kept = None if finished is None else replace(finished, output=None)
        await self.link.send(Made(message.number, kept, error, peak_mib))


def _sendable(error: Exception) -> Exception:
    """The error, or one with its words where it cannot be pickled."""
    try:
        return pickle.loads(pickle.dumps(error))  # noqa: S301  our own bytes
    except Exception:  # noqa: BLE001  any class may fail in its own way
        return RuntimeError(f"{type(error).__name__}: {error}")


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


async def work(link: Link, plan: WorkerPlan) -> None:
    """Open what rollouts need, say so, and make rollouts until the driver is gone."""
    worker = _Worker(link)
    context = CallContext(plan.run, worker, Budget(BudgetOptions()))
    model, judge = (
        _endpoint(worker, role, known, context) for role, known in (("model", plan.model), ("judge", plan.judge))
    )
    try:
        opening = open_rollouts(plan.domain(), model, plan.options, call_context=context, judge=judge)
        async with opening as rollouts:
            await link.send(Opened(rollouts.isolation, rollouts.notes))
            await worker.serve(rollouts)
    except AgentlearnError as error:
        await link.send(Opened(error=error))


async def _main(number: int) -> None:
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=number))
    link = StreamLink(reader, writer)
    plan: Any = await link.receive()
    await work(link, plan)


def main(number: int) -> None:
    """Serve the driver at the other end of the socket with this number."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver decides what Ctrl-C means
    asyncio.run(_main(number))
