"""Rollouts in workers. The driver, this process, owns the store, the journal, the limits and the budget.

A worker makes rollouts and nothing else. A worker that dies takes no result with it: each rollout that it had begun is
made again by another one, from the records of its calls, and no recorded call is repeated.
"""

import asyncio
import itertools
import pickle
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Protocol

from pydantic_ai.messages import ModelMessage

from agentlearn.config import RolloutOptions, WorkerOptions
from agentlearn.domain.base import Domain
from agentlearn.errors import ConfigError, ToolLost
from agentlearn.library.capability import Experiences
from agentlearn.models.call_context import CallContext, CallRecord, WorkUnit
from agentlearn.models.endpoint import Endpoint
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
    sendable,
)
from agentlearn.rollout.recorded_run import cause_of
from agentlearn.rollout.runner import Finished, Rollouts, RolloutSlot, stored_messages
from agentlearn.text.log import get_log
from agentlearn.types.ids import CallId
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory, Treatment

LOST_WORKERS = 3
"""How many workers a rollout may lose before it counts as failed."""
RECYCLED_AFTER = 1_000
"""Rollouts after which a worker is replaced, so that what their code leaves behind cannot grow for ever."""


class WorkerLost(ToolLost):
    """A worker is gone. What it had begun is made again."""

    code = "worker_lost"


class NoRoom(WorkerLost):
    """There is no further worker: no machine is free for one, or its machine is too slow."""

    code = "no_room"


@dataclass(frozen=True, slots=True)
class WorkerNeeds:
    """What one worker needs of its machine."""

    cpus: float
    memory_mib: int
    start_s: float = 300.0
    """Seconds that it has to answer once it has its place."""


@dataclass(frozen=True, slots=True)
class Started:
    """A process that serves the other end of a link."""

    link: Link
    cause: Callable[[], Awaitable[str]]
    """Returns why it is gone, once it is."""


class Cluster(Protocol):
    """Where workers run."""

    async def check(self, count: int, needs: WorkerNeeds) -> None:
        """Raise ConfigError when there is no room for so many workers, however long one waits."""
        ...

    def start(self, needs: WorkerNeeds) -> AbstractAsyncContextManager[Started]:
        """Start a worker, and end it with the block.

        Raises WorkerLost when it ends at once, and NoRoom, with what to do, when there is none.
        """
        ...


@dataclass(slots=True)
class _Kept:
    """What is known of one rollout that a worker makes."""

    made: "asyncio.Future[Finished]"
    records: dict[CallId, CallRecord]
    """Its committed calls and results of tools, by id. They outlive the worker."""
    models: Mapping[str, Endpoint]
    """By role."""
    units: dict[str, WorkUnit] = field(default_factory=dict[str, WorkUnit])
    messages: dict[str, list[ModelMessage]] = field(default_factory=dict[str, list[ModelMessage]])
    """The last request of each unit."""
    answering: set["asyncio.Task[None]"] = field(default_factory=set["asyncio.Task[None]"])
    """Calls in flight. They are recorded, also when the worker is lost."""


@dataclass(slots=True)
class _Records:
    """The journal of a run, and the records of a rollout whose worker was lost."""

    call_context: CallContext
    kept: _Kept

    async def record(self, record: CallRecord) -> None:
        """Store the record."""
        await self.call_context.journal.record(record)
        self.kept.records[record.id] = record

    async def recorded(self, identity: CallId) -> CallRecord | None:
        """Return the record with that id: of a worker that was lost, or of an interrupted run."""
        return self.kept.records.get(identity) or await self.call_context.journal.recorded(identity)

    def began(self, unit: str) -> bool:
        """Whether an interrupted run has begun that unit."""
        return self.call_context.journal.began(unit)


@dataclass(slots=True, eq=False)
class _Worker:
    """The driver's end of the link to one worker."""

    call_context: CallContext
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    """Ends the worker."""
    in_flight: dict[int, _Kept] = field(default_factory=dict[int, _Kept])
    opening: "dict[int, asyncio.Future[OpenedRollouts]]" = field(
        default_factory=dict[int, "asyncio.Future[OpenedRollouts]"]
    )
    found: dict[int, OpenedRollouts] = field(default_factory=dict[int, OpenedRollouts])
    """What is open, by its number."""
    begun: int = 0
    peak_mib: float = 0.0
    gone: WorkerLost | None = None
    started: Started = field(init=False)
    tasks: set["asyncio.Task[None]"] = field(default_factory=set["asyncio.Task[None]"])

    async def start(self, cluster: Cluster, needs: WorkerNeeds, plan: WorkerPlan) -> None:
        """Start the process. Raises WorkerLost."""
        self.started = await self.stack.enter_async_context(cluster.start(needs))
        self._do(self._listen())
        await self._send(plan)

    def _do(self, work: Coroutine[Any, Any, None], among: "set[asyncio.Task[None]] | None" = None) -> None:
        task = asyncio.create_task(work)
        for tasks in (self.tasks, *([] if among is None else [among])):
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    async def close(self) -> None:
        """End the worker."""
        self.gone = self.gone or WorkerLost("the run has ended")
        tasks = list(self.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.stack.aclose()

    async def open(self, message: OpenRollouts) -> None:
        """Open rollouts in the worker. Raises WorkerLost, and what the worker raised."""
        opened = self.opening[message.opened] = asyncio.get_running_loop().create_future()
        await self._send(message)
        found = self.found[message.opened] = await opened
        if found.error is not None:
            raise found.error

    async def make(self, message: Make, kept: _Kept) -> Finished:
        """Return the rollout. Raises WorkerLost, and what the rollout raised."""
        self.in_flight[message.number] = kept
        self.begun += 1
        try:
            await self._send(message)
            return await kept.made
        except WorkerLost:
            await asyncio.gather(*kept.answering, return_exceptions=True)
            raise
        except asyncio.CancelledError:
            if self.gone is None:
                self._do(self._send(Drop(message.number)))
            raise
        finally:
            self.in_flight.pop(message.number, None)

    async def _send(self, message: WorkerPlan | OpenRollouts | Make | Drop | Answered) -> None:
        if self.gone is not None:
            raise self.gone
        try:
            await self.started.link.send(message)
        except OSError:
            raise await self._lost() from None

    async def _listen(self) -> None:
        """Take the worker's messages until it is gone."""
        try:
            while True:
                match await self.started.link.receive():
                    case Made() as message:
                        self._finish(message)
                    case OpenedRollouts() as message:
                        self.opening.pop(message.opened).set_result(message)
                    case Ask() | Keep() | Recall() as message if kept := self.in_flight.get(message.number):
                        self._do(self._answer(message, kept), kept.answering)
                    case _:  # of a rollout that was given up
                        pass
        except EOFError:
            lost = await self._lost()
            for waiting in [*self.opening.values(), *(kept.made for kept in self.in_flight.values())]:
                if not waiting.done():
                    waiting.set_exception(lost)

    def _finish(self, message: Made) -> None:
        self.peak_mib = max(self.peak_mib, message.peak_mib)
        kept = self.in_flight.get(message.number)
        if kept is None or kept.made.done():
            return
        if message.error is not None:
            kept.made.set_exception(message.error)
        else:
            kept.made.set_result(message.finished)

    async def _lost(self) -> WorkerLost:
        """Find out why the worker is gone, and say it once."""
        cause = await self.started.cause()
        if self.gone is None:
            self.gone = WorkerLost(f"a worker is gone: {cause}")
            self.call_context.lost_workers.append(cause)
            get_log().warning("rollout.worker_lost", rollouts=len(self.in_flight), reason=cause)
        return self.gone

    async def _answer(self, message: Ask | Keep | Recall, kept: _Kept) -> None:
        records = _Records(self.call_context, kept)
        try:
            if isinstance(message, Ask):
                answer = await self._asked(message, kept, records)
            elif isinstance(message, Recall):
                answer = Answered(message.call, record=await records.recorded(message.id))
            else:
                await records.record(message.record)
                answer = Answered(message.call)
        except Exception as error:  # noqa: BLE001  the worker raises it
            answer = Answered(message.call, error=sendable(error))
        with suppress(WorkerLost):
            await self._send(answer)

    async def _asked(self, message: Ask, kept: _Kept, records: _Records) -> Answered:
        """Make a call for the worker, in the driver's own unit of work."""
        key = f"{message.role} {message.stage} {message.unit}"
        if (unit := kept.units.get(key)) is None:
            unit = WorkUnit(self.call_context, message.stage, message.unit, message.seed, own_journal=records)
            kept.units[key] = unit
        unit.live = unit.live or message.live
        messages = [*kept.messages.get(key, [])[: message.kept], *message.messages]
        kept.messages[key] = messages
        client = kept.models[message.role].client(unit, history_tokens=message.history_tokens)
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(message.seconds) as deadline:
            unit.deadline = deadline
            response = await client.request(list(messages), message.settings, message.parameters)
        until, record = deadline.when(), unit.calls[-1]
        return Answered(
            message.call,
            response=response,
            record=record.model_copy(update={"response": ""}),
            live=unit.live,
            seconds=None if until is None else max(0.0, until - loop.time()),
        )


@dataclass(slots=True)
class _SpreadRollouts(Rollouts):
    """Runs rollouts of one domain on one endpoint, in workers."""

    workers: "Workers | None" = None
    opened: int = 0
    models: Mapping[str, Endpoint] = field(default_factory=dict[str, Endpoint])

    async def attempts(self, task: Task, slot: RolloutSlot, treatment: Treatment, experiences: Experiences) -> Finished:
        """Let a worker make the rollout, and another one when that is lost."""
        assert self.workers is not None
        loop, records, lost = asyncio.get_running_loop(), dict[CallId, CallRecord](), WorkerLost("no worker")
        slot = replace(slot, attempt=self._attempt(task, slot))
        for _ in range(LOST_WORKERS):
            message = Make(
                number=next(self.workers.numbers),
                opened=self.opened,
                task=task,
                slot=slot,
                treatment=treatment,
                library=experiences.library,
                masked=experiences.masked,
                choice=experiences.choice,
                instructions=self.instructions,
                begun=bool(records) or self.call_context.journal.began(self._identity(task, slot)),
            )
            try:
                worker = await self.workers.free()
                return await worker.make(message, _Kept(loop.create_future(), records, self.models))
            except WorkerLost as error:
                await self.call_context.wait_if_stopped()
                lost = error
            if not self.domain.replayable:
                slot, records = replace(slot, attempt=slot.attempt + 1), {}
        return self._failed(task, slot, treatment, experiences, lost)

    def _failed(
        self, task: Task, slot: RolloutSlot, treatment: Treatment, experiences: Experiences, lost: WorkerLost
    ) -> Finished:
        """The record of a rollout that lost every worker."""
        trajectory = Trajectory(
            id=self._identity(task, slot),
            run=self.call_context.run,
            phase=slot.phase,
            batch=slot.batch,
            task=task.id,
            g=slot.g,
            attempt=slot.attempt,
            seed=slot.seed,
            treatment=treatment,
            offered=experiences.choice.lessons,
            failure=self._failure(lost),
            started_at=datetime.now(UTC),
            prompts=self.prompts,
            isolation=self.isolation,
        )
        return Finished(trajectory, stored_messages([]), cause=cause_of(lost))


@dataclass(slots=True)
class Workers:
    """The workers of one run. Opens rollouts in all of them."""

    cluster: Cluster
    needs: WorkerNeeds
    plan: WorkerPlan
    call_context: CallContext
    alive: list[_Worker] = field(default_factory=list[_Worker])
    every: set[_Worker] = field(default_factory=set[_Worker])
    """Those of `alive`, and those that make their last rollouts."""
    opened: dict[int, OpenRollouts] = field(default_factory=dict[int, OpenRollouts])
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)
    starting: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while workers are replaced."""
    retiring: set["asyncio.Task[None]"] = field(default_factory=set["asyncio.Task[None]"])

    async def start(self, count: int) -> None:
        """Start so many workers. Raises ConfigError when there is no room for them."""
        await self.cluster.check(count, self.needs)
        try:
            self.alive[:] = await asyncio.gather(*(self._started() for _ in range(count)))
        except NoRoom as error:
            raise ConfigError(error.message, code=error.code) from error

    async def close(self) -> None:
        """End all workers."""
        for task in list(self.retiring):
            task.cancel()
        await asyncio.gather(*(worker.close() for worker in self.every))

    @asynccontextmanager
    async def open(
        self, domain: Domain, endpoint: Endpoint, *, judge: Endpoint | None = None, user: Endpoint | None = None
    ) -> AsyncGenerator[Rollouts]:
        """Open rollouts in all workers. Raises what a worker raises, and ConfigError when the domain cannot be sent."""
        models = {"model": endpoint, "judge": judge or endpoint, "user": user or judge or endpoint}
        message = OpenRollouts(next(self.numbers), domain, {role: _described(one) for role, one in models.items()})
        try:
            pickle.dumps(message)
        except Exception as error:
            raise ConfigError(
                f"{domain.name!r} cannot be sent to another process ({error}); give the agent, the reward and the deps"
                " as MODULE:NAME, or leave out --workers and --ray"
            ) from error
        notes = endpoint.check_chat(tools=domain.runs_code)
        self.opened[message.opened] = message
        try:
            self.alive[:] = await asyncio.gather(*(self._opened(worker, message) for worker in self.alive))
            first = self.alive[0].found[message.opened]
            yield _SpreadRollouts(
                call_context=self.call_context,
                domain=domain,
                endpoint=endpoint,
                options=self.plan.options,
                isolation=first.isolation,
                notes=notes or first.notes,
                workers=self,
                opened=message.opened,
                models=models,
            )
        finally:
            del self.opened[message.opened]

    async def _opened(self, worker: _Worker, message: OpenRollouts) -> _Worker:
        """Return the worker with these rollouts open, or another one where it is lost."""
        try:
            await worker.open(message)
        except WorkerLost:
            return await self._started()
        return worker

    async def _started(self) -> _Worker:
        """Start a worker that has opened everything. Raises WorkerLost when workers end at once, time after time."""
        for last in (False, False, True):
            worker = _Worker(self.call_context)
            self.every.add(worker)
            try:
                await worker.start(self.cluster, self.needs, self.plan)
                for message in self.opened.values():
                    await worker.open(message)
            except WorkerLost as lost:
                await self._end(worker)
                if last or isinstance(lost, NoRoom):
                    raise
            else:
                return worker
        raise AssertionError

    async def _end(self, worker: _Worker) -> None:
        await worker.close()
        self.every.discard(worker)

    async def free(self) -> _Worker:
        """Return the worker with the fewest rollouts in flight. Those that are lost or worn out are replaced first.

        Raises WorkerLost when none is left and none can be started.
        """
        async with self.starting:
            for one in list(self.alive):
                worn = one.begun >= RECYCLED_AFTER or one.peak_mib > self.needs.memory_mib
                if one.gone is None and not worn:
                    continue
                try:
                    self.alive.append(await self._started())
                except WorkerLost:
                    if len(self.alive) == 1:
                        raise
                self.alive.remove(one)
                task = asyncio.create_task(self._retire(one))
                self.retiring.add(task)
                task.add_done_callback(self.retiring.discard)
        return min(self.alive, key=lambda one: len(one.in_flight))

    async def _retire(self, worker: _Worker) -> None:
        """End a worker after its last rollout and its last call."""
        last = list(worker.in_flight.values())
        await asyncio.gather(*(kept.made for kept in last), return_exceptions=True)
        await asyncio.gather(*(task for kept in last for task in kept.answering), return_exceptions=True)
        await asyncio.sleep(0)  # its rollouts take what was made
        await self._end(worker)


def _described(endpoint: Endpoint) -> ModelDescription:
    model = endpoint.model
    return ModelDescription(
        endpoint.name, model.model_name, model.system, model.base_url or "", model.profile, endpoint.simulated
    )


@asynccontextmanager
async def open_workers(
    cluster: AbstractAsyncContextManager[Cluster],
    options: WorkerOptions,
    domains: Sequence[Domain],
    call_context: CallContext,
    *,
    otel: bool,
) -> AsyncGenerator[Workers]:
    """Start workers that can make the rollouts of these domains, and end them with the block. Raises ConfigError."""
    cpus, memory_mib = max(one.worker_cpus for one in domains), max(one.worker_memory_mib for one in domains)
    needs = WorkerNeeds(cpus, memory_mib, options.worker_start_s)
    limits = RolloutOptions(**{name: getattr(options, name) for name in RolloutOptions.model_fields})
    async with cluster as opened:
        workers = Workers(opened, needs, WorkerPlan(call_context.run, limits, otel), call_context)
        try:
            await workers.start(options.workers)
            yield workers
        finally:
            await workers.close()
