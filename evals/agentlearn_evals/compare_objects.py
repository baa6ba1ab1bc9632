"""`compare`: an agent or a program of your own with different libraries or models, in one call."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from typing_extensions import Unpack

from agentlearn.config import given_settings
from agentlearn.domain.base import Domain
from agentlearn.domain.objects import D, Deps, Out, Program, RewardGiven, TasksGiven
from agentlearn.errors import AgentlearnError
from agentlearn.learning.callbacks import calling_both, wants_progress
from agentlearn.learning.subject import directory_of, named_model, subject_of
from agentlearn.learning.without_loop import in_python_words, without_loop
from agentlearn.library import LibraryStore
from agentlearn.library.store import GivenLibrary
from agentlearn.store import Store, read_store
from agentlearn.types.experience import Library
from agentlearn.types.ids import new_run_id
from agentlearn_evals.arms import ArmReader, learned_names
from agentlearn_evals.compare_settings import CompareOptions, CompareSettings
from agentlearn_evals.comparing import compare_planned
from agentlearn_evals.comparison import Comparison
from agentlearn_evals.eval_tasks import EvalTasks, HeldOutTasks
from agentlearn_evals.plan import ONE_RUN, CompareGiven, ComparePlan
from agentlearn_evals.terminal import CompareCallbacks
from agentlearn_evals.write_results import write_all

if TYPE_CHECKING:
    from pydantic_ai.agent import AbstractAgent
    from pydantic_ai.models import Model


@in_python_words(CompareSettings)
async def compare(
    what: "AbstractAgent[D, Out] | Program | Domain | str | Path",
    tasks: TasksGiven | str | Path | None = None,
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
    directory, by_name = directory_of(store), isinstance(what, str | Path)
    temperature = options.get("temperature", CompareSettings.model_fields["temperature"].default)
    arm_reader = ArmReader.of(subject, model, temperature, LibraryStore(directory / "libraries"))
    found = arm_reader.arms(arms)
    if judge is not None and not isinstance(judge, str):
        arm_reader.objects[named_model(judge)] = judge
    settings = given_settings(
        CompareSettings,
        {
            **options,
            "arms": tuple(f"{arm.name}={arm.reference},model={arm.model}" for arm in found),
            "domains": (str(what) if by_name else subject.domain.name,),
            "data": None if by_name and subject.source == str(what) else subject.source,
            "models": tuple(name for _, name in arm_reader.models),
            "judge": None if judge is None else named_model(judge),
            "reward": reward if isinstance(reward, str) else None,
            "k": k,
            "store": directory,
        },
    )
    if settings.held_out_of is None:
        given_tasks = await subject.tasks(tasks, split="test", limit=settings.limit)
        task_set = EvalTasks.of(subject, settings, given_tasks)
    else:
        with nullcontext(store) if isinstance(store, Store) else read_store(settings.store) as reader:
            compared = learned_names(found, arm_reader.libraries)
            held_out = HeldOutTasks(settings, reader, compared, others=tasks is not None)
            task_set = held_out.tasks(subject, settings)
    own_judge = not isinstance(reward, str | None) or not by_name
    own_version = (version or f"{ONE_RUN}{new_run_id()}") if own_judge or arm_reader.objects else ""
    opened = store if isinstance(store, Store) else None
    given = CompareGiven(models=arm_reader.objects, store=opened, version=own_version)
    plan = ComparePlan.checked(settings, found, (task_set,), given)
    plan.check_models()
    if wants_progress(progress, callbacks):
        from agentlearn.cli.output import console
        from agentlearn_evals.terminal import CompareProgress

        with CompareProgress(plan, console(to_stderr=True), python=True) as shown:
            done = await compare_planned(plan, calling_both(shown, callbacks, CompareCallbacks), refuse=True)
    else:
        done = await compare_planned(plan, callbacks, refuse=True)
    try:
        write_all(done, store=directory, reader=opened)
    except AgentlearnError as error:
        notes = (*done.comparison.notes, f"the page is missing: {error.message}")
        return done.comparison.model_copy(update={"notes": notes})
    return done.comparison


compare_sync = without_loop(compare)
