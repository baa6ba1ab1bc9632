"""`agentlearn hybrid`: learn, train and compare in a row, then which lessons the trained model no longer needs."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from cyclopts import Parameter
from rich.console import Console

from agentlearn.cli.ask import ask_before_spending, require_extras
from agentlearn.cli.interrupt import run_to_end
from agentlearn.cli.live import ProgressLines
from agentlearn.cli.options import DryRunOption, JsonOption, LogOption, YesOption, setting_options
from agentlearn.cli.output import console, plan_lines, print_json, print_result, same_command, show_logs
from agentlearn.cli.progress import LearnProgress
from agentlearn.cli.train_progress import TrainProgress
from agentlearn.config import LAB, is_lab, packaged_recipe, read_recipe
from agentlearn.config.command_words import command_words
from agentlearn.config.model_folders import check_fetched, model_path
from agentlearn.domain.chosen_settings import GivenSettings, with_domain
from agentlearn.errors import ConfigError, StoreMissing
from agentlearn.learning.costs import RunPlan, plan
from agentlearn.learning.open_run import domain_of
from agentlearn.learning.report import LearnReport
from agentlearn.learning.resume import settings_of
from agentlearn.library import LibraryStore
from agentlearn.library.curate.library_draft import withhold
from agentlearn.library.history.change_log import ParkLesson
from agentlearn.measure.contrast import Contrast
from agentlearn.store import RunRow, read_store
from agentlearn.text import visible
from agentlearn.train.report import TrainReport
from agentlearn.train.settings import resumed_train_settings
from agentlearn.train.training_plan import TrainPlan, plan_training
from agentlearn.types.experience import Library
from agentlearn.types.ids import LibraryVersion, RunId
from agentlearn.types.run_event import RunKind
from agentlearn.types.value import Value
from agentlearn.views.figure import count_words, score_words
from agentlearn.views.terminal import print_table
from agentlearn_evals.comparison import ArmLine, Comparison
from agentlearn_evals.eval_tasks import load_eval_tasks
from agentlearn_evals.hybrid_settings import HybridSettings, hybrid_settings, named_stage, recipe_name
from agentlearn_evals.lesson_removals import (
    SHORT,
    LessonRemoval,
    PruningStage,
    lessons_to_measure,
    pruning_sentences,
    removal_state,
    small_sample,
    tokens_without,
)
from agentlearn_evals.plan import ComparePlan, plan_comparison
from agentlearn_evals.progress import CompareProgress

_RUNS = 10_000
"""Number of runs that are searched for those of the stages."""
_ELSEWHERE = ("store", "otel", "private_addresses")
"""Settings of a stage that may differ in the run that is found again."""
_ARMS = 4
"""Arms of the stage compare: none, lessons, distilled, both."""
_R = TypeVar("_R", LearnReport, TrainReport)


class _HybridPlan(Value):
    """What a hybrid run will do. The stages are those of the first round."""

    domain: str
    learn: RunPlan
    train: TrainPlan
    compare_tasks: int
    """Held-out tasks."""
    compare_k: int
    """Rollouts per held-out task and arm."""
    compare_rollouts: int
    rounds: int
    margin: float
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
    learning, training = settings.learn_stage(model), settings.train_stage(model, settings.result_name)
    start = settings.start_of(model)
    comparing = settings.compare_stage((f"none=none,model={start}", f"lessons=none,model={start}"))
    sets = named_stage("compare", lambda: load_eval_tasks(comparing, (), imports_reward=False))
    tasks, k = sum(len(one.tasks) for one in sets), settings.removal_rollouts or comparing.k
    return _HybridPlan(
        domain=settings.domain,
        learn=named_stage("learn", lambda: plan(learning, domain_of(learning, imports_reward=False))),
        train=named_stage("train", lambda: plan_training(training, lessons_exist=False)),
        compare_tasks=tasks,
        compare_k=comparing.k,
        compare_rollouts=tasks * comparing.k * _ARMS,
        rounds=settings.rounds,
        margin=settings.margin,
        removals=settings.removals,
        removal_k=k,
        removal_rollouts=tasks * k * settings.removals,
    )


class LearnedStage(Value):
    """What the stage learn made."""

    run: RunId
    reference: str
    """The library, as NAME@VERSION."""
    version: LibraryVersion
    lessons: int
    tokens: int
    """Estimated tokens of all lessons."""
    simulated: bool
    """Whether a simulated model wrote the lessons, or solved the tasks."""
    published: bool
    """Whether there are lessons to distil."""
    reason: str
    """Why they were selected, or why not, in words."""


class TrainedStage(Value):
    """What the stage train made."""

    run: RunId
    weights: str
    """Folder of the weights; those of a checkpoint when they were not published."""
    sha256: str
    published: bool
    withheld: str = ""
    """Why they were not published, in words."""
    before: float | None
    """Mean score on held-out tasks before training, without lessons."""
    after: float | None
    """Mean score on held-out tasks after training, without lessons."""


class ComparedStage(Value):
    """What the stage compare found."""

    runs: tuple[RunId, ...]
    arms: tuple[ArmLine, ...]
    tokens_in_per_call: dict[str, float]
    """Input tokens of a model call, by arm."""
    contrasts: tuple[Contrast, ...]
    """Every arm against `none`, and `distilled` against `lessons`."""
    kept: float | None
    """Share of the lessons' gain that the weights keep without lessons: the gain of `distilled` over `none` divided by
    the gain of `lessons` over `none`. None when no gain of the lessons is shown. It has no interval of its own."""


class HybridRound(Value):
    """One round. A stage that was not reached is None."""

    number: int
    model: str
    """The model at the start of the round: a folder, a fetched model or lab:NAME."""
    start: str | None
    """The library at the start of the round, as NAME@VERSION; None: the one that the recipe names, or none."""
    learned: LearnedStage | None = None
    trained: TrainedStage | None = None
    compared: ComparedStage | None = None
    pruning: PruningStage | None = None


class HybridReport(Value):
    """The result of a run."""

    domain: str
    model: str
    seed: int
    rounds: tuple[HybridRound, ...] = ()
    sentences: tuple[str, ...] = ()
    """What was found, and what to do next, in sentences."""


def sentences(report: HybridReport, settings: HybridSettings) -> Iterator[str]:
    """What the stages that are done found, and what to do next."""
    for one in report.rounds:
        start = f"round {one.number}: " if settings.rounds > 1 else ""
        yield from (f"{start}{words}" for words in _of_round(one, settings))


def _of_round(report: HybridRound, settings: HybridSettings) -> Iterator[str]:
    if (learned := report.learned) is not None:
        by = " (written by a simulated model)" if learned.simulated else ""
        why = f": {learned.reason}" if learned.reason else ""
        if learned.published:
            size = f"{count_words(learned.lessons, 'lesson')} with {count_words(learned.tokens, 'token')}"
            yield f"learned {learned.reference}: {size}{by}"
        else:
            yield f"nothing to distil, so the run ends here: no new version of the library was published{why}"
    if (trained := report.trained) is not None:
        scores = f"held out, without lessons: {score_words(trained.before)} → {score_words(trained.after)}"
        if trained.published:
            yield f"distilled into {trained.weights}; {scores}"
        else:
            yield (
                f"the weights were not published, so the run ends here, because {trained.withheld}; {scores};"
                f" the lessons are kept: {command_words('library', 'show', settings.result_name, store=settings.store)}"
            )
    if (compared := report.compared) is not None:
        if compared.kept is None:
            yield "no gain of the lessons is shown, so no share of it is given"
        else:
            yield (
                f"the weights keep {compared.kept:.0%} of the lessons' gain without reading them (gain of distilled"
                " over none, divided by gain of lessons over none)"
            )
        yield from (one.sentence for one in compared.contrasts if one.baseline == "lessons")
        if {"lessons", "distilled"} <= (tokens := compared.tokens_in_per_call).keys():
            with_them, without = tokens["lessons"], tokens["distilled"]
            yield f"input tokens per call: {with_them:,.0f} with the lessons, {without:,.0f} without"
    if report.pruning is not None:
        yield from pruning_sentences(report.pruning, settings)


def print_hybrid(report: HybridReport, settings: HybridSettings, out: Console) -> None:
    """Print what was found."""
    if is_lab(settings.bare_model) or any(one.learned is not None and one.learned.simulated for one in report.rounds):
        out.print(
            "simulated or lab models took part: these numbers show how the stages work; they are no result about a real"
            " model"
        )
    for one in report.rounds:
        if settings.rounds > 1:
            out.print(f"round {one.number}")
        if one.compared is not None:
            print_table(out, _arms(one.compared), label=SHORT, indent=2)
            out.print()
        if one.pruning is not None and one.pruning.removals:
            removals = one.pruning.removals
            rows = [(one.lesson[:SHORT], f"{one.tokens:,}", *_change(one.contrast), one.state) for one in removals]
            print_table(out, [("without", "tokens", "change", "95 % interval", "state"), *rows], label=SHORT, indent=2)
            out.print()
            for removal in removals:
                out.print(f"  {removal.lesson[:SHORT]}  {visible(removal.text)}")
            out.print()
    for sentence in report.sentences:
        out.print(sentence)


def _arms(compared: ComparedStage) -> list[tuple[str, ...]]:
    gains = {one.arm: one for one in compared.contrasts if one.baseline == "none"}
    rows: list[tuple[str, ...]] = [
        ("arm", "score", "95 % interval", "gain", "95 % interval", "in/call", "rollouts", "undecided")
    ]
    for arm in compared.arms:
        gain, tokens = gains.get(arm.arm), compared.tokens_in_per_call.get(arm.arm)
        sizes = ("-" if tokens is None else f"{tokens:,.0f}", f"{arm.rollouts:,}", f"{arm.undecided:,}")
        gained = ("", "") if gain is None else _change(gain)
        rows.append((arm.arm, score_words(arm.score), _interval(arm.low, arm.high), *gained, *sizes))
    return rows


def _change(one: Contrast) -> tuple[str, str]:
    """A difference and its interval."""
    return "-" if one.mean is None else f"{one.mean:+.2f}", _interval(one.low, one.high, "+")


def _interval(low: float | None, high: float | None, sign: str = "") -> str:
    return "-" if low is None or high is None else f"{low:{sign}.2f} to {high:{sign}.2f}"


@dataclass(slots=True)
class _HybridRun:
    """Rounds of stages in order. Each stage runs as its own command would, and prints little of it."""

    settings: HybridSettings
    out: Console

    def to_end(self) -> HybridReport:
        """Run every stage that is not done, and return the report. Raises what a stage raises."""
        settings, rounds = self.settings, list[HybridRound]()
        model, start = settings.bare_model, None
        for number in range(1, settings.rounds + 1):
            now = self._round(HybridRound(number=number, model=model, start=start))
            if now.learned is not None and now.trained is not None and now.pruning is not None:
                model, start = now.trained.weights, now.learned.reference
                if number < settings.rounds and (parked := self._parked(now.learned, now.trained, now.pruning)):
                    start = parked
                    now = now.model_copy(update={"pruning": now.pruning.model_copy(update={"parked": True})})
            rounds.append(now)
            if now.pruning is None:
                break
        found = HybridReport(domain=settings.domain, model=settings.model, seed=settings.seed, rounds=tuple(rounds))
        return found.model_copy(update={"sentences": tuple(sentences(found, settings))})

    def _round(self, now: HybridRound) -> HybridRound:
        """The round with its stages, up to one that made nothing for the next."""
        learned = self._learn(now)
        now = now.model_copy(update={"learned": learned})
        if not learned.published:
            return now
        trained = self._train(now, learned)
        now = now.model_copy(update={"trained": trained})
        if not trained.published:
            return now
        compared = self._compare(now, learned, trained)
        return now.model_copy(update={"compared": compared, "pruning": self._remove(now, learned, trained)})

    def _announce(self, now: HybridRound, stage: str, words: str) -> None:
        rounds = self.settings.rounds
        self.out.print()
        self.out.print(f"{f'round {now.number}/{rounds}  ' * (rounds > 1)}{stage}: {words}", style="bold")

    def _stage(self, kind: RunKind, resolved: str, report: type[_R], run: Callable[[RunId | None], _R]) -> _R:
        """Return the report of a stage that was done before; otherwise run it, or go on with its latest run.

        Its run is the latest one with these settings.
        """
        runs: Sequence[RunRow] = ()
        with suppress(StoreMissing), read_store(self.settings.store) as reader:
            runs = reader.runs(limit=_RUNS)

        def comparable(settings: str) -> dict[str, Any]:
            return {name: value for name, value in json.loads(settings).items() if name not in _ELSEWHERE}

        of_kind = (row for row in runs if row.kind == kind)
        found = next((row for row in of_kind if comparable(row.settings) == comparable(resolved)), None)
        if found is not None and found.state == "done":
            self.out.print(f"  {'done'.ljust(10)}before, in run {found.run}")
            return report.model_validate_json(found.report)
        return run(None if found is None else found.run)

    def _learn(self, now: HybridRound) -> LearnedStage:
        settings = self.settings.learn_stage(now.model, now.start)
        self._announce(now, "learn", f"lessons from rollouts of {settings.model}")

        def run(resume: RunId | None) -> LearnReport:
            from agentlearn.learning.lessons.run_learning import run_learning
            from agentlearn.views.learn_page import page_at_the_end

            own = settings if resume is None else settings_of(resume, self.settings.store, {})[1]
            progress = _LearnProgress(own, self.out)
            report = run_to_end(lambda: run_learning(own, progress, resume=resume), progress)
            _, problem = page_at_the_end(self.settings.store, report.run)
            if problem:
                self.out.print(f"  {'note'.ljust(10)}{problem}")
            return report

        report = self._stage("learn", settings.resolved(), LearnReport, run)
        library, selection = report.library, report.selection
        return LearnedStage(
            run=report.run,
            reference=f"{library.name}@{library.version[:SHORT]}",
            version=library.version,
            lessons=library.lessons,
            tokens=library.tokens,
            simulated=report.simulated or settings.reflector_name.startswith("sim:"),
            published=library.lessons > 0 and (selection is None or selection.status == "published"),
            reason="" if selection is None else selection.reason,
        )

    def _train(self, now: HybridRound, learned: LearnedStage) -> TrainedStage:
        settings = self.settings.train_stage(now.model, learned.reference, now.number)
        self._announce(now, "train", f"{learned.reference} into the weights of {now.model}")

        def run(resume: RunId | None) -> TrainReport:
            from agentlearn.train.run_training import run_training
            from agentlearn.views.train_page import write_train_page

            own = settings if resume is None else resumed_train_settings(resume, self.settings.store, {})[1]
            progress = _TrainProgress(own, self.out)
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

    def _compare(self, now: HybridRound, learned: LearnedStage, trained: TrainedStage) -> ComparedStage:
        before, after = self.settings.start_of(now.model), f"{self.settings.sampler}:{trained.weights}"
        lessons, distilled = f"lessons={learned.reference},model={before}", f"distilled=none,model={after}"
        arms = (f"none=none,model={before}", lessons, distilled, f"both={learned.reference},model={after}")
        self._announce(now, "compare", "no lessons, lessons, weights, and both, on held-out tasks")
        planned, first = self._compared(arms)
        _, second = self._compared((lessons, distilled))
        by_arm = {one.arm: one for one in first.contrasts}
        gained = by_arm["lessons"].mean if by_arm["lessons"].verdict == "better" else None
        reached = by_arm["distilled"].mean
        return ComparedStage(
            runs=(RunId(first.run), RunId(second.run)),
            arms=first.arms,
            tokens_in_per_call=_tokens_in_per_call(planned),
            contrasts=(*first.contrasts, *second.contrasts),
            kept=reached / gained if gained and reached is not None else None,
        )

    def _remove(self, now: HybridRound, learned: LearnedStage, trained: TrainedStage) -> PruningStage:
        settings, library = self.settings, LibraryStore(self.settings.store / "libraries").load(learned.reference)
        lessons = lessons_to_measure(library, settings.removals)
        if not lessons:
            return PruningStage(not_measured=len(library))
        self._announce(now, "remove", f"both without each of {len(lessons)} lessons, on held-out tasks")
        model = f"{settings.sampler}:{trained.weights}"
        every, none = f"both={learned.reference},model={model}", f"distilled=none,model={model}"
        names = {f"without-{one.id[:SHORT]}": one for one in lessons}
        arms = [f"{name}={learned.reference},model={model},without={one.id}" for name, one in names.items()]
        _, found = self._compared((every, none, *arms), settings.removal_rollouts)
        by_arm = {one.arm: one for one in found.contrasts}
        removals = tuple(
            LessonRemoval(
                lesson=lesson.id,
                text=lesson.lesson,
                tokens=tokens_without(library, (lesson.id,)),
                state=removal_state(by_arm[name], settings.evidence),
                contrast=by_arm[name],
                caution=small_sample(by_arm[name]),
            )
            for name, lesson in names.items()
        )
        proposed = [one.lesson for one in removals if one.state == "proposed"]
        # All proposed lessons removed at once: one is its own arm, and all lessons are the arm without any.
        runs, together = [RunId(found.run)], None
        if len(proposed) == 1:
            together = by_arm[f"without-{proposed[0][:SHORT]}"]
        elif proposed and len(proposed) == len(library):
            together = by_arm["distilled"]
        elif proposed:
            arm = f"without-proposed={learned.reference},model={model},without={'+'.join(proposed)}"
            _, again = self._compared((every, arm), settings.removal_rollouts)
            runs.append(RunId(again.run))
            together = again.contrasts[0]
        return PruningStage(
            runs=tuple(runs),
            removals=removals,
            not_measured=len(library) - len(lessons),
            tokens_saved=tokens_without(library, proposed) if proposed else 0,
            together=together,
            together_shown=together is not None and removal_state(together, settings.evidence) == "proposed",
        )

    def _parked(self, learned: LearnedStage, trained: TrainedStage, pruning: PruningStage) -> str | None:
        """The library without the proposed lessons, as NAME@VERSION; None when none of them may be parked.

        They are parked, as `library park` does, only when removing all of them at once is shown to be not worse. Those
        that a person wrote stay. When this is repeated after an interruption, it changes nothing.
        """
        libraries, name = LibraryStore(self.settings.store / "libraries"), self.settings.result_name
        library = libraries.load(learned.reference)
        lessons = [one.lesson for one in pruning.proposed if not library.by_id[one.lesson].by_person]
        if not lessons or not pruning.together_shown:
            return None
        reasons = dict.fromkeys(lessons, f"distilled into {Path(trained.weights).name}")
        wanted, history = withhold(library, reasons), libraries.history(name)
        if wanted.version not in history.versions():

            def parked(current: Library) -> Library:
                if current.version == library.version:
                    return wanted
                return withhold(current, {lesson: why for lesson, why in reasons.items() if lesson in current.by_id})

            operations = tuple(ParkLesson(target=lesson, reason=why) for lesson, why in reasons.items())
            history.update(parked, kind="park", operations=operations, note="hybrid")
            return f"{name}@{history.resolve()[:SHORT]}"
        return f"{name}@{wanted.version[:SHORT]}"

    def _compared(self, arms: Sequence[str], k: int | None = None) -> tuple[ComparePlan, Comparison]:
        """Compare as `compare` does, and write the page. Stored rollouts are reused."""
        from agentlearn_evals.comparing import compare_planned
        from agentlearn_evals.write_results import write_all

        planned = plan_comparison(self.settings.compare_stage(arms, k))
        progress = _CompareProgress(planned, self.out)
        done = run_to_end(lambda: compare_planned(planned, progress), progress, name="comparison")
        write_all(done, store=self.settings.store)
        return planned, done.comparison


def _tokens_in_per_call(planned: ComparePlan) -> dict[str, float]:
    """Input tokens of a model call, by arm, from the stored rollouts."""
    found: dict[str, float] = {}
    with read_store(planned.settings.store) as reader:
        for arm in planned.arms:
            rows = [row for tasks in planned.task_sets for row in planned.stored(reader, arm, tasks).values()]
            if calls := sum(row.requests for row in rows):
                found[arm.name] = sum(row.tokens_in for row in rows) / calls
    return found


_SHOWN = frozenset(
    ("run", "tasks", "held out", "so far", "resumed", "stopping", "service", "warning", "checkpoint", "measure it")
)
"""Labels of the lines that a stage prints. The results of all stages follow at the end, and each run has its page."""


class _OfStage(ProgressLines):
    def line(self, label: str, text: str) -> None:
        if label in _SHOWN:
            super().line(label, text)

    def how_to_go_on(self) -> str:
        return self.labelled("continue", same_command())


class _LearnProgress(_OfStage, LearnProgress):
    def done(self, report: LearnReport) -> None:
        """Say nothing: the end of the hybrid run tells what was learned, and the page of this run has the rest."""
        self.finished = True
        self.close_view()


class _TrainProgress(_OfStage, TrainProgress):
    pass


class _CompareProgress(CompareProgress):
    def print_line(self, label: str, text: str) -> None:
        if label in _SHOWN:
            super().print_line(label, text)


_OPTIONS = ("model", "name", "rounds", "margin", "evidence", "removals", "removal_rollouts", "seed", "store", "otel")


@setting_options(HybridSettings, only=_OPTIONS)
def hybrid(
    what: Annotated[
        str | None, Parameter(help="A domain that has a recipe `hybrid` (math), or a recipe (.yaml, math/hybrid).")
    ] = None,
    /,
    *,
    given: GivenSettings,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    json: JsonOption = False,
    log: LogOption = "error",
) -> None:
    """Learn lessons, distil them into the weights of a local model, and measure both on held-out tasks.

    Then each lesson is removed in turn, and lessons that the trained model no longer needs are proposed for parking.
    With --rounds, further rounds start from what a round made. Each stage is a run of its own. After an interruption,
    give the same command again: what is done is not repeated.
    """
    from agentlearn.train.serving.local import need_extra

    show_logs(log)
    out, settings = console(to_stderr=json), hybrid_settings(_fields(what, given))
    planned = plan_hybrid(settings)
    if dry_run:
        print_result(planned, plan_lines(planned.lines()), json=json)
    else:
        need_extra("training weights", "peft", "accelerate")
    if planned.train.refusals:
        train = "the training would stop before it samples anything" if dry_run else "train"
        raise ConfigError(f"{train}: {planned.train.refusals[0]}", code="would_be_refused")
    if dry_run:
        return
    learning = settings.learn_stage(settings.bare_model)
    require_extras((learning.model, learning.reflector_name), otel=settings.otel)
    ask_before_spending(learning, yes=yes)
    report = _HybridRun(settings, out).to_end()
    if json:
        print_json(report)
    else:
        out.print()
        print_hybrid(report, settings, out)


def _fields(what: str | None, given: GivenSettings) -> dict[str, Any]:
    """All fields of a recipe, with options over them."""
    name = "" if what is None else recipe_name(what)
    path = packaged_recipe(name) or Path(name)
    if what is None or path.suffix not in {".yaml", ".yml"}:
        raise ConfigError(
            f"{what or 'nothing'!r} is neither a domain with a recipe `hybrid` (math) nor a recipe; write one, such as"
            " hybrid.yaml with `domain`, `model`, `learn`, `train` and `compare`",
            code="no_task",
        )
    return with_domain(given.over(read_recipe(path)), what)
