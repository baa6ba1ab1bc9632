"""What a program wants learned, compared or solved, resolved to a domain: an agent, a function, or a domain's name."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from inspect import iscoroutine, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentlearn.config import OwnAgentOptions, default_model, is_source
from agentlearn.config.defaults import default_store
from agentlearn.domain.base import Domain, installed_domains, is_domain, load_domain
from agentlearn.domain.custom import CustomTasks, default_reward, find_reward, judged_tasks, load_object, name_for
from agentlearn.domain.custom.own_functions import call_object, names_object
from agentlearn.domain.objects import OutputTasks, agent_tasks, program_tasks, reward_from, tasks_from
from agentlearn.errors import ConfigError
from agentlearn.models.endpoint import model_name
from agentlearn.store import Store
from agentlearn.text import short_repr
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

    def model_named(self, name: str) -> "Model | None":
        """Return the agent's own model, if it is an object that is recorded under that name.

        A function may have none; what stands for it then has a name too.
        """
        own = self.model
        if own is None and self.own and self.domain.runs_itself:
            own = self.chosen_model(None, needed=False)
        return own if own is not None and not isinstance(own, str) and named_model(own) == name else None

    def chosen_model(self, given: "Model | str | None", *, needed: bool = True) -> "Model | str":
        """Return the model that solves the tasks: the given one, the agent's, or the domain's default.

        needed: whether a program needs one too, although it may call models of its own.

        Raises ConfigError when there is none.
        """
        chosen = self.model if given is None else given
        if chosen is None and not self.own:
            return default_model(self.domain.name)
        if chosen is None and self.domain.runs_itself and not needed:
            from agentlearn.models.client import NoModel

            return NoModel()
        if chosen is None:
            raise ConfigError(
                f"no model is named for {self.domain.name!r}, and it has none of its own; add"
                " --model 'openai:gpt-5-mini' or another"
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
                " agent in place of its name"
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
    unnamed: str | None = None,
) -> Subject:
    """Return what was given as a domain.

    what: a pydantic-ai agent, a function `(task, lessons)`, a `Domain`, `Groups` of a recorder, or a name as on the
    command line: an installed domain, or a source of tasks. tools, instructions, only_instructions: of the agent for a
    source's tasks. unnamed: name of an agent or a function that has no better one. Raises ConfigError.
    """
    if isinstance(what, Groups):
        return Subject(judged_tasks(what.name, reward_from("exact" if reward is None else reward)))
    name = tasks.name if isinstance(tasks, Groups) else None
    source = str(tasks) if isinstance(tasks, str | Path) else None
    if isinstance(what, str | Path) and is_source(str(what)):
        if tasks is not None:
            raise ConfigError(
                f"{str(what)!r} is a source of tasks, and other tasks are given too; leave one of them out"
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
                f"--{option.replace('_', '-')}{'' if value is True else f' {value!r}'} is for the tasks of a file"
                f" without an agent of your own; leave it out, and give your agent its own {option.replace('_', ' ')}"
            )
    if isinstance(what, str | Path):
        domain = load_domain(str(what))
        return Subject(domain if reward is None else domain.with_reward(_name_of(reward)), source)
    if isinstance(what, Domain):
        return Subject(what if reward is None else what.with_reward(_name_of(reward)), source)
    if agent := _agent(what):
        judged = _judged(name or _slug(agent.name or unnamed or "agent"), reward, source)
        domain = agent_tasks(agent, judged, deps=deps, text_of=answer_of)
        return Subject(domain, source, agent.model)
    if callable(what):
        judged = _judged(name or _slug(unnamed or getattr(what, "__name__", type(what).__name__)), reward, source)
        return Subject(program_tasks(what, judged, text_of=answer_of), source)
    raise ConfigError(
        f"{what!r} is neither an agent, a function, a domain nor a name; give a pydantic-ai Agent, an async function"
        " (task, lessons), or a name such as 'math'"
    )


def is_agent(name: str) -> bool:
    """Whether a word of a command is `module:name`, and not a source of tasks or a domain of an adapter."""
    return names_object(name) and not is_domain(name)


def named_agent(
    agent: str, tasks: str | None = None, *, reward: Any = None, deps: str | None = None, **for_sources: Any
) -> Subject:
    """Return the agent or the function at `module:name`, as a command names it. Its module is imported.

    The object may also be a function without arguments that returns one. tasks: their source. reward: the name of one,
    or a function. deps: `module:name` of what the agent's tools get. for_sources: see `subject_of`, which refuses them.

    Raises ConfigError that says what is wrong with the module or the object.
    """
    what = _made(load_object(agent, what="agent"), agent)
    if reward is None and (tasks is None or default_reward(tasks) is None):
        raise ConfigError(
            f"say how the answers of {agent!r} are judged: --reward exact, number, choice, contains, judge or"
            " module:function",
            code="no_reward",
        )
    found = None if deps is None else load_object(deps, what="deps")
    unnamed = agent.replace(".", "-").replace(":", "-")
    subject = subject_of(what, tasks, reward=reward, deps=found, unnamed=unnamed, **for_sources)
    assert isinstance(subject.domain, OutputTasks)
    again = partial(_named_domain, agent, tasks, reward, deps, for_sources)
    return replace(subject, domain=replace(subject.domain, made_by=again))


def _named_domain(
    agent: str, tasks: str | None, reward: Any, deps: str | None, for_sources: Mapping[str, Any]
) -> Domain:
    return named_agent(agent, tasks, reward=reward, deps=deps, **for_sources).domain


def agent_of(settings: OwnAgentOptions, source: str | None) -> Subject | None:
    """Return the agent that the settings of a run name, on tasks of that source; None when they name none."""
    if settings.agent is None:
        return None
    return named_agent(
        settings.agent, source, **settings.model_dump(include={*OwnAgentOptions.model_fields} - {"agent"})
    )


def agent_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a run with the agent that they name: with its name as the domain, and its model.

    Raises ConfigError, also when neither the settings nor the agent have a model.
    """
    subject = named_agent(fields["agent"], fields.get("data"), reward=fields.get("reward"), deps=fields.get("deps"))
    reward = fields.get("reward") or subject.judged.reward.name
    model = fields.get("model") or (fields.get("reflector") if subject.domain.runs_itself else None)
    chosen = named_model(subject.chosen_model(model))
    return {**fields, "domain": subject.domain.name, "reward": reward, "model": chosen}


def _made(found: Any, reference: str) -> Any:
    """Return an agent or a function as it is, and what a function without arguments returns."""
    if _agent(found):
        return found
    from pydantic_ai.agent import AbstractAgent

    if not callable(found) or (isinstance(found, type) and issubclass(found, AbstractAgent)):
        raise _no_agent(f"is {short_repr(found)}", reference)
    try:
        signature(found).bind()
    except (TypeError, ValueError):  # it takes arguments, or is built in
        return found
    made: Any = call_object(found, reference, what="agent")
    if iscoroutine(made):
        made.close()
        raise _no_agent("is async and takes no arguments", reference)
    if not _agent(made) and not callable(made):
        raise _no_agent(f"returned {short_repr(made)}", reference)
    return made


def _no_agent(why: str, reference: str) -> ConfigError:
    return ConfigError(
        f"{reference!r} {why}; name a pydantic-ai Agent, a function without arguments that returns one, or a function"
        " (task, lessons) that returns an answer"
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
        " own agent or function in place of the domain's name"
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
