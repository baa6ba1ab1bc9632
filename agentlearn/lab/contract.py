"""Lab models: tiny models that a package schools itself, ships with itself, and announces in `agentlearn.lab`.

Here is what training, serving and testing them have in common; it knows no domain and no tensor.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol, cast

from agentlearn.errors import ConfigError
from agentlearn.serving.chat_request import Message

GROUP = "agentlearn.lab"


@dataclass(frozen=True, slots=True)
class Doubt:
    """A place in the assistant's first message where the teacher could have gone on in several ways."""

    options: tuple[tuple[str, float], ...]
    """What could have been written there, the words that were among them, and how probable each is. They sum to 1."""
    lessons: tuple[int, ...] = ()
    """Which lessons of the scene made the teacher more or less sure, by their place in `Scene.heard`."""


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation from the user's question to the assistant's last word."""

    messages: tuple[Message, ...]
    doubts: tuple[Doubt, ...] = ()
    """In the order of the text."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What the teacher takes from a lesson in the system message."""

    end: int
    """Where the lesson ends, in characters of the system message."""
    sayings: tuple[str, ...]
    """Some of the lab's `sayings`; empty for a lesson that says nothing."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Conversations that stand behind one and the same system message, as a learner's rollouts do."""

    system: str
    """What the agent is told: instructions, then the lessons in their fence. Empty for nothing."""
    tools: tuple[str, ...]
    """Names of the tools on offer."""
    talks: tuple[Talk, ...]
    heard: tuple[Heard, ...] = ()


@dataclass(frozen=True, slots=True)
class EvaluationTask:
    """One question of the held-out check."""

    system: str
    tools: tuple[str, ...]
    question: str
    answer: str
    expected: float
    """Probability that the teacher answers it rightly with this system message."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """What the tokenizer's vocabulary is made of, besides bytes."""

    whole: tuple[str, ...]
    """Texts that are one token wherever they stand, digits and all."""
    parts: tuple[str, ...]
    """Texts without digits; of all ways to cut a text the one with the fewest parts is taken."""


class Lab(Protocol):
    """A lab model, as its package announces it."""

    @property
    def name(self) -> str:
        """What follows `lab:`."""
        ...

    @property
    def version(self) -> str:
        """Changes with the corpus."""
        ...

    @property
    def sayings(self) -> tuple[str, ...]:
        """All that a lesson can say to the teacher, by name."""
        ...

    @property
    def folder(self) -> Path:
        """Where its shipped files lie: weights, tokenizer, hashes."""
        ...

    def pieces(self) -> Pieces:
        """What its tokenizer is made of."""
        ...

    def scenes(self, seed: int) -> Iterator[Scene]:
        """Its corpus: endless, the same for the same seed."""
        ...

    def exams(self, condition: str, number: int, seed: int) -> Sequence[EvaluationTask]:
        """Questions that no scene holds, under one of `conditions`."""
        ...

    def is_right(self, exam: EvaluationTask, text: str) -> bool:
        """Whether a final message answers the exam."""
        ...

    @property
    def conditions(self) -> tuple[str, ...]:
        """Ways in which lessons stand in an exam's context: none, the right ones, controls."""
        ...


def announced_labs() -> dict[str, Lab]:
    """Every lab model that an installed package announces, by name. Raises ConfigError for one that cannot be used."""
    found: dict[str, Lab] = {}
    for entry in entry_points(group=GROUP):
        try:
            lab = cast("Lab", entry.load())
        except (ImportError, AttributeError) as error:
            raise ConfigError(
                f"the lab model {entry.name!r} ({entry.value}) cannot be loaded: {error}; reinstall or remove the"
                " package",
                code="bad_lab",
            ) from error
        found.setdefault(lab.name, lab)
    return dict(sorted(found.items()))


def announced_lab(name: str) -> Lab:
    """The lab model of that name. Raises ConfigError for a name that no package announces."""
    labs = announced_labs()
    if name not in labs:
        known = ", ".join(f"'lab:{one}'" for one in labs) or "none"
        raise ConfigError(f"there is no lab model {name!r} (installed: {known})", code="unknown_model")
    return labs[name]
