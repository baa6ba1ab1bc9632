"""What a comparison stands on: its domains with their tasks."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentlearn.config import ONLINE, TASK_FILES
from agentlearn.domain.base import Domain, installed_domains, is_source, load_domain
from agentlearn.domain.custom import custom_tasks, default_reward, name_for
from agentlearn.errors import ConfigError
from agentlearn.types.ids import content_hash
from agentlearn.types.task import Task
from agentlearn_evals.arms import Arm
from agentlearn_evals.settings import CompareSettings


@dataclass(frozen=True, slots=True)
class EvalTasks:
    """A domain and the tasks of it that are compared on."""

    domain: Domain
    tasks: tuple[Task, ...]
    judged_by: str
    """How answers are judged where that is not the domain's own doing: the reward of own tasks."""


def load_eval_tasks(settings: CompareSettings, arms: Sequence[Arm]) -> tuple[EvalTasks, ...]:
    """The domains with their tasks, in the order given. Raises ConfigError or DataError."""
    names = settings.domains or (_named_after(settings, arms),)
    if settings.data is not None and len(names) > 1:
        raise ConfigError(
            f"--data {settings.data!r} gives tasks for one domain, but there are {len(names)}; leave one out",
            code="contradiction",
        )
    if not any(map(is_source, names)):
        _refuse_own(settings, names)
    found = tuple(_task_set(name, settings) for name in names)
    if len({one.domain.name for one in found}) < len(found):
        raise ConfigError(f"a domain is named twice in {', '.join(names)}; name each once", code="domain_twice")
    return found


def _refuse_own(settings: CompareSettings, names: Sequence[str]) -> None:
    """Raises ConfigError for what is said of own tasks where there are none."""
    domains = " and ".join(names)
    if settings.reward is not None:
        raise ConfigError(
            f"--reward {settings.reward!r} judges tasks of your own, but {domains} judges its answers itself; leave"
            " --reward out, or give a file of tasks with --data or --domain and no installed domain",
            code="contradiction",
        )
    if settings.tools != "none":
        raise ConfigError(
            f"--tools {settings.tools!r} is for tasks of your own, but {domains} has its own tools; leave it out",
            code="contradiction",
        )
    if settings.instructions is not None:
        raise ConfigError(
            f"--instructions is for tasks of your own, but {domains} has its own prompt; give an arm its instructions"
            " with ,instructions=FILE",
            code="contradiction",
        )


def _task_set(name: str, settings: CompareSettings) -> EvalTasks:
    if is_source(name):
        reward = settings.reward or default_reward(name)
        if reward is None:
            raise ConfigError(
                f"say how answers in {name!r} are judged: --reward exact, number, choice, contains, judge or"
                " module:function",
                code="no_reward",
            )
        domain: Domain = custom_tasks(name_for(name), reward, tools=settings.tools, instructions=settings.instructions)
        tasks = domain.read(Path(name), split="test", limit=settings.limit)
        return EvalTasks(domain, tuple(tasks), reward)
    domain = load_domain(name)
    if settings.data is not None:
        tasks = domain.read(Path(settings.data), split="test", limit=settings.limit)
    else:
        tasks = domain.tasks("test", seed=settings.seed, limit=settings.limit)
    if not tasks:
        raise ConfigError(f"domain {name!r} gave no task to compare on; give some with --data", code="no_tasks")
    return EvalTasks(domain, tuple(tasks), "")


def _named_after(settings: CompareSettings, arms: Sequence[Arm]) -> str:
    """The domain that the tasks are of, where none is named."""
    if settings.data is not None and settings.reward is not None:
        return settings.data
    installed = installed_domains()
    named = {arm.reference.partition("@")[0] for arm in arms} & set(installed)
    choices = sorted(named) or list(installed)
    if len(choices) == 1:
        return choices[0]
    raise ConfigError(
        f"say on which tasks: --domain {' or '.join(choices) or 'NAME'}, or a file of tasks with --reward"
        f" ({', '.join(TASK_FILES)}, {', '.join(ONLINE)})",
        code="no_domain",
    )


def data_hash(tasks: Sequence[Task]) -> str:
    """Hash over the tasks, whatever their order."""
    return content_hash("data", sorted(task.id for task in tasks))
