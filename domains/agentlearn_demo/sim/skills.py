"""What a domain provides for the simulated solver: its traps, how to act on a problem, and how lessons are understood.

Skills have their own entry-point group, `agentlearn.skills`, separate from the domain, so that learning code never
imports them. They see only the conversation and recognise the problem from its text; they have no answer key.

What lessons say is read from their words only. A lesson is about a trap if it has the trap's cues. It contradicts the
advice if its last clause with a cue is negated. This is enough for the lessons that the simulated reflector writes;
freely worded ones are read less well.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from random import Random
from typing import Any, Literal, Protocol, cast

from agentlearn.errors import ConfigError
from agentlearn.plugins import Plugin, every_plugin, load
from agentlearn.types.experience import estimated_tokens

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


LessonEffect = Literal["addresses", "contradicts", "silent"]

_BLOCK = re.compile(r"<experiences\b[^>]*>(.*?)</experiences\s*>", re.DOTALL | re.IGNORECASE)
_LINE = re.compile(r"^[ \t]*(?:[-*][ \t]+)?\[([A-Za-z]\w*)\][.:]?[ \t]+(\S.*?)[ \t]*$", re.MULTILINE)
_NEGATION = re.compile(
    r"\b(?:not|dont|\w+n't|never|no need|unnecessary|without"
    r"|(?:avoid|skip|ignor|omit|forg[eo]t|neglect|overlook|miss|mistake)\w*|lea(?:ve|ves|ving) out|left out)\b"
)
"""Two of them in one clause cancel."""
_CLAUSE_END = re.compile(r"[,;:.!?()–—]|\s-\s|\b(?:but|because)\b")
_OPENING = re.compile(r"^(?:when(?:ever)?|if|while|for|in|on|with|before|after|given)\b([^,:;.]*)[,:;]\s*")


def normalised_text(text: str) -> str:
    """The text in lower case, with straight quotes and single spaces."""
    return " ".join(text.casefold().replace("’", "'").replace("‘", "'").split())


@dataclass(frozen=True, slots=True)
class ShownLesson:
    """A lesson as a prompt shows it."""

    label: str
    """The lesson's label in the prompt, such as `G7`."""
    text: str


@lru_cache(maxsize=1_024)
def experiences_in(text: str) -> tuple[ShownLesson, ...]:
    """The lessons of all experiences blocks in the text, in order. Text outside these blocks is not read as lessons."""
    return tuple(ShownLesson(*line) for block in _BLOCK.findall(text) for line in _LINE.findall(block))


@lru_cache(maxsize=1_024)
def without_experiences(text: str) -> str:
    """The text without its experiences blocks."""
    return _BLOCK.sub("", text).strip()


@lru_cache(maxsize=65_536)
def stance(lesson: str, trap: Trap) -> LessonEffect:
    """The stance of a lesson on a trap, ignoring its "When …" clause: addresses, contradicts or silent."""
    text, cues = normalised_text(lesson), [_any_of(stems) for stems in trap.cues]
    if not all(cue.search(text) for cue in cues):
        return "silent"
    advice = [one for one in _CLAUSE_END.split(_OPENING.sub("", text)) if any(cue.search(one) for cue in cues)]
    return "contradicts" if advice and len(_NEGATION.findall(advice[-1])) % 2 else "addresses"


@dataclass(frozen=True, slots=True)
class ReadLesson:
    """A lesson as read with one domain's traps and topics."""

    stances: Mapping[str, LessonEffect]
    """The lesson's stance by trap name, without traps on which it is silent."""
    families: frozenset[str]
    """The families to which its "When …" clause limits it; empty if it applies to all."""
    cues: int
    """Number of cue stems of any trap in the lesson."""
    tokens: int
    """Estimated number of tokens of the lesson."""

    def on(self, trap: str, family: str) -> LessonEffect:
        """The lesson's stance on a trap for problems of a family."""
        if self.families and family not in self.families:
            return "silent"
        return self.stances.get(trap, "silent")


class LessonReader:
    """Reads lessons with one domain's traps and topics, and caches the results."""

    def __init__(self, skills: Skills) -> None:
        self.traps: Mapping[str, Trap] = {trap.name: trap for trap in skills.traps}
        self._topics = {family: _any_of(stems) for family, stems in skills.topics.items()}
        self._stems = _any_of(stem for trap in skills.traps for group in trap.cues for stem in group)
        self.read = lru_cache(maxsize=16_384)(self._read)

    def topics_in(self, text: str) -> frozenset[str]:
        """The families whose topic the text names."""
        said = normalised_text(text)
        return frozenset(family for family, stems in self._topics.items() if said and stems.search(said))

    def topic_words(self, text: str) -> tuple[str, ...]:
        """The words of the text that name a topic, in order."""
        words = (word.strip(",.;:?!()$") for word in text.split())
        return tuple(word for word in words if self.topics_in(word))

    def _read(self, lesson: str) -> ReadLesson:
        found: dict[str, LessonEffect] = {name: stance(lesson, trap) for name, trap in self.traps.items()}
        text = normalised_text(lesson)
        return ReadLesson(
            stances={name: read for name, read in found.items() if read != "silent"},
            families=self.topics_in(opening[1] if (opening := _OPENING.match(text)) else ""),
            cues=len(self._stems.findall(text)),
            tokens=estimated_tokens(lesson),
        )


@lru_cache(maxsize=4_096)
def _any_of(stems: Iterable[str]) -> re.Pattern[str]:
    """Any of the stems at the start of a word; nothing for no stems."""
    found = "|".join(re.escape(stem.casefold()).replace(r"\ ", r"\s+") for stem in stems)
    return re.compile(rf"(?<!\w)(?:{found})" if found else r"(?!)")
