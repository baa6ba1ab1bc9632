"""The domain and the budget of a run, from its settings."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentlearn.config import BudgetOptions, LearnSettings, RunSettings, TaskOptions
from agentlearn.data.overlap import hold_out, overlaps
from agentlearn.domain.base import Domain, is_domain, load_domain
from agentlearn.domain.custom import custom_tasks
from agentlearn.domain.task_source import read_source, with_chosen_columns
from agentlearn.errors import ConfigError, DataError
from agentlearn.models.budget import Budget
from agentlearn.models.call_settings import AnswerLimit, CallSettings, call_settings, local_answer_limit
from agentlearn.store import Store
from agentlearn.types.ids import RunId
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Usage


def domain_of(settings: TaskOptions, *, imports_reward: bool = True) -> Domain:
    """Return the installed domain, with its reward of that name if one is given, or a domain for tasks from a file.

    imports_reward: False for a plan, which judges nothing: the module of a reward `module:function` does not run.
    Raises ConfigError.
    """
    return with_chosen_columns(_judging_domain(settings, imports_reward=imports_reward), settings)


def _judging_domain(settings: TaskOptions, *, imports_reward: bool) -> Domain:
    if settings.reward is None:
        return load_domain(settings.domain)
    if is_domain(settings.domain) and (domain := load_domain(settings.domain)).rewards:
        return domain.with_reward(settings.reward)
    return custom_tasks(
        settings.domain,
        settings.reward,
        tools=settings.tools,
        instructions=settings.instructions,
        only_instructions=settings.only_instructions,
        imports_reward=imports_reward,
    )


def service_settings(settings: LearnSettings) -> CallSettings:
    """Return what every request to the model contains. Without temperatures, the judge sends none either."""
    return call_settings(
        settings, temperature=settings.temperature is not None or settings.eval_temperature is not None
    )


def answer_limit_of(settings: LearnSettings, domain: Domain) -> AnswerLimit | None:
    """Return the default limit of the model's answers; None where the user set one or the service has its own."""
    if settings.max_output_tokens is not None:
        return None
    return local_answer_limit(settings.model, domain.rollout_shape(settings.data).turn_out)


def reflector_limit_of(settings: LearnSettings, domain: Domain) -> AnswerLimit | None:
    """Return the default limit of a reflector of its own; None where its service has one."""
    return local_answer_limit(settings.reflector_name, domain.rollout_shape(settings.data).turn_out)


def budget_of(settings: BudgetOptions, store: Store, resume: RunId | None) -> Budget:
    """Return the run's budget; of a resumed run, with what it spent before it was interrupted."""
    if resume is None:
        return Budget(settings)
    totals = store.stage_totals(resume)
    usage = Usage(
        requests=sum(one.calls for one in totals),
        tokens_in=sum(one.tokens_in for one in totals),
        tokens_cached=sum(one.tokens_cached for one in totals),
        tokens_out=sum(one.tokens_out for one in totals),
    )
    cost_usd, unpriced = sum(one.cost_usd for one in totals), sum(one.unpriced for one in totals)
    return Budget(settings, usage=usage, cost_usd=cost_usd, unpriced_calls=unpriced)


@dataclass(frozen=True, slots=True)
class TaskSets:
    """The tasks of a run; no task is in both sets."""

    train: tuple[Task, ...]
    """Tasks to learn from."""
    test: tuple[Task, ...]
    """Held-out tasks."""
    test_sets: tuple[tuple[str, tuple[Task, ...]], ...] = ()
    """Name and tasks of each test set that the user gave."""
    notes: tuple[str, ...] = ()
    """What was left out of the sources, and why."""
    validation: tuple[Task, ...] = ()
    """Tasks on which versions of the library are compared at the end; empty when they are not compared."""

    @property
    def validates_on_train(self) -> bool:
        """Whether versions are compared on the tasks learned from, because there are no others."""
        return bool(self.validation) and self.validation[0] in self.train

    @property
    def test_known(self) -> tuple[Task, ...]:
        """Held-out tasks of families that are learned from."""
        families = {task.family for task in self.train}
        return tuple(task for task in self.test if task.family in families)

    @property
    def test_unseen(self) -> tuple[Task, ...]:
        """Held-out tasks of other families."""
        families = {task.family for task in self.train}
        return tuple(task for task in self.test if task.family not in families)


@dataclass(frozen=True, slots=True)
class GivenTasks:
    """Tasks that a program gives to a run, in place of the sources that the settings name."""

    train: tuple[Task, ...] | None = None
    """Tasks to learn from, and to hold out a share of; None: those of the settings."""
    test: tuple[Task, ...] | None = None
    """Held-out tasks; None: those of the settings."""


def task_sets(settings: RunSettings, domain: Domain, given: GivenTasks = GivenTasks()) -> TaskSets:
    """Return the tasks of a run. Raises DataError (bad file, overlap) or ConfigError (no task to learn from)."""
    test: Sequence[Task] = ()
    test_sets: list[tuple[str, tuple[Task, ...]]] = []
    notes: list[str] = []
    if given.train is not None:
        train: Sequence[Task] = given.train
    elif settings.data is None:
        train = domain.tasks("train", seed=settings.seed, limit=settings.limit)
        if not settings.test_data and given.test is None:
            test = domain.tasks("test", seed=settings.seed)
    else:
        read = read_source(domain, settings.data, settings, split="train", limit=settings.limit)
        train = read.tasks
        notes.append(read.note)
    if given.test is not None:
        test = given.test
    elif settings.test_data:
        held = [read_source(domain, source, settings, split="test") for source in settings.test_data]
        test_sets = [(str(source), one.tasks) for source, one in zip(settings.test_data, held, strict=True)]
        test = _joined([tasks for _, tasks in test_sets])
        notes += [one.note for one in held]
    elif (settings.data is not None or given.train is not None) and settings.evaluate:
        train, test = hold_out(train, settings.test_share, domain.answer_key)
    if not train:
        raise ConfigError("there is no task to learn from; give more tasks or a smaller --test-share", code="no_tasks")
    _refuse_overlap(train, test, domain)
    kept = tuple(filter(None, notes))
    if not settings.evaluate:
        return TaskSets(tuple(train), (), notes=kept)
    return TaskSets(tuple(train), tuple(test), tuple(test_sets), kept)


def with_validation(sets: TaskSets, settings: LearnSettings, domain: Domain, *, own: bool) -> TaskSets:
    """Return the sets with the tasks on which versions are compared, if the settings ask for that.

    own: whether the tasks to learn from are the domain's own. If so, its validation tasks are used, without near-copies
    of the other two sets. Otherwise, or when it has none, the tasks learned from are used: those with an expected
    answer, if any has one.
    """
    if settings.pilot is not None or settings.select == "last" or not settings.validation_rollouts:
        return sets
    found = _validation_tasks(domain, settings.seed) if own else ()
    if {_origin(one) for one in sets.train} - {_origin(one) for one in found}:
        found = ()  # such as stored rollouts on tasks of a file
    copies = {one.id for one, _ in overlaps(found, (*sets.test, *sets.train), domain.answer_key)}
    kept = tuple(task for task in found if task.id not in copies)
    return replace(sets, validation=kept or tuple(one for one in sets.train if one.answer is not None) or sets.train)


def _origin(task: Task) -> str:
    """Where a task comes from: a file, a project, or `generated`."""
    return task.source.partition(":")[0]


def _validation_tasks(domain: Domain, seed: int) -> Sequence[Task]:
    try:
        return domain.tasks("validation", seed=seed)
    except ConfigError:  # it has no tasks of its own
        return ()


def _joined(sources: Sequence[Sequence[Task]]) -> Sequence[Task]:
    """Return the tasks of several sources, each once."""
    return tuple({task.id: task for source in reversed(sources) for task in reversed(source)}.values())[::-1]


def _refuse_overlap(train: Sequence[Task], test: Sequence[Task], domain: Domain) -> None:
    for learned, held in overlaps(train, test, domain.answer_key):
        raise DataError(
            f"the held-out task {held.source or held.id!r} is equal or almost equal to a task to learn from"
            f" ({learned.source or learned.id!r}); remove one of the two",
            code="overlap",
        )
