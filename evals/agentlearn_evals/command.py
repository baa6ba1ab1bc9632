"""`agentlearn compare`, `agentlearn eval`, `agentlearn power` and `agentlearn library survive`."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from agentlearn.cli.options import (
    DryRunOption,
    JsonOption,
    LogOption,
    StoreOption,
    YesOption,
    require_extras,
    setting_options,
)
from agentlearn.cli.output import console, plan_lines, print_json, print_result, show_logs
from agentlearn.config import DEFAULT_STORE, GivenSettings, given_settings, is_source
from agentlearn.config.defaults import command_words
from agentlearn.errors import AgentlearnError, ConfigError, LibraryError
from agentlearn.text import visible
from agentlearn.text.printing import print_line
from agentlearn_evals.compare_settings import CompareSettings, EvalSettings, PowerSettings

if TYPE_CHECKING:
    from rich.console import Console

    from agentlearn_evals.comparing import Compared
    from agentlearn_evals.comparison import Comparison
    from agentlearn_evals.plan import ComparePlan


_Failing = Literal["worse", "not_better"]
_FOR_LOGS = (
    "baseline",
    "pairs",
    "score_range",
    "margin",
    "cost_margin",
    "correction",
    "planned_looks",
    "seed",
    "store",
    "domains",
)
"""Settings that also apply to logs: what `compare_logs` takes."""
_OPTIONS: dict[str, str | tuple[str, ...]] = {
    "methods": "--method",
    "pairs": "--pair",
    "domains": "--domain",
    "models": "--model",
    "planned_looks": "--looks",
    "k": ("--k", "-k"),
}
"""Settings whose option has another name."""


@setting_options(
    CompareSettings,
    leave_out=("arms", "agent"),
    names=_OPTIONS,
    annotations={"score_range": Annotated[str | None, Parameter(allow_leading_hyphen=True)]},
)
def compare(
    *arms: Annotated[
        str,
        Parameter(
            help="The baseline, then the arms to compare with it: libraries (none, NAME, NAME@VERSION, NAME@all, a"
            " file), each with optional ,model=… ,temperature=… ,instructions=FILE ,without=LESSON+LESSON. Before them,"
            " if you like, your own agent as MODULE:NAME and its tasks, a file or MODULE:NAME; without arms: none and"
            " what it learned."
        ),
    ],
    given: GivenSettings,
    logs: Annotated[
        list[str] | None, Parameter(negative="", help="Compare logs of other programs instead; may be repeated.")
    ] = None,
    allow_missing: Annotated[
        bool, Parameter(negative="", show_default=False, help="With --logs: compare on the rollouts that all share.")
    ] = False,
    out: Annotated[
        list[Path] | None,
        Parameter(
            negative="",
            help="Also write rollouts (.csv, .parquet), the result (.html, .json) or its tables (.md, .tex).",
        ),
    ] = None,
    fail_if: Annotated[
        _Failing | None, Parameter(help="Exit with status 1 when an arm is worse, or not better, than its baseline.")
    ] = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    json: JsonOption = False,
    log: LogOption = "warning",
) -> None:
    """Compare libraries, models or instructions with a baseline, and report which is better."""
    from agentlearn.cli.options import recording_words
    from agentlearn_evals.write_results import refuse_unknown, write_all

    show_logs(log)
    arms, fields = _with_agent(arms, given)
    settings = given_settings(CompareSettings, {**fields, "arms": arms or ("none",)})
    refuse_unknown(out or (), settings.store)
    if logs:
        _refuse_with_logs(given.options, dry_run=dry_run)
        from agentlearn_evals.log_comparison import compare_logs

        own = {name: getattr(settings, name) for name in _FOR_LOGS}
        done = compare_logs(logs, arms, allow_missing=allow_missing, **own)
    elif allow_missing:
        raise ConfigError("--allow-missing is only for --logs; without logs, missing rollouts are made; leave it out")
    elif not arms:
        raise ConfigError("say what to compare, the baseline first, such as: agentlearn compare none math")
    else:
        done = run_planned(settings, dry_run=dry_run, yes=yes, json=json)
        if done is None:
            return
    if json:
        print_json(done.comparison)
        write_all(done, store=settings.store, out=out or ())
    else:
        show_comparison(done, console(), settings.store, out or ())
    if settings.record is not None and not logs:
        from agentlearn.pages.terminal import print_parts

        print_parts(console(to_stderr=json), [("recorded", recording_words(settings.record))])
    _fail(done.comparison, fail_if)


def show_comparison(done: "Compared", out: "Console", store: Path, files: Sequence[Path] = ()) -> None:
    """Print a comparison and write its page and the other files."""
    from agentlearn.pages.terminal import print_parts
    from agentlearn_evals.terminal import comparison_end
    from agentlearn_evals.write_results import write_all

    print_parts(out, comparison_end(done.comparison, store))
    if (page := write_all(done, store=store, out=files)) is not None:
        run = done.comparison.run
        view = [("view", command_words("view", run, store=store))] if run else []
        print_parts(out, [("page", str(page)), *view])


def _with_agent(words: tuple[str, ...], given: GivenSettings) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return the arms and the fields of the settings: an agent and its tasks may stand before the arms."""
    from agentlearn.learning.subject import is_agent, named_agent

    fields = given.over()
    if not words or not is_agent(words[0]):
        return words, fields
    fields["agent"], *arms = words
    if arms and (is_source(arms[0]) or is_agent(arms[0])) and "data" not in fields:
        fields["data"] = arms.pop(0)
    if not arms:
        subject = named_agent(words[0], reward=fields.get("reward") or "exact", deps=fields.get("deps"))
        arms = ["none", subject.domain.name]
    return tuple(arms), fields


def _refuse_with_logs(given: Collection[str], *, dry_run: bool) -> None:
    """Raises ConfigError for options that apply to new rollouts only."""
    unfit = [name for name in CompareSettings.model_fields if name in given and name not in _FOR_LOGS]
    named = [_OPTIONS.get(name, f"--{name.replace('_', '-')}") for name in unfit]
    options = [one if isinstance(one, str) else one[0] for one in named] + ["--dry-run"] * dry_run
    if options:
        raise ConfigError(
            f"{', '.join(options)}: not with --logs, which compares finished rollouts; leave"
            f" {'it' if len(options) == 1 else 'them'} out"
        )


def run_planned(
    settings: CompareSettings,
    *,
    yes: bool,
    json: bool,
    dry_run: bool = False,
    prepared: "Callable[[ComparePlan], ComparePlan]" = lambda plan: plan,
) -> "Compared | None":
    """Make the missing rollouts and compare. Return None when only the plan was to be shown.

    prepared: changes the plan before anything is shown or made.
    """
    from agentlearn.cli.interrupt import run_to_end
    from agentlearn.cli.options import ask
    from agentlearn_evals.before_calls import before_calls
    from agentlearn_evals.comparing import compare_planned
    from agentlearn_evals.plan import plan_comparison
    from agentlearn_evals.terminal import CompareProgress

    alone = isinstance(settings, EvalSettings)

    if not dry_run:
        require_extras((*settings.models, settings.judge or "", settings.user_model or ""), otel=settings.otel)
    plan = prepared(plan_comparison(settings, imports_reward=not dry_run, fewest=1 if alone else 2))
    plan.require_model()
    with before_calls(plan) as before:
        expected = before.forecast()
        for caution in before.cautions() if expected.rollouts and not alone else ():
            print_line(f"note: {caution}", to_stderr=True)
    if dry_run:
        print_result(expected, plan_lines(expected.lines()), json=json)
        return None
    plan.check_models()
    if paid := expected.paid:
        words = f"{' and '.join(dict.fromkeys(paid))}: {expected.lines()[-1][1]}"
        ask(words, yes=yes or settings.max_cost_usd is not None, options="--yes or --max-cost-usd")
    progress = CompareProgress(plan, console(to_stderr=json))
    name = "evaluation" if alone else "comparison"
    return run_to_end(lambda: compare_planned(plan, progress, refuse=not alone), progress, name=name)


def _fail(found: "Comparison", fail_if: _Failing | None) -> None:
    """Raises AgentlearnError (status 1) when a verdict is one that the user wants to fail."""
    worse = [one for one in found.contrasts if one.verdict == "worse"]
    failing = worse if fail_if == "worse" else [one for one in found.contrasts if one.verdict != "better"]
    if failing and fail_if:
        arms = {one.baseline: ", ".join(two.arm for two in failing if two.baseline == one.baseline) for one in failing}
        words = "; ".join(f"{names}: {fail_if.replace('_', ' ')} than {baseline}" for baseline, names in arms.items())
        raise AgentlearnError(words, code="check_failed")


@setting_options(
    EvalSettings,
    leave_out=(
        *("arms", "agent", "data", "methods", "domains", "baseline", "pairs", "margin", "cost_margin"),
        *("correction", "planned_looks", "controls", "placebo"),
        *("fresh", "retry_failed"),
    ),
    names=_OPTIONS,
    annotations={"score_range": Annotated[str | None, Parameter(allow_leading_hyphen=True)]},
)
def evaluate(
    what: Annotated[
        str, Parameter(help="Your own agent or function as MODULE:NAME, a domain (math), or a task file with --reward.")
    ],
    tasks: Annotated[
        str | None, Parameter(help="The tasks: a file, hf:NAME, gym:TASK or MODULE:NAME. Default: the domain's own.")
    ] = None,
    /,
    *,
    given: GivenSettings,
    library: Annotated[str, Parameter(help="Lessons to show: none, NAME, NAME@VERSION, or a file.")] = "none",
    fail_under: Annotated[float | None, Parameter(help="Exit with status 1 when the score is below this.")] = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    json: JsonOption = False,
    log: LogOption = "warning",
) -> None:
    """Score an agent on tasks without learning, with an interval; failures are counted apart."""
    from agentlearn.learning.subject import is_agent
    from agentlearn_evals.write_results import write_all

    show_logs(log)
    if tasks is not None and is_source(what):
        raise ConfigError(f"the tasks are given twice, as {tasks!r} and {what!r}; leave one of them out")
    named = {"agent": what} if is_agent(what) else {"domains": (what,)}
    settings = given_settings(EvalSettings, {**given.over(), **named, "data": tasks, "arms": (library,)})
    done = run_planned(settings, dry_run=dry_run, yes=yes, json=json)
    if done is None:
        return
    if json:
        print_json(done.comparison)
        write_all(done, store=settings.store)
    else:
        show_comparison(done, console(), settings.store)
    score = done.comparison.arms[0].score
    if fail_under is not None and score is not None and score < fail_under:
        raise AgentlearnError(f"the score {score:.3f} is below --fail-under {fail_under:g}", code="check_failed")


@setting_options(PowerSettings, names={"power": "--chance", "k": ("--k", "-k")})
def power(
    *,
    given: GivenSettings,
    like: Annotated[
        str | None, Parameter(help="Take variances from an earlier comparison: its run id or its JSON file.")
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Show how many tasks and rollouts are needed to detect a difference, and their cost. Spends nothing."""
    from agentlearn_evals.designing import comparison_of
    from agentlearn_evals.designing import power as report_of
    from agentlearn_evals.terminal import print_power

    settings = given_settings(PowerSettings, given.over())
    report = report_of(settings, None if like is None else comparison_of(like, store))
    if json:
        print_json(report)
    else:
        print_power(report, console())


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
    from agentlearn.cli.library_checks import library_effects
    from agentlearn.learning.evidence import LibraryEvidence, to_park
    from agentlearn.library import LibraryStore
    from agentlearn.pages.figure import count_words
    from agentlearn.store import read_store

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
