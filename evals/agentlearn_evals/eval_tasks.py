"""The tasks of a comparison: one task set per domain."""

from collections.abc import Sequence
from dataclasses import dataclass

from agentlearn.config import ONLINE, TASK_FILES
from agentlearn.domain.base import Domain, installed_domains, is_source, load_domain
from agentlearn.domain.custom import custom_tasks, default_reward, name_for
from agentlearn.domain.task_source import read_source, with_chosen_columns
from agentlearn.errors import ConfigError
from agentlearn.types.ids import content_hash
from agentlearn.types.task import Task
from agentlearn_evals.arms import Arm
from agentlearn_evals.compare_settings import CompareSettings


@dataclass(frozen=True, slots=True)
class EvalTasks:
    """A domain and the tasks that the arms are compared on."""

    domain: Domain
    tasks: tuple[Task, ...]
    judged_by: str
    """Reward of tasks from a file; empty when the domain judges its own answers."""
    note: str = ""
    """What was left out of the source, and why; empty when nothing was."""


def load_eval_tasks(settings: CompareSettings, arms: Sequence[Arm]) -> tuple[EvalTasks, ...]:
    """Return one task set per domain, in the order given. Raises ConfigError or DataError."""
    names = settings.domains or (_default_domain(settings, arms),)
    if settings.data is not None and len(names) > 1:
        raise ConfigError(
            f"--data {settings.data!r} is for one domain, but {len(names)} are given; leave --data out, or give one",
            code="contradiction",
        )
    if not any(map(is_source, names)):
        _refuse_file_options(settings, names)
    found = tuple(_load_task_set(name, settings) for name in names)
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


def _load_task_set(name: str, settings: CompareSettings) -> EvalTasks:
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
        )
        domain = with_chosen_columns(domain, settings)
        read = read_source(domain, name, settings, split="test", limit=settings.limit)
        return EvalTasks(domain, read.tasks, reward, read.note)
    domain = with_chosen_columns(load_domain(name), settings)
    if settings.data is not None:
        read = read_source(domain, settings.data, settings, split="test", limit=settings.limit)
        return EvalTasks(domain, read.tasks, "", read.note)
    tasks = domain.tasks("test", seed=settings.seed, limit=settings.limit)
    if not tasks:
        raise ConfigError(f"domain {name!r} has no test tasks; give tasks with --data", code="no_tasks")
    return EvalTasks(domain, tuple(tasks), "")


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


def data_hash(tasks: Sequence[Task]) -> str:
    """Return a hash of the tasks that does not depend on their order."""
    return content_hash("data", sorted(task.id for task in tasks))
