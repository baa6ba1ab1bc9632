"""Cues: groups of words that plain advice rarely needs, each with points. Several cues in one lesson make it doubtful.

A family is a group of words with one meaning, such as `those who judge`. Each family counts once. The families
are tables of plain phrases, so that a person can read and change them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property, lru_cache
from itertools import product

from agentlearn.library.curate.codes import QuarantineCode

_TOKEN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_\u3040-\u30ff\u3400-\u9fff]+(?:'[^\W_]+)?")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_SHORTEST_PREFIX = 3
_NEGATIONS = frozenset(
    {
        "not",
        "never",
        "don't",
        "doesn't",
        "avoid",
        "cannot",
        "nicht",
        "nie",
        "niemals",
        "jamais",
        "pas",
        "nunca",
        "\u043d\u0435",
        "\u8981",
    }
)
"""Words after which an act is forbidden, in English, German, French, Spanish, Russian and Chinese."""
_MOST_KNOWN = 20_000
_REACH = 2
"""How many words a negation reaches."""


class Weight(IntEnum):
    """How much words tell."""

    PLAIN = 0
    """Nothing: an exception from a phrase of the same family that tells more."""
    TOPIC = 1
    """Good lessons speak of this too."""
    TELLING = 2
    """Good lessons seldom speak of this."""
    CERTAIN = 4
    """Enough for a doubt, without any other words."""


@dataclass(frozen=True)
class CueFamily:
    """Words with one meaning."""

    name: str
    """What the words speak of."""
    code: QuarantineCode | None
    """Why a lesson is held if these words tell the most in it; None for words that only add to others."""
    tables: tuple[tuple[Weight, str], ...]
    """Phrases, separated by commas, and what they tell."""

    @classmethod
    def of(
        cls,
        name: str,
        code: QuarantineCode | None = None,
        *,
        certain: str = "",
        telling: str = "",
        topic: str = "",
        plain: str = "",
    ) -> "CueFamily":
        """A family from tables of phrases, separated by commas. The smallest weight of a phrase counts.

        In a phrase, `a/b` is either word, `*` any word, and `word~` any word that starts so.
        """
        tables = (
            (Weight.CERTAIN, certain),
            (Weight.TELLING, telling),
            (Weight.TOPIC, topic),
            (Weight.PLAIN, plain),
        )
        return cls(name, code, tables)

    @cached_property
    def phrases(self) -> Mapping[tuple[str, ...], Weight]:
        """What each phrase tells, by its words. The tables are read when the first lesson is screened."""
        return {words: weight for weight, table in self.tables for words in _phrases(table)}


@dataclass(frozen=True, slots=True)
class Cue:
    """Words of a family in a lesson."""

    family: CueFamily
    words: str
    weight: Weight


_Phrase = tuple[tuple[str, ...], Weight, CueFamily]
"""The words of a phrase after its first, what they tell, and their family."""


class CueTable:
    """Families, arranged for a fast search."""

    def __init__(self, families: Iterable[CueFamily]) -> None:
        """Keep the families. They are arranged for the first text."""
        self._families = tuple(families)
        self._known: dict[str, tuple[_Phrase, ...]] = {}

    @cached_property
    def _starts(self) -> dict[str, list[_Phrase]]:
        """The phrases of the families by their first words."""
        starts: dict[str, list[_Phrase]] = {}
        for family in self._families:
            for (first, *rest), weight in family.phrases.items():
                starts.setdefault(first, []).append((tuple(rest), weight, family))
        return starts

    def find(self, text: str) -> list[Cue]:
        """The cue of each family that tells the most in a folded text, the most telling cues first."""
        tokens = _TOKEN.findall(text)
        found: dict[str, Cue] = {}
        for start, token in enumerate(tokens):
            phrases = self._from(token)
            if not phrases or not _NEGATIONS.isdisjoint(tokens[max(0, start - _REACH) : start]):
                continue
            for rest, weight, family in phrases:
                known = found.get(family.name)
                if (known is None or known.weight < weight) and _follows(rest, tokens, start + 1):
                    found[family.name] = Cue(family, " ".join(tokens[start : start + 1 + len(rest)]), weight)
        return sorted(found.values(), key=lambda cue: -cue.weight)

    def _from(self, token: str) -> tuple[_Phrase, ...]:
        """The phrases that may start with this word. Words repeat from lesson to lesson, so they are kept."""
        if token not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[token] = tuple(
                phrase for form in sorted(word_forms(token) & self._starts.keys()) for phrase in self._starts[form]
            )
        return self._known[token]


def _follows(rest: tuple[str, ...], tokens: list[str], start: int) -> bool:
    if len(tokens) - start < len(rest):
        return False
    return all(word == "*" or word in word_forms(tokens[start + place]) for place, word in enumerate(rest))


def _phrases(table: str) -> Iterator[tuple[str, ...]]:
    """Each phrase of a table, and each reading of one with alternatives."""
    for phrase in table.split(","):
        yield from _readings(phrase.split())


def _readings(words: list[str]) -> Iterator[tuple[str, ...]]:
    """Each reading of a phrase. A character of a script without spaces is a word."""
    for reading in product(*(word.split("/") for word in words)):
        parts = [part for word in reading for part in (_UNSPACED.findall(word) or [word])]
        if parts:
            yield tuple(parts)


@lru_cache(maxsize=8192)
def word_forms(word: str) -> frozenset[str]:
    """A word, its likely base forms, and its beginnings as `begin~`."""
    forms = {word, word.removesuffix("'s")}
    for ending, others in (
        ("s", ("",)),
        ("es", ("",)),
        ("ies", ("y",)),
        ("ed", ("", "e")),
        ("ied", ("y",)),
        ("ing", ("", "e")),
    ):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            stem = word[: -len(ending)]
            forms.update(stem + other for other in others)
            if ending in {"ed", "ing"} and stem[-1] == stem[-2]:
                forms.add(stem[:-1])
    forms.update(f"{word[:length]}~" for length in range(_SHORTEST_PREFIX, len(word) + 1))
    return frozenset(forms)
