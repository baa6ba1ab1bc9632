"""What all model calls of one run share: the journal, the budget, and whether the run has been stopped.

A run is stopped by its budget, by its user or by a service that no longer answers. It then makes no new calls. Calls in
flight are paid for, so they finish and are recorded before the work is cancelled; a resumed run takes them from there.

The store implements the protocol that is defined here, so that model calls do not import the store.

No global state is set, so a program that configures OpenTelemetry itself is not affected.
"""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar
from weakref import WeakSet

from opentelemetry.trace import Tracer, TracerProvider
from pydantic import Field
from pydantic_ai.capabilities import Instrumentation
from pydantic_ai.models.instrumented import InstrumentationSettings

from agentlearn.errors import AgentlearnError, BudgetExceeded, MissingExtra
from agentlearn.models.budget import Budget, Reservation
from agentlearn.models.token_estimate import ExpectedCall
from agentlearn.text.log import get_log
from agentlearn.types.ids import CallId, RunId, content_hash
from agentlearn.types.value import Value

if TYPE_CHECKING:
    from agentlearn.models.replicas import Replica

Stage = Literal["rollout", "summarise", "compare", "consolidate", "judge", "user", "probe", "solve"]


class CallRecord(Value):
    """An answered model call or a tool result."""

    id: CallId
    """Hash of (run, stage, unit, kind, ordinal, request). A resumed run gets the same id for the same call."""
    run: RunId
    stage: Stage
    unit: str
    """Unit of work that made the call: a rollout id, or the stage's own key."""
    ordinal: int
    """Index among the unit's records of the same kind, from 0."""
    kind: Literal["model", "tool"]
    name: str
    """Model name or tool name."""
    ok: bool
    error: str = ""
    """Status of a failed tool call; empty when ok."""
    response: str = ""
    """JSON of pydantic-ai's `ModelResponse`, or the tool's text."""
    request_hash: str = ""
    """Hash of the request; part of the id."""
    asked: str = Field(default="", exclude_if=lambda text: not text)
    """JSON of the messages that were sent, of calls whose messages no rollout keeps. `StoreReader.asked` reads it."""
    tokens_in: int = 0
    tokens_cached: int = 0
    tokens_out: int = 0
    cost_usd: float | None = None
    """None when the price is unknown."""
    attempts: int = 1
    """Number of requests sent, including retries."""
    seconds: float = 0.0
    at: datetime


class Journal(Protocol):
    """Stores the records of a run."""

    async def record(self, record: CallRecord) -> None:
        """Store the record durably before returning. Raises StoreError."""
        ...

    async def recorded(self, identity: CallId) -> CallRecord | None:
        """Return the record with that id from the interrupted run that is being resumed; None when there is none."""
        ...

    def began(self, unit: str) -> bool:
        """Whether the interrupted run has records of that unit of work and did not finish it."""
        ...


T = TypeVar("T")

Tasks = WeakSet["asyncio.Task[Any]"]
_WORK: ContextVar[Tasks | None] = ContextVar("work", default=None)
"""Collects the asyncio tasks of the work that the current task belongs to."""


@dataclass(slots=True)
class CallContext:
    """Journal, budget and stop signal of one run. It belongs to one event loop."""

    run: RunId
    journal: Journal
    budget: Budget
    tracing: "CallTracing | None" = None
    """Tracer for units of work; None: no tracing."""
    in_flight: int = 0
    """Calls that have been sent and are not recorded yet."""
    silent: int = 0
    """Calls that wait for a silent service."""
    stopped: AgentlearnError | None = None
    """Why the run was stopped; None while it goes on."""
    lost_workers: list[str] = field(default_factory=list[str])
    """Why workers were lost, one text for each."""
    watchers: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    """Called when `silent` or `stopped` has changed."""
    _cancels: bool = False
    """Whether `until_stopped` is running, which cancels the work of a stopped run."""
    _idle: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the run is stopped and no call is in flight."""
    _held: "dict[asyncio.Future[None], ExpectedCall]" = field(
        default_factory=dict["asyncio.Future[None]", ExpectedCall]
    )
    """Calls that wait until the budget has room for them."""

    def stop(self, why: AgentlearnError) -> None:
        """Make no new calls. Only the first reason is kept."""
        if self.stopped is None:
            self.stopped = why
            self._tell()
        self._recheck_held()
        self._check_idle()

    @asynccontextmanager
    async def one_call(
        self,
        expected: Callable[[], ExpectedCall | None] = lambda: None,
        *,
        slots: int = 1,
        while_held: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> AsyncGenerator[Reservation | None]:
        """Count the block as one call in flight. Raises the reason when the run is stopped or over its budget.

        expected: returns what the call will probably take. It waits while that does not fit together with the calls in
        flight. None: the call is never held. It is asked again after a wait if it knew no price. slots: number of calls
        that may be in flight. while_held: entered while it waits.

        Under `until_stopped` it waits to be cancelled instead of raising: an error would end calls in flight too.
        """
        reserved = await self._reserved(expected, slots, while_held)
        self.in_flight += 1
        try:
            yield reserved
        finally:
            self.in_flight -= 1
            if reserved is not None:
                self.budget.release(reserved)
                self._recheck_held()
            self._check_idle()

    async def _reserved(
        self,
        expected: Callable[[], ExpectedCall | None],
        slots: int,
        while_held: Callable[[], AbstractContextManager[None]],
    ) -> Reservation | None:
        """Return what was reserved for a call, when it may be made."""
        wanted = expected() if self.budget.limits_calls else None
        while True:
            reserved = None
            if self.stopped is None:
                try:
                    self.budget.check()
                    reserved = None if wanted is None else self._reserve(wanted, slots)
                except BudgetExceeded as reached:
                    self.stop(reached)
            await self.wait_if_stopped()
            if self.stopped is not None:
                raise self.stopped
            if wanted is None or reserved is not None:
                return reserved
            with while_held():
                await self._until_released(wanted)
            if wanted.price is None:
                wanted = expected()

    def _reserve(self, wanted: ExpectedCall, slots: int) -> Reservation | None:
        """Reserve what a call can take; None when it has to wait. A call that is too large lets smaller ones go on."""
        budget = self.budget
        if budget.idle and not budget.fits_alone(wanted) and any(map(budget.fits_alone, self._held.values())):
            self._recheck_held()
            return None
        return budget.reserve(wanted, slots)

    async def _until_released(self, wanted: ExpectedCall) -> None:
        """Wait until a call has ended, or may let this one go first."""
        held: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._held[held] = wanted
        try:
            await held
        except asyncio.CancelledError:
            self._held.pop(held)
            self._recheck_held()  # others may have waited for this call
            raise
        finally:
            self._held.pop(held, None)

    @contextmanager
    def waiting_for_service(self) -> Generator[None]:
        """Count a call that waits for a silent service during the block."""
        self.silent += 1
        self._tell()
        try:
            yield
        finally:
            self.silent -= 1
            self._tell()

    def _tell(self) -> None:
        for watcher in list(self.watchers):
            watcher()

    async def wait_if_stopped(self) -> None:
        """Wait to be cancelled when the run is stopped under `until_stopped`; otherwise return at once."""
        if self.stopped is not None and self._cancels:
            await asyncio.Event().wait()

    async def until_stopped(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the work's result. When the run is stopped, raise the reason once no call is in flight."""
        self._cancels = True
        with _collect_tasks() as started:
            working, idle = asyncio.create_task(work), asyncio.create_task(self._idle.wait())
            try:
                await asyncio.wait({working, idle}, return_when=asyncio.FIRST_COMPLETED)
                if working.done():
                    return working.result()
            finally:
                await _cancel(working, idle)
                await _cancel(*started)  # pydantic-ai leaves a task behind when it is cancelled as a run begins
                self._cancels = False
        assert self.stopped is not None
        if isinstance(self.stopped, BudgetExceeded) and self.budget.reached is not None:
            self.stopped = self.budget.exceeded()  # with what the calls in flight have taken since
        raise self.stopped

    def _recheck_held(self) -> None:
        """Let all held calls look at the budget again."""
        for held in self._held:
            if not held.done():
                held.set_result(None)

    def _check_idle(self) -> None:
        if self.stopped is not None and not self.in_flight:
            self._idle.set()


@contextmanager
def _collect_tasks() -> Generator[Tasks]:
    """Yield the tasks that are created in the block and by its tasks; other tasks of the event loop are left alone."""
    loop, tasks = asyncio.get_running_loop(), Tasks()
    before, token = loop.get_task_factory(), _WORK.set(tasks)

    def create(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> Any:
        task: Any = asyncio.Task(work, loop=loop, **options) if before is None else before(loop, work, **options)
        if _WORK.get() is tasks:
            tasks.add(task)
        return task

    loop.set_task_factory(create)
    try:
        yield tasks
    finally:
        _WORK.reset(token)
        if loop.get_task_factory() is create:
            loop.set_task_factory(before)


async def _cancel(*tasks: "asyncio.Task[Any]") -> None:
    """Cancel the tasks, wait until they have ended, and ignore their errors."""
    if not (running := [task for task in tasks if not task.done()]):
        return
    for task in running:
        task.cancel()
    await asyncio.wait(running)
    for task in running:
        if not task.cancelled():
            task.exception()  # read it, or asyncio reports that it was never retrieved


ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
"""Environment variable with the address that spans are sent to; setting it turns tracing on."""
INSTALL_OTEL = "pip install 'agentlearn-lib[otel]'"

_LOG = get_log()


@dataclass(frozen=True, slots=True)
class CallTracing:
    """The tracer of a run."""

    tracer: Tracer
    settings: InstrumentationSettings

    @classmethod
    def of(cls, provider: TracerProvider) -> "CallTracing":
        """Tracing through that provider."""
        return cls(provider.get_tracer("agentlearn"), InstrumentationSettings(tracer_provider=provider))

    @contextmanager
    def span(self, name: str, attributes: Mapping[str, str]) -> Generator[list[Instrumentation]]:
        """Open the span `agentlearn NAME`, and yield the capability that puts an agent's spans inside it.

        attributes: each name gets the prefix `agentlearn.`.
        """
        prefixed = {f"agentlearn.{name}": value for name, value in attributes.items()}
        with self.tracer.start_as_current_span(f"agentlearn {name}", attributes=prefixed):
            yield [Instrumentation(settings=self.settings)]


@asynccontextmanager
async def open_tracing(*, wanted: bool) -> AsyncGenerator[CallTracing | None]:
    """Send spans by OTLP over HTTP to the address in the environment until the block ends; None when tracing is off.

    Raises MissingExtra when tracing is wanted and the SDK is not installed. When only the environment asks for
    tracing, a missing SDK is logged as a warning.
    """
    if not wanted and not os.environ.get(ENDPOINT):
        yield None
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider as Provider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        message = f"tracing needs the OpenTelemetry SDK: {INSTALL_OTEL}"
        if wanted:
            raise MissingExtra(message) from error
        _LOG.warning("tracing.missing", reason=message)
        yield None
        return
    name = os.environ.get("OTEL_SERVICE_NAME", "agentlearn")
    provider = Provider(resource=Resource.create({"service.name": name}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    try:
        yield CallTracing.of(provider)
    finally:
        await asyncio.to_thread(provider.shutdown)


@dataclass(slots=True)
class WorkUnit:
    """One unit of work of a run, and its calls so far."""

    call_context: CallContext
    stage: Stage
    name: str
    """A rollout id, or the stage's own key; unique within run and stage."""
    seed: int
    """Seed from which the seed of each request is derived."""
    asked: Counter[str] = field(default_factory=Counter[str])
    """Number of records so far, by kind (`model`, `tool`)."""
    calls: list[CallRecord] = field(default_factory=list[CallRecord])
    """Answered model calls, in order."""
    live: bool = False
    """Whether a call was made that the journal does not hold. From then on nothing is replayed."""
    deadline: asyncio.Timeout | None = None
    """Time limit of the unit; None: it has none."""
    own_journal: Journal | None = None
    """Where its calls are recorded; None: in the journal of the run."""
    replica: "Replica | None" = None
    """The endpoint of its last request, where its model has several; the next goes there too. None: it has none."""

    @property
    def journal(self) -> Journal:
        """Where its calls are recorded."""
        return self.own_journal or self.call_context.journal

    @contextmanager
    def clock_stopped(self) -> Generator[None]:
        """Stop the unit's time limit during the block."""
        started = asyncio.get_running_loop().time()
        until = None if self.deadline is None else self.deadline.when()
        if self.deadline is None or until is None or self.deadline.expired():
            yield
            return
        self.deadline.reschedule(None)
        try:
            yield
        finally:
            self.deadline.reschedule(until + asyncio.get_running_loop().time() - started)

    def give_back(self, seconds: float) -> None:
        """Move the unit's time limit by seconds that it has lost to a silent service."""
        until = None if self.deadline is None else self.deadline.when()
        if self.deadline is not None and until is not None and not self.deadline.expired():
            self.deadline.reschedule(until + seconds)

    def next_ordinal(self, kind: str) -> int:
        """Return the index, from 0, of the next record of that kind."""
        self.asked[kind] += 1
        return self.asked[kind] - 1

    def call_id(self, kind: str, ordinal: int, request_hash: str) -> CallId:
        """Return the id of a call; a resumed run gets the same id for the same call."""
        return CallId(content_hash("call", self.call_context.run, self.stage, self.name, kind, ordinal, request_hash))

    async def recorded(self, identity: CallId) -> CallRecord | None:
        """Return the record with that id from an interrupted run; None from the first call that has none."""
        past = None if self.live else await self.journal.recorded(identity)
        self.live = past is None
        return past

    @contextmanager
    def traced(self, attributes: Mapping[str, str] | None = None) -> Generator[list[Instrumentation]]:
        """Open a span for this unit, and yield what its agent needs to add its own spans; [] without tracing.

        attributes: added to run, stage and unit; each name gets the prefix `agentlearn.`.
        """
        tracing = self.call_context.tracing
        if tracing is None:
            yield []
            return
        named = {"run": self.call_context.run, "stage": self.stage, "unit": self.name, **(attributes or {})}
        with tracing.span(self.stage, named) as capabilities:
            yield capabilities
