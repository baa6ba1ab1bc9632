"""`agentlearn library survive`: which lessons of a library still help with another model, and which do harm."""

from dataclasses import replace
from typing import Annotated

from cyclopts import Parameter

from agentlearn.cli.library_checks import library_effects
from agentlearn.cli.options import DryRunOption, JsonOption, LogOption, YesOption, setting_options
from agentlearn.cli.output import console, show_logs
from agentlearn.config import GivenSettings, given_settings
from agentlearn.config.command_words import command_words
from agentlearn.errors import ConfigError, LibraryError
from agentlearn.learning.evidence import LibraryEvidence, to_park
from agentlearn.library import LibraryStore
from agentlearn.pages.figure import count_words
from agentlearn.store import read_store
from agentlearn.text import visible
from agentlearn_evals.compare_settings import EvalSettings


@setting_options(
    EvalSettings,
    leave_out=(
        *("arms", "methods", "baseline", "pairs", "margin", "cost_margin", "correction", "planned_looks"),
        *("fresh", "retry_failed"),
        *("controls", "placebo", "score_range"),
    ),
    names={"domains": "--domain", "models": "--model", "k": ("--k", "-k")},
)
def library_survive(
    name: Annotated[str, Parameter(help="Name of the library.")],
    /,
    *,
    given: GivenSettings,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    json: JsonOption = False,
    log: LogOption = "warning",
) -> None:
    """Measure which lessons still help with another model: hide each at random from half of the rollouts.

    Lessons that do harm are named, with the command that parks them. Nothing is changed. The tasks are those of
    `compare`: the domain's test tasks, `--data`, or `--held-out-of RUN`.
    """
    from agentlearn_evals.command import run_planned

    show_logs(log)
    settings = given_settings(EvalSettings, {**given.over(), "arms": (name,)})
    if len(settings.models) != 1:
        raise ConfigError(
            f"say which model is new to {name!r}, such as: agentlearn library survive {name} --model openai:gpt-5-mini"
        )
    if settings.k < 2:
        raise ConfigError(f"--k is {settings.k}; a lesson is hidden from half of a task's rollouts, so give 2 or more")
    libraries, model = LibraryStore(settings.store / "libraries"), settings.models[0]
    if not len(libraries.load(name)):
        raise LibraryError(f"{name!r} shows no lessons, so there is nothing to measure")
    done = run_planned(settings, yes=yes, json=json, dry_run=dry_run, prepared=lambda plan: replace(plan, hides=True))
    if done is None:
        return
    library_effects(name, model=model, store=settings.store, json=json)
    with read_store(settings.store) as reader:
        found = LibraryEvidence.of(reader, libraries, name)
    harmful, out = to_park(found.evidence, found.library, model=model), console(to_stderr=json)
    for one in (*harmful.park, *harmful.reported):
        out.print(f"harmful with {model}  {one.experience.id[:12]}  {visible(one.reason)}")
    if harmful.park:
        command = command_words("library", "prune", name, "--model", model, store=settings.store)
        out.print(f"to park {count_words(len(harmful.park), 'lesson')}: {command}")
    elif not harmful.reported:
        out.print(f"no lesson of {name} was shown to do harm with {model}")
