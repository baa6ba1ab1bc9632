"""What a program wants learned, compared or solved, resolved to a domain: an agent, a function, or a domain's name."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentlearn.config import SIMULATED_MODEL, default_model
from agentlearn.config.environment import default_store
from agentlearn.domain.base import Domain, installed_domains, is_source, load_domain
from agentlearn.domain.custom import CustomTasks, default_reward, find_reward, judged_tasks, name_for
from agentlearn.domain.objects import OutputTasks, agent_tasks, program_tasks, reward_from, tasks_from
from agentlearn.errors import ConfigError
from agentlearn.models.endpoint import model_name
from agentlearn.store import Store
from agentlearn.types.experience import Library
from agentlearn.types.group import Groups
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

    def chosen_model(self, given: "Model | str | None", *, needed: bool = True) -> "Model | str":
        """Return the model that solves the tasks: the given one, the agent's, or the domain's default.

        needed: whether a program needs one too, although it may call models of its own.

        Raises ConfigError when there is none.
        """
        chosen = self.model if given is None else given
        if chosen is None and not self.own:
            return default_model(self.domain.name)
        if chosen is None and self.domain.runs_itself and not needed:
            from agentlearn.models.no_model import NoModel

            return NoModel()
        if chosen is None:
            raise ConfigError(
                f"no model is named for {self.domain.name!r}; add model=, such as model='openai:gpt-5-mini', or"
                f" model={SIMULATED_MODEL!r} (simulated) for problems of the domain math",
                code="no_model",
            )
        return chosen

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
    deps: Any = None,
    answer_of: Any = None,
    tools: str = "none",
    instructions: str | None = None,
    only_instructions: bool = False,
) -> Subject:
    """Return what was given as a domain.

    what: a pydantic-ai agent, a function `(task, lessons)`, a `Domain`, `Groups` of a recorder, or a name as on the
    command line: an installed domain, or a source of tasks. tools, instructions, only_instructions: of the agent for a
    source's tasks. Raises ConfigError.
    """
    if isinstance(what, Groups):
        return Subject(judged_tasks(what.name, reward_from("exact" if reward is None else reward)))
    name = tasks.name if isinstance(tasks, Groups) else None
    source = str(tasks) if isinstance(tasks, str | Path) else None
    if isinstance(what, str | Path) and is_source(str(what)):
        if tasks is not None:
            raise ConfigError(
                f"{str(what)!r} is a source of tasks, and other tasks are given too; leave one of them out",
                code="contradiction",
            )
        judged = _judged(name or name_for(what), reward, str(what))
        given = replace(
            judged, runs_code=tools == "python", instructions=instructions, only_instructions=only_instructions
        )
        return Subject(given, str(what))
    for_sources = {
        "tools": tools != "none" and tools,
        "instructions": instructions,
        "only_instructions": only_instructions,
    }
    for option, value in for_sources.items():
        if value:
            raise ConfigError(
                f"{option}={value!r} is for the tasks of a file without an agent of your own; leave it out, and give"
                f" your agent its own {option}",
                code="contradiction",
            )
    if isinstance(what, str | Path):
        domain = load_domain(str(what))
        return Subject(domain if reward is None else domain.with_reward(_name_of(reward)), source)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Objects that a program gives to a run. What is None is found by its name in the settings."""

    domain: Domain | None = None
    """What is learned."""
    train: tuple[Task, ...] | None = None
    """Tasks to learn from, and to hold out a share of."""
    test: tuple[Task, ...] | None = None
    """Held-out tasks."""
    groups: Groups | None = None
    """Groups of recorded rollouts to learn from, with `from_store`."""
    model: "Model | None" = None
    """Model that solves the tasks."""
    reflector: "Model | None" = None
    """Model that writes the lessons; None: the one of that name, which may be `model`."""
    store: Store | None = None
    """An open store. It stays open when the run ends."""
    start: Library | None = None
    """Library to start from."""


NOTHING_GIVEN = Given()


def directory_of(store: Store | Path | str | None) -> Path:
    """Return the directory of the store that a program gave; None: AGENTLEARN_STORE, else `.agentlearn`."""
    match store:
        case None:
            return default_store()
        case Store():
            return store.directory
        case _:
            return Path(store)
