"""`agentlearn learn` and `agentlearn solve`."""

from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from agentlearn.cli.options import (
    DryRunOption,
    JsonOption,
    LogOption,
    NotifyOption,
    ResumeOption,
    YesOption,
    require_extras,
    setting_options,
)
from agentlearn.cli.output import console, plan_lines, print_json, print_result, show_logs
from agentlearn.config import (
    DEFAULT_STORE,
    LAB,
    LEARN_OPTION_NAMES,
    GivenSettings,
    LearnSettings,
    SolveSettings,
    default_model,
    given_settings,
    is_lab,
    is_source,
    learn_settings,
)
from agentlearn.config.defaults import command_words
from agentlearn.errors import ConfigError, RolloutError
from agentlearn.text import block
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
    from agentlearn.cli.options import ask_before_spending, require_model
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
    from agentlearn.cli.interrupt import run_to_end
    from agentlearn.cli.options import recording_words
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


@setting_options(SolveSettings, leave_out=("domain", "problem", "concurrency"), names={"start": "--url"})
def solve(
    domain: Annotated[
        str, Parameter(help="An installed domain, such as 'math', or your own agent or function as MODULE:NAME.")
    ],
    problem: Annotated[str, Parameter(help="The problem, in quotes.")],
    /,
    *,
    given: GivenSettings,
    reward: Annotated[str | None, Parameter(help="Judge the answer of your own agent: as in `learn`.")] = None,
    deps: Annotated[str | None, Parameter(help="What the tools of your own agent get: as in `learn`.")] = None,
    answer: Annotated[str | None, Parameter(help="The expected answer, to judge the agent's by.")] = None,
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """Solve one problem and show each step."""
    from agentlearn.cli.interrupt import run_async
    from agentlearn.cli.options import ask, recording_words
    from agentlearn.domain.base import load_domain
    from agentlearn.learning.lessons.run_learning import library_caution
    from agentlearn.learning.solve import SolveGiven, not_judged, run_solving
    from agentlearn.learning.subject import Subject, is_agent, named_agent, named_model
    from agentlearn.library import LibraryStore
    from agentlearn.models.endpoint import check_endpoint, is_paid, is_simulated
    from agentlearn.pages.rollouts import step_lines, verdict_words
    from agentlearn.types.task import Task

    fields = {"domain": domain, "problem": problem, **given.over()}
    if is_agent(domain):
        subject = named_agent(domain, reward=reward or not_judged, deps=deps)
        fields = {**fields, "domain": subject.domain.name}
        fields["model"] = named_model(subject.chosen_model(fields.get("model"), needed=False))
    else:
        for option, value in (("reward", reward), ("deps", deps)):
            if value is not None:
                raise ConfigError(
                    f"--{option} {value!r} is for your own agent, and {domain!r} is a domain; leave it out"
                )
        subject = Subject(load_domain(domain))
    settings = given_settings(SolveSettings, {"model": default_model(domain), **fields})
    model = subject.model_named(settings.model)
    require_extras((settings.model,), otel=settings.otel)
    if model is None:
        check_endpoint(settings.model, settings)
    if is_paid(settings.model, model):
        ask(f"{settings.model} may cost money (one rollout, a few thousand tokens)", yes=yes)
    task = Task.of(settings.domain, settings.problem, answer, source="solve", start=settings.start)
    found = SolveGiven(domain=subject.domain, task=task, model=model)
    trajectory = run_async(lambda: run_solving(settings, found))
    library = LibraryStore(settings.store / "libraries").load(settings.library)
    limits = _limits_note(settings.model, subject.domain.question(task))
    notes = [note for note in (library_caution(settings.library, library), limits) if note is not None]
    if json:
        print_json(trajectory)
        for note in notes:
            console(to_stderr=True).print(f"note: {note}")
    else:
        out = console()
        kind = " (a real but tiny transformer)" if is_lab(settings.model) else ""
        kind = " (simulated)" if is_simulated(settings.model) else kind
        out.print(f"model {settings.model}{kind} · library {settings.library}")
        for number, step in enumerate(trajectory.steps, start=1):
            for line in step_lines(number, step, full=False):
                out.print(line)
        out.print(block(trajectory.answer if trajectory.answer is not None else "none", "answer: "))
        if reward is not None or answer is not None:
            out.print(f"verdict: {verdict_words(trajectory)}")
        for one in (*notes, *trajectory.notes):
            out.print(f"note: {one}")
        out.print(f"rollout {trajectory.id}")
        if settings.record is not None:
            out.print(f"recorded: {recording_words(settings.record / trajectory.id)}")
    if trajectory.failure is not None:
        raise RolloutError(f"the rollout failed: {trajectory.failure.message}", code=trajectory.failure.code)


def _limits_note(model: str, question: str) -> str | None:
    """Return what to know about a shipped model's answer to a question; None for a model that does not ship."""
    from agentlearn.domain.demo import lab_models
    from agentlearn.models.endpoint import is_simulated

    if is_simulated(model):
        return f"{model} is simulated: it answers only problems that agentlearn itself generates"
    if not is_lab(model):
        return None
    lab = lab_models().get(model.removeprefix("local:").removeprefix(LAB))
    if lab is None:
        return f"{model} is a lab model: it answers only problems like those it was trained on"
    known = f"{model} knows only the {lab.families} families of problems that it was trained on"
    if lab.knows(question):
        return f"{known}; this is one of them, but its answer may still be wrong"
    return f"{known}, and this is none of them: its answer means nothing; choose another model with --model"
