"""What the lessons in a prompt say to the simulated solver, judged from their words alone.

Lessons count whoever wrote them, a person or a real model included: a lesson is held against a trap's cue stems, with
inflections, negation and inversion. Which way a stem points ("floats" are warned of, "endpoints" are asked for) is
learnt from the trap's own phrases.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from agentlearn.sim.polarity import Clause, Sentence, plain, removes, sentence
from agentlearn.sim.skills import Skills, Trap
from agentlearn.types.experience import estimated_tokens

LessonEffect = Literal["addresses", "contradicts", "silent"]

_BLOCK = re.compile(r"<experiences\b[^>]*>(.*?)</experiences\s*>", re.DOTALL | re.IGNORECASE)
_LINE = re.compile(r"^[ \t]*(?:[-*][ \t]+)?\[([A-Za-z]\w*)\][.:]?[ \t]+(\S.*?)[ \t]*$", re.MULTILINE)
_DECLARED = "qqadviceqq"


@dataclass(frozen=True, slots=True)
class ShownLesson:
    """A lesson as a prompt shows it."""

    label: str
    """Such as `G7`."""
    text: str


@lru_cache(maxsize=1_024)
def experiences_in(text: str) -> tuple[ShownLesson, ...]:
    """The lessons of every experiences block in the text, in order; text outside such blocks is no lesson."""
    return tuple(ShownLesson(*line) for block in _BLOCK.findall(text) for line in _LINE.findall(block))


@lru_cache(maxsize=1_024)
def without_experiences(text: str) -> str:
    """The text with its experiences blocks taken out."""
    return _BLOCK.sub("", text).strip()


def reading(lesson: str, trap: Trap, family: str, topics: Mapping[str, tuple[str, ...]]) -> LessonEffect:
    """What a lesson says about a trap in a problem of that family.

    topics: stems that name a family's topic; a lesson whose "When …" clause names some says nothing elsewhere.
    """
    named = _families(sentence(plain(lesson)).context, _compiled_topics(tuple(topics.items())))
    return stance(lesson, trap) if not named or family in named else "silent"


@lru_cache(maxsize=65_536)
def stance(lesson: str, trap: Trap) -> LessonEffect:
    """What a lesson says about a trap, its "When …" clause left aside."""
    text = plain(lesson)
    compiled = _compiled(trap)
    if not all(group.search(text) for group in compiled.cues):
        return "silent"
    parts = sentence(compiled.declared.sub(_DECLARED, text), removals_turn=not compiled.removes)
    balance = _declared_balance(parts) or _balance(parts, compiled)
    return "addresses" if balance >= 0 else "contradicts"


@dataclass(frozen=True, slots=True)
class ReadLesson:
    """A lesson held against everything one domain's solver knows."""

    stances: Mapping[str, LessonEffect]
    """By trap name; traps it is silent on are left out."""
    families: frozenset[str]
    """The only families it speaks of; empty for all."""
    cues: int
    """How many cue stems of any trap it holds."""
    tokens: int
    """Estimated tokens that it costs."""

    def on(self, trap: str, family: str) -> LessonEffect:
        """What it says about that trap in that family."""
        if self.families and family not in self.families:
            return "silent"
        return self.stances.get(trap, "silent")


class LessonReader:
    """Reads lessons with one domain's traps and topics; remembers what it read."""

    def __init__(self, skills: Skills) -> None:
        self.traps: Mapping[str, Trap] = {trap.name: trap for trap in skills.traps}
        self._topics = _compiled_topics(tuple(skills.topics.items()))
        self._stems = _any_of(stem for trap in skills.traps for group in trap.cues for stem in group)
        self.read = lru_cache(maxsize=16_384)(self._read)

    def topics_in(self, text: str) -> frozenset[str]:
        """Families whose topic the text names."""
        return _families(plain(text), self._topics)

    def topic_words(self, text: str) -> tuple[str, ...]:
        """The text's own words that name a topic, in order."""
        words = (word.strip(",.;:?!()$") for word in text.split())
        return tuple(word for word in words if self.topics_in(word))

    def _read(self, lesson: str) -> ReadLesson:
        found: dict[str, LessonEffect] = {name: stance(lesson, trap) for name, trap in self.traps.items()}
        text = plain(lesson)
        return ReadLesson(
            stances={name: read for name, read in found.items() if read != "silent"},
            families=_families(sentence(text).context, self._topics),
            cues=len(self._stems.findall(text)),
            tokens=estimated_tokens(lesson),
        )


_Topics = tuple[tuple[str, re.Pattern[str]], ...]


@dataclass(frozen=True, slots=True)
class _Compiled:
    cues: tuple[re.Pattern[str], ...]
    stems: tuple[tuple[tuple[re.Pattern[str], int], ...], ...]
    """Per cue group its stems, each with the way it points: +1 asked for, -1 warned of, 0 either."""
    declared: re.Pattern[str]
    removes: bool
    """Whether taking away is what this trap's careful people do."""


@lru_cache(maxsize=1_024)
def _compiled(trap: Trap) -> _Compiled:
    removing = any(removes(stem) for group in trap.cues for stem in group)
    phrases = _Phrases(
        tuple(sentence(plain(phrase), removals_turn=not removing) for phrase in (*trap.advice, *trap.careful)),
        tuple(sentence(plain(phrase), removals_turn=not removing) for phrase in trap.careless),
    )
    stems = tuple(tuple((_stem(stem), phrases.direction(_stem(stem))) for stem in group) for group in trap.cues)
    declared = sorted((plain(phrase).rstrip(".") for phrase in trap.advice), key=len, reverse=True)
    return _Compiled(
        cues=tuple(_any_of(group) for group in trap.cues),
        stems=stems,
        declared=re.compile("|".join(map(re.escape, declared)) or r"(?!)"),
        removes=removing,
    )


@dataclass(frozen=True, slots=True)
class _Phrases:
    """A trap's own phrases, from which the direction of its stems is learnt."""

    careful: Sequence[Sentence]
    careless: Sequence[Sentence]

    def direction(self, stem: re.Pattern[str]) -> int:
        asked = [sign for phrase in self.careful for sign in _signs(phrase.clauses, stem)]
        asked += [-sign for phrase in self.careless for sign in _signs(phrase.clauses, stem)]
        clear = not asked or 2 * abs(sum(asked)) > len(asked)
        return (_sign(sum(asked)) or 1) if clear else 0


def _signs(clauses: Iterable[Clause], stem: re.Pattern[str]) -> list[int]:
    return [clause.sign(match.start()) for clause in clauses for match in stem.finditer(clause.text)]


def _declared_balance(parts: Sentence) -> int:
    """The sign given to advice in the trap's own words, which needs no reading; 0 where there is none."""
    return sum(clause.sign(at) for clause in parts.clauses if (at := clause.text.find(_DECLARED)) >= 0)


def _balance(parts: Sentence, compiled: _Compiled) -> int:
    """Positive where the advice asks for what the trap's cues stand for, negative where it asks to leave it."""
    last, spoken_of = 0, False
    per_group = [0] * len(compiled.stems)
    for clause in parts.clauses:
        votes = [_votes(clause, group) for group in compiled.stems]
        spoken_of |= any(votes)
        per_group = [total + sum(vote) for total, vote in zip(per_group, votes, strict=True)]
        last = sum(_sign(sum(vote)) for vote in votes) or last
    if any(per_group):
        # "Count without the endpoints": where the cues disagree, what is spoken of outweighs what is done with it.
        return sum(map(_sign, per_group)) or last or next(filter(None, per_group))
    # The cues stand in the "When …" clause alone: what counts is whether the advice says to do or to leave.
    return 0 if spoken_of else min((clause.tone for clause in parts.clauses), default=0)


def _votes(clause: Clause, group: Iterable[tuple[re.Pattern[str], int]]) -> list[int]:
    return [
        1 if clause.warns else clause.sign(match.start()) * direction
        for stem, direction in group
        for match in stem.finditer(clause.text)
    ]


def _families(text: str, topics: _Topics) -> frozenset[str]:
    return frozenset(family for family, stems in topics if stems.search(text)) if text else frozenset()


@lru_cache(maxsize=64)
def _compiled_topics(topics: tuple[tuple[str, tuple[str, ...]], ...]) -> _Topics:
    return tuple((family, _any_of(stems)) for family, stems in topics)


def _any_of(stems: Iterable[str]) -> re.Pattern[str]:
    found = "|".join(_escaped(stem) for stem in stems)
    return re.compile(rf"(?<!\w)(?:{found})" if found else r"(?!)")


def _stem(stem: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){_escaped(stem)}")


def _escaped(stem: str) -> str:
    return re.escape(stem.casefold()).replace(r"\ ", r"\s+")


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)
