"""A hybrid run in the store: its events, and the runs of its stages that an interrupted run finds again."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from agentlearn.config import LAB
from agentlearn.config.model_folders import check_fetched, model_path
from agentlearn.errors import AgentlearnError, ConfigError, StoreMissing, only_stops, root_cause
from agentlearn.learning.costs import RunPlan, plan
from agentlearn.learning.open_run import domain_of
from agentlearn.learning.own_loop import run_in_own_loop
from agentlearn.learning.resume import of_this_version, started_with
from agentlearn.rollout.recorded_run import started_event
from agentlearn.secret_values import without_secrets
from agentlearn.store import RunRow, open_store, read_store
from agentlearn.text import storable
from agentlearn.train.training_plan import TrainPlan, plan_training
from agentlearn.types.ids import RunId, new_run_id
from agentlearn.types.run_event import RunEvent, RunFailure, RunKind, RunState
from agentlearn.types.value import Value
from agentlearn_evals.compare_settings import CompareSettings
from agentlearn_evals.eval_tasks import load_eval_tasks
from agentlearn_evals.hybrid.hybrid_report import HybridReport
from agentlearn_evals.hybrid.hybrid_settings import (
    HybridSettings,
    compare_stage,
    learn_stage,
    start_folder,
    train_stage,
)

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


R = TypeVar("R")
_ARMS = 4
"""Arms of the stage compare: none, lessons, distilled, both."""


class HybridPlan(Value):
    """What a hybrid run will do. The stages are those of the first round."""

    domain: str
    rounds: int
    margin: float
    learn: RunPlan
    train: TrainPlan
    compare_tasks: int
    """Held-out tasks."""
    compare_k: int
    """Rollouts per held-out task and arm."""
    compare_rollouts: int
    removals: int
    """Largest number of lessons whose removal is measured."""
    removal_k: int
    """Rollouts per held-out task and arm, to measure removals."""
    removal_rollouts: int
    """Largest number of rollouts to measure removals."""

    def lines(self) -> Iterator[tuple[str, str]]:
        """The plan as pairs of label and text. What is the same for every run of a stage is left to `--json`."""
        yield "rounds", f"{self.rounds}, margin {self.margin:g}"
        yield "STAGE learn", "lessons from rollouts"
        yield from self.learn.lines()
        yield "STAGE train", "these lessons, distilled into the model"
        yield from (line for line in self.train.lines() if line[0] not in {"settings", "gradient"})
        tasks = f"{self.compare_tasks:,} held-out tasks"
        yield "STAGE compare", f"{tasks} x {self.compare_k} x {_ARMS} arms: {self.compare_rollouts:,} rollouts"
        most = f"at most {self.removals} lessons: up to {self.removal_rollouts:,} rollouts"
        yield "STAGE remove", f"{tasks} x {self.removal_k} without each lesson, {most}"


def plan_hybrid(settings: HybridSettings) -> HybridPlan:
    """Return what the run will do. Raises ConfigError or DataError for what would stop it.

    What the training would be refused for is in `train.refusals`.
    """
    _check_folder(settings)
    learning = learn_stage(settings, model=settings.bare_model, library=None)
    training = train_stage(settings, model=settings.bare_model, library=settings.result_name, number=1)
    start = start_folder(settings, settings.bare_model)
    comparing = compare_stage(settings, (f"none=none,model={start}", f"lessons=none,model={start}"))
    tasks = _named("compare", lambda: _tasks(comparing))
    k = settings.removal_rollouts or comparing.k
    return HybridPlan(
        domain=settings.domain,
        rounds=settings.rounds,
        margin=settings.margin,
        learn=_named("learn", lambda: plan(learning, domain_of(learning, imports_reward=False))),
        train=_named("train", lambda: plan_training(training, lessons_exist=False)),
        compare_tasks=tasks,
        compare_k=comparing.k,
        compare_rollouts=tasks * comparing.k * _ARMS,
        removals=settings.removals,
        removal_k=k,
        removal_rollouts=tasks * k * settings.removals,
    )


def _check_folder(settings: HybridSettings) -> None:
    """Raise ConfigError when the model is not on this machine, where both learning and comparing load it."""
    model = settings.bare_model
    if settings.sampler == "vllm" or model.startswith(LAB):
        return
    check_fetched(model)
    if not model_path(model).is_dir():
        raise ConfigError(
            f"the model is {model!r}, and there is no folder of that name; give a folder with a checkpoint, a model of"
            " `agentlearn models`, or lab:NAME",
            code="no_model",
        )


def _tasks(settings: CompareSettings) -> int:
    return sum(len(one.tasks) for one in load_eval_tasks(settings, (), imports_reward=False))


def _named(stage: str, make: Callable[[], R]) -> R:
    """What a stage's plan gives. Raises ConfigError that names the stage."""
    try:
        return make()
    except ConfigError as error:
        raise ConfigError(f"{stage}: {error.message}", code=error.code) from error
