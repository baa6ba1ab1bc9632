"""The tasks of a comparison: one task set per domain."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from agentlearn.config import ONLINE, TASK_FILES
from agentlearn.config.names import name_of_result
from agentlearn.domain.base import Domain, installed_domains, is_source, load_domain
from agentlearn.domain.chosen_settings import read_source, with_chosen_columns
from agentlearn.domain.custom import CustomTasks, custom_tasks, default_reward, name_for
from agentlearn.domain.objects import OutputTasks
from agentlearn.errors import ConfigError
from agentlearn.learning.subject import agent_of
from agentlearn.store import StoreReader
from agentlearn.types.task import Task
from agentlearn_evals.arms import Arm
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

    @property
    def has_users(self) -> bool:
        """Whether a model plays the user of any task."""
        return any(user.goal for task in self.tasks if (user := task.user) is not None)

    @staticmethod
    def read(domain: Domain, source: str, settings: CompareSettings, judged_by: str = "") -> "EvalTasks":
        """Return the tasks of a source. Raises ConfigError or DataError."""
        found = read_source(domain, source, settings, split="test", limit=settings.limit)
        return EvalTasks(domain, found.tasks, judged_by, found.note)


def judged_by(domain: Domain) -> str:
    """Return the reward that judges a domain's answers; empty when the domain judges them itself."""
    judged = domain.judged if isinstance(domain, OutputTasks) else domain
    return judged.reward.name if isinstance(judged, CustomTasks) else ""


def load_eval_tasks(
    settings: CompareSettings, arms: Sequence[Arm], *, imports_reward: bool = True
) -> tuple[EvalTasks, ...]:
    """Return one task set per domain, in the order given. Raises ConfigError or DataError.

    imports_reward: False for a plan, which judges nothing.
    """
    if subject := agent_of(settings, settings.data):
        if settings.data is None or settings.domains:
            raise ConfigError(
                f"say which tasks {settings.agent!r} is measured on: a file, hf:NAME or gym:TASK after its name, or"
                " --held-out-of RUN",
                code="no_task",
            )
        domain = with_chosen_columns(subject.domain, settings)
        return (EvalTasks.read(domain, settings.data, settings, subject.judged.reward.name),)
    names = settings.domains or (_default_domain(settings, arms),)
    if settings.data is not None and len(names) > 1:
        raise ConfigError(
            f"--data {settings.data!r} is for one domain, but {len(names)} are given; leave --data out, or give one",
            code="contradiction",
        )
    if not any(map(is_source, names)):
        _refuse_file_options(settings, names)
    found = tuple(_load_task_set(name, settings, imports_reward=imports_reward) for name in names)
    if len({one.domain.name for one in found}) < len(found):
        raise ConfigError(f"a domain is given twice in {', '.join(names)}; give each domain once", code="domain_twice")
    return found


def _refuse_file_options(settings: CompareSettings, names: Sequence[str]) -> None:
    """Raise ConfigError for options that are only for tasks from a file."""
    domains = " and ".join(names)
    if settings.reward is not None:
        raise ConfigError(
            f"--reward {settings.reward!r} is for tasks from a file, but {domains} judges its own answers; leave it"
            " out, or give a task file with --data or --domain and no installed domain",
            code="contradiction",
        )
    if settings.tools != "none":
        raise ConfigError(
            f"--tools {settings.tools!r} is for tasks from a file, but {domains} has its own tools; leave --tools out",
            code="contradiction",
        )
    if settings.instructions is not None:
        raise ConfigError(
            f"--instructions is for tasks of your own, but {domains} has its own prompt; give an arm its instructions"
            " with ,instructions=FILE",
            code="contradiction",
        )


def _load_task_set(name: str, settings: CompareSettings, *, imports_reward: bool) -> EvalTasks:
    if is_source(name):
        reward = settings.reward or default_reward(name)
        if reward is None:
            raise ConfigError(
                f"tasks in {name!r} need a reward; give --reward exact, number, choice, contains, judge or"
                " module:function",
                code="no_reward",
            )
        domain: Domain = custom_tasks(
            name_for(name),
            reward,
            tools=settings.tools,
            instructions=settings.instructions,
            only_instructions=settings.only_instructions,
            imports_reward=imports_reward,
        )
        return EvalTasks.read(with_chosen_columns(domain, settings), name, settings, reward)
    domain = with_chosen_columns(load_domain(name), settings)
    if settings.data is not None:
        return EvalTasks.read(domain, settings.data, settings)
    tasks = domain.tasks("test", seed=settings.seed, limit=settings.limit)
    if not tasks:
        raise ConfigError(f"domain {name!r} has no test tasks; give tasks with --data", code="no_tasks")
    return EvalTasks(domain, tuple(tasks), "")


class HeldOutTasks:
    """The tasks that a run held out."""

    def __init__(self, reference: str, reader: StoreReader, libraries: Collection[str] = ()) -> None:
        """Find the run: by its id or the start of it, or the latest with such tasks for `last`. Raises ConfigError.

        libraries: names of the compared libraries; `last` is then the latest run that learned one of them.
        """
        self.reader, last = reader, reference == _LAST
        for row in reader.runs(limit=_RUNS) if last else (reader.run(reference),):
            inputs = reader.run_inputs(row.run) if row.kind in _LEARNING else None
            settings: dict[str, Any] = json.loads(row.settings)
            learned = settings.get("name") or name_of_result(row.domain)
            if inputs is not None and inputs.test and (not last or not libraries or learned in libraries):
                self.row, self.ids, self.settings = row, inputs.test, settings
                return
        of = f" that learned {' or '.join(map(repr, sorted(libraries)))}" if libraries else ""
        which = f"no stored run{of} has" if last else f"the run {reference!r} has no"
        raise ConfigError(
            f"{which} held-out tasks; `agentlearn runs list` shows the runs, and a learn run holds some out unless"
            " --no-eval or --pilot is given",
            code="no_held_out_tasks",
        )

    def tasks(self, domain: Domain, settings: CompareSettings) -> EvalTasks:
        """Return the tasks as they are stored, judged by this domain."""
        stored = self.reader.tasks(self.ids)
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


def _default_domain(settings: CompareSettings, arms: Sequence[Arm]) -> str:
    """Return the domain to use when the user names none: the one that the libraries are named after."""
    if settings.data is not None and settings.reward is not None:
        return settings.data
    installed = installed_domains()
    named = {arm.reference.partition("@")[0] for arm in arms} & set(installed)
    choices = sorted(named) or list(installed)
    if len(choices) == 1:
        return choices[0]
    raise ConfigError(
        f"which tasks to use is not clear; give --domain {' or '.join(choices) or 'NAME'}, or a task file with --reward"
        f" ({', '.join(TASK_FILES)}, {', '.join(ONLINE)})",
        code="no_domain",
    )
