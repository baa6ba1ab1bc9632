"""`agentlearn hybrid`: learns lessons, distils them into weights, and compares both. Each stage is a run of its own."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from cyclopts import Parameter
from pydantic import BeforeValidator, Field
from rich.console import Console

from agentlearn.cli.ask import ask_before_spending, require_extras
from agentlearn.cli.interrupt import run_to_end
from agentlearn.cli.live import ProgressLines
from agentlearn.cli.options import DryRunOption, JsonOption, LogOption, YesOption, setting_options
from agentlearn.cli.output import console, plan_lines, print_json, print_result, same_command, show_logs
from agentlearn.cli.progress import LearnProgress
from agentlearn.cli.train_progress import TrainProgress
from agentlearn.config import (
    LAB,
    LearnSettings,
    SeedOptions,
    StoreOptions,
    TaskSource,
    given_settings,
    is_lab,
    learn_settings,
    packaged_recipe,
    read_recipe,
)
from agentlearn.config.command_words import command_words
from agentlearn.config.endpoint_address import has_login
from agentlearn.config.model_folders import check_fetched, model_path
from agentlearn.config.names import default_reflector, name_of_result
from agentlearn.config.options import CustomTaskOptions
from agentlearn.domain.chosen_settings import GivenSettings, with_domain
from agentlearn.errors import ConfigError, StoreMissing
from agentlearn.learning.costs import RunPlan, plan
from agentlearn.learning.open_run import domain_of
from agentlearn.learning.report import LearnReport
from agentlearn.learning.resume import settings_of
from agentlearn.measure.contrast import Contrast
from agentlearn.store import RunRow, read_store
from agentlearn.train.report import TrainReport
from agentlearn.train.settings import TrainSettings, resumed_train_settings, train_settings
from agentlearn.train.training_plan import TrainPlan, plan_training
from agentlearn.types.ids import LibraryVersion, RunId
from agentlearn.types.run_event import RunKind
from agentlearn.types.value import Value
from agentlearn.views.figure import count_words, score_words
from agentlearn.views.terminal import print_table
from agentlearn_evals.compare_settings import CompareSettings
from agentlearn_evals.comparison import ArmLine, Comparison
from agentlearn_evals.eval_tasks import load_eval_tasks
from agentlearn_evals.plan import ComparePlan, plan_comparison
from agentlearn_evals.progress import CompareProgress

_Stage = Literal["learn", "train", "compare"]
_GIVEN = ("domain", "data", "reward", "tools", "instructions", "columns", "seed", "store", "otel")
"""Fields at the top of a recipe that every stage gets as they are."""
_SHARED = frozenset({*_GIVEN, "test_data", "model", "name"})
_DECIDED: Mapping[_Stage, frozenset[str]] = {
    "learn": frozenset({"pilot", "from_store", "from_run", "from_phase"}),
    "train": frozenset({"distill", "library", "sampler"}),
    "compare": frozenset({"arms", "methods", "domains", "models", "planned_looks", "fresh"}),
}
"""Fields of a stage that `hybrid` sets itself."""
_RUNS = 10_000
"""Number of runs that are searched for those of the stages."""
_ELSEWHERE = ("store", "otel", "private_addresses")
"""Settings of a stage that may differ in the run that is found again."""
_ARMS = 4
"""Arms of the stage compare: none, lessons, distilled, both."""
_SHORT = 12
"""Characters of versions."""
T = TypeVar("T")
_R = TypeVar("_R", LearnReport, TrainReport)


def _mapping(given: object) -> object:
    """A stage of a recipe; one that is empty in YAML has no settings."""
    if given is not None and not isinstance(given, Mapping):
        raise ConfigError(
            f"a stage is {given!r}, but learn, train and compare hold settings; write them below it, one per line, such"
            " as `epochs: 2`",
            code="bad_recipe",
        )
    return {str(name): value for name, value in (given or {}).items()}


_StageFields = Annotated[dict[str, Any], BeforeValidator(_mapping)]


class HybridSettings(CustomTaskOptions, SeedOptions, StoreOptions):
    """Settings of `hybrid`. They are stored with its run."""

    domain: str
    """Name of an installed domain; with `reward`, a name for tasks from a file."""
    model: str
    """Model to learn with and to train: a folder, an adapter or a fetched model, or lab:NAME; vllm:FOLDER samples with
    a vLLM server."""
    data: TaskSource | None = None
    """Tasks to learn from: a file, hf:NAME or gym:TASK. Without it, the domain's own tasks."""
    test_data: TaskSource | None = None
    """Held-out tasks, needed with `data`: a file, hf:NAME or gym:TASK."""
    columns: str | None = None
    """Columns of the task files, such as 'problem=Body+Question answer=Answer choices=options family=Type'."""
    name: str | None = None
    """Name of the library and of the weights. Default: the domain's name."""
    learn: _StageFields = Field(default_factory=dict[str, Any])
    """Settings of the stage learn, as of `agentlearn learn`."""
    train: _StageFields = Field(default_factory=dict[str, Any])
    """Settings of the stage train, as of `agentlearn train`, with `gradient` for the update."""
    compare: _StageFields = Field(default_factory=dict[str, Any])
    """Settings of the stage compare, as of `agentlearn compare`."""

    @property
    def result_name(self) -> str:
        """Name of the library and of the weights."""
        return self.name or name_of_result(self.domain)

    @property
    def sampler(self) -> Literal["local", "vllm"]:
        """What samples the model's rollouts."""
        return "vllm" if self.model.startswith("vllm:") else "local"

    @property
    def bare_model(self) -> str:
        """The model without the name of what samples it: a folder, a fetched model or lab:NAME."""
        return self.model.removeprefix("vllm:").removeprefix("local:")

    @property
    def start(self) -> str:
        """The endpoint of the model as training starts from it. Training writes a lab model to the store first."""
        model = self.bare_model
        return f"{self.sampler}:{self.store / 'lab' / model.removeprefix(LAB) if model.startswith(LAB) else model}"

    def learn_stage(self) -> LearnSettings:
        """Settings that learn lessons with the model."""
        fields = self._shared() | {"name": self.result_name, **self.learn}
        lab = is_lab(self.bare_model)
        fields |= {"model": self.bare_model if lab else f"{self.sampler}:{self.bare_model}"}
        if lab:  # too small to write lessons
            fields.setdefault("reflector", default_reflector(LAB))
        return _named_stage("learn", lambda: learn_settings(fields))

    def train_stage(self, library: str) -> TrainSettings:
        """Settings that distil a library into the model."""
        decided = {"name": self.result_name, "model": self.bare_model, "sampler": self.sampler, "distill": library}
        return _named_stage("train", lambda: train_settings(self._shared() | decided | self.train))

    def compare_stage(self, arms: Sequence[str]) -> CompareSettings:
        """Settings that compare arms on the held-out tasks."""
        fields = {**self._shared(), "margin": 0.05, **self.compare, "arms": tuple(arms)}
        own, held_out = fields.pop("domain"), fields.pop("test_data", (None,))[0]
        data = fields.pop("data", None)
        if held_out is not None and self.reward is not None:
            fields |= {"domains": (held_out,)}
        else:
            fields |= {"domains": (own,), "data": held_out if data is not None else None}
        return _named_stage("compare", lambda: given_settings(CompareSettings, fields))

    def _shared(self) -> dict[str, Any]:
        """The fields that every stage has, those left out that nobody gave."""
        fields = {name: getattr(self, name) for name in _GIVEN if name in self.model_fields_set or name == "seed"}
        return fields | ({} if self.test_data is None else {"test_data": (self.test_data,)})

    def check_stages(self) -> None:
        """Raise ConfigError for what a stage of a recipe cannot have."""
        for stage in ("learn", "train", "compare"):
            for name, value in getattr(self, stage).items():
                if name in _SHARED or name in _DECIDED[stage]:
                    why = (
                        "all stages share it, at the top of the recipe" if name in _SHARED else "hybrid sets it itself"
                    )
                    raise ConfigError(f"{stage}.{name} is {value!r}, but {why}; leave it out", code="contradiction")
                if name == "api_key" or (name in {"reflector", "judge"} and has_login(str(value))):
                    raise ConfigError(
                        f"{stage}.{name} holds a key or a password, which would be stored with the run (it is not shown"
                        " here); leave it out, and give the key of the service in its environment variable",
                        code="secret_in_recipe",
                    )
        if not isinstance(self.train.get("gradient", {}), Mapping | None):
            raise ConfigError(
                f"train.gradient is {self.train['gradient']!r}; write its settings below it, such as `learning_rate:"
                " 1.0e-4`",
                code="bad_recipe",
            )


def hybrid_settings(fields: Mapping[str, Any]) -> HybridSettings:
    """Settings from a recipe and options. Raises ConfigError for what cannot be said in a recipe of `hybrid`.

    The stages' own settings are checked when they are made.
    """
    if not fields.get("model"):
        raise ConfigError(
            "hybrid trains weights and needs a local model; write `model: FOLDER` into the recipe, or give --model",
            code="no_model",
        )
    settings = given_settings(HybridSettings, fields)
    served = settings.sampler == "vllm" and settings.bare_model.startswith(LAB)
    if served or settings.bare_model.startswith(("sim:", "http:", "https:")):
        raise ConfigError(
            f"the weights of {settings.model!r} cannot be trained here; give a folder or lab:NAME as the model",
            code="no_weights",
        )
    if "," in str(settings.store):
        raise ConfigError(
            f"the store is {str(settings.store)!r}, and the name of a compared model cannot hold a comma; choose"
            " another folder",
            code="out_of_range",
        )
    if settings.data is not None and settings.test_data is None:
        raise ConfigError(
            f"data is {settings.data!r}, but there are no held-out tasks to compare on; add `test_data: FILE`",
            code="no_tasks",
        )
    settings.check_stages()
    return settings


def recipe_name(what: str) -> str:
    """The recipe that the user named; of a domain, its recipe `hybrid`."""
    bare = "/" not in what and not what.endswith((".yaml", ".yml"))
    return f"{what}/hybrid" if bare and packaged_recipe(f"{what}/hybrid") is not None else what


def _named_stage(stage: _Stage, make: Callable[[], T]) -> T:
    """What is made of a stage. Raises ConfigError that names the stage."""
    try:
        return make()
    except ConfigError as error:
        raise ConfigError(f"{stage}: {error.message}", code=error.code) from error


class _HybridPlan(Value):
    """What a hybrid run will do."""

    domain: str
    learn: RunPlan
    train: TrainPlan
    compare_tasks: int
    """Held-out tasks."""
    compare_k: int
    """Rollouts per held-out task and arm."""
    compare_rollouts: int

    def lines(self) -> Iterator[tuple[str, str]]:
        """The plan as pairs of label and text. What is the same for every run of a stage is left to `--json`."""
        yield "STAGE learn", "lessons from rollouts"
        yield from self.learn.lines()
        yield "STAGE train", "these lessons, distilled into the model"
        yield from (line for line in self.train.lines() if line[0] not in {"settings", "gradient"})
        tasks = f"{self.compare_tasks:,} held-out tasks"
        yield "STAGE compare", f"{tasks} x {self.compare_k} x {_ARMS} arms: {self.compare_rollouts:,} rollouts"


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
    learning, training = settings.learn_stage(), settings.train_stage(settings.result_name)
    comparing = settings.compare_stage((f"none=none,model={settings.start}", f"lessons=none,model={settings.start}"))
    sets = _named_stage("compare", lambda: load_eval_tasks(comparing, (), imports_reward=False))
    tasks = sum(len(one.tasks) for one in sets)
    return _HybridPlan(
        domain=settings.domain,
        learn=_named_stage("learn", lambda: plan(learning, domain_of(learning, imports_reward=False))),
        train=_named_stage("train", lambda: plan_training(training, lessons_exist=False)),
        compare_tasks=tasks,
        compare_k=comparing.k,
        compare_rollouts=tasks * comparing.k * _ARMS,
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


class HybridReport(Value):
    """The result of a run, or of the stages that are done so far. A stage that was not reached is None."""

    domain: str
    model: str
    seed: int
    learned: LearnedStage | None = None
    trained: TrainedStage | None = None
    compared: ComparedStage | None = None
    sentences: tuple[str, ...] = ()
    """What was found, and what to do next, in sentences."""


def sentences(report: HybridReport, settings: HybridSettings) -> Iterator[str]:
    """What the stages that are done found."""
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


def print_hybrid(report: HybridReport, settings: HybridSettings, out: Console) -> None:
    """Print what was found."""
    if is_lab(settings.bare_model) or (report.learned is not None and report.learned.simulated):
        out.print(
            "simulated or lab models took part: these numbers show how the stages work; they are no result about a real"
            " model"
        )
    if (compared := report.compared) is not None:
        gains = {one.arm: one for one in compared.contrasts if one.baseline == "none"}
        rows: list[tuple[str, ...]] = [
            ("arm", "score", "95 % interval", "gain", "95 % interval", "in/call", "rollouts", "undecided")
        ]
        for arm in compared.arms:
            gain, tokens = gains.get(arm.arm), compared.tokens_in_per_call.get(arm.arm)
            gained = ("", "") if gain is None else (_number(gain.mean, "+"), _interval(gain.low, gain.high, "+"))
            sizes = ("-" if tokens is None else f"{tokens:,.0f}", f"{arm.rollouts:,}", f"{arm.undecided:,}")
            rows.append((arm.arm, score_words(arm.score), _interval(arm.low, arm.high), *gained, *sizes))
        print_table(out, rows, label=_SHORT, indent=2)
        out.print()
    for sentence in report.sentences:
        out.print(sentence)


def _number(value: float | None, sign: str = "") -> str:
    return "-" if value is None else f"{value:{sign}.2f}"


def _interval(low: float | None, high: float | None, sign: str = "") -> str:
    return "-" if low is None or high is None else f"{_number(low, sign)} to {_number(high, sign)}"


@dataclass(slots=True)
class _HybridRun:
    """Three stages in order. Each runs as its own command would, and prints little of it."""

    settings: HybridSettings
    out: Console
    report: HybridReport

    def to_end(self) -> HybridReport:
        """Run every stage that is not done, and return the report. Raises what a stage raises."""
        learned = self._learn()
        self.report = self.report.model_copy(update={"learned": learned})
        if learned.published:
            trained = self._train(learned)
            self.report = self.report.model_copy(update={"trained": trained})
            if trained.published:
                self.report = self.report.model_copy(update={"compared": self._compare(learned, trained)})
        return self.report.model_copy(update={"sentences": tuple(sentences(self.report, self.settings))})

    def _announce(self, stage: _Stage, words: str) -> None:
        self.out.print()
        self.out.print(f"{stage}: {words}", style="bold")

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

    def _learn(self) -> LearnedStage:
        settings = self.settings.learn_stage()
        self._announce("learn", f"lessons from rollouts of {settings.model}")

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
            reference=f"{library.name}@{library.version[:_SHORT]}",
            version=library.version,
            lessons=library.lessons,
            tokens=library.tokens,
            simulated=report.simulated or settings.reflector_name.startswith("sim:"),
            published=library.lessons > 0 and (selection is None or selection.status == "published"),
            reason="" if selection is None else selection.reason,
        )

    def _train(self, learned: LearnedStage) -> TrainedStage:
        settings = self.settings.train_stage(learned.reference)
        self._announce("train", f"{learned.reference} into the weights of {settings.model}")

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

    def _compare(self, learned: LearnedStage, trained: TrainedStage) -> ComparedStage:
        before, after = self.settings.start, f"{self.settings.sampler}:{trained.weights}"
        lessons, distilled = f"lessons={learned.reference},model={before}", f"distilled=none,model={after}"
        arms = (f"none=none,model={before}", lessons, distilled, f"both={learned.reference},model={after}")
        self._announce("compare", "no lessons, lessons, weights, and both, on held-out tasks")
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

    def _compared(self, arms: Sequence[str]) -> tuple[ComparePlan, Comparison]:
        """Compare as `compare` does, and write the page. Stored rollouts are reused."""
        from agentlearn_evals.comparing import compare_planned
        from agentlearn_evals.write_results import write_all

        planned = plan_comparison(self.settings.compare_stage(arms))
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


@setting_options(HybridSettings, only=("model", "name", "seed", "store", "otel"))
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
    """Learn lessons, distil them into the weights of a local model, and compare both on held-out tasks.

    Each stage is a run of its own. After an interruption, give the same command again: what is done is not repeated.
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
    learning = settings.learn_stage()
    require_extras((learning.model, learning.reflector_name), otel=settings.otel)
    ask_before_spending(learning, yes=yes)
    named = HybridReport(domain=settings.domain, model=settings.model, seed=settings.seed)
    report = _HybridRun(settings, out, named).to_end()
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
