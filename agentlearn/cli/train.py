"""`agentlearn train`."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from agentlearn.cli.options import DryRunOption, JsonOption, LogOption, ResumeOption, setting_options
from agentlearn.cli.output import console, plan_lines, print_json, print_result, show_logs
from agentlearn.cli.stop_signals import END_S, SIGNALS
from agentlearn.config import DEFAULT_STORE, LAB, GivenSettings, default_model, is_source, packaged_recipe, read_recipe
from agentlearn.config.defaults import command_words
from agentlearn.errors import AgentlearnError, ConfigError
from agentlearn.pages.figure import count_words
from agentlearn.train.arguments import GradientArguments
from agentlearn.train.settings import TrainSettings, gradient_fields, train_settings
from agentlearn.types.ids import RunId

if TYPE_CHECKING:
    from rich.console import Console

    from agentlearn.train.report import TrainReport

_LAB_RECIPE = "train-lab"
"""Name of the packaged recipe that trains a domain's own lab model."""


@setting_options(TrainSettings, leave_out=("domain", "gradient"), names={"evaluate": "--eval"})
@setting_options(
    GradientArguments,
    parameter="gradient",
    only=("loss", "learning_rate", "lora_rank"),
)
def train(
    what: Annotated[
        str | None, Parameter(help="A domain (math), a task file (with --reward) or a recipe (.yaml, math/train).")
    ] = None,
    /,
    *,
    given: GivenSettings,
    gradient: GivenSettings,
    set_: Annotated[
        list[str] | None,
        Parameter(name="--set", negative="", help="Another setting of the update, such as kl=k3; may be repeated."),
    ] = None,
    resume: ResumeOption = None,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
    log: LogOption = "error",
) -> None:
    """Train the weights of a local model on rollouts (gradient GRPO) and measure the result."""
    if int(os.environ.get("RANK", "0")) != 0:  # any process of `torchrun` but the first
        if resume is None:
            train_run(what, resume, given, gradient, _pairs(set_ or ()))  # wrong settings end this process too
        if not dry_run:
            _follow(log)
        return
    settings, run = train_run(what, resume, given, gradient, _pairs(set_ or ()))
    show_logs(log)
    if dry_run:
        _show_plan(settings, run, json=json)
        return
    report = train_shown(settings, console(to_stderr=json), resume=run)
    if json:
        print_json(report)
    if report.weights.failed:
        raise AgentlearnError(f"no weights were published: {report.weights.withheld}", code="nothing_learned")


def train_shown(settings: TrainSettings, out: "Console", *, resume: RunId | None = None) -> "TrainReport":
    """Run training with its progress shown, and write its page."""
    _require_training_packages()
    from agentlearn.cli.interrupt import run_to_end
    from agentlearn.cli.train_progress import TrainProgress
    from agentlearn.pages.train_page import write_train_page
    from agentlearn.train.run_training import run_training

    progress = TrainProgress(settings, out)
    report = run_to_end(lambda: run_training(settings, progress, resume=resume), progress)
    progress.line("report", str(write_train_page(report, settings)))
    progress.line("view", command_words("view", report.run, store=settings.store))
    return report


def _show_plan(settings: TrainSettings, resumed: RunId | None, *, json: bool) -> None:
    """Print what the run will do. Raises ConfigError after that when the run would stop before it samples."""
    from agentlearn.train.training_plan import plan_training

    if resumed is not None:
        raise ConfigError(
            f"a dry run shows what a new run would do, and {resumed!r} has begun; leave out --dry-run or --resume"
        )
    planned = plan_training(settings)
    print_result(planned, plan_lines(planned.lines()), json=json)
    if planned.refusals:
        raise ConfigError(
            f"the run would stop before it samples anything, for {count_words(len(planned.refusals), 'reason')}; change"
            " what is named under 'refused'"
        )


def _require_training_packages() -> None:
    """Raises MissingExtra when a package that training needs is not installed."""
    from agentlearn.train.serving.local import need_extra

    need_extra("training weights", "peft", "accelerate")


def _follow(log: LogOption) -> None:
    """Take part in the run that the first process leads, with the settings of that process."""
    show_logs(log)
    _require_training_packages()
    from agentlearn.train.run_training import follow_training

    def leader_decides() -> None:
        # The first process gets the signal too, and ends the run in order.
        if SIGNALS.count > 1:
            SIGNALS.end_within(END_S)

    with SIGNALS.handled_by(leader_decides):
        follow_training()


def _pairs(texts: Sequence[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key or not value:
            raise ConfigError(f"--set {text!r} is not KEY=VALUE; write it as in --set kl=k3")
        pairs[key.strip()] = value.strip()
    return pairs


def train_run(
    what: str | None, resume: str | None, given: GivenSettings, gradient: GivenSettings, pairs: dict[str, str]
) -> tuple[TrainSettings, RunId | None]:
    """The settings of a new run; or, with `resume`, the settings and the id of the interrupted run."""
    if resume is not None:
        from agentlearn.learning.open_run import keep_credentials
        from agentlearn.train.settings import resumed_train_settings

        if what is not None or gradient.options or pairs:
            raise ConfigError(
                f"--resume continues run {resume!r} with the settings it was started with; leave out everything else"
            )
        keep_credentials(given.environment)
        run, settings = resumed_train_settings(resume, Path(given.get("store", DEFAULT_STORE)), given.options)
        return settings, run
    if what is None:
        raise ConfigError(
            "say what to train on: a domain (agentlearn train math --model PATH), a recipe, or a task file with"
            " --reward"
        )
    fields = _fields(what, given)
    recipe = gradient_fields(fields)
    merged = gradient.over(recipe) if _is_recipe(what) else recipe | gradient.over()
    return train_settings({**fields, "gradient": merged | pairs}), None


def _is_recipe(what: str) -> bool:
    """Whether the user named a recipe. The recipe that a domain ships as a default ranks below the environment."""
    return (packaged_recipe(what) or Path(what)).suffix in {".yaml", ".yml"}


def _fields(what: str, given: GivenSettings) -> dict[str, Any]:
    """All fields of a training run, from a recipe, a source of tasks or a domain.

    A domain without `--model` is trained by the recipe of its lab model, if any.
    """
    from agentlearn.domain.chosen_settings import custom_task_fields, with_domain

    if _is_recipe(what):
        return with_domain(given.over(read_recipe(packaged_recipe(what) or Path(what))), what)
    if is_source(what):
        return given.over(custom_task_fields("train", what, given))
    usual: dict[str, Any] = {"domain": what}
    if "model" not in given and default_model(what).startswith(LAB):
        lab_recipe = packaged_recipe(f"{what}/{_LAB_RECIPE}")
        usual |= {} if lab_recipe is None else read_recipe(lab_recipe)
    return usual | given.over()
