"""`compare`: an agent or a program of your own with different libraries or models, in one call."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from typing_extensions import Unpack

from agentlearn.config import given_settings
from agentlearn.domain.base import Domain
from agentlearn.domain.custom import CustomTasks
from agentlearn.domain.objects import Deps, Out, OutputTasks, Program, RewardGiven, TasksGiven
from agentlearn.domain.task_source import read_source, with_chosen_columns
from agentlearn.errors import AgentlearnError, ConfigError
from agentlearn.learning.callbacks import calling_both, wants_progress
from agentlearn.learning.subject import Subject, directory_of, named_model, subject_of
from agentlearn.learning.without_loop import in_python_words, without_loop
from agentlearn.library import LibraryStore
from agentlearn.library.store import GivenLibrary
from agentlearn.store import Store, read_store
from agentlearn.types.experience import Library
from agentlearn.types.ids import new_run_id
from agentlearn_evals.arms import ArmModels, arms_from
from agentlearn_evals.before_calls import check_models
from agentlearn_evals.compare_settings import CompareOptions, CompareSettings
from agentlearn_evals.comparing import compare_planned
from agentlearn_evals.comparison import Comparison
from agentlearn_evals.eval_tasks import EvalTasks, held_out_run, held_out_tasks, load_eval_tasks
from agentlearn_evals.plan import ONE_RUN, CompareGiven, checked_plan, refuse_contradictory_looks
from agentlearn_evals.progress import CompareCallbacks
from agentlearn_evals.write_results import write_all

if TYPE_CHECKING:
    from pydantic_ai.agent import AbstractAgent
    from pydantic_ai.models import Model

D = TypeVar("D")


@overload
async def compare(
    what: "AbstractAgent[D, Out]",
    tasks: TasksGiven | str | Path,
    *,
    arms: "Sequence[str | Library | Path] | Mapping[str, GivenLibrary | Model | None] | None" = None,
    reward: RewardGiven[Out] | None = None,
    model: "Model | str | Mapping[str, Model | str] | None" = None,
    judge: "Model | str | None" = None,
    deps: Deps[D] | None = None,
    answer_of: Callable[[Out], str | None] | None = None,
    k: int = 8,
    version: str | None = None,
    store: Store | Path | str | None = None,
    callbacks: CompareCallbacks | None = None,
    progress: bool | None = None,
    **options: Unpack[CompareOptions],
) -> Comparison: ...


@overload
async def compare(
    what: Program | Domain | str | Path,
    tasks: TasksGiven | str | Path | None = None,
    *,
    arms: "Sequence[str | Library | Path] | Mapping[str, GivenLibrary | Model | None] | None" = None,
    reward: RewardGiven[Any] | None = None,
    model: "Model | str | Mapping[str, Model | str] | None" = None,
    judge: "Model | str | None" = None,
    answer_of: Callable[[Any], str | None] | None = None,
    k: int = 8,
    version: str | None = None,
    store: Store | Path | str | None = None,
    callbacks: CompareCallbacks | None = None,
    progress: bool | None = None,
    **options: Unpack[CompareOptions],
) -> Comparison: ...


@in_python_words(CompareSettings)
async def compare(
    what: Any,
    tasks: Any = None,
    *,
    arms: Any = None,
    reward: Any = None,
    model: "Model | str | Mapping[str, Model | str] | None" = None,
    judge: "Model | str | None" = None,
    deps: Any = None,
    answer_of: Callable[[Any], str | None] | None = None,
    k: int = 8,
    version: str | None = None,
    store: Store | Path | str | None = None,
    callbacks: CompareCallbacks | None = None,
    progress: bool | None = None,
    **options: Unpack[CompareOptions],
) -> Comparison:
    """Compare libraries or models on the same tasks, and return the verdicts with the evidence.

    what: a pydantic-ai agent with any output type, deps and tools; a function `(task, lessons)` that returns an answer;
        a `Domain`; or a name as on the command line, such as `"math"` or `"tasks.csv"`.
    tasks: as for `learn`. None: the domain's own test tasks, or with `held_out_of=RUN` those that a run held out.
    arms: the baseline first. Texts as on the command line, such as `("none", "support")`, or a mapping from a name to
        a library, a reference, a file, lessons in words, a model, or None for no lessons. None: one arm per model.
    reward: as for `learn`.
    model: the model of the arms that name none, or a mapping from a label to a model; each such arm then runs on each.
        None: the agent's own.
    judge: the model that judges answers, for a reward that asks one. None: the baseline's.
    deps, answer_of: as for `learn`.
    k: rollouts per task and arm.
    version: your own name for this state of the agent, its deps and its reward, such as `"v3"`. Without it, no rollout
        of an earlier comparison is used again, because the code may have changed. With it, a later comparison with the
        same version makes only the rollouts that are missing. Change it with the code.
    callbacks: methods that are called as the comparison goes on.
    progress: whether to print on stderr what the command line prints. None: on a terminal, unless `callbacks` is given
        or this is not the main thread.
    store: directory of the store, or an open one. The page is written to `reports/RUN.html` in it.
    options: settings of `CompareSettings`, such as `seed`, `margin`, `max_cost_usd`.

    Raises ConfigError, LibraryError or DataError before anything is spent; BudgetExceeded, EndpointGone or Interrupted
    when the comparison was stopped; StoreError when results cannot be stored.
    """
    subject = subject_of(
        what,
        tasks,
        reward=reward,
        deps=deps,
        answer_of=answer_of,
        tools=options.get("tools", "none"),
        instructions=options.get("instructions"),
        only_instructions=options.get("only_instructions", False),
    )
    directory = directory_of(store)
    judged_by_own = not isinstance(reward, str | None) or not isinstance(what, str | Path)
    models = ArmModels.of(subject, model)
    temperature = options.get("temperature", CompareSettings.model_fields["temperature"].default)
    found, models_given = arms_from(arms, models, temperature, LibraryStore(directory / "libraries"))
    objects = dict(models_given)
    if judge is not None and not isinstance(judge, str):
        objects[named_model(judge)] = judge
    settings = given_settings(
        CompareSettings,
        {
            **options,
            "arms": tuple(f"{arm.name}={arm.reference},model={arm.model}" for arm in found),
            "domains": (str(what) if isinstance(what, str | Path) else subject.domain.name,),
            "data": subject.source if not isinstance(what, str | Path) or subject.source != str(what) else None,
            "models": tuple(models.names.values()),
            "judge": None if judge is None else named_model(judge),
            "reward": reward if isinstance(reward, str) else None,
            "k": k,
            "store": directory,
        },
    )
    refuse_contradictory_looks(settings)
    if settings.held_out_of is not None:
        task_sets: tuple[EvalTasks, ...] = (_held_out(subject, tasks, settings, store),)
    elif judged_by_own or (subject.source is None and tasks is not None):
        task_sets = (await _own_tasks(subject, tasks, settings),)
    else:
        task_sets = load_eval_tasks(settings, found)
    own = judged_by_own or bool(objects)
    given = CompareGiven(
        models=objects,
        store=store if isinstance(store, Store) else None,
        version=(version or f"{ONE_RUN}{new_run_id()}") if own else "",
    )
    plan = checked_plan(settings, found, task_sets, given)
    check_models(plan)
    if wants_progress(progress, callbacks):
        from agentlearn.cli.output import console
        from agentlearn_evals.progress import CompareProgress

        with CompareProgress(plan, console(to_stderr=True), python=True) as shown:
            both = calling_both(shown, callbacks, CompareCallbacks)
            done = await compare_planned(plan, both, refuse=True)
    else:
        done = await compare_planned(plan, callbacks, refuse=True)
    try:
        write_all(done, store=directory, reader=given.store)
    except AgentlearnError as error:
        notes = (*done.comparison.notes, f"the page is missing: {error.message}")
        return done.comparison.model_copy(update={"notes": notes})
    return done.comparison


compare_sync = without_loop(compare)


def _held_out(subject: Subject, tasks: Any, settings: CompareSettings, store: Any) -> EvalTasks:
    """Return the tasks that a run held out, judged as the program says."""
    assert settings.held_out_of is not None
    if tasks is not None:
        raise ConfigError(
            f"held_out_of={settings.held_out_of!r} names the tasks, and other tasks are given too; leave one of them"
            " out",
            code="contradiction",
        )
    domain = with_chosen_columns(subject.domain, settings)
    with nullcontext(store) if isinstance(store, Store) else read_store(settings.store) as reader:
        return held_out_tasks(held_out_run(settings.held_out_of, reader), reader, domain, settings)


async def _own_tasks(subject: Subject, tasks: Any, settings: CompareSettings) -> EvalTasks:
    """Return the tasks of an agent, a function, a domain object, or a source with a reward of the program's own."""
    domain = with_chosen_columns(subject.domain, settings)
    judged = domain.judged if isinstance(domain, OutputTasks) else domain
    judged_by = judged.reward.name if isinstance(judged, CustomTasks) else ""
    given = await subject.tasks(tasks, split="test", limit=settings.limit)
    note = ""
    if given is None and subject.source is not None:
        read = read_source(domain, subject.source, settings, split="test", limit=settings.limit)
        given, note = read.tasks, read.note
    elif given is None:
        given = tuple(domain.tasks("test", seed=settings.seed, limit=settings.limit))
    if not given:
        raise ConfigError(f"there is no task to compare {domain.name!r} on; give some", code="no_tasks")
    return EvalTasks(domain, given, judged_by, note)
