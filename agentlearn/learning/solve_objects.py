"""`solve`: one problem, solved by an agent or a program of your own, in one call."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import Unpack

from agentlearn.config import SolveSettings, given_settings
from agentlearn.config.solve_options import SolveOptions
from agentlearn.domain.base import Domain
from agentlearn.domain.objects import D, Deps, Out, Program, RewardGiven
from agentlearn.errors import DataError
from agentlearn.learning.subject import Subject, directory_of, named_model, subject_of
from agentlearn.learning.without_loop import in_python_words, without_loop
from agentlearn.library import LibraryStore
from agentlearn.library.store import GivenLibrary, library_from
from agentlearn.rollout.solve import Solved, SolveGiven, run_solving
from agentlearn.store import Store
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Verdict

if TYPE_CHECKING:
    from pydantic_ai.agent import AbstractAgent
    from pydantic_ai.models import Model

ProblemGiven = Task | str | Mapping[str, Any]
"""A task, its problem, or named values such as `problem`, `answer` and what a reward or the deps need."""


@in_python_words(SolveSettings)
async def solve(
    what: "AbstractAgent[D, Out] | Program | Domain | str",
    problem: ProblemGiven,
    *,
    library: GivenLibrary | None = None,
    reward: RewardGiven[Out] | None = None,
    model: "Model | str | None" = None,
    deps: Deps[D] | None = None,
    answer_of: Callable[[Out], str | None] | None = None,
    store: Store | Path | str | None = None,
    settings: SolveSettings | None = None,
    **options: Unpack[SolveOptions],
) -> Solved[Out]:
    """Solve one problem, store the rollout and return it. `failure` says what broke, if anything did.

    what: a pydantic-ai agent with any output type, deps and tools; a function `(task, lessons)` that returns an answer;
        a `Domain`; or the name of an installed domain, such as `"math"`.
    problem: a text, a mapping with `problem`, or a `Task`.
    library: lessons to show: a library, a reference such as `"support"`, a file, or lessons in words.
    reward: judges the output, as for `learn`. None: the output is not judged; a domain judges its own.
    model: name of the model, or a model of pydantic-ai. None: the agent's own.
    deps: what the agent's tools get: a value, or a function from a `Task` to a value or a context manager.
    answer_of: returns the answer in an output as text. None: the output as text or JSON.
    store: directory of the store, or an open one. None: AGENTLEARN_STORE, else `.agentlearn`.
    settings: settings in one object, for those that no other argument gives.
    options: settings of `SolveSettings`, such as `temperature`.

    The result has the whole output in `output`, and the answer in it as text in `answer`.

    Raises ConfigError, LibraryError or DataError before anything is spent, and StoreError.
    """
    judged = not_judged if reward is None and not isinstance(what, str | Domain) else reward
    subject = subject_of(what, reward=judged, deps=deps, answer_of=answer_of)
    base: dict[str, Any] = {} if settings is None else settings.model_dump(exclude_unset=True)
    chosen = subject.chosen_model(model or base.get("model"), needed=False)
    directory = directory_of(store or base.get("store"))
    library = base.get("library") if library is None else library
    lessons = library_from(library, LibraryStore(directory / "libraries"))
    task = await _task(subject, problem, options.get("start", base.get("start", "")))
    fields = {
        **base,
        **options,
        "domain": subject.domain.name,
        "problem": task.problem,
        "library": library if isinstance(library, str) else "none" if library is None else lessons.version,
        "model": named_model(chosen),
        "store": directory,
    }
    given = SolveGiven(
        domain=subject.domain,
        task=task,
        library=lessons,
        model=None if isinstance(chosen, str) else chosen,
        store=store if isinstance(store, Store) else None,
    )
    return await run_solving(given_settings(SolveSettings, fields), given)


solve_sync = without_loop(solve)


def not_judged(*_: object) -> Verdict:
    """Judge nothing."""
    return Verdict(status="undecided", reason="no reward was given")


async def _task(subject: Subject, problem: ProblemGiven, start: str) -> Task:
    """Return the problem as a task. Raises DataError."""
    if subject.own:
        tasks = await subject.tasks([problem])
        assert tasks
        return tasks[0]
    if isinstance(problem, Task):
        return problem
    named: Mapping[str, Any] = {"problem": problem} if isinstance(problem, str) else problem
    if unknown := sorted(set(named) - {"problem", "answer", "start"}):
        raise DataError(
            f"the domain {subject.domain.name!r} does not know {unknown[0]!r}; give problem, answer and start"
        )
    if not str(named.get("problem") or "").strip():
        raise DataError(f"{problem!r} has no problem; give a text")
    answer = named.get("answer")
    return Task.of(
        subject.domain.name,
        str(named["problem"]),
        None if answer is None else str(answer),
        source="solve",
        start=str(named.get("start") or start),
    )
