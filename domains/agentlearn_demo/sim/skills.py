"""What a domain provides for the simulated solver: its traps, and how to act on a problem, with or without flaws.

Skills have their own entry-point group, `agentlearn.skills`, separate from the domain, so that learning code never
imports them. They see only the conversation and recognise the problem from its text; they have no answer key.
"""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from random import Random
from typing import Any, Protocol, cast

from agentlearn.errors import ConfigError
from agentlearn.plugins import Plugin, every_plugin, load

GROUP = "agentlearn.skills"


@dataclass(frozen=True, slots=True)
class Trap:
    """A careless habit that occurs in several families of problems, and the words by which a lesson refers to it."""

    name: str
    """Name in lower_snake, such as `endpoints_left_out`."""
    careless: tuple[str, ...]
    """Phrases with which a solver that falls into the trap states its decision, in a comment or a thought.
    At least two; no numbers; none is a substring of a phrase of another trap."""
    careful: tuple[str, ...]
    """Phrases with which a solver that avoids the trap states its decision, with the same rules."""
    cues: tuple[tuple[str, ...], ...]
    """A lesson is about the trap if it contains at least one stem of every tuple: ((endpoint, boundary), (includ,
    inclusive, closed)). Stems are lower case and match at the start of a word; no wildcards."""
    advice: tuple[str, ...]
    """Clauses that a reflector may use after "When …, ": imperative, general, without numbers; each must satisfy
    `cues`. At least four, in different words."""
    situations: tuple[str, ...]
    """Clauses for "When …": general kinds of problem in which the trap occurs. At least three."""
    base: float = 0.35
    """Probability of falling into the trap without a lesson, at temperature 0.7."""


def traps_in(package: str) -> tuple[Trap, ...]:
    """Return the traps that the file `traps.toml` of a package describes, in its order."""

    def frozen(value: Any) -> Any:
        return tuple(map(frozen, value)) if isinstance(value, list) else value

    rows = tomllib.loads(files(package).joinpath("traps.toml").read_text(encoding="utf-8"))
    return tuple(Trap(name, **{key: frozen(value) for key, value in row.items()}) for name, row in rows.items())


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool call of the solver."""

    tool: str
    arguments: Mapping[str, object]
    text: str = ""
    """Text sent with the call."""


@dataclass(frozen=True, slots=True)
class FinalMessage:
    """The solver's final message."""

    text: str


Act = ToolUse | FinalMessage


@dataclass(frozen=True, slots=True)
class ToolExchange:
    """One tool call with its result, as in the conversation."""

    tool: str
    arguments: Mapping[str, object]
    result: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation as the model gets it: instructions, the question and the tool calls so far."""

    instructions: str
    question: str
    tools: tuple[str, ...]
    """Names of the available tools."""
    turns: tuple[ToolExchange, ...] = ()


@dataclass(frozen=True, slots=True)
class FollowedLessons:
    """The lesson that the solver follows for each trap: label in the prompt, such as `G7`, by trap name."""

    labels: Mapping[str, str] = field(default_factory=dict[str, str])


class Situation(Protocol):
    """A recognised problem, at one turn of its conversation."""

    @property
    def family(self) -> str:
        """The family of problems that it belongs to."""
        ...

    @property
    def traps(self) -> tuple[str, ...]:
        """Names of the traps in this turn; empty if it has none."""
        ...

    def act(self, flaws: frozenset[str], followed: FollowedLessons, rng: Random, /) -> Act:
        """Act with the given flaws (a subset of `traps`). rng varies only the wording, never the correctness."""
        ...


@dataclass(frozen=True, slots=True)
class Turn:
    """A situation made of a function."""

    family: str
    traps: tuple[str, ...]
    act: Callable[[frozenset[str], FollowedLessons, Random], Act]


class Skills(Protocol):
    """A domain's skills for the simulated solver."""

    @property
    def domain(self) -> str: ...

    @property
    def traps(self) -> Sequence[Trap]: ...

    @property
    def topics(self) -> Mapping[str, tuple[str, ...]]:
        """By family, stems that name its topic. A lesson whose "When …" clause names topics applies only to those
        families, so over-specific lessons do not generalise."""
        ...

    def recognise(self, conversation: Conversation) -> Situation | None:
        """The situation, recognised from the text only; None if the problem is not of this domain."""
        ...


def installed_skills() -> tuple[Skills, ...]:
    """The skills of every installed domain, sorted by name. Raises ConfigError for skills that cannot be used."""
    # Of two entry points with one name the first on the path wins, as with modules.
    by_name = {plugin.name: plugin for plugin in reversed(tuple(every_plugin(GROUP)))}
    return tuple(_loaded(by_name[name]) for name in sorted(by_name))


def _loaded(plugin: Plugin) -> Skills:
    loaded = load(plugin, "skills")
    skills = loaded() if callable(loaded) else loaded
    if not callable(getattr(skills, "recognise", None)):
        raise ConfigError(
            f"the skills {plugin.name!r} ({plugin.value}) do not implement agentlearn_demo.sim.skills.Skills"
        )
    return cast("Skills", skills)
