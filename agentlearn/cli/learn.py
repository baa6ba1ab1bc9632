"""`agentlearn learn`."""

from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from agentlearn.cli.ask import require_extras
from agentlearn.cli.options import (
    DryRunOption,
    JsonOption,
    LogOption,
    NotifyOption,
    ResumeOption,
    YesOption,
    setting_options,
)
from agentlearn.cli.output import console, plan_lines, print_json, print_result, show_logs
from agentlearn.config import DEFAULT_STORE, LEARN_OPTION_NAMES, GivenSettings, LearnSettings, is_source, learn_settings
from agentlearn.config.command_words import command_words
from agentlearn.errors import ConfigError
from agentlearn.types.ids import RunId

if TYPE_CHECKING:
    from rich.console import Console

    from agentlearn.cli.progress import LearnProgress
    from agentlearn.learning.report import LearnReport
    from agentlearn.live.sessions import SessionsRead

SESSIONS = "sessions"
"""What `learn` is given to read sessions of coding agents."""


@setting_options(
    LearnSettings, leave_out=("domain", "agent"), names=LEARN_OPTION_NAMES | {"library": ("--from", "--start")}
)
def learn(
    what: Annotated[
        str | None,
        Parameter(
            help="A domain (math), a recipe (.yaml, math/published), a task file with --reward, gym:TASK, sessions, or"
            " your own agent or function as MODULE:NAME with tasks and --reward."
        ),
    ] = None,
    tasks: Annotated[
        str | None,
        Parameter(
            help="The tasks of your own agent: a file, hf:NAME, gym:TASK, or MODULE:NAME of a list of tasks or of a"
            " function that returns one."
        ),
    ] = None,
    /,
    *,
    given: GivenSettings,
    resume: ResumeOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    notify: NotifyOption = None,
    json: JsonOption = False,
    log: LogOption = "warning",
) -> None:
    """Learn lessons from rollouts and measure them on held-out tasks."""
    folder = None
    if what == SESSIONS and resume is None and "from_store" not in given:
        folder, given = _folder_of_sessions(given)
    settings, run, fields = _settings(what, tasks, resume, given)
    show_logs(log)
    from agentlearn.cli.ask import ask_before_spending, require_model
    from agentlearn.cli.progress import learn_command

    if run is None:
        require_model(settings, fields, learn_command(settings), imports_reward=not dry_run)
    if dry_run:
        _show_plan(settings, folder, json=json)
        return
    from agentlearn.cli.review import notifying
    from agentlearn.learning.lessons.run_learning import run_learning

    require_extras(settings.endpoints, otel=settings.otel)
    if folder is not None:
        _announce_sessions(folder, fields)
    ask_before_spending(settings, yes=yes)
    read: list[SessionsRead] = []

    def begin(progress: "LearnProgress") -> "Coroutine[Any, Any, LearnReport]":
        def told(found: "SessionsRead") -> None:
            read.append(found)
            for line in found.lines():
                progress.line("read", line)

        if folder is not None:
            from agentlearn.live.sessions import learn_sessions

            return learn_sessions(folder, settings, progress, told=told)
        return run_learning(settings, progress, resume=run)

    with notifying(notify, settings.store):
        report, page = learn_shown(settings, console(to_stderr=json), begin)
    if json:
        sessions = {"sessions": read[0].model_dump(mode="json")} if read else {}
        print_json({**report.model_dump(mode="json"), "page": None if page is None else str(page), **sessions})


def learn_shown(
    settings: LearnSettings, out: "Console", begin: "Callable[[LearnProgress], Coroutine[Any, Any, LearnReport]]"
) -> "tuple[LearnReport, Path | None]":
    """Run learning with its progress shown, and write its page. The page is None where it cannot be written."""
    from agentlearn.cli.ask import recording_words
    from agentlearn.cli.interrupt import run_to_end
    from agentlearn.cli.progress import LearnProgress
    from agentlearn.pages.learn_page import page_at_the_end

    progress = LearnProgress(settings, out)
    report = run_to_end(lambda: begin(progress), progress)
    page, problem = page_at_the_end(settings.store, report.run)
    progress.line(*(("note", problem) if page is None else ("report", str(page))))
    progress.line("view", command_words("view", report.run, store=settings.store))
    if settings.record is not None:
        progress.line("recorded", recording_words(settings.record))
    return report, page


def _folder_of_sessions(given: GivenSettings) -> tuple[Path, GivenSettings]:
    """The folder that `learn sessions --from DIR` names, and the settings of the run that learns from its sessions."""
    options = dict(given.options)
    folder = options.pop("library", None)
    if folder is None:
        raise ConfigError(
            "say where the sessions are: agentlearn learn sessions --from ~/.claude/projects, or --from-store to learn"
            " again from those that were read before"
        )
    return Path(str(folder)).expanduser(), GivenSettings({**options, "from_store": True}, given.environment)


def _announce_sessions(folder: Path, fields: Mapping[str, Any]) -> None:
    """Print how many questions come before the lessons. Raises ConfigError without a model, or without a session."""
    from agentlearn.live.sessions import survey
    from agentlearn.text.printing import print_line

    if "model" not in fields and "reflector" not in fields:
        raise ConfigError(
            f"no model is named that reads the sessions and writes lessons; name one: agentlearn learn sessions --from"
            f" {folder} --model openai:gpt-5-mini; --dry-run shows what the folder holds without a model"
        )
    found = survey(folder)
    print_line(f"{found.questions} questions about {found.attempts} attempts come before the lessons", to_stderr=True)


def _settings(
    what: str | None, tasks: str | None, resume: str | None, given: GivenSettings
) -> tuple[LearnSettings, RunId | None, Mapping[str, Any]]:
    """The settings of a new run, and the fields that were given.

    With `resume`, the settings and the id of the interrupted run, and no fields.
    """
    if resume is not None:
        from agentlearn.learning.open_run import keep_credentials, settings_of

        if what is not None:
            raise ConfigError(
                f"--resume continues run {resume!r} with the settings it was started with; leave out {what!r}"
            )
        keep_credentials(given.environment)
        run, settings = settings_of(resume, Path(given.get("store", DEFAULT_STORE)), given.options)
        return settings, run, {}
    if what is None:
        raise ConfigError("say what to learn: a domain (agentlearn learn math), a recipe, or a task file with --reward")
    from agentlearn.domain.chosen_settings import learn_fields
    from agentlearn.learning.subject import agent_fields, is_agent

    if tasks is not None and (is_source(what) or "data" in given.options):
        other = given.get("data", what)
        raise ConfigError(f"the tasks are given twice, as {tasks!r} and {other!r}; leave one of them out")
    if tasks is not None:
        given = GivenSettings({**given.options, "data": tasks}, given.environment)
    fields = {**given.over(), "agent": what} if is_agent(what) else learn_fields(what, given)
    if fields.get("agent") is not None:
        if not is_agent(what):
            raise ConfigError(
                f"the recipe {what!r} names the agent {fields['agent']!r}, and recipes run no code; name it as in:"
                f" agentlearn learn {fields['agent']} FILE"
            )
        if fields.get("data") is None and "from_store" not in fields:
            raise ConfigError(
                f"say which tasks {what!r} learns from: agentlearn learn {what} FILE, or MODULE:NAME of a list"
            )
        fields = agent_fields(fields)
    return learn_settings(fields), None, fields


def _show_plan(settings: LearnSettings, folder: Path | None, *, json: bool) -> None:
    """Print what the run will do. folder: of sessions to learn from, which are only counted; None: none."""
    from agentlearn.learning.open_run import domain_of
    from agentlearn.learning.plan import plan

    if folder is not None:
        from agentlearn.live.sessions import survey

        found = survey(folder)
        questions = f"questions to a model: {found.questions}, before lessons are written"
        print_result(found, (*found.lines(), questions), json=json)
        return
    if settings.from_store:
        raise ConfigError("a dry run cannot estimate a run over stored rollouts; leave out --dry-run")
    planned = plan(settings, domain_of(settings, imports_reward=False))
    print_result(planned, plan_lines(planned.lines()), json=json)
