"""What a program wants learned, compared or solved, resolved to a domain: an agent, a function, or a domain's name."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentlearn.domain.base import Domain, installed_domains, is_source, load_domain
from agentlearn.domain.custom import CustomTasks, default_reward, find_reward, judged_tasks, name_for
from agentlearn.domain.objects import OutputTasks, agent_tasks, program_tasks, tasks_from
from agentlearn.domain.objects.given_reward import reward_from
from agentlearn.errors import ConfigError
from agentlearn.models.endpoint import model_name
from agentlearn.types.groups import Groups
from agentlearn.types.task import Split, Task

if TYPE_CHECKING:
    from pydantic_ai.agent import AbstractAgent
    from pydantic_ai.models import Model


@dataclass(frozen=True, slots=True)
class Subject:
    """What is learned, compared or solved."""

    domain: Domain
    source: str | None = None
    """A file or another source that holds its tasks; None when tasks are given, or are the domain's own."""
    model: "Model | str | None" = None
    """The model that the agent itself has; None when it has none."""

    @property
    def own(self) -> bool:
        """Whether the tasks are the user's own, so that the simulated model may not know them."""
        return isinstance(self.domain, CustomTasks | OutputTasks)

    async def tasks(self, given: Any, *, split: Split = "train", limit: int | None = None) -> tuple[Task, ...] | None:
        """Return the tasks that were given as objects; None for a source. Raises DataError."""
        if given is None or isinstance(given, str | Path | Groups):
            return None
        return await tasks_from(given, self.judged, split=split, limit=limit)

    @property
    def judged(self) -> CustomTasks:
        """What reads and judges the tasks. Raises ConfigError for an installed domain, which reads its own."""
        domain = self.domain.judged if isinstance(self.domain, OutputTasks) else self.domain
        if not isinstance(domain, CustomTasks):
            raise ConfigError(
                f"domain {domain.name!r} reads its tasks itself; give a file or nothing as tasks, or give your own"
                " agent in place of its name",
                code="fixed_tasks",
            )
        return domain


def subject_of(
    what: Any,
    tasks: Any = None,
    *,
    reward: Any = None,
    name: str | None = None,
    deps: Any = None,
    answer_of: Any = None,
) -> Subject:
    """Return what was given as a domain.

    what: a pydantic-ai agent, a function `(task, lessons)`, a `Domain`, `Groups` of a recorder, or a name as on the
    command line: an installed domain, or a source of tasks. Raises ConfigError.
    """
    if isinstance(what, Groups):
        return Subject(judged_tasks(what.name, reward_from("exact" if reward is None else reward)))
    if isinstance(tasks, Groups):
        name = tasks.name
    source = str(tasks) if isinstance(tasks, str | Path) else None
    if isinstance(what, str | Path):
        return _named(str(what), source, reward=reward, name=name)
    if isinstance(what, Domain):
        return Subject(what if reward is None else what.with_reward(_name_of(reward)), source)
    if agent := _agent(what):
        judged = _judged(name or _slug(agent.name or "agent"), reward, source)
        domain = agent_tasks(agent, judged, deps=deps, text_of=answer_of)
        return Subject(domain, source, agent.model)
    if callable(what):
        judged = _judged(name or _slug(getattr(what, "__name__", type(what).__name__)), reward, source)
        return Subject(program_tasks(what, judged, text_of=answer_of), source)
    raise ConfigError(
        f"{what!r} is neither an agent, a function, a domain nor a name; give a pydantic-ai Agent, an async function"
        " (task, lessons), or a name such as 'math'",
        code="bad_subject",
    )


def _named(what: str, source: str | None, *, reward: Any, name: str | None) -> Subject:
    if not is_source(what):
        domain = load_domain(what)
        return Subject(domain if reward is None else domain.with_reward(_name_of(reward)), source)
    return Subject(_judged(name or name_for(what), reward, what), what)


def _judged(name: str, reward: Any, source: str | None) -> CustomTasks:
    if reward is None and source is not None and (usual := default_reward(source)):
        return judged_tasks(name, find_reward(usual))
    return judged_tasks(name, reward_from(reward))


def _name_of(reward: Any) -> str:
    if isinstance(reward, str):
        return reward
    raise ConfigError(
        "an installed domain judges its own answers, and reward= takes only the name of one of its rewards; give your"
        " own agent or function in place of the domain's name",
        code="fixed_reward",
    )


def _agent(what: Any) -> "AbstractAgent[Any, Any] | None":
    from pydantic_ai.agent import AbstractAgent

    return what if isinstance(what, AbstractAgent) else None


def _slug(name: str) -> str:
    """Return a name as one of a library and of tasks, different from any installed domain."""
    slug = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_")[:50].strip("-_") or "agent"
    return f"{slug}-tasks" if slug in {*installed_domains(), "none"} else slug


def named_model(model: "Model | str") -> str:
    """Return the name under which a model is recorded."""
    return model if isinstance(model, str) else model_name(model)
