"""The events of a run in the store: `running` when it starts, then `done`, `failed` or `interrupted`."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from agentlearn.errors import AgentlearnError, only_stops, root_cause
from agentlearn.models.call_context import CallContext
from agentlearn.plugins import version
from agentlearn.store import Store
from agentlearn.text import clock, storable
from agentlearn.text.log import get_log
from agentlearn.text.secret_values import without_keys
from agentlearn.types.ids import RunId
from agentlearn.types.run_event import RunEvent, RunFailure, RunKind
from agentlearn.types.value import Value

_T = TypeVar("_T")


@dataclass(slots=True)
class _RecordedRun:
    """A run that has started."""

    event: RunEvent
    """The event that was stored when it started."""
    call_context: CallContext | None
    report: Value | None = None
    """Stored as JSON with the event `done`; None: no report."""

    async def until_stopped(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Return the work's result. Raises the reason when the run is stopped through its call context."""
        return await work if self.call_context is None else await self.call_context.until_stopped(work)


def started_event(
    run: RunId, kind: RunKind, *, domain: str, model: str, simulated: bool, seed: int, settings: str
) -> RunEvent:
    """Return the first event of a run. settings: JSON."""
    return RunEvent(
        run=run,
        domain=domain,
        kind=kind,
        state="running",
        model=model,
        simulated=simulated,
        seed=seed,
        settings=settings,
        package_version=version(),
        at=clock.now(),
    )


@asynccontextmanager
async def recorded_run(
    store: Store, event: RunEvent, *, call_context: CallContext | None = None, resumed: bool = False
) -> AsyncGenerator[_RecordedRun]:
    """Store the run's start, and its end when the block ends.

    The end is `done` with the report, `interrupted` where the run can be resumed as it is, else `failed`. Of an
    exception group the root cause is raised.
    """
    log = get_log(run=event.run)
    await store.save_run(event)
    log.info("run.resumed" if resumed else "run.started", kind=event.kind, domain=event.domain)
    run = _RecordedRun(event, call_context)
    try:
        yield run
    except BaseException as error:
        cause = root_cause(error)
        state = "interrupted" if only_stops(cause) else "failed"
        ended = event.model_copy(update={"state": state, "at": clock.now()})
        await asyncio.shield(_save_end(store, ended, cause))
        log.info(f"run.{state}")
        if cause is error:
            raise
        raise cause from error
    report = "" if run.report is None else run.report.model_dump_json()
    await store.save_run(event.model_copy(update={"state": "done", "at": clock.now(), "report": report}))
    log.info("run.done")


async def _save_end(store: Store, event: RunEvent, cause: BaseException) -> None:
    """Store that a run ends early, and why."""
    match cause:
        case AgentlearnError():
            code, message = cause.code, cause.message
        case asyncio.CancelledError() | KeyboardInterrupt():
            code, message = "interrupted", "it was interrupted"
        case _:
            code, message = type(cause).__name__, f"{type(cause).__name__}: {cause}"
    await store.save_run_failure(event.run, RunFailure(at=event.at, code=code, message=storable(without_keys(message))))
    await store.save_run(event)
