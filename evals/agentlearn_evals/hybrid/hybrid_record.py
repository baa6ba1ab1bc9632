"""A hybrid run in the store: its events, and the runs of its stages that an interrupted run finds again."""

import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentlearn.errors import AgentlearnError, StoreMissing, only_stops, root_cause
from agentlearn.learning.own_loop import run_in_own_loop
from agentlearn.learning.resume import of_this_version, started_with
from agentlearn.rollout.recorded_run import started_event
from agentlearn.secret_values import without_secrets
from agentlearn.store import RunRow, open_store, read_store
from agentlearn.text import storable
from agentlearn.types.ids import RunId, new_run_id
from agentlearn.types.run_event import RunEvent, RunFailure, RunKind, RunState
from agentlearn_evals.hybrid.hybrid_report import HybridReport
from agentlearn_evals.hybrid.hybrid_settings import HybridSettings

_RUNS = 10_000
"""Number of runs that are searched for those of the stages."""
_ELSEWHERE = ("store", "otel", "private_addresses")
"""Settings of a stage that may differ in the run that is found again."""


@dataclass(slots=True)
class HybridRecord:
    """The record of one hybrid run. It opens the store for each event only, because every stage opens it too."""

    settings: HybridSettings
    event: RunEvent
    """The event that was stored when the run first started."""
    report: HybridReport
    """The stages that are done so far."""

    @property
    def run(self) -> RunId:
        """Id of the run."""
        return self.event.run

    def start(self) -> None:
        """Store that the run goes on."""
        self._save("running")

    def keep(self, report: HybridReport) -> None:
        """Store the stages that are done."""
        self.report = report
        self._save("done" if report.ended else "running")

    def stop(self, error: BaseException) -> None:
        """Store that the run ends early, and why, with the stages that are done."""
        cause = root_cause(error)
        match cause:
            case AgentlearnError():
                code, message = cause.code, cause.message
            case KeyboardInterrupt():
                code, message = "interrupted", "it was interrupted"
            case _:
                code, message = type(cause).__name__, f"{type(cause).__name__}: {cause}"
        state: RunState = "interrupted" if only_stops(cause) else "failed"
        reason = storable(without_secrets(message))
        with suppress(AgentlearnError, OSError):  # the error that ended the run is the one to report
            self._save(state, RunFailure(at=datetime.now(UTC), code=code, message=reason))

    def stage_run(self, kind: RunKind, resolved: str) -> RunRow | None:
        """The first run of a stage with these settings since this run began; None when the stage has not started."""
        wanted = _comparable(resolved)
        try:
            with read_store(self.settings.store) as reader:
                runs = reader.runs(limit=_RUNS)
        except StoreMissing:
            return None
        since = self.event.at
        found = [
            row for row in runs if row.kind == kind and row.started_at >= since and _comparable(row.settings) == wanted
        ]
        return min(found, key=lambda row: row.started_at, default=None)

    def _save(self, state: RunState, failure: RunFailure | None = None) -> None:
        report = self.report.model_dump_json()
        event = self.event.model_copy(update={"state": state, "at": datetime.now(UTC), "report": report})

        async def save() -> None:
            async with open_store(self.settings.store) as store:
                if failure is not None:
                    await store.save_run_failure(self.run, failure)
                await store.save_run(event)

        run_in_own_loop(save())


def new_record(settings: HybridSettings) -> HybridRecord:
    """The record of a run that starts now."""
    run = new_run_id()
    event = started_event(
        run,
        "hybrid",
        domain=settings.domain,
        model=settings.model,
        simulated=False,
        seed=settings.seed,
        settings=settings.model_dump_json(),
    )
    report = HybridReport(
        run=run, domain=settings.domain, model=settings.model, margin=settings.margin, seed=settings.seed
    )
    return HybridRecord(settings, event, report)


def resumed_record(prefix: str, store: Path) -> HybridRecord:
    """The record of the interrupted run whose id starts with `prefix`.

    Raises ConfigError for a run that is unknown, done or of another kind.
    """
    run, stored = started_with("hybrid", prefix, store, {})
    with of_this_version(run):
        settings = HybridSettings.model_validate(given_again(json.loads(stored), store))
    with read_store(store) as reader:
        row = reader.run(run)
    event = RunEvent(
        run=run,
        domain=row.domain,
        kind="hybrid",
        state="running",
        model=row.model,
        simulated=row.simulated,
        seed=row.seed,
        settings=row.settings,
        package_version=row.package_version,
        at=row.started_at,
    )
    return HybridRecord(settings, event, HybridReport.model_validate_json(row.report))


def given_again(stored: dict[str, Any], store: Path) -> dict[str, Any]:
    """The fields that were given when the run started, so that the stages' own defaults hold as they did then."""
    defaults = {
        name: field.get_default(call_default_factory=True) for name, field in HybridSettings.model_fields.items()
    }
    given = {name: value for name, value in stored.items() if value != defaults.get(name) and name != "store"}
    return given | {"store": store}


def _comparable(settings: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(settings)
    return {name: value for name, value in loaded.items() if name not in _ELSEWHERE}
