"""`agentlearn solve`."""

from typing import Annotated

from cyclopts import Parameter

from agentlearn.cli.ask import require_extras
from agentlearn.cli.options import GivenSettings, JsonOption, YesOption, setting_options
from agentlearn.cli.output import console, print_json
from agentlearn.config import LAB, SolveSettings, default_model, given_settings, is_lab
from agentlearn.errors import ConfigError, RolloutError
from agentlearn.text import block


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
    from agentlearn.cli.ask import ask, recording_words
    from agentlearn.cli.interrupt import run_async
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
