"""`agentlearn hybrid`: learn lessons, distil them into weights, compare both, and propose lessons that can go.

Each stage is a run of its own command. It is found again by its settings, so the same command goes on after an
interruption, and makes nothing twice.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from cyclopts import Parameter
from pydantic import BeforeValidator, Field

from agentlearn import config
from agentlearn.cli.learn import learn_shown
from agentlearn.cli.options import (
    DryRunOption,
    JsonOption,
    LogOption,
    YesOption,
    ask_before_spending,
    require_extras,
    setting_options,
)
from agentlearn.cli.output import console, plan_lines, print_json, print_result, show_logs
from agentlearn.cli.train import train_shown
from agentlearn.config.defaults import command_words, default_reflector, name_of_result
from agentlearn.domain.chosen_settings import with_domain
from agentlearn.errors import ConfigError
from agentlearn.learning.lessons.run_learning import run_learning
from agentlearn.learning.open_run import domain_of, latest_run
from agentlearn.learning.plan import plan
from agentlearn.learning.report import LearnReport
from agentlearn.library import NO_LIBRARY, LibraryStore
from agentlearn.measure.contrasts import LossEvidence, shows_no_loss
from agentlearn.train.report import TrainReport
from agentlearn.train.settings import TrainSettings, train_settings
from agentlearn.train.training_plan import plan_training
from agentlearn.types.experience import estimated_tokens
from agentlearn.types.ids import ExperienceId, RunId
from agentlearn.types.run_event import RunKind
from agentlearn.types.value import Value
from agentlearn_evals.command import run_planned, show_comparison
from agentlearn_evals.compare_settings import CompareSettings
from agentlearn_evals.comparison import Comparison
from agentlearn_evals.plan import plan_comparison

_StageFields = Annotated[dict[str, Any], BeforeValidator(lambda given: {} if given is None else given)]
_ARMS = ("none", "lessons", "distilled", "both")
_PAIRS = ("none:lessons", "none:distilled", "none:both", "lessons:distilled")
_ID = 12
"""Characters of versions and lesson ids in references and commands."""
R = TypeVar("R", LearnReport, TrainReport, Comparison)
T = TypeVar("T")


class HybridSettings(config.SeedOptions, config.StoreOptions):
    """Settings of `hybrid`. Every other field at the top of a recipe is a setting of all three stages."""

    help_group = "Learning"
    common = ("model", "margin", "name")

    domain: str
    """Name of an installed domain; with `reward`, a name for tasks from a file."""
    model: str = ""
    """Model to learn with and to train: a folder, an adapter or a fetched model, or lab:NAME; vllm:FOLDER samples with
    a vLLM server."""
    name: str | None = None
    """Name of the library and of the weights. Default: the domain's name."""
    margin: float = Field(default=0.05, gt=0, lt=1)
    """Largest loss that counts as not worse: of the trained weights against the lessons, and of removing a lesson."""
    evidence: LossEvidence = "verdict"
    """What proposes a lesson for removal. verdict: the verdict that its removal is not worse. margin: the corrected
    test against the margin alone, also where there are too few tasks for a verdict; the result says so."""
    removals: int = Field(default=20, ge=0, le=1000)
    """Largest number of lessons whose removal is measured, those with the most tokens first; 0: none."""
    removal_rollouts: int | None = Field(default=None, ge=1, le=4096)
    """Rollouts per task and arm to measure removals. Default: `k` of the stage compare."""
    learn: _StageFields = Field(default_factory=dict[str, Any])
    """Settings of the stage learn, as of `agentlearn learn`."""
    train: _StageFields = Field(default_factory=dict[str, Any])
    """Settings of the stage train, as of `agentlearn train`, with `gradient` for the update."""
    compare: _StageFields = Field(default_factory=dict[str, Any])
    """Settings of the stage compare, as of `agentlearn compare`."""
    shared: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Settings of all stages."""

    @property
    def library(self) -> str:
        """Name of the library."""
        return self.name or name_of_result(self.domain)

    @property
    def start_model(self) -> str:
        """The model without the name of what samples it: a folder, a fetched model or lab:NAME."""
        return self.model.removeprefix("vllm:").removeprefix("local:")

    def endpoint_of(self, model: str) -> str:
        """The endpoint of a model as training starts from it. Training writes a lab model to the store first."""
        folder = self.store / "lab" / model.removeprefix(config.LAB) if config.is_lab(model) else model
        return f"{'vllm' if self.model.startswith('vllm:') else 'local'}:{folder}"

    def learn_stage(self) -> config.LearnSettings:
        """Settings that learn lessons with the model."""
        lab, model = config.is_lab(self.start_model), self.start_model
        fields = self._fields("learn", name=self.library, model=model if lab else self.endpoint_of(model))
        if lab:  # too small to write lessons
            fields.setdefault("reflector", default_reflector(config.LAB))
        return _of_stage("learn", lambda: config.learn_settings(fields))

    def train_stage(self, library: str) -> TrainSettings:
        """Settings that distil a library into the model."""
        sampler, model = self.endpoint_of("").partition(":")[0], self.start_model
        fields = self._fields("train", model=model, sampler=sampler, distill=library, name=self.library)
        return _of_stage("train", lambda: train_settings(fields))

    def compare_stage(self, arms: Iterable[str], pairs: Sequence[str] = (), k: int | None = None) -> CompareSettings:
        """Settings that compare arms on the held-out tasks. k: rollouts per task and arm; None: as the recipe says."""
        fields = self._fields("compare", arms=tuple(arms), pairs=pairs, margin=self.margin)
        domain, held_out, data = (fields.pop(name, None) for name in ("domain", "test_data", "data"))
        own = data is not None and fields.get("reward") is not None
        fields |= {"domains": held_out if own else domain, "data": None if own or data is None else held_out}
        return _of_stage("compare", lambda: config.given_settings(CompareSettings, fields | ({"k": k} if k else {})))

    def _fields(self, stage: str, **decided: Any) -> dict[str, Any]:
        """The fields of a stage: those that all stages share, its own, and those that `hybrid` decides."""
        own, top = getattr(self, stage), {**self.shared, "domain": self.domain, "seed": self.seed, "store": self.store}
        for name in own.keys() & (top.keys() | decided.keys()):
            raise ConfigError(f"{stage}.{name} is {own[name]!r}, but hybrid sets it for all stages; leave it out there")
        return {**top, "otel": self.otel, **own, **decided}


def hybrid_settings(fields: dict[str, Any]) -> HybridSettings:
    """Settings from the fields of a recipe. Raises ConfigError; the stages' own settings are checked with them."""
    own = {name: value for name, value in fields.items() if name in HybridSettings.model_fields}
    shared = {name: value for name, value in fields.items() if name not in own}
    settings = config.given_settings(HybridSettings, own | {"shared": shared})
    if not settings.model or settings.model.startswith(("sim:", "http:", "https:", f"vllm:{config.LAB}")):
        raise ConfigError(f"the model is {settings.model!r}, and hybrid trains weights; give a folder or lab:NAME")
    if "data" in shared and "test_data" not in shared:
        raise ConfigError(f"data is {shared['data']!r}, without tasks to compare on; add `test_data: FILE`")
    return settings


def _of_stage(stage: str, make: Callable[[], T]) -> T:
    """What is made of a stage. Raises ConfigError that names the stage."""
    try:
        return make()
    except ConfigError as error:
        raise ConfigError(f"{stage}: {error.message}") from error


def plan_hybrid(settings: HybridSettings) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return what the run will do, as a document and as pairs of label and text.

    Raises ConfigError or DataError for what would stop a stage.
    """
    learning, training = settings.learn_stage(), settings.train_stage(settings.library)
    comparing = settings.compare_stage([f"none=none,model={settings.endpoint_of(settings.start_model)}"])
    learn = _of_stage("learn", lambda: plan(learning, domain_of(learning, imports_reward=False)))
    train = _of_stage("train", lambda: plan_training(training, lessons_exist=False))
    if train.refusals:
        raise ConfigError(f"train: {train.refusals[0]}")
    compare = _of_stage("compare", lambda: plan_comparison(comparing, imports_reward=False, fewest=1))
    tasks, k = len(compare.all_tasks), settings.removal_rollouts or comparing.k
    rollouts, most = tasks * comparing.k * len(_ARMS), tasks * k * settings.removals
    shown = [line for line in train.lines() if line[0] not in {"settings", "gradient"}]
    lines = [("STAGE learn", ""), *learn.lines(), ("STAGE train", ""), *shown]
    lines.append(("STAGE compare", f"{rollouts:,} rollouts on {tasks} held-out tasks: {', '.join(_ARMS)}"))
    lines.append(("STAGE remove", f"at most {most:,} rollouts on these tasks: both without each lesson"))
    document = {"learn": learn, "train": train, "compare_rollouts": rollouts, "removal_rollouts": most}
    return document, lines


class HybridReport(Value):
    """What every stage found. One that was not reached is None."""

    domain: str
    model: str
    seed: int
    learn: LearnReport
    train: TrainReport | None = None
    compare: Comparison | None = None
    remove: Comparison | None = None
    """The trained model with all lessons, against the same without each one."""
    together: Comparison | None = None
    """The same against all proposed lessons removed at once; None without a proposal."""
    proposed: tuple[ExperienceId, ...] = ()
    """Lessons that are proposed for parking."""
    sentences: tuple[str, ...] = ()
    """What was found, and what to do next."""


@dataclass(slots=True)
class _Stages:
    """The stages in order. Each runs and prints as its own command does."""

    settings: HybridSettings
    json: bool
    before: str = ""
    """The run of the stage before."""

    def to_end(self) -> HybridReport:
        """Run every stage that is not done, up to one that made nothing for the next. Raises what a stage raises."""
        settings, out, to_learn = self.settings, console(to_stderr=self.json), self.settings.learn_stage()

        def learned(run: RunId | None) -> LearnReport:
            return learn_shown(to_learn, out, lambda shown: run_learning(to_learn, shown, resume=run))[0]

        learn = self._stage("learn", to_learn, LearnReport, learned)
        now = HybridReport(domain=settings.domain, model=settings.model, seed=settings.seed, learn=learn)
        if not learn.library.lessons or (learn.selection is not None and learn.selection.status != "published"):
            why = "there is no lesson" if learn.selection is None else learn.selection.reason
            return self._say(now, f"nothing to distil, so the run ends here: {why}")
        lessons = f"{learn.library.name}@{learn.library.version[:_ID]}"
        to_train = settings.train_stage(lessons)
        trained = self._stage("train", to_train, TrainReport, lambda run: train_shown(to_train, out, resume=run))
        now = now.model_copy(update={"train": trained})
        if not trained.weights.published:
            show = command_words("library", "show", settings.library, store=settings.store)
            why = f"the weights were not published, so the run ends here: {trained.weights.withheld}"
            return self._say(now, f"{why}; the lessons are kept: {show}")
        models = (settings.endpoint_of(settings.start_model), settings.endpoint_of(trained.weights.path))
        arms = [f"{library},model={one}" for one in models for library in (NO_LIBRARY, lessons)]
        compared = self._compared(map("=".join, zip(_ARMS, arms, strict=True)), _PAIRS)
        gain, kept = compared.contrasts[:2]
        words = "no gain of the lessons is shown, so no share of it is given"
        if gain.verdict == "better" and gain.mean and kept.mean is not None:
            words = f"the weights keep {kept.mean / gain.mean:.0%} of the lessons' gain without reading them"
        return self._remove(self._say(now.model_copy(update={"compare": compared}), words), lessons, arms[-1])

    def _remove(self, now: HybridReport, lessons: str, both: str) -> HybridReport:
        """Measure what the arm `both` loses without each lesson, and without all that are proposed."""
        settings = self.settings
        library = LibraryStore(settings.store / "libraries").load(lessons, stored=True)
        longest = sorted(library.experiences, key=lambda one: (-estimated_tokens(one.lesson), one.id))
        names = {f"without-{one.id[:_ID]}": one.id for one in longest[: settings.removals]}
        if not names:
            return self._say(now, "no removal of a lesson was measured")
        arms = (f"{name}={both},without={lesson}" for name, lesson in names.items())
        removed = self._compared((f"both={both}", *arms), k=settings.removal_rollouts)
        found = [one for one in removed.contrasts if shows_no_loss(one, settings.evidence)]
        now = now.model_copy(update={"remove": removed, "proposed": tuple(names[one.arm] for one in found)})
        if not found:
            shown = f"of {len(names)} measured, none is shown to be removable without a loss above {settings.margin:g}"
            return self._say(now, f"no lesson is proposed for parking: {shown}")
        rest = f"{both},without={'+'.join(now.proposed)}"
        if len(found) == len(library):
            rest = both.replace(lessons, NO_LIBRARY, 1)
        together = self._compared((f"both={both}", f"without-proposed={rest}"), k=settings.removal_rollouts)
        safe = shows_no_loss(together.contrasts[0], settings.evidence)
        ids = (one[:_ID] for one in now.proposed[: None if safe else 1])
        park = command_words("library", "park", settings.library, *ids, store=settings.store)
        alone = ", by the margin test alone" * any(one.verdict == "cannot_tell" for one in found)
        return self._say(
            now.model_copy(update={"together": together}),
            f"{len(found)} of {len(names)} measured lessons are proposed for parking: for the trained model, the loss"
            f" without each is shown to be below {settings.margin:g}{alone}",
            f"removing all of them at once is shown to lose less than that: {park}"
            if safe
            else f"removing all of them at once is not shown to lose less than that; park one and run again: {park}",
        )

    def _say(self, now: HybridReport, *sentences: str) -> HybridReport:
        for one in sentences:
            console(to_stderr=self.json).print(one, style="bold")
        return now.model_copy(update={"sentences": (*now.sentences, *sentences)})

    def _compared(self, arms: Iterable[str], pairs: Sequence[str] = (), k: int | None = None) -> Comparison:
        wanted = self.settings.compare_stage(arms, pairs, k)

        def compared(_: RunId | None) -> Comparison:
            done = run_planned(wanted, yes=True, json=self.json)
            assert done is not None
            show_comparison(done, console(to_stderr=self.json), wanted.store)
            return done.comparison

        return self._stage("eval", wanted, Comparison, compared)

    def _stage(
        self, kind: RunKind, settings: config.OptionGroup, report: type[R], run: Callable[[RunId | None], R]
    ) -> R:
        """Return the report of a stage that was done before; otherwise run it, or go on with its latest run."""
        found = latest_run(self.settings.store, kind, settings, after=self.before)
        if found is not None and found.state == "done":
            console(to_stderr=self.json).print(f"  {kind} was done before, in run {found.run}")
            done = report.model_validate_json(found.report)
        else:
            done = run(found and found.run)
        self.before = done.run
        return done


@setting_options(HybridSettings, leave_out=("domain", "learn", "train", "compare", "shared"))
def hybrid(
    what: Annotated[str, Parameter(help="A domain with a recipe `hybrid` (math), or a recipe (.yaml, math/hybrid).")],
    /,
    *,
    given: config.GivenSettings,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    json: JsonOption = False,
    log: LogOption = "error",
) -> None:
    """Learn lessons, distil them into the weights of a local model, and measure both on held-out tasks.

    Then each lesson is removed in turn, and lessons that the trained model no longer needs are proposed for parking.
    Each stage is a run of its own. After an interruption, give the same command again: what is done is not repeated.
    """
    show_logs(log)
    name = what if "/" in what or what.endswith((".yaml", ".yml")) else f"{what}/hybrid"
    path = config.packaged_recipe(name) or Path(name)
    if path.suffix not in {".yaml", ".yml"}:
        raise ConfigError(f"{what!r} is neither a domain with a recipe `hybrid` (math) nor a recipe; write hybrid.yaml")
    settings = hybrid_settings(with_domain(given.over(config.read_recipe(path)), what))
    document, lines = plan_hybrid(settings)
    if dry_run:
        print_result(document, plan_lines(lines), json=json)
        return
    learning = settings.learn_stage()
    require_extras((learning.model, learning.reflector_name), otel=settings.otel)
    ask_before_spending(learning, yes=yes)
    found = _Stages(settings, json).to_end()
    if json:
        print_json(found.model_dump(mode="json"))
