"""What a run begins with, from its settings: the domain, the tasks and the budget; or the run that it goes on with.

How many tasks a run has is known before it is opened. Of an interrupted run, it is known which one it is, the settings
it was started with, and the rollouts it finished.
"""

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Self

from pydantic import ValidationError

from agentlearn.config import (
    ONLINE,
    BudgetOptions,
    LearnSettings,
    OptionGroup,
    OwnAgentOptions,
    RunSettings,
    TaskOptions,
    learn_settings,
)
from agentlearn.config.endpoint_address import credentials_of, endpoint_name, same_model
from agentlearn.data.gym import GYM, parse_gym
from agentlearn.data.hub import HUB, published
from agentlearn.data.overlap import hold_out, overlaps
from agentlearn.domain.base import Domain, is_domain, load_domain
from agentlearn.domain.chosen_settings import read_source, with_chosen_columns
from agentlearn.domain.custom import custom_tasks
from agentlearn.errors import AllFailed, ConfigError, DataError, StoreMissing
from agentlearn.learning.subject import agent_of
from agentlearn.library.audit import Leaks
from agentlearn.models.budget import Budget
from agentlearn.store import Store, StoreReader, read_store
from agentlearn.store.queries import RunRow
from agentlearn.text import short_repr
from agentlearn.types.experience import estimated_tokens
from agentlearn.types.ids import RunId, TaskId, derive_seed
from agentlearn.types.run_event import RunKind
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory, Usage
from agentlearn.types.value import Value


def domain_of(settings: TaskOptions, *, imports_reward: bool = True) -> Domain:
    """Return the installed domain, with its reward of that name if one is given, a domain for tasks from a file, or
    that of the user's own agent, whose module is always imported.

    imports_reward: False for a plan, which judges nothing: the module of a reward `module:function` does not run.
    Raises ConfigError.
    """
    if isinstance(settings, OwnAgentOptions) and (subject := agent_of(settings, settings.data)):
        return with_chosen_columns(subject.domain, settings)
    if settings.reward is None:
        return with_chosen_columns(load_domain(settings.domain), settings)
    if is_domain(settings.domain) and (domain := load_domain(settings.domain)).rewards:
        return with_chosen_columns(domain.with_reward(settings.reward), settings)
    domain = custom_tasks(
        settings.domain,
        settings.reward,
        tools=settings.tools,
        instructions=settings.instructions,
        only_instructions=settings.only_instructions,
        imports_reward=imports_reward,
    )
    return with_chosen_columns(domain, settings)


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

    def sample(self, count: int, seed: int) -> "TaskSets":
        """Return at most `count` tasks to learn from, drawn by the run's seed, and no held-out tasks."""
        drawn = Random(derive_seed("pilot", seed)).sample(self.train, min(count, len(self.train)))
        return TaskSets(tuple(drawn), (), notes=self.notes)

    def counted(self, given_away: Leaks) -> "TaskSets":
        """Return the sets without the held-out tasks that lessons give away, and with a note on them."""
        if not given_away.lessons:
            return self
        tests = tuple((name, given_away.kept(tasks)) for name, tasks in self.test_sets)
        notes = (*self.notes, f"held-out tasks: {given_away.sentence}")
        return replace(self, test=given_away.kept(self.test), test_sets=tests, notes=notes)

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


def local_sets(settings: RunSettings, domain: Domain) -> TaskSets | None:
    """Return the tasks of a run whose sources are on this machine; None where they would be downloaded."""
    sources = [one for one in (settings.data, *settings.test_data) if one is not None]
    return None if any(source.startswith(ONLINE) for source in sources) else task_sets(settings, domain)


def task_sets(
    settings: RunSettings,
    domain: Domain,
    *,
    train: Sequence[Task] | None = None,
    test: Sequence[Task] | None = None,
) -> TaskSets:
    """Return the tasks of a run. Raises DataError (bad file, overlap) or ConfigError (no task to learn from).

    train, test: tasks that a program gave, in place of the sources that the settings name.
    """
    test_sets: list[tuple[str, tuple[Task, ...]]] = []
    notes: list[str] = []
    own = settings.data is None and train is None
    if train is None and settings.data is not None:
        read = read_source(domain, settings.data, settings, split="train", limit=settings.limit)
        train = read.tasks
        notes.append(read.note)
    elif train is None:
        train = domain.tasks("train", seed=settings.seed, limit=settings.limit)
    if test is None and settings.test_data:
        held = [read_source(domain, source, settings, split="test") for source in settings.test_data]
        test_sets = [(str(source), one.tasks) for source, one in zip(settings.test_data, held, strict=True)]
        every = [task for _, tasks in test_sets for task in tasks]  # each once
        test = tuple({task.id: task for task in reversed(every)}.values())[::-1]
        notes += [one.note for one in held]
    elif test is None and own:
        test = domain.tasks("test", seed=settings.seed)
    elif test is None and settings.evaluate:
        train, test = hold_out(train, settings.test_share, domain.answer_key)
    if not train:
        raise ConfigError("there is no task to learn from; give more tasks or a smaller --test-share")
    for learned, copy in overlaps(train, test or (), domain.answer_key):
        raise DataError(
            f"the held-out task {copy.source or copy.id!r} is equal or almost equal to a task to learn from"
            f" ({learned.source or learned.id!r}); remove one of the two"
        )
    kept = tuple(filter(None, notes))
    if not settings.evaluate:
        return TaskSets(tuple(train), (), notes=kept)
    return TaskSets(tuple(train), tuple(test or ()), tuple(test_sets), kept)


def with_validation(sets: TaskSets, settings: LearnSettings, domain: Domain, *, own: bool) -> TaskSets:
    """Return the sets with the tasks on which versions are compared, if the settings ask for that.

    own: whether the tasks to learn from are the domain's own. If so, its validation tasks are used, without near-copies
    of the other two sets. Otherwise, or when it has none, the tasks learned from are used: those with an expected
    answer, if any has one.
    """
    if settings.pilot is not None or settings.select == "last" or not settings.validation_rollouts:
        return sets
    found: Sequence[Task] = ()
    if own:
        with suppress(ConfigError):  # it has no tasks of its own
            found = domain.tasks("validation", seed=settings.seed)
    origins = [{one.source.partition(":")[0] for one in tasks} for tasks in (sets.train, found)]
    if origins[0] - origins[1]:
        found = ()  # such as stored rollouts on tasks of a file
    copies = {one.id for one, _ in overlaps(found, (*sets.test, *sets.train), domain.answer_key)}
    kept = tuple(task for task in found if task.id not in copies)
    return replace(sets, validation=kept or tuple(one for one in sets.train if one.answer is not None) or sets.train)


USUAL_TASKS = 60
"""Usual number of tasks to learn from, and of held-out tasks, of a domain."""


class TaskSize(Value):
    """Mean size of tasks, for estimates."""

    problem: int = 0
    """Tokens of a problem."""
    replies: float = 0.0
    """Messages of the user after the problem: those of a script, or half of the most that a model may write."""
    played: float = 0.0
    """How many of these a model writes."""

    @classmethod
    def of(cls, tasks: Sequence[Task]) -> "TaskSize":
        """Return the mean size of these tasks."""
        users, n = [one.user for one in tasks if one.user is not None], max(1, len(tasks))
        played = sum(one.turns / 2 for one in users if not one.script) / n
        problem = round(sum(estimated_tokens(one.problem) for one in tasks) / n)
        return cls(problem=problem, replies=played + sum(len(one.script) for one in users) / n, played=played)


class TaskCounts(Value):
    """How many tasks a run has."""

    train: int
    test: int
    counted: bool
    """Whether the tasks were read and counted. Otherwise the sizes are published or usual ones."""
    size: TaskSize = TaskSize()
    """Mean size of a task; zeros when it is not known."""

    @classmethod
    def of(cls, settings: RunSettings, domain: Domain, sets: TaskSets | None) -> "TaskCounts":
        """Return how many tasks a run has. sets: its tasks from `local_sets`; None: online ones, not downloaded.

        Raises DataError or ConfigError, as the run would.
        """
        if sets is not None:
            return cls(train=len(sets.train), test=len(sets.test), counted=True, size=TaskSize.of(sets.train))

        def size_of(source: str | None) -> int:
            if source is None:
                return USUAL_TASKS
            if source.startswith(HUB):
                return published(source)[1].rows or USUAL_TASKS
            if source.startswith(GYM):
                return int(dict(parse_gym(source).options)["size"])
            return len(domain.read(Path(source)))

        train, test = size_of(settings.data), 0
        if settings.limit is not None:
            train = min(train, settings.limit) if settings.data is not None else settings.limit
        if settings.evaluate and settings.test_data:
            test = sum(map(size_of, settings.test_data))
        elif settings.evaluate:
            test = round(train * settings.test_share)
            train -= test
        return cls(train=train, test=test, counted=False)

    def words(self, eval_rollouts: int) -> str:
        """Return the numbers in words. eval_rollouts: rollouts per held-out task."""
        held = f"{self.test:,} held out x {eval_rollouts} before and after" if self.test else "none held out"
        size = "" if self.counted else " (not downloaded; published or usual sizes)"
        return f"{self.train:,} to learn from, {held}{size}"


_MAY_CHANGE = frozenset(
    {"concurrency", "max_attempts", "max_outage_minutes", "served_at"}
    | {"max_cost_usd", "max_tokens", "max_minutes", "api_key", "otel", "store"}
)
"""Settings that may differ when a run is resumed, because they do not change what is learned."""
ENDPOINTS = frozenset({"model", "reflector", "user_model"})
"""Settings that a resumed run may be given again, with the credentials that are not stored."""
_RESUMABLE = frozenset({"learn", "train"})
"""Kinds of runs that have a command with `--resume`."""
_RUNS = 10_000
"""Number of runs that are searched for one with given settings."""
NOT_KEPT = {"api_key", "otel", "store", "private_addresses"}
"""Settings that are given at each start and are not taken from the interrupted run."""

TaskRollout = tuple[TaskId, int]
"""A task, and the index of one of its rollouts."""


@dataclass(frozen=True, slots=True)
class FinishedRollouts:
    """The rollouts that an interrupted run had finished."""

    store: StoreReader
    run: RunId
    resumed: bool
    """Whether the run was interrupted; a new run has finished none."""
    repeats_undecided: bool = False
    """Whether its undecided rollouts are made again, because they ended the run for a cause that is corrected now."""

    @classmethod
    def before(cls, store: StoreReader, run: RunId, *, resumed: bool) -> Self:
        """Return those of a run that starts or is resumed now. Call it before the start is recorded."""
        failure = store.run_failure(store.run(run)) if resumed else None
        return cls(store, run, resumed, repeats_undecided=failure is not None and failure.code == AllFailed.code)

    def of(self, phase: str, batch: int) -> Mapping[TaskRollout, Trajectory]:
        """Return the finished rollouts of a batch, whichever attempt succeeded."""
        found = self.store.finished(self.run, phase, batch) if self.resumed else {}
        return {(one.task, one.g): one for one in found.values()}


def latest_run(store: Path, kind: RunKind, settings: OptionGroup, *, after: str = "") -> RunRow | None:
    """Return the latest run of that kind with these settings; None when there is none.

    after: only runs that began after the run with this id. Where results are kept and traced may differ.
    """

    def known(text: str) -> dict[str, Any]:
        return {name: value for name, value in json.loads(text).items() if name not in NOT_KEPT}

    wanted = known(settings.model_dump_json())
    try:
        with read_store(store) as reader:
            rows = (row for row in reader.runs(limit=_RUNS) if row.kind == kind and row.run > after)
            return next((row for row in rows if known(row.settings) == wanted), None)
    except StoreMissing:
        return None


def settings_of(prefix: str, store: Path, given: Mapping[str, Any]) -> tuple[RunId, LearnSettings]:
    """Return the learn run whose id starts with `prefix`, and its settings, overridden by `given`.

    Raises ConfigError for a run that is unknown, done or not a learn run, and for a setting that may not change.
    """
    run, stored = started_with("learn", prefix, store, given)
    with of_this_version(run):
        fields = LearnSettings.model_validate_json(stored).model_dump(exclude=NOT_KEPT)
    return run, learn_settings({**fields, "store": store, **given, **_endpoints_now(fields, given)})


def _endpoints_now(stored: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the models under the names that are stored, and where they are served now."""
    named = {name: stored[name] for name in ENDPOINTS & set(given)}
    served = dict(stored.get("served_at") or {})
    for name, recorded in named.items():
        now, several = endpoint_name(str(given[name])), given.get("served_at", {})
        served[recorded] = several.get(now, (now,))
    return named | {"served_at": served}


@contextmanager
def of_this_version(run: RunId) -> Generator[None]:
    """Inside the block, stored settings that cannot be read are a ConfigError."""
    try:
        yield
    except ValidationError as error:
        raise ConfigError(
            f"run {run!r} was started by another version of agentlearn, and this one does not know all of its settings;"
            " resume it with that version, or start a new run"
        ) from error


def keep_credentials(environment: Mapping[str, Any]) -> None:
    """Keep the credentials of the endpoints that environment variables name. The names themselves do not count here."""
    for name in ENDPOINTS & set(environment):
        endpoint_name(str(environment[name]))


def started_with(kind: RunKind, prefix: str, store: Path, given: Mapping[str, Any]) -> tuple[RunId, str]:
    """Return the run of that kind whose id starts with `prefix`, and the settings it was started with, as JSON.

    Raises ConfigError for a run that is unknown, done or of another kind, and for a setting that may not change.
    """
    with read_store(store) as reader:
        row = _unfinished(reader, prefix, kind)
    stored = json.loads(row.settings)
    same = {name for name in ENDPOINTS & set(given) if same_model(str(given[name]), str(stored.get(name)))}
    if fixed := sorted(set(given) - _MAY_CHANGE - same):
        options = ", ".join(f"--{name.replace('_', '-')}" for name in fixed)
        raise ConfigError(f"a resumed run keeps its settings; leave out {options}, or start a new run")
    if given_objects := stored.get("given"):
        raise ConfigError(
            f"run {row.run!r} was started by a program with objects of its own ({', '.join(given_objects)}), which are"
            f" not stored; resume it there: learn(..., resume={row.run!r})"
        )
    _require_credentials(row.run, stored | _endpoints_now(stored, given))
    return row.run, row.settings


def resumed_run(reader: StoreReader, prefix: str, settings: LearnSettings) -> RunId:
    """Return the learn run whose id starts with `prefix`, which a program resumes with these settings.

    Raises ConfigError for a run that is unknown, done or not a learn run, and for settings other than it had.
    """
    row = _unfinished(reader, prefix, "learn")
    now, then = json.loads(settings.resolved()), json.loads(row.settings)
    fixed = set(now) - _MAY_CHANGE - NOT_KEPT
    if changed := sorted(name for name in fixed if now[name] != then.get(name, now[name])):
        name = changed[0]
        raise ConfigError(
            f"run {row.run!r} was started with {name}={short_repr(then.get(name))} and cannot go on with"
            f" {short_repr(now[name])}; give the same as then, or start a new run"
        )
    return row.run


def _unfinished(reader: StoreReader, prefix: str, kind: RunKind) -> RunRow:
    row = reader.run(prefix)
    if row.kind != kind:
        can = f"; resume it with: agentlearn {row.kind} --resume {row.run}" if row.kind in _RESUMABLE else ""
        raise ConfigError(f"run {row.run!r} is a {row.kind} run, not a {kind} run{can}")
    if row.state == "done":
        raise ConfigError(f"run {row.run!r} is done; show it with: agentlearn runs show {row.run}")
    return row


def _require_credentials(run: RunId, stored: Mapping[str, Any]) -> None:
    """Raise ConfigError when an address had credentials at the start of the run and has none now."""
    used = {one for name in ENDPOINTS for one in stored["served_at"].get(stored.get(name), (stored.get(name),))}
    missing = [name for name in stored.get("private_addresses", ()) if name in used and not credentials_of(name)]
    if missing:
        option = "reflector" if stored.get("reflector") == missing[0] else "model"
        raise ConfigError(
            f"run {run!r} was started with credentials in the address of {missing[0]!r}, and credentials are never"
            f" stored; resume it with the whole address in --{option} or AGENTLEARN_{option.upper()}"
        )
