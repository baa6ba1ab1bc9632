"""Decide what the lessons in a prompt say about each trap, from their words only.

This works for lessons by anyone, also by people and real models: a lesson is matched against a trap's cue stems, with
inflections, negation and inversion. The trap's phrases determine whether advice should be for a stem ("endpoints") or
against it ("floats").
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from agentlearn.types.experience import estimated_tokens
from agentlearn_demo.sim.polarity import Clause, Sentence, is_removal, normalised_text, parse_sentence
from agentlearn_demo.sim.skills import Skills, Trap

LessonEffect = Literal["addresses", "contradicts", "silent"]

_BLOCK = re.compile(r"<experiences\b[^>]*>(.*?)</experiences\s*>", re.DOTALL | re.IGNORECASE)
_LINE = re.compile(r"^[ \t]*(?:[-*][ \t]+)?\[([A-Za-z]\w*)\][.:]?[ \t]+(\S.*?)[ \t]*$", re.MULTILINE)
_DECLARED = "qqadviceqq"


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
    text = normalised_text(lesson)
    compiled = _compiled(trap)
    if not all(group.search(text) for group in compiled.cues):
        return "silent"
    parts = parse_sentence(compiled.declared.sub(_DECLARED, text), removals_negate=not compiled.removes)
    balance = _declared_balance(parts) or _balance(parts, compiled)
    return "addresses" if balance >= 0 else "contradicts"


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
            families=self.topics_in(parse_sentence(text).context),
            cues=len(self._stems.findall(text)),
            tokens=estimated_tokens(lesson),
        )


@dataclass(frozen=True, slots=True)
class _Compiled:
    cues: tuple[re.Pattern[str], ...]
    stems: tuple[tuple[tuple[re.Pattern[str], int], ...], ...]
    """For each cue group its stems with their direction: +1 should be done, -1 should be avoided, 0 undecided."""
    declared: re.Pattern[str]
    removes: bool
    """Whether careful solvers remove something for this trap, so that "remove" is not a negation."""


@lru_cache(maxsize=1_024)
def _compiled(trap: Trap) -> _Compiled:
    """A trap's patterns. The direction of its stems is that of its phrases."""
    removing = any(is_removal(stem) for group in trap.cues for stem in group)

    def directed(stem: str) -> tuple[re.Pattern[str], int]:
        pattern = _any_of((stem,))
        asked: list[int] = []
        for meant, phrases in ((1, (*trap.advice, *trap.careful)), (-1, trap.careless)):
            parsed = [parse_sentence(normalised_text(one), removals_negate=not removing) for one in phrases]
            clauses = [clause for sentence in parsed for clause in sentence.clauses]
            asked += [meant * one.sign(match.start()) for one in clauses for match in pattern.finditer(one.text)]
        clear = not asked or 2 * abs(sum(asked)) > len(asked)
        return pattern, (_sign(sum(asked)) or 1) if clear else 0

    declared = sorted((normalised_text(phrase).rstrip(".") for phrase in trap.advice), key=len, reverse=True)
    return _Compiled(
        cues=tuple(_any_of(group) for group in trap.cues),
        stems=tuple(tuple(directed(stem) for stem in group) for group in trap.cues),
        declared=re.compile("|".join(map(re.escape, declared)) or r"(?!)"),
        removes=removing,
    )


def _declared_balance(parts: Sentence) -> int:
    """The sign of advice that repeats the trap's own words; 0 if there is none."""
    return sum(clause.sign(at) for clause in parts.clauses if (at := clause.text.find(_DECLARED)) >= 0)


def _balance(parts: Sentence, compiled: _Compiled) -> int:
    """Positive if the advice is to do what the trap's cues describe, negative if it is to avoid it, else 0."""
    last, spoken_of = 0, False
    per_group = [0] * len(compiled.stems)
    for clause in parts.clauses:
        votes = [_votes(clause, group) for group in compiled.stems]
        spoken_of |= any(votes)
        per_group = [total + sum(vote) for total, vote in zip(per_group, votes, strict=True)]
        last = sum(_sign(sum(vote)) for vote in votes) or last
    if any(per_group):
        # "Count without the endpoints": if cue groups cancel out, the last clause with a sign decides.
        return sum(map(_sign, per_group)) or last or next(filter(None, per_group))
    # The cues are only in the "When …" clause: the tone of the advice decides.
    return 0 if spoken_of else min((clause.tone for clause in parts.clauses), default=0)


def _votes(clause: Clause, group: Iterable[tuple[re.Pattern[str], int]]) -> list[int]:
    return [
        1 if clause.warns else clause.sign(match.start()) * direction
        for stem, direction in group
        for match in stem.finditer(clause.text)
    ]


def _any_of(stems: Iterable[str]) -> re.Pattern[str]:
    """Any of the stems at the start of a word; nothing for no stems."""
    found = "|".join(re.escape(stem.casefold()).replace(r"\ ", r"\s+") for stem in stems)
    return re.compile(rf"(?<!\w)(?:{found})" if found else r"(?!)")


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)
