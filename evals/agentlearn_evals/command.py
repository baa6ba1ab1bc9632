"""`agentlearn compare` and `agentlearn power`."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from agentlearn.cli.ask import allow
from agentlearn.cli.interrupt import on_interrupt
from agentlearn.cli.output import console, print_json, show_logs
from agentlearn.config import DEFAULT_STORE, SIMULATED_MODEL, given_settings
from agentlearn.errors import AgentlearnError, ConfigError, Interrupted
from agentlearn_evals.comparison import Comparison
from agentlearn_evals.progress import CompareProgress
from agentlearn_evals.settings import CompareSettings
from agentlearn_evals.write_results import refuse_unknown

if TYPE_CHECKING:
    from agentlearn_evals.comparing import Compared
    from agentlearn_evals.plan import ComparePlan

Failing = Literal["worse", "not_better"]

_OF_LOGS = ("margin", "correction", "seed", "store")
"""Settings that mean something for logs, too."""

_OPTIONS = {"methods": "method", "domains": "domain", "models": "model", "planned_looks": "looks"}
"""Settings whose option has another name."""


def compare(
    *arms: Annotated[
        str,
        Parameter(
            help="The baseline, then what is held against it: a library (none, NAME, NAME@VERSION, NAME@all, a file),"
            " with ,model=… ,temperature=… ,instructions=FILE ,without=LESSON+LESSON as you like."
        ),
    ],
    domain: Annotated[
        list[str] | None, Parameter(negative="", help="On whose tasks; may be repeated. [default: the libraries']")
    ] = None,
    data: Annotated[str | None, Parameter(help="Tasks in place of the domain's test split.")] = None,
    reward: Annotated[str | None, Parameter(help="How answers to own tasks are judged, as for learn.")] = None,
    tools: Annotated[Literal["none", "python"], Parameter(help="For own tasks.")] = "none",
    logs: Annotated[
        list[str] | None, Parameter(negative="", help="Logs of other programs, in place of rollouts; may be repeated.")
    ] = None,
    model: Annotated[
        list[str] | None, Parameter(negative="", help="Endpoint; may be repeated. [default: as in learn]")
    ] = None,
    k: Annotated[int, Parameter(name=["--k", "-k"], help="Rollouts per task and arm.")] = 8,
    limit: Annotated[int | None, Parameter(help="Tasks per domain at most.")] = None,
    temperature: Annotated[float, Parameter(help="Sampling temperature.")] = 0.3,
    seed: Annotated[int, Parameter(help="Seed of everything that is drawn.")] = 0,
    concurrency: Annotated[int, Parameter(help="Model calls in flight at once.")] = 32,
    margin: Annotated[float | None, Parameter(help="How much worse still counts as no worse, such as 0.02.")] = None,
    correction: Annotated[Literal["holm", "bh", "none"], Parameter(help="For the number of arms.")] = "holm",
    looks: Annotated[int, Parameter(help="Looks at growing data that were planned beforehand.")] = 1,
    sequential: Annotated[bool, Parameter(negative="", help="Stop as soon as it is known, at any time.")] = False,
    method: Annotated[
        list[str] | None, Parameter(negative="", help="NAME=ARM+ARM: a way of learning, by its libraries.")
    ] = None,
    sentinels: Annotated[int, Parameter(help="Reused rollouts per arm made anew, to notice drift; 0: none.")] = 8,
    fresh: Annotated[bool, Parameter(negative="", help="Reuse no stored rollout.")] = False,
    retry_failed: Annotated[bool, Parameter(negative="", help="Make failed rollouts anew, in every arm.")] = False,
    allow_missing: Annotated[bool, Parameter(negative="", help="With --logs: compare on the tasks all share.")] = False,
    judge: Annotated[
        str | None, Parameter(help="Endpoint of a reward that asks a model. [default: the baseline's model]")
    ] = None,
    sandbox: Annotated[str | None, Parameter(help="Where code of the model runs. [default: zygote, isolated]")] = None,
    max_cost_usd: Annotated[float | None, Parameter(help="Stop at this cost.")] = None,
    max_tokens: Annotated[int | None, Parameter(help="Stop at this many tokens.")] = None,
    max_minutes: Annotated[float | None, Parameter(help="Stop after this time.")] = None,
    otel: Annotated[bool, Parameter(negative="", help="Send traces by OpenTelemetry (extra otel).")] = False,
    store: Annotated[Path, Parameter(help="Directory of everything kept.")] = DEFAULT_STORE,
    out: Annotated[
        list[Path] | None,
        Parameter(
            negative="",
            help="Also write rollouts (.csv, .parquet), the result (.html, .json), or reports (.pydantic-evals.json).",
        ),
    ] = None,
    fail_if: Annotated[
        Failing | None, Parameter(help="Exit with 1 when an arm is worse, or not better, than the baseline.")
    ] = None,
    dry_run: Annotated[bool, Parameter(negative="", help="Say what would be made and spent, and do nothing.")] = False,
    yes: Annotated[bool, Parameter(negative="", help="Spend without asking.")] = False,
    json: Annotated[bool, Parameter(negative="", help="Print one JSON object.")] = False,
    log: Annotated[str, Parameter(help="Level of events on stderr: debug, info, warning, error.")] = "warning",
) -> None:
    """Say with statistics which arm is better: libraries, models, instructions, or several of these."""
    show_logs(log)
    refuse_unknown(out or ())
    given = {
        "methods": tuple(method or ()),
        "domains": tuple(domain or ()),
        "data": data,
        "reward": reward,
        "tools": tools,
        "limit": limit,
        "k": k,
        "models": tuple(model or ()),
        "judge": judge,
        "temperature": temperature,
        "seed": seed,
        "concurrency": concurrency,
        "sandbox": sandbox,
        "margin": margin,
        "correction": correction,
        "planned_looks": looks,
        "sequential": sequential,
        "sentinels": sentinels,
        "fresh": fresh,
        "retry_failed": retry_failed,
        "max_cost_usd": max_cost_usd,
        "max_tokens": max_tokens,
        "max_minutes": max_minutes,
        "otel": otel,
        "store": store,
    }
    if logs:
        _refuse_beside_logs(given, dry_run=dry_run)
        from agentlearn_evals.log_comparison import compare_logs

        done = compare_logs(logs, arms, margin=margin, correction=correction, seed=seed, allow_missing=allow_missing)
    else:
        if allow_missing:
            raise ConfigError(
                "--allow-missing is for --logs; rollouts that are missing here are made, so leave it out",
                code="contradiction",
            )
        done = _run(
            given_settings(CompareSettings, {"arms": _some(arms), **given}), dry_run=dry_run, yes=yes, json=json
        )
        if done is None:
            return
    _tell(done, store=store, out=out or (), json=json)
    _fail(done.comparison, fail_if)


def _refuse_beside_logs(given: Mapping[str, object], *, dry_run: bool) -> None:
    """Raises ConfigError for what is said of rollouts that would be made, where those of logs are read."""
    fields = CompareSettings.model_fields
    said = [name for name, value in given.items() if name not in _OF_LOGS and value != fields[name].default]
    options = [f"--{_OPTIONS.get(name, name).replace('_', '-')}" for name in said] + ["--dry-run"] * dry_run
    if options:
        raise ConfigError(
            f"{', '.join(options)}: not with --logs, which compares rollouts that were made already; leave"
            f" {'it' if len(options) == 1 else 'them'} out",
            code="contradiction",
        )


def _some(arms: tuple[str, ...]) -> tuple[str, ...]:
    if not arms:
        raise ConfigError(
            "say what to compare, the baseline first, such as: agentlearn compare none math", code="no_arms"
        )
    return arms


def _run(settings: CompareSettings, *, dry_run: bool, yes: bool, json: bool) -> "Compared | None":
    """Make, or reuse, the rollouts. None where only the plan was to be shown."""
    from agentlearn_evals.plan import forecast, plan_comparison

    plan = plan_comparison(settings)
    out = console(to_stderr=json)
    expected = forecast(plan)
    if dry_run:
        if json:
            print_json(expected)
        for label, words in () if json else expected.lines():
            console().print(f"  {label.ljust(16)}{words}")
        return None
    if paid := expected.paid():
        words = f"{' and '.join(dict.fromkeys(paid))}: {expected.lines()[-1][1]}"
        allow(words, yes=yes or settings.max_cost_usd is not None, options="--yes or --max-cost-usd")
    return _watched(plan, CompareProgress(plan, out))


def _watched(plan: "ComparePlan", progress: CompareProgress) -> "Compared":
    from agentlearn_evals.comparing import compare_planned

    async def run() -> "Compared":
        with on_interrupt(progress.interrupt):
            return await compare_planned(plan, progress)

    with progress:
        try:
            return asyncio.run(run())
        except KeyboardInterrupt:
            if progress.call_context is not None:
                raise
            raise Interrupted("interrupted before the comparison began; nothing was done") from None


def _tell(done: "Compared", *, store: Path, out: Sequence[Path], json: bool) -> None:
    """The result, then the same as a page, always, and in the files that were asked for."""
    from agentlearn_evals.terminal import print_comparison
    from agentlearn_evals.write_results import write_all

    if json:
        print_json(done.comparison)
    else:
        print_comparison(done.comparison, console())
    page = write_all(done, store=store, out=out)
    if not json:
        console().print(f"  {'page'.ljust(10)}{page}")


def _fail(found: Comparison, fail_if: Failing | None) -> None:
    """Exit with 1 where the verdicts are such that a check is to fail."""
    verdicts = {one.arm: one.verdict for one in found.contrasts}
    match fail_if:
        case "worse":
            failing = [arm for arm, verdict in verdicts.items() if verdict == "worse"]
        case "not_better":
            failing = [arm for arm, verdict in verdicts.items() if verdict != "better"]
        case None:
            failing = []
    if failing and fail_if:
        raise AgentlearnError(
            f"{', '.join(failing)}: {fail_if.replace('_', ' ')} than {found.baseline}", code="check_failed"
        )


def power(
    *,
    effect: Annotated[float, Parameter(help="Difference that is to be found.")] = 0.05,
    baseline: Annotated[float, Parameter(help="Share of right rollouts without lessons.")] = 0.5,
    task_spread: Annotated[float, Parameter(help="Standard deviation of the tasks' own shares.")] = 0.3,
    difference_spread: Annotated[float, Parameter(help="Standard deviation of the tasks' true differences.")] = 0.1,
    like: Annotated[str | None, Parameter(help="Measure these in an earlier comparison: its run, or its JSON.")] = None,
    tasks: Annotated[int | None, Parameter(help="Tasks that there are.")] = None,
    k: Annotated[int | None, Parameter(name=["--k", "-k"], help="Rollouts per task and arm.")] = None,
    arms: Annotated[int, Parameter(help="Arms, the baseline among them.")] = 2,
    chance: Annotated[float, Parameter(help="Power: the chance to find the effect.")] = 0.8,
    alpha: Annotated[float, Parameter(help="The chance to find one where there is none.")] = 0.05,
    model: Annotated[str, Parameter(help="Endpoint whose price is meant.")] = SIMULATED_MODEL,
    store: Annotated[Path, Parameter(help="Directory of everything kept.")] = DEFAULT_STORE,
    json: Annotated[bool, Parameter(negative="", help="Print one JSON object.")] = False,
) -> None:
    """Say how many tasks and rollouts an effect takes, and what they cost, before anything is spent."""
    from agentlearn_evals.designing import PowerSettings, comparison_of
    from agentlearn_evals.designing import power as report_of
    from agentlearn_evals.terminal import print_power

    given = {
        "effect": effect,
        "baseline": baseline,
        "task_spread": task_spread,
        "difference_spread": difference_spread,
        "tasks": tasks,
        "k": k,
        "arms": arms,
        "power": chance,
        "alpha": alpha,
        "model": model,
    }
    report = report_of(given_settings(PowerSettings, given), None if like is None else comparison_of(like, store))
    if json:
        print_json(report)
    else:
        print_power(report, console())
