"""What a domain gives the simulated solver: its traps, and how to act on a problem with or without falling into them.

Announced by the entry-point group `agentlearn.skills`, apart from the domain itself, so that no learning code meets it.
Skills see only the conversation. They recognise the problem from its words; there is no answer key.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Trap:
    """A named habit that cuts across families, and the words by which a lesson speaks of it."""

    name: str
    """lower_snake, such as `endpoints_left_out`."""
    careless: tuple[str, ...]
    """Phrases in which a solver that falls in states its decision, as a comment in a program or a thought.
    At least two; no numbers; none is a substring of a phrase of another trap."""
    careful: tuple[str, ...]
    """The same for a solver that does not fall in."""
    cues: tuple[tuple[str, ...], ...]
    """A lesson addresses the trap when every tuple has at least one of its stems in the lesson: ((endpoint, boundary),
    (includ, inclusive, closed)). Stems are lower case, matched at the start of a word; a `*`-free prefix."""
    advice: tuple[str, ...]
    """Clauses a reflector may use after "When …, ": imperative, general, no numbers; each must satisfy `cues`.
    At least four, in different words."""
    situations: tuple[str, ...]
    """Clauses for "When …": kinds of problem in which the trap lies; general. At least three."""
    base: float = 0.35
    """Probability of falling in without a lesson at temperature 0.7."""


@dataclass(frozen=True, slots=True)
class ToolUse:
    """What the solver asks of a tool."""

    tool: str
    arguments: Mapping[str, object]
    text: str = ""
    """What it says beside the call."""


@dataclass(frozen=True, slots=True)
class FinalMessage:
    """A final message."""

    text: str


Act = ToolUse | FinalMessage


@dataclass(frozen=True, slots=True)
class ToolExchange:
    """One exchange with a tool, as the conversation shows it."""

    tool: str
    arguments: Mapping[str, object]
    result: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a served model is sent: instructions, the user's words, and the turns so far."""

    instructions: str
    question: str
    tools: tuple[str, ...]
    """Names of the tools offered."""
    turns: tuple[ToolExchange, ...] = ()


@dataclass(frozen=True, slots=True)
class Heeded:
    """Which lesson keeps the solver out of which trap: trap name to the label shown in the prompt, such as `G7`."""

    labels: Mapping[str, str] = field(default_factory=dict[str, str])


class Situation(Protocol):
    """A recognised moment of a recognised problem."""

    @property
    def family(self) -> str:
        """Which family of problems it was recognised as."""
        ...

    @property
    def traps(self) -> tuple[str, ...]:
        """Names of the traps that lie in this very turn; empty when the turn has none."""
        ...

    def act(self, flaws: frozenset[str], heeded: Heeded, rng: Random) -> Act:
        """Act, having fallen into `flaws` (a subset of `traps`). rng varies wording only, never rightness."""
        ...


class Skills(Protocol):
    """A domain's part of the simulated solver."""

    @property
    def domain(self) -> str: ...

    @property
    def traps(self) -> Sequence[Trap]: ...

    @property
    def topics(self) -> Mapping[str, tuple[str, ...]]:
        """Per family, stems that name its topic. A lesson whose "When …" clause names topics helps in those families
        only: over-fitted lessons do not carry over."""
        ...

    def recognise(self, conversation: Conversation) -> Situation | None:
        """The situation, from the words alone; None when the problem is none of ours."""
        ...
