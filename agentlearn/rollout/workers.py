"""Rollouts in worker processes. The driver, this process, owns the store, the journal, the limits and the budget.

A worker makes rollouts and nothing else. A worker that dies takes no result with it: each rollout that it had begun is
made again by another one, from the records of its calls, and no recorded call is repeated.
"""

import asyncio
import itertools
import os
import pickle
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, cast

from pydantic_ai.messages import ModelMessage

from agentlearn.config import RolloutOptions
from agentlearn.domain.base import Domain
from agentlearn.errors import ConfigError, ToolLost
from agentlearn.library.capability import Experiences
from agentlearn.log import get_log
from agentlearn.models.call_context import CallContext, CallRecord
from agentlearn.models.endpoint import Endpoint
from agentlearn.models.work_unit import WorkUnit
from agentlearn.rollout.first_rollouts import cause_of
from agentlearn.rollout.link import Answered, Ask, Keep, Link, Made, Make, Opened, Recall, StreamLink
from agentlearn.rollout.runner import Finished, Rollouts, RolloutSlot, stored_messages
from agentlearn.rollout.worker import ModelDescription, WorkerPlan
from agentlearn.types.ids import CallId
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory, Treatment

LOST_WORKERS = 3
"""How many workers a rollout may lose before it counts as failed."""
RECYCLED_AFTER = 1_000
"""Rollouts after which a worker is replaced, so that what their code leaves behind cannot grow for ever."""
_STOP_S = 10.0
"""Seconds that a worker has to end by itself."""


class WorkerLost(ToolLost):
    """A worker is gone. What it had begun is made again."""

    code = "worker_lost"


@dataclass(slots=True)
class _Kept:
    """What is known of one rollout that a worker makes."""

    made: "asyncio.Future[Finished]"
    records: dict[CallId, CallRecord]
    """Its committed calls and results of tools, by id. They outlive the worker."""
    units: dict[str, WorkUnit] = field(default_factory=dict[str, WorkUnit])
    messages: dict[str, list[ModelMessage]] = field(default_factory=dict[str, list[ModelMessage]])
    """The last request of each unit."""

    async def recorded(self, identity: CallId, call_context: CallContext) -> CallRecord | None:
        """Return the record with that id: of a worker that was lost, or of an interrupted run."""
        return self.records.get(identity) or await call_context.journal.recorded(identity)


class _Unit(WorkUnit):
    """A unit of work whose records include those of a worker that was lost."""

    __slots__ = ("kept",)

    async def recorded(self, identity: CallId) -> CallRecord | None:
        """Return the record with that id; None from the first call that has none."""
        past = None if self.live else await self.kept.recorded(identity, self.call_context)
        self.live = past is None
        return past


@dataclass(slots=True, eq=False)
class _Worker:
    """The driver's end of the link to one worker."""

    link: Link
    cause: Callable[[], Any]
    """Return why it is gone, when it is. May be awaited."""
    endpoints: dict[str, Endpoint]
    call_context: CallContext
    in_flight: dict[int, _Kept] = field(default_factory=dict[int, _Kept])
    begun: int = 0
    peak_mib: float = 0.0
    gone: WorkerLost | None = None
    answering: set["asyncio.Task[None]"] = field(default_factory=set["asyncio.Task[None]"])

    async def make(self, message: Make, kept: _Kept) -> Finished:
        """Return the rollout. Raises WorkerLost, and what the rollout raised."""
        if self.gone is not None:
            raise self.gone
        self.in_flight[message.number] = kept
        self.begun += 1
        try:
            await self.link.send(message)
            return await kept.made
        except OSError:
            raise await self._lost() from None
        finally:
            self.in_flight.pop(message.number, None)

    async def listen(self) -> None:
        """Take the worker's messages until it is gone."""
        try:
            while True:
                message = await self.link.receive()
                if isinstance(message, Made):
                    self._finish(message)
                elif isinstance(message, Ask | Keep | Recall):
                    task = asyncio.create_task(self._answer(message))
                    self.answering.add(task)
                    task.add_done_callback(self.answering.discard)
        except EOFError:
            lost = await self._lost()
            for kept in self.in_flight.values():
                if not kept.made.done():
                    kept.made.set_exception(lost)
        finally:
            for task in list(self.answering):
                task.cancel()

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
        if self.gone is None:
            self.gone = WorkerLost(f"a worker process is gone: {await self.cause()}")
            get_log().warning("rollout.worker_lost", rollouts=len(self.in_flight), reason=self.gone.message)
        return self.gone

    async def _answer(self, message: Ask | Keep | Recall) -> None:
        kept = self.in_flight.get(message.number)
        if kept is None:
            return
        try:
            if isinstance(message, Ask):
                answer = await self._asked(message, kept)
            elif isinstance(message, Recall):
                answer = Answered(message.call, record=await kept.recorded(message.id, self.call_context))
            else:
                answer = await self._kept(message, kept)
        except Exception as error:  # noqa: BLE001  the worker raises it
            answer = Answered(message.call, error=error)
        with suppress(OSError):
            await self.link.send(answer)

    async def _kept(self, message: Keep, kept: _Kept) -> Answered:
        await self.call_context.journal.record(message.record)
        kept.records[message.record.id] = message.record
        return Answered(message.call)

    async def _asked(self, message: Ask, kept: _Kept) -> Answered:
        """Make a call for the worker, in the driver's own unit of work."""
        key = f"{message.role} {message.stage} {message.unit}"
        if (unit := kept.units.get(key)) is None:
            unit = _Unit(self.call_context, message.stage, message.unit, message.seed)
            unit.kept = kept  # pyright: ignore[reportAttributeAccessIssue]
            kept.units[key] = unit
        unit.live = unit.live or message.live
        messages = [*kept.messages.get(key, [])[: message.kept], *message.messages]
        kept.messages[key] = messages
        client = self.endpoints[message.role].client(unit, history_tokens=message.history_tokens)
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(message.seconds) as deadline:
            unit.deadline = deadline
            response = await client.request(list(messages), message.settings, message.parameters)
        until, record = deadline.when(), unit.calls[-1]
        kept.records[record.id] = record
        return Answered(
            message.call,
            response=response,
            record=record.model_copy(update={"response": ""}),
            live=unit.live,
            seconds=None if until is None else max(0.0, until - loop.time()),
        )


@dataclass(slots=True)
class SpreadRollouts(Rollouts):
    """Runs rollouts of one domain on one endpoint, in workers. It is used like `Rollouts`."""

    workers: list[_Worker] = field(default_factory=list[_Worker])
    start: Any = None
    """Starts a worker and returns it."""
    lost: int = 0
    """Workers that were lost."""
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)
    """Numbers of rollouts, for all that share these workers."""
    starting: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while workers are replaced."""

    async def attempts(self, task: Task, slot: RolloutSlot, treatment: Treatment, experiences: Experiences) -> Finished:
        """Let a worker make the rollout, and another one when that is lost."""
        loop, records, lost = asyncio.get_running_loop(), dict[CallId, CallRecord](), WorkerLost("no worker")
        slot = replace(slot, attempt=self._attempt(task, slot))
        for _ in range(LOST_WORKERS):
            message = Make(
                number=next(self.numbers),
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
                return await (await self._free_worker()).make(message, _Kept(loop.create_future(), records))
            except WorkerLost as error:
                await self.call_context.wait_if_stopped()
                lost = error
            if not self.domain.replayable:
                slot, records = replace(slot, attempt=slot.attempt + 1), {}
        return self._failed(task, slot, treatment, experiences, lost)

    async def _free_worker(self) -> _Worker:
        """Return the worker with the fewest rollouts in flight. Those that are lost or worn out are replaced first."""
        async with self.starting:
            for at, one in enumerate(self.workers):
                if one.gone is not None or one.begun >= RECYCLED_AFTER:
                    self.lost += one.gone is not None
                    self.workers[at], _ = await self.start()
        return min(self.workers, key=lambda one: len(one.in_flight))

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


@asynccontextmanager
async def open_spread_rollouts(
    make_domain: Callable[[], Domain],
    endpoint: Endpoint,
    options: RolloutOptions,
    *,
    call_context: CallContext,
    judge: Endpoint | None = None,
) -> AsyncGenerator[SpreadRollouts]:
    """Open rollouts in `options.workers` processes.

    make_domain: returns the domain; it is called in every worker, so it must be a function or an object that can be
    pickled. Raises ConfigError when it cannot, and what a worker raises that cannot be opened.
    """
    endpoints = {"model": endpoint, "judge": judge or endpoint}
    described = [_described(one) for one in endpoints.values()]
    limits = RolloutOptions(**{name: getattr(options, name) for name in RolloutOptions.model_fields})
    plan = WorkerPlan(call_context.run, make_domain, limits, *described)
    try:
        pickle.dumps(plan)
    except Exception as error:
        raise ConfigError(
            f"--workers {options.workers} cannot send what was given to another process ({error}); give the agent,"
            " the reward and the deps as MODULE:NAME, or leave out --workers",
            code="not_sendable",
        ) from error
    async with AsyncExitStack() as stack:

        async def start() -> tuple[_Worker, Opened]:
            for _ in range(LOST_WORKERS - 1):
                with suppress(WorkerLost):
                    return await stack.enter_async_context(_process(plan, endpoints, call_context))
            return await stack.enter_async_context(_process(plan, endpoints, call_context))

        found = await asyncio.gather(*(start() for _ in range(options.workers)))
        opened = found[0][1]
        yield SpreadRollouts(
            call_context=call_context,
            domain=make_domain(),
            endpoint=endpoint,
            options=options,
            isolation=opened.isolation,
            notes=opened.notes,
            workers=[worker for worker, _ in found],
            start=start,
        )


def _described(endpoint: Endpoint) -> ModelDescription:
    model = endpoint.model
    return ModelDescription(
        endpoint.name, model.model_name, model.system, model.base_url or "", model.profile, endpoint.simulated
    )


@asynccontextmanager
async def _process(
    plan: WorkerPlan, endpoints: dict[str, Endpoint], call_context: CallContext
) -> AsyncGenerator[tuple[_Worker, Opened]]:
    """Start a worker process, and end it with the block."""
    own, other = socket.socketpair()
    program = f"from agentlearn.rollout.worker import main; main({other.fileno()})"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, pass_fds=[other.fileno()], start_new_session=True
    )
    other.close()
    reader, writer = await asyncio.open_connection(sock=own)
    link = StreamLink(reader, writer)

    async def cause() -> str:
        return _ended(await process.wait())

    worker = _Worker(link, cause, endpoints, call_context)
    listening = None
    try:
        try:
            await link.send(cast("Any", plan))
            opened = cast("Opened", await link.receive())
        except (EOFError, OSError):
            raise WorkerLost(f"a worker process ended as it started: {await cause()}") from None
        if opened.error is not None:
            raise opened.error
        listening = asyncio.create_task(worker.listen())
        yield worker, opened
    finally:
        writer.close()
        if listening is not None:
            listening.cancel()
            with suppress(asyncio.CancelledError):
                await listening
        await _stop(process)


async def _stop(process: Process) -> None:
    """Wait for a process whose link is closed, and kill it when it does not end."""
    try:
        await asyncio.wait_for(process.wait(), _STOP_S)
    except TimeoutError:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _ended(status: int) -> str:
    """Why a process ended, in words."""
    if status >= 0:
        return f"it ended with status {status}"
    name = signal.Signals(-status).name
    memory = "; the system may have been out of memory" if -status == signal.SIGKILL else ""
    return f"it was ended by {name}{memory}"
