"""`agentlearn learn`."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from agentlearn.cli.ask import spend_or_stop
from agentlearn.cli.interrupt import on_interrupt
from agentlearn.cli.output import console, print_json, show_logs
from agentlearn.cli.progress import LearnProgress
from agentlearn.config import (
    DEFAULT_STORE,
    ONLINE,
    TASK_FILES,
    LearnSettings,
    default_recipe,
    learn_settings,
    packaged_recipe,
    read_recipe,
)
from agentlearn.errors import ConfigError, Interrupted
from agentlearn.learn.report import LearnReport
from agentlearn.types.ids import RunId


def learn(
    what: Annotated[
        str | None,
        Parameter(help="A domain (math), a recipe (.yaml, math/published), a task file with --reward, or gym:TASK."),
    ] = None,
    /,
    *,
    model: Annotated[
        str | None,
        Parameter(help="Endpoint of the rollouts. [default: the domain's lab model, else sim:novice, simulated]"),
    ] = None,
    reflector: Annotated[str | None, Parameter(help="Endpoint of the stages. [default: the model]")] = None,
    data: Annotated[str | None, Parameter(help="Tasks to learn from: a file, hf:NAME or gym:TASK.")] = None,
    test_data: Annotated[
        list[str] | None, Parameter(negative="", help="Held-out tasks, likewise; may be repeated.")
    ] = None,
    reward: Annotated[
        str | None,
        Parameter(
            help="For a task file: exact, number, choice, contains, judge, or module:function; gym for gym:TASK."
        ),
    ] = None,
    tools: Annotated[Literal["none", "python"] | None, Parameter(help="For a task file. [default: none]")] = None,
    test_share: Annotated[float | None, Parameter(help="Share of --data held out. [default: 0.3]")] = None,
    limit: Annotated[int | None, Parameter(help="Tasks read at most.")] = None,
    library: Annotated[str | None, Parameter(name="--from", help="Library to start from. [default: none]")] = None,
    name: Annotated[str | None, Parameter(help="Name of the resulting library. [default: the domain's]")] = None,
    epochs: Annotated[int | None, Parameter(help="Passes over the tasks. [default: 3]")] = None,
    batch_size: Annotated[int | None, Parameter(help="Tasks per update of the library. [default: 20]")] = None,
    group_size: Annotated[int | None, Parameter(help="Rollouts per task, G. [default: 5]")] = None,
    temperature: Annotated[float | None, Parameter(help="Sampling temperature of rollouts. [default: 0.7]")] = None,
    labels: Annotated[
        Literal["gold", "none"] | None, Parameter(help="none: learn by majority. [default: gold]")
    ] = None,
    seed: Annotated[int | None, Parameter(help="Seed of everything that is drawn. [default: 0]")] = None,
    concurrency: Annotated[int | None, Parameter(help="Model calls in flight at once. [default: 32]")] = None,
    eval_rollouts: Annotated[int | None, Parameter(help="Rollouts per held-out task. [default: 4]")] = None,
    eval_every: Annotated[
        int | None, Parameter(help="Measure after every so many updates too. [default: 0, before and after alone]")
    ] = None,
    no_eval: Annotated[bool, Parameter(negative="", help="Do not measure on held-out tasks.")] = False,
    max_staleness: Annotated[
        int | None, Parameter(help="1: begin a batch while the one before is still learned from. [default: 0]")
    ] = None,
    sandbox: Annotated[str | None, Parameter(help="Where code of the model runs. [default: zygote, isolated]")] = None,
    max_cost_usd: Annotated[float | None, Parameter(help="Stop at this cost.")] = None,
    max_tokens: Annotated[int | None, Parameter(help="Stop at this many tokens.")] = None,
    max_minutes: Annotated[float | None, Parameter(help="Stop after this time.")] = None,
    pilot: Annotated[
        int | None, Parameter(help="Try this many tasks once, and say what the whole run would cost.")
    ] = None,
    from_store: Annotated[
        bool, Parameter(negative="", help="Learn from rollouts that the store holds; make none to learn from.")
    ] = False,
    from_run: Annotated[str | None, Parameter(help="With --from-store: those of this run.")] = None,
    from_phase: Annotated[str | None, Parameter(help="With --from-store: those of this phase.")] = None,
    min_rollouts: Annotated[
        int | None, Parameter(help="With --from-store: rollouts that a task needs. [default: 2]")
    ] = None,
    resume: Annotated[str | None, Parameter(help="Go on with an interrupted run, by its id.")] = None,
    otel: Annotated[bool, Parameter(negative="", help="Send traces by OpenTelemetry (extra otel).")] = False,
    store: Annotated[Path | None, Parameter(help="Directory of everything kept. [default: .agentlearn]")] = None,
    dry_run: Annotated[bool, Parameter(negative="", help="Say what would be done and spent, and do nothing.")] = False,
    yes: Annotated[bool, Parameter(negative="", help="Spend without asking.")] = False,
    json: Annotated[bool, Parameter(negative="", help="Print one JSON object.")] = False,
    log: Annotated[str, Parameter(help="Level of events on stderr: debug, info, warning, error.")] = "warning",
) -> None:
    """Learn lessons from rollouts and measure what they are worth on held-out tasks."""
    given = {
        "model": model,
        "reflector": reflector,
        "data": data,
        "test_data": test_data,
        "reward": reward,
        "tools": tools,
        "test_share": test_share,
        "limit": limit,
        "library": library,
        "name": name,
        "epochs": epochs,
        "batch_size": batch_size,
        "group_size": group_size,
        "temperature": temperature,
        "labels": labels,
        "seed": seed,
        "concurrency": concurrency,
        "eval_rollouts": eval_rollouts,
        "eval_every": eval_every,
        "evaluate": False if no_eval else None,
        "max_staleness": max_staleness,
        "sandbox": sandbox,
        "max_cost_usd": max_cost_usd,
        "max_tokens": max_tokens,
        "max_minutes": max_minutes,
        "pilot": pilot,
        "from_store": from_store or None,
        "from_run": from_run,
        "from_phase": from_phase,
        "min_rollouts": min_rollouts,
        "otel": otel or None,
        "store": store,
    }
    settings, run = _settings(what, resume, {key: value for key, value in given.items() if value is not None})
    show_logs(log)
    if dry_run and settings.from_store:
        raise ConfigError("a dry run does not look into logs; leave out --dry-run", code="contradiction")
    if dry_run:
        _show_plan(settings, json=json)
        return
    spend_or_stop(settings, yes=yes)
    report = _run(settings, LearnProgress(settings, console(to_stderr=json)), run)
    if json:
        print_json(report)


def _settings(what: str | None, resume: str | None, given: Mapping[str, Any]) -> tuple[LearnSettings, RunId | None]:
    """The settings of a new run, or of the one that is resumed, and its id."""
    if resume is not None:
        from agentlearn.learn.resume import settings_of

        if what is not None:
            raise ConfigError(
                f"--resume goes on with what run {resume!r} was begun with; leave out {what!r}", code="fixed_setting"
            )
        run, settings = settings_of(resume, given.get("store", DEFAULT_STORE), given)
        return settings, run
    if what is None:
        raise ConfigError(
            "say what to learn: a domain (agentlearn learn math), a recipe, or a task file with --reward",
            code="no_task",
        )
    return learn_settings(_fields(what, given)), None


def _fields(what: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe's fields under the options that were given."""
    path = packaged_recipe(what) or Path(what)
    if path.suffix in {".yaml", ".yml"}:
        fields = read_recipe(path)
    elif path.suffix.lower() in TASK_FILES or what.startswith(ONLINE):
        fields = _own(what, given)
    else:
        usual = None if "from_store" in given else default_recipe(what)
        fields: dict[str, Any] = {**(read_recipe(usual) if usual else {}), "domain": what}
    if "from_store" in given:
        fields.setdefault("epochs", 1)  # the same rollouts again teach little
    return fields | dict(given)


def _show_plan(settings: LearnSettings, *, json: bool) -> None:
    from agentlearn.learn.estimate import plan
    from agentlearn.learn.open_run import domain_of

    planned = plan(settings, domain_of(settings))
    if json:
        print_json(planned)
        return
    out = console()
    for label, words in planned.lines():
        out.print(f"  {label.ljust(16)}{words}")


def _own(source: str, given: Mapping[str, Any]) -> dict[str, Any]:
    from agentlearn.domain.custom import default_reward, name_for

    reward = given.get("reward") or default_reward(source)
    if reward is None:
        raise ConfigError(
            f"say how answers in {source!r} are judged: --reward exact, number, choice, contains, judge or"
            f" module:function; or name the domain that judges them: agentlearn learn math --data {source}",
            code="no_reward",
        )
    return {"domain": given.get("name") or name_for(source), "data": source, "reward": reward}


def _run(settings: LearnSettings, progress: LearnProgress, resume: RunId | None) -> LearnReport:
    from agentlearn.learn.lessons.run import run_learning

    async def run() -> LearnReport:
        with on_interrupt(progress.interrupt):
            return await run_learning(settings, progress, resume=resume)

    with progress:
        try:
            return asyncio.run(run())
        except KeyboardInterrupt:
            if progress.call_context is not None:
                raise
            raise Interrupted("interrupted before the run began; nothing was done") from None
