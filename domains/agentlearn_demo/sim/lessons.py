"""Decide what the lessons in a prompt say about each trap, from their words only.

A lesson is about a trap if it has the trap's cues. It contradicts the advice if its last clause with a cue is negated.
This is enough for the lessons that the simulated reflector writes; freely worded ones are read less well.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from agentlearn.types.experience import estimated_tokens
from agentlearn_demo.sim.skills import Skills, Trap

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
