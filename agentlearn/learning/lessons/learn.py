"""`learn`: lessons for an agent or a program of your own, in one call. The command line resolves to the same run."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import Unpack

from agentlearn.config import SIMULATED_MODEL, LearnSettings, default_model, learn_settings
from agentlearn.config.solve_options import LearnOptions
from agentlearn.domain.base import Domain
from agentlearn.domain.chosen_settings import with_chosen_columns
from agentlearn.domain.custom import CustomTasks
from agentlearn.domain.objects import D, Deps, Out, Program, RewardGiven, TasksGiven
from agentlearn.errors import ConfigError
from agentlearn.learning.callbacks import Callbacks, calling_both, wants_progress
from agentlearn.learning.lessons.run_learning import run_learning
from agentlearn.learning.report import LearnReport
from agentlearn.learning.resume import resumed_run
from agentlearn.learning.subject import Given, directory_of, named_model, subject_of
from agentlearn.learning.without_loop import in_python_words, without_loop
from agentlearn.library import LibraryStore
from agentlearn.library.store import GivenLibrary, library_from
from agentlearn.store import Store, read_store
from agentlearn.text import meant_or_known
from agentlearn.types.group import Groups

if TYPE_CHECKING:
    from pydantic_ai.agent import AbstractAgent
    from pydantic_ai.models import Model


@in_python_words(LearnSettings)
async def learn(
    what: "AbstractAgent[D, Out] | Program | Domain | Groups | str | Path",
    tasks: TasksGiven | Groups | str | Path | None = None,
    *,
    reward: RewardGiven[Out] | None = None,
    model: "Model | str | None" = None,
    reflector: "Model | str | None" = None,
    deps: Deps[D] | None = None,
    answer_of: Callable[[Out], str | None] | None = None,
    library: str | None = None,
    start: GivenLibrary | None = None,
    test: TasksGiven | str | Path | None = None,
    store: Store | Path | str | None = None,
    callbacks: Callbacks | None = None,
    progress: bool | None = None,
    resume: str | None = None,
    settings: LearnSettings | None = None,
    **options: Unpack[LearnOptions],
) -> LearnReport:
    """Learn lessons from rollouts, measure them on held-out tasks, publish them, and return the report.

    what: a pydantic-ai agent with any output type, deps and tools; a function `(task, lessons)` that returns an answer;
        a `Domain`; or a name as on the command line, such as `"math"` or `"tasks.csv"`.
    tasks: texts, pairs (problem, answer), mappings, objects, a data frame, an iterator, or a source: a file, `hf:NAME`,
        `gym:TASK`. None: the domain's own. `Groups` of a `Recorder`, here or in place of `what`, are rollouts that
        have been made already.
    reward: a function `(task, output)` or `(task, output, trajectory)`, async or not, that returns True, False, a
        number from 0 to 1, `(number, "why")` or a `Verdict`; or the name of a reward. "why" helps the lessons.
    model: name of the model that solves the tasks, or a model of pydantic-ai. None: the agent's own.
    reflector: the model that writes the lessons. None: `model`.
    deps: what the agent's tools get: a value, or a function from a `Task` to a value or a context manager.
    answer_of: returns the answer in an output as text. None: the output as text or JSON.
    library: name under which the lessons are published. None: the name of the agent, the function or the domain. If
        there is such a library, learning goes on from it.
    start: the lessons to start from, in place of those; `"none"` starts without them. Lessons that a person wrote into
        the library of that name stay in any case.
    test: held-out tasks. None: a share of `tasks` (`test_share`, 0.3).
    store: directory of the store, or an open one. None: AGENTLEARN_STORE, else `.agentlearn`.
    callbacks: methods that are called as the run goes on.
    progress: whether to print on stderr what the command line prints. None: on a terminal, unless `callbacks` is given
        or this is not the main thread.
    resume: id of an interrupted run of the same call; it goes on where it stopped.
    settings: settings in one object, for those that no other argument gives.
    options: settings of `LearnSettings`, such as `epochs`, `group_size`, `max_cost_usd`.

    Raises ConfigError or DataError before anything is spent; BudgetExceeded, EndpointGone or Interrupted when the run
    was stopped and can be resumed; StoreError when results can no longer be stored.
    """
    known = LearnOptions.__annotations__
    for name in options.keys() - known.keys():
        raise ConfigError(f"learn has no option {name!r}; {meant_or_known(name, known)}")
    base: dict[str, Any] = {} if settings is None else settings.model_dump(exclude_unset=True)
    if settings is not None and settings.model in (SIMULATED_MODEL, default_model(settings.domain)):
        base.pop("model", None)  # settings without a model have it by themselves; the agent's own goes before it
    groups = next((one for one in (what, tasks) if isinstance(one, Groups)), None)
    of_groups: dict[str, Any] = {} if groups is None else {"from_store": True, "epochs": 1}
    fields: dict[str, Any] = {**of_groups, **base, **options}
    for_sources = {name: fields[name] for name in ("tools", "instructions", "only_instructions") if name in fields}
    subject = subject_of(what, tasks, reward=reward, deps=deps, answer_of=answer_of, **for_sources)
    model, reflector = model or base.get("model"), reflector or base.get("reflector")
    if model is None and subject.domain.runs_itself:
        model = reflector  # the program calls models of its own: this is only a name for the record
    chosen = subject.chosen_model(model)
    directory = groups.store if groups is not None and store is None else directory_of(store or base.get("store"))
    names = {
        "domain": subject.domain.name,
        "store": directory,
        "model": named_model(chosen),
        "reflector": None if reflector is None else named_model(reflector),
        "name": library,
        "data": subject.source,
        "test_data": (str(test),) if isinstance(test, str | Path) else None,
        "library": start if isinstance(start, str) else None,
    }
    settings = learn_settings({**fields, **{name: value for name, value in names.items() if value is not None}})
    other_start = None if start is None or isinstance(start, str) else start
    given = Given(
        domain=with_chosen_columns(subject.domain, settings),
        train=await subject.tasks(tasks, limit=settings.limit),
        test=await subject.tasks(test, split="test"),
        groups=groups,
        model=None if isinstance(chosen, str) else chosen,
        reflector=None if isinstance(reflector, str) else reflector,
        store=store if isinstance(store, Store) else None,
        start=None if other_start is None else library_from(other_start, LibraryStore(directory / "libraries")),
    )
    by_name, own_reward = isinstance(what, str | Path), reward is not None and not isinstance(reward, str)
    objects = {"agent or program": not by_name, "reward": own_reward}
    objects |= {"tasks": given.train is not None, "model": given.model is not None}
    noted: dict[str, Any] = {"given": tuple(name for name, used in objects.items() if used)}
    if by_name and not own_reward and isinstance(subject.domain, CustomTasks):
        noted["reward"] = subject.domain.reward.name
    elif by_name and isinstance(reward, str):
        noted["reward"] = reward
    settings, run = settings.model_copy(update=noted), None
    if resume is not None:
        with nullcontext(store) if isinstance(store, Store) else read_store(directory) as reader:
            run = resumed_run(reader, resume, settings)
    if not wants_progress(progress, callbacks):
        return await run_learning(settings, callbacks, resume=run, given=given)
    from agentlearn.cli.progress import LearnProgress

    with LearnProgress.in_python(settings) as shown:
        return await run_learning(settings, calling_both(shown, callbacks, Callbacks), resume=run, given=given)


learn_sync = without_loop(learn)
