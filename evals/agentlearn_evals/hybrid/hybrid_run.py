"""A hybrid run: learn, train and compare in a row, one record of what each stage made, and going on after an end."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console

from agentlearn.cli.interrupt import run_to_end
from agentlearn.cli.live import ProgressLines
from agentlearn.cli.progress import LearnProgress
from agentlearn.cli.train_progress import TrainProgress
from agentlearn.config import LAB
from agentlearn.config.command_words import command_words
from agentlearn.config.model_folders import check_fetched, model_path
from agentlearn.errors import AgentlearnError, ConfigError, StoreMissing, only_stops, root_cause
from agentlearn.learning.costs import RunPlan, plan
from agentlearn.learning.open_run import domain_of
from agentlearn.learning.report import LearnReport
from agentlearn.learning.resume import of_this_version, settings_of, started_with
from agentlearn.learning.without_loop import run_in_own_loop
from agentlearn.library import LibraryStore
from agentlearn.library.curate.library_draft import withhold
from agentlearn.library.history.change_log import ParkLesson
from agentlearn.measure.contrast import Contrast
from agentlearn.measure.contrasts import decide
from agentlearn.rollout.recorded_run import started_event
from agentlearn.secret_values import without_secrets
from agentlearn.store import RunRow, open_store, read_store
from agentlearn.text import storable
from agentlearn.train.report import TrainReport
from agentlearn.train.settings import resumed_train_settings
from agentlearn.train.training_plan import TrainPlan, plan_training
from agentlearn.types.experience import Experience, Library, estimated_tokens
from agentlearn.types.ids import ExperienceId, RunId, new_run_id
from agentlearn.types.run_event import RunEvent, RunFailure, RunKind, RunState
from agentlearn.types.value import Value
from agentlearn_evals.compare_settings import CompareSettings
from agentlearn_evals.comparison import Comparison
from agentlearn_evals.eval_tasks import load_eval_tasks
from agentlearn_evals.hybrid.hybrid_report import (
    ComparedStage,
    HybridArm,
    HybridEnd,
    HybridReport,
    HybridRound,
    LearnedStage,
    LessonRemoval,
    PruningStage,
    RemovalState,
    StageContrast,
    TrainedStage,
    sentences,
)
from agentlearn_evals.hybrid.hybrid_settings import HybridSettings, ProposalEvidence, named_stage
from agentlearn_evals.plan import ComparePlan, plan_comparison
from agentlearn_evals.progress import CompareProgress

_R = TypeVar("_R", LearnReport, TrainReport)
_P = TypeVar("_P", bound="_OfStage | _CompareProgress")
_RUNS = 10_000
"""Number of runs that are searched for those of the stages."""
_ELSEWHERE = ("store", "otel", "private_addresses")
"""Settings of a stage that may differ in the run that is found again."""
_ARMS = 4
"""Arms of the stage compare: none, lessons, distilled, both."""
_ALPHA = 0.05
_SHORT = 12
"""Characters of versions and lesson ids in the names of libraries and arms."""


class _HybridPlan(Value):
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


def plan_hybrid(settings: HybridSettings) -> _HybridPlan:
    """Return what the run will do. Raises ConfigError or DataError for what would stop it.

    What the training would be refused for is in `train.refusals`.
    """
    model = settings.bare_model
    if settings.sampler == "local" and not model.startswith(LAB):
        check_fetched(model)
        if not model_path(model).is_dir():
            raise ConfigError(
                f"the model is {model!r}, and there is no folder of that name; give a folder with a checkpoint, a model"
                " of `agentlearn models`, or lab:NAME",
                code="no_model",
            )
    learning = settings.learn_stage(model=model, library=None)
    training = settings.train_stage(model=model, library=settings.result_name, number=1)
    start = settings.start_of(model)
    comparing = settings.compare_stage((f"none=none,model={start}", f"lessons=none,model={start}"))
    sets = named_stage("compare", lambda: load_eval_tasks(comparing, (), imports_reward=False))
    tasks, k = sum(len(one.tasks) for one in sets), settings.removal_rollouts or comparing.k
    return _HybridPlan(
        domain=settings.domain,
        rounds=settings.rounds,
        margin=settings.margin,
        learn=named_stage("learn", lambda: plan(learning, domain_of(learning, imports_reward=False))),
        train=named_stage("train", lambda: plan_training(training, lessons_exist=False)),
        compare_tasks=tasks,
        compare_k=comparing.k,
        compare_rollouts=tasks * comparing.k * _ARMS,
        removals=settings.removals,
        removal_k=k,
        removal_rollouts=tasks * k * settings.removals,
    )


@dataclass(slots=True)
class HybridRecord:
    """The record of one hybrid run. It opens the store for each event only, because every stage opens it too."""

    settings: HybridSettings
    event: RunEvent
    """The event that was stored when the run first started."""
    report: HybridReport
    """The stages that are done so far."""

    @staticmethod
    def new(settings: HybridSettings) -> "HybridRecord":
        """The record of a run that starts now."""
        run, domain, model = new_run_id(), settings.domain, settings.model
        event = started_event(
            run,
            "hybrid",
            domain=domain,
            model=model,
            simulated=False,
            seed=settings.seed,
            settings=settings.model_dump_json(),
        )
        report = HybridReport(run=run, domain=domain, model=model, margin=settings.margin, seed=settings.seed)
        return HybridRecord(settings, event, report)

    @staticmethod
    def resumed(prefix: str, store: Path) -> "HybridRecord":
        """The record of the interrupted run whose id starts with `prefix`.

        Only the fields that were given when it started count, so that the stages' own defaults hold as they did then.
        Raises ConfigError for a run that is unknown, done or of another kind.
        """
        run, stored = started_with("hybrid", prefix, store, {})
        fields = HybridSettings.model_fields
        defaults = {name: one.get_default(call_default_factory=True) for name, one in fields.items()}
        given = {name: value for name, value in json.loads(stored).items() if value != defaults.get(name)}
        with of_this_version(run):
            settings = HybridSettings.model_validate(given | {"store": store})
        with read_store(store) as reader:
            row = reader.run(run)
        facts = {name: getattr(row, name) for name in ("domain", "model", "simulated", "seed", "settings")}
        started = {"package_version": row.package_version, "at": row.started_at}
        event = started_event(run, "hybrid", **facts).model_copy(update=started)
        return HybridRecord(settings, event, HybridReport.model_validate_json(row.report))

    def keep(self, report: HybridReport | None = None) -> None:
        """Store the stages that are done; without a report, that the run goes on."""
        self.report = report or self.report
        self._save("done" if self.report.ended else "running")

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
        failure = RunFailure(at=datetime.now(UTC), code=code, message=storable(without_secrets(message)))
        with suppress(AgentlearnError, OSError):  # the error that ended the run is the one to report
            self._save("interrupted" if only_stops(cause) else "failed", failure)

    def stage_run(self, kind: RunKind, resolved: str) -> RunRow | None:
        """The first run of a stage with these settings since this run began; None when the stage has not started."""
        try:
            with read_store(self.settings.store) as reader:
                runs = reader.runs(limit=_RUNS)
        except StoreMissing:
            return None

        def comparable(settings: str) -> dict[str, Any]:
            return {name: value for name, value in json.loads(settings).items() if name not in _ELSEWHERE}

        recent = [row for row in runs if row.kind == kind and row.started_at >= self.event.at]
        found = [row for row in recent if comparable(row.settings) == comparable(resolved)]
        return min(found, key=lambda row: row.started_at, default=None)

    def _save(self, state: RunState, failure: RunFailure | None = None) -> None:
        report = self.report.model_dump_json()
        event = self.event.model_copy(update={"state": state, "at": datetime.now(UTC), "report": report})

        async def save() -> None:
            async with open_store(self.settings.store) as store:
                if failure is not None:
                    await store.save_run_failure(self.event.run, failure)
                await store.save_run(event)

        run_in_own_loop(save())


def _removal_state(contrast: Contrast, evidence: ProposalEvidence) -> RemovalState:
    """What the contrast of an arm without lessons against the arm with them shows.

    Undecided rollouts are never taken as wrong or right: they withhold the proposal as they withhold a verdict.
    evidence: `margin` also accepts the margin test on fewer tasks than a verdict needs.
    """
    if contrast.verdict in {"no_worse", "better"}:
        return "proposed"
    if contrast.verdict == "worse":
        return "needed"
    if evidence == "verdict" or contrast.margin is None or not contrast.margin.holds:
        return "unclear"
    # The corrected margin test holds; is the number of tasks all that stands against a verdict?
    without_caution = decide(contrast.model_copy(update={"caution": ""}), _ALPHA)
    only_few = without_caution["verdict"] == "no_worse" or without_caution["withheld_code"] == "unseen"
    return "proposed" if only_few else "unclear"


def _small_sample(contrast: Contrast) -> str:
    """Why a contrast that the margin test proposes has no verdict; empty when it has one."""
    return "" if contrast.verdict != "cannot_tell" else contrast.caution or contrast.withheld or contrast.left_open


def _lessons_to_measure(library: Library, most: int) -> tuple[Experience, ...]:
    """The lessons whose removal is measured, in the order of the library; those with the most tokens where there are
    more than `most`."""
    longest = sorted(library.experiences, key=lambda one: (-estimated_tokens(one.lesson), one.id))[:most]
    chosen = {one.id for one in longest}
    return tuple(one for one in library.experiences if one.id in chosen)


def _tokens_without(library: Library, lessons: Sequence[ExperienceId]) -> int:
    """The estimated tokens that a prompt saves without these lessons, where all lessons of a library are shown."""
    whole = estimated_tokens(library.render().text)
    return whole - estimated_tokens(library.render(masked=tuple(lessons)).text)


@dataclass(slots=True)
class HybridRun:
    """A hybrid run with what it has made so far. Each stage runs as its own command would, and prints little of it."""

    record: HybridRecord
    out: Console
    started: float = field(default_factory=time.perf_counter)

    @property
    def settings(self) -> HybridSettings:
        """Settings of the run."""
        return self.record.settings

    def to_end(self) -> HybridReport:
        """Run every stage that is not done, and return the report. Raises what a stage raises."""
        self.out.print(f"agentlearn hybrid {self.settings.domain}      run {self.record.event.run}")
        self.record.keep()
        try:
            while not self.record.report.ended:
                self._go_on()
        except BaseException as error:
            self.record.stop(error)
            raise
        return self.record.report

    def _go_on(self) -> None:
        """Run the next stage, and keep its result."""
        rounds = self.record.report.rounds
        if not rounds:
            self._keep(HybridRound(number=1, model=self.settings.bare_model, start=None))
            return
        now = rounds[-1]
        if now.learned is None:
            learned = self._learn(now)
            self._keep(now.model_copy(update={"learned": learned}), "" if learned.published else "nothing_learned")
        elif now.trained is None:
            trained = self._train(now, now.learned)
            self._keep(now.model_copy(update={"trained": trained}), "" if trained.published else "not_published")
        elif now.compared is None:
            self._keep(now.model_copy(update={"compared": self._compare(now, now.learned, now.trained)}))
        elif now.pruning is None:
            pruning = self._measure_removals(now, now.learned, now.trained)
            last = now.number == self.settings.rounds
            self._keep(now.model_copy(update={"pruning": pruning}), "done" if last else "")
        else:
            self._next_round(now, now.learned, now.trained, now.pruning)

    def _keep(self, changed: HybridRound, ended: HybridEnd = "") -> None:
        """Store the round in place of its earlier state."""
        report = self.record.report
        others = tuple(one for one in report.rounds if one.number != changed.number)
        wall_s = time.perf_counter() - self.started
        report = report.model_copy(update={"rounds": (*others, changed), "ended": ended, "wall_s": wall_s})
        self.record.keep(report.model_copy(update={"sentences": sentences(report, self.settings)}))

    def _announce(self, now: HybridRound, stage: str, words: str) -> None:
        rounds = self.settings.rounds
        self.out.print()
        self.out.print(f"{f'round {now.number}/{rounds}  ' * (rounds > 1)}{stage}: {words}", style="bold")

    def _shown(self, progress: _P) -> _P:
        """Let a stage say how to continue the hybrid run."""
        store, run = self.settings.store, self.record.event.run
        progress.continued_by = command_words("hybrid", "--resume", run, store=store)
        return progress

    def _stage(self, kind: RunKind, resolved: str, report: type[_R], run: Callable[[RunId | None], _R]) -> _R:
        """Return the report of a stage that is done; otherwise run it, or go on with its run."""
        found = self.record.stage_run(kind, resolved)
        if found is not None and found.state == "done":
            return report.model_validate_json(found.report)
        return run(None if found is None else found.run)

    def _learn(self, now: HybridRound) -> LearnedStage:
        settings = self.settings.learn_stage(model=now.model, library=now.start)
        self._announce(now, "learn", f"lessons from rollouts of {settings.model}")

        def run(resume: RunId | None) -> LearnReport:
            from agentlearn.learning.lessons.run_learning import run_learning
            from agentlearn.views.learn_page import page_at_the_end

            own = settings if resume is None else settings_of(resume, self.settings.store, {})[1]
            progress = self._shown(_LearnProgress(own, self.out))
            report = run_to_end(lambda: run_learning(own, progress, resume=resume), progress)
            _, problem = page_at_the_end(self.settings.store, report.run)
            if problem:
                self.out.print(f"  {'note'.ljust(10)}{problem}")
            return report

        report = self._stage("learn", settings.resolved(), LearnReport, run)
        library, selection = report.library, report.selection
        return LearnedStage(
            run=report.run,
            reference=f"{library.name}@{library.version[:_SHORT]}",
            version=library.version,
            lessons=library.lessons,
            tokens=library.tokens,
            simulated=report.simulated or settings.reflector_name.startswith("sim:"),
            published=library.lessons > 0 and (selection is None or selection.status == "published"),
            reason="" if selection is None else selection.reason,
        )

    def _train(self, now: HybridRound, learned: LearnedStage) -> TrainedStage:
        settings = self.settings.train_stage(model=now.model, library=learned.reference, number=now.number)
        self._announce(now, "train", f"{learned.reference} into the weights of {now.model}")

        def run(resume: RunId | None) -> TrainReport:
            from agentlearn.train.run_training import run_training
            from agentlearn.views.train_page import write_train_page

            own = settings if resume is None else resumed_train_settings(resume, self.settings.store, {})[1]
            progress = self._shown(_TrainProgress(own, self.out))
            report = run_to_end(lambda: run_training(own, progress, resume=resume), progress)
            write_train_page(report, own)
            return report

        report = self._stage("train", settings.resolved(), TrainReport, run)
        weights = report.weights
        return TrainedStage(
            run=report.run,
            weights=weights.path,
            sha256=weights.sha256_after,
            published=weights.published,
            withheld=weights.withheld,
            before=report.before and report.before.mean,
            after=report.after and report.after.mean,
        )

    def _compared(self, settings: CompareSettings) -> tuple[ComparePlan, Comparison]:
        """Compare as `compare` does, and write the page. Stored rollouts are reused."""
        from agentlearn_evals.comparing import compare_planned
        from agentlearn_evals.write_results import write_all

        planned = plan_comparison(settings)
        progress = self._shown(_CompareProgress(planned, self.out))
        done = run_to_end(lambda: compare_planned(planned, progress), progress, name="comparison")
        write_all(done, store=self.settings.store)
        return planned, done.comparison

    def _compare(self, now: HybridRound, learned: LearnedStage, trained: TrainedStage) -> ComparedStage:
        before, after = self.settings.start_of(now.model), self.settings.endpoint_of(trained.weights)
        lessons, distilled = f"lessons={learned.reference},model={before}", f"distilled=none,model={after}"
        arms = (f"none=none,model={before}", lessons, distilled, f"both={learned.reference},model={after}")
        self._announce(now, "compare", "no lessons, lessons, weights, and both, on held-out tasks")
        planned, first = self._compared(self.settings.compare_stage(arms))
        _, second = self._compared(self.settings.compare_stage((lessons, distilled)))
        by_arm = {one.arm: one for one in first.contrasts}
        gained = by_arm["lessons"].mean if by_arm["lessons"].verdict == "better" else None
        reached = by_arm["distilled"].mean
        return ComparedStage(
            runs=(RunId(first.run), RunId(second.run)),
            arms=_arm_lines(planned, first),
            contrasts=tuple(StageContrast.of(one, found.run) for found in (first, second) for one in found.contrasts),
            kept=reached / gained if gained and reached is not None else None,
        )

    def _measure_removals(self, now: HybridRound, learned: LearnedStage, trained: TrainedStage) -> PruningStage:
        settings = self.settings
        library = LibraryStore(settings.store / "libraries").load(learned.reference)
        lessons = _lessons_to_measure(library, settings.removals)
        if not lessons:
            return PruningStage(
                runs=(), removals=(), not_measured=len(library), tokens_saved=0, together=None, together_shown=False
            )
        self._announce(now, "remove", f"both without each of {len(lessons)} lessons, on held-out tasks")
        model = settings.endpoint_of(trained.weights)
        both, distilled = f"both={learned.reference},model={model}", f"distilled=none,model={model}"
        names = {f"without-{one.id[:_SHORT]}": one for one in lessons}
        arms = [f"{name}={learned.reference},model={model},without={one.id}" for name, one in names.items()]
        k = settings.removal_rollouts
        _, found = self._compared(settings.compare_stage((both, distilled, *arms), k=k))
        by_arm = {one.arm: one for one in found.contrasts}
        removals = tuple(
            LessonRemoval(
                lesson=lesson.id,
                text=lesson.lesson,
                tokens=_tokens_without(library, (lesson.id,)),
                state=_removal_state(by_arm[name], settings.evidence),
                contrast=StageContrast.of(by_arm[name], found.run),
                caution=_small_sample(by_arm[name]),
            )
            for name, lesson in names.items()
        )
        proposed = [one.lesson for one in removals if one.state == "proposed"]
        # All proposed lessons removed at once: one is its own arm, and all lessons are the arm without any.
        runs, together = [RunId(found.run)], None
        if len(proposed) == 1:
            together = by_arm[f"without-{proposed[0][:_SHORT]}"]
        elif proposed and len(proposed) == len(library):
            together = by_arm["distilled"]
        elif proposed:
            arm = f"without-proposed={learned.reference},model={model},without={'+'.join(proposed)}"
            _, again = self._compared(settings.compare_stage((both, arm), k=k))
            runs.append(RunId(again.run))
            together = again.contrasts[0]
        return PruningStage(
            runs=tuple(runs),
            removals=removals,
            not_measured=len(library) - len(lessons),
            tokens_saved=_tokens_without(library, proposed) if proposed else 0,
            together=None if together is None else StageContrast.of(together, runs[-1]),
            together_shown=together is not None and _removal_state(together, settings.evidence) == "proposed",
            together_caution="" if together is None else _small_sample(together),
        )

    def _next_round(
        self, now: HybridRound, learned: LearnedStage, trained: TrainedStage, pruning: PruningStage
    ) -> None:
        """Begin the next round with the trained weights, and with the library without the proposed lessons.

        They are parked, as `library park` does, only when removing all of them at once is shown to be not worse. Those
        that a person wrote stay. When this is repeated after an interruption, it changes nothing.
        """
        libraries, start = LibraryStore(self.settings.store / "libraries"), learned.reference
        library = libraries.load(start)
        learned_only = [one.lesson for one in pruning.proposed if not library.by_id[one.lesson].by_person]
        if learned_only and pruning.together_shown:
            reasons = dict.fromkeys(learned_only, f"distilled into {Path(trained.weights).name}")
            wanted = withhold(library, reasons)

            def parked(current: Library) -> Library:
                if current.version == library.version:
                    return wanted
                return withhold(current, {lesson: why for lesson, why in reasons.items() if lesson in current.by_id})

            operations = tuple(ParkLesson(target=lesson, reason=why) for lesson, why in reasons.items())
            history = libraries.history(start.partition("@")[0])
            history.update(parked, kind="park", operations=operations, note="hybrid")
            start = f"{self.settings.result_name}@{history.resolve()[:_SHORT]}"
            self._keep(now.model_copy(update={"pruning": pruning.model_copy(update={"parked": True})}))
        self._keep(HybridRound(number=now.number + 1, model=trained.weights, start=start))


def _arm_lines(planned: ComparePlan, found: Comparison) -> tuple[HybridArm, ...]:
    """The arms of a comparison, with their tokens per model call from the stored rollouts."""
    lines: list[HybridArm] = []
    with read_store(planned.settings.store) as reader:
        for arm, line in zip(planned.arms, found.arms, strict=True):
            rows = [row for tasks in planned.task_sets for row in planned.stored(reader, arm, tasks).values()]
            calls = sum(row.requests for row in rows)
            same = {name: getattr(line, name) for name in HybridArm.model_fields if hasattr(line, name)}
            counted = {
                "calls": calls,
                "tokens_in_per_call": sum(row.tokens_in for row in rows) / calls if calls else None,
                "tokens_out_per_call": sum(row.tokens_out for row in rows) / calls if calls else None,
            }
            lines.append(HybridArm.model_validate(same | counted))
    return tuple(lines)


_SHOWN = frozenset(
    ("run", "tasks", "held out", "so far", "resumed", "stopping", "service", "warning", "checkpoint", "measure it")
)
"""Labels of the lines that a stage prints. The results of all stages follow at the end, and each run has its page."""


class _OfStage(ProgressLines):
    continued_by = ""

    def line(self, label: str, text: str) -> None:
        if label in _SHOWN:
            super().line(label, text)

    def how_to_go_on(self) -> str:
        return self.labelled("resume", self.continued_by)


class _LearnProgress(_OfStage, LearnProgress):
    def done(self, report: LearnReport) -> None:
        """Say nothing: the end of the hybrid run tells what was learned, and the page of this run has the rest."""
        self.finished = True
        self.close_view()


class _TrainProgress(_OfStage, TrainProgress):
    pass


class _CompareProgress(CompareProgress):
    continued_by = ""

    def print_line(self, label: str, text: str) -> None:
        if label in _SHOWN:
            super().print_line(label, text)

    def how_to_go_on(self) -> str:
        return self.labelled("resume", self.continued_by)
