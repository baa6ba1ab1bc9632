"""The tasks of a comparison: one task set per domain."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from agentlearn.config import ONLINE, SIMULATED_MODEL, TASK_FILES, TaskOptions, default_model, is_source
from agentlearn.config.defaults import name_of_result
from agentlearn.domain.base import Domain, installed_domains
from agentlearn.domain.chosen_settings import read_source, with_chosen_columns
from agentlearn.domain.custom import CustomTasks, default_reward, name_for
from agentlearn.domain.objects import OutputTasks
from agentlearn.errors import ConfigError
from agentlearn.learning.open_run import domain_of
from agentlearn.learning.subject import Subject, agent_of, named_model
from agentlearn.library.audit import Leaks
from agentlearn.store import StoreReader, read_store
from agentlearn.types.task import Task
from agentlearn_evals.compare_settings import CompareSettings

_LAST = "last"
"""In place of a run's id: the latest run that learned one of the compared libraries and held out tasks."""
_LEARNING = ("learn", "train")
"""Kinds of runs that hold out tasks."""
_RUNS = 1_000
"""Number of runs among which the latest with held-out tasks is looked for."""


@dataclass(frozen=True, slots=True)
class EvalTasks:
    """A domain and the tasks that the arms are compared on."""

    domain: Domain
    tasks: tuple[Task, ...]
    judged_by: str
    """Reward of tasks from a file; empty when the domain judges its own answers."""
    note: str = ""
    """What was left out of the source, and why; empty when nothing was."""

    def counted(self, given_away: Leaks) -> "EvalTasks":
        """Return these tasks without those that lessons give away, and with a note on them."""
        kept = given_away.kept(self.tasks)
        if len(kept) == len(self.tasks):
            return self
        return replace(self, tasks=kept, note="; ".join(filter(None, (self.note, given_away.sentence))))

    @property
    def has_users(self) -> bool:
        """Whether a model plays the user of any task."""
        return any(user.goal for task in self.tasks if (user := task.user) is not None)

    @staticmethod
    def of(subject: Subject, settings: CompareSettings, given: tuple[Task, ...] | None = None) -> "EvalTasks":
        """Return the given tasks; without any those of the subject's source, else the domain's own test tasks.

        Raises ConfigError or DataError.
        """
        domain = with_chosen_columns(subject.domain, settings)
        if given is None and subject.source is not None:
            found = read_source(domain, subject.source, settings, split="test", limit=settings.limit)
            return EvalTasks(domain, found.tasks, judged_by(domain), found.note)
        tasks = tuple(domain.tasks("test", seed=settings.seed, limit=settings.limit)) if given is None else given
        if not tasks:
            raise ConfigError(f"there is no task to compare {domain.name!r} on; give tasks with --data")
        return EvalTasks(domain, tasks, judged_by(domain))


def judged_by(domain: Domain) -> str:
    """Return the reward that judges a domain's answers; empty when the domain judges them itself."""
    judged = domain.judged if isinstance(domain, OutputTasks) else domain
    return judged.reward.name if isinstance(judged, CustomTasks) else ""


def named_subjects(
    settings: CompareSettings, libraries: Collection[str] = (), *, imports_reward: bool = True
) -> tuple[Subject, ...]:
    """Return what the settings name, one subject per domain, in the order given. Raises ConfigError.

    libraries: names of the compared libraries, which stand for a domain where none is named. imports_reward: False for
    a plan, which judges nothing.
    """
    if settings.agent is not None and settings.held_out_of is None and (settings.data is None or settings.domains):
        raise ConfigError(
            f"say which tasks {settings.agent!r} is measured on: a file, hf:NAME, gym:TASK or MODULE:NAME after its"
            " name, or --held-out-of RUN"
        )
    if subject := agent_of(settings, settings.data):
        return (subject,)
    names = settings.domains or (_default_domain(settings, libraries),)
    if settings.held_out_of is None:
        _refuse_unfit(settings, names)
    found = tuple(_named_subject(name, settings, imports_reward=imports_reward) for name in names)
    if len({one.domain.name for one in found}) < len(found):
        raise ConfigError(f"a domain is given twice in {', '.join(names)}; give each domain once")
    return found


def _refuse_unfit(settings: CompareSettings, names: Sequence[str]) -> None:
    """Raise ConfigError for options that are only for one domain, or only for tasks from a file."""
    if settings.data is not None and len(names) > 1:
        raise ConfigError(
            f"--data {settings.data!r} is for one domain, but {len(names)} are given; leave --data out, or give one"
        )
    for option in () if any(map(is_source, names)) else ("reward", "tools", "instructions"):
        if getattr(settings, option) != CompareSettings.model_fields[option].default:
            raise ConfigError(
                f"--{option} is for tasks from a file, but {' and '.join(names)} has its own {option}; leave it out"
            )


def _named_subject(name: str, settings: CompareSettings, *, imports_reward: bool) -> Subject:
    source = name if is_source(name) else settings.data
    fields = settings.model_dump(include={*TaskOptions.model_fields} - {"data", "limit"})
    if is_source(name):
        name, fields["reward"] = name_for(name), settings.reward or default_reward(name)
        if fields["reward"] is None:
            raise ConfigError(
                f"tasks in {source!r} need a reward; give --reward exact, number, choice, contains, judge or"
                " module:function",
                code="no_reward",
            )
    elif len(settings.domains) > 1:  # the reward is that of the files beside it
        fields["reward"] = None
    return Subject(domain_of(TaskOptions(domain=name, **fields), imports_reward=imports_reward), source)


_JUDGING = frozenset(
    {"agent", "deps", "reward", "tools", "instructions", "only_instructions", "columns", "max_unreadable"}
)
"""Settings that say who solves tasks, and how they are read and judged."""


class HeldOutTasks:
    """The tasks that a run held out."""

    def __init__(
        self, settings: CompareSettings, reader: StoreReader, libraries: Collection[str], *, others: bool
    ) -> None:
        """Find the run: by its id or the start of it, or the latest with such tasks for `last`. Raises ConfigError.

        libraries: names of the compared libraries; `last` is then the latest run that learned one of them. others:
        whether other tasks are given too.
        """
        reference = settings.held_out_of or _LAST
        if others:
            raise ConfigError(
                f"--held-out-of {reference!r} names the tasks, and other tasks are given too; leave one of them out"
            )
        self.reader, last = reader, reference == _LAST
        for row in reader.runs(limit=_RUNS) if last else (reader.run(reference),):
            inputs = reader.run_inputs(row.run) if row.kind in _LEARNING else None
            then: dict[str, Any] = json.loads(row.settings)
            learned = then.get("name") or name_of_result(row.domain)
            if inputs is not None and inputs.test and (not last or not libraries or learned in libraries):
                self.row, self.ids, self.settings = row, inputs.test, then
                return
        of = f" that learned {' or '.join(map(repr, sorted(libraries)))}" if libraries else ""
        which = f"no stored run{of} has" if last else f"the run {reference!r} has no"
        raise ConfigError(
            f"{which} held-out tasks; `agentlearn runs list` shows the runs, and a learn run holds some out unless"
            " --no-eval or --pilot is given"
        )

    def completed(self, settings: CompareSettings) -> CompareSettings:
        """Return the settings with what the run knows and they do not say: the model, and how tasks are judged.

        Raises ConfigError for a run with objects of a program, which are not stored.
        """
        run, then = self.row.run, self.settings
        if {"agent or program", "reward"} & set(then.get("given", ())):
            raise ConfigError(
                f"run {run!r} was started by a program with an agent or a reward of its own, which are not stored;"
                f" compare there: compare(agent, reward=…, held_out_of={run!r})"
            )
        known = {name: then[name] for name in _JUDGING - settings.model_fields_set if then.get(name) is not None}
        models = settings.models or (then["model"],)
        return settings.model_copy(update={**known, "domains": (then["domain"],), "models": models})

    def judge(self, domain: Domain, settings: CompareSettings) -> str | None:
        """Return the model that judges answers, by default the one that did in the run."""
        asked = domain.uses_judge and settings.judge is None
        return self.settings.get("reflector") or self.settings["model"] if asked else settings.judge

    def tasks(self, subject: Subject, settings: CompareSettings) -> EvalTasks:
        """Return the tasks as they are stored, judged by this subject's domain."""
        domain, stored = with_chosen_columns(subject.domain, settings), self.reader.tasks(self.ids)
        tasks = tuple(stored[task] for task in self.ids if task in stored)
        note = self._changed_since(tasks, domain, settings)
        return EvalTasks(domain, tasks[: settings.limit], judged_by(domain), note)

    def _changed_since(self, tasks: Sequence[Task], domain: Domain, settings: CompareSettings) -> str:
        """Return a note when files that the tasks came from do not hold them as they were; empty when they do."""
        given = (*(self.settings.get("test_data") or ()), self.settings.get("data"))
        sources, now = [one for one in given if one and not one.startswith(ONLINE)], set[str]()
        for source in sources:
            try:
                now |= {task.id for task in read_source(domain, source, settings, split="test").tasks}
            except ConfigError as error:
                return f"the tasks are those that run {self.row.run} held out, as they were then; now {error.message}"
        changed = sum(task.id not in now for task in tasks) if sources else 0
        if not changed:
            return ""
        return (
            f"{changed} of the {len(tasks)} tasks that run {self.row.run} held out are no longer in"
            f" {' and '.join(sources)}, which changed since; they are compared as they were then"
        )


class ChosenTasks(NamedTuple):
    """The tasks that the settings of a comparison name, and what these decide."""

    task_sets: tuple[EvalTasks, ...]
    subject: Subject
    """What the first of them are solved by."""
    settings: CompareSettings
    """With what the run knows that held the tasks out."""

    @property
    def model(self) -> str:
        """The model of arms that name none: the first given, the agent's own, or the domains' common default."""
        if self.settings.models:
            return self.settings.models[0]
        if self.settings.agent is not None:
            return named_model(self.subject.chosen_model(None, needed=False))
        defaults = {SIMULATED_MODEL if one.judged_by else default_model(one.domain.name) for one in self.task_sets}
        return defaults.pop() if len(defaults) == 1 else SIMULATED_MODEL


def chosen_tasks(settings: CompareSettings, libraries: Collection[str], *, imports_reward: bool) -> ChosenTasks:
    """Read the tasks that the settings name. Raises ConfigError or DataError.

    libraries, imports_reward: see `named_subjects`.
    """
    if settings.held_out_of is None:
        subjects = named_subjects(settings, libraries, imports_reward=imports_reward)
        return ChosenTasks(tuple(EvalTasks.of(one, settings) for one in subjects), subjects[0], settings)
    with read_store(settings.store) as reader:
        others = bool(settings.domains) or settings.data is not None
        held_out = HeldOutTasks(settings, reader, libraries, others=others)
        settings = held_out.completed(settings)
        subject, *_ = named_subjects(settings, libraries, imports_reward=imports_reward)
        task_set = held_out.tasks(subject, settings)
        judge = held_out.judge(task_set.domain, settings)
        return ChosenTasks((task_set,), subject, settings.model_copy(update={"judge": judge}))


def _default_domain(settings: CompareSettings, libraries: Collection[str]) -> str:
    """Return the domain to use when the user names none: the one that the libraries are named after."""
    if settings.data is not None and settings.reward is not None:
        return settings.data
    installed = installed_domains()
    choices = sorted({*libraries} & {*installed}) or list(installed)
    if len(choices) == 1:
        return choices[0]
    raise ConfigError(
        f"which tasks to use is not clear; give --domain {' or '.join(choices) or 'NAME'}, or a task file with --reward"
        f" ({', '.join(TASK_FILES)}, {', '.join(ONLINE)})"
    )
