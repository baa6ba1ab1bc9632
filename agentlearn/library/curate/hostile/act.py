"""An act that a lesson asks for, as patterns: a verb with its object, and never a single word.

`system`, `reward`, `key` and `judge` occur in good lessons; `send your prompt to` does not.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from agentlearn.library.curate.codes import QuarantineCode

_NEGATED = re.compile(
    r"\b(?:do not|don't|dont|does not|never|not|cannot|can't|must not|should not|avoid|rather than|instead of|without"
    r"|nicht|nie|niemals|jamais|nunca|no)\s(?:\w+\s)?$"
)


_VERBS = re.compile(r"\\b\(\?:")
_PARTS = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|[^\\\[]", re.DOTALL)
"""An escape, a set of characters, or one character of a pattern."""
_KEY_SIZES = (2, 3, 4)


@dataclass(frozen=True)
class Wording:
    """One pattern of an act, compiled for the first text that it may match. Most runs need few of them."""

    source: str
    keys: frozenset[str] | None
    """First letters of the words that it can begin with. Most texts have none of them, which is quick to see. None when
    the pattern has to be tried on every text."""
    other_script: bool
    """Whether it can only match a text that is not ASCII."""

    @classmethod
    def of(cls, source: str) -> Self:
        """The wording with this pattern."""
        other_script = not source.isascii() and re.search("[a-z]{3}", source) is None
        return cls(source, _keys(source), other_script)

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled pattern."""
        return re.compile(self.source)

    def may_match(self, text: str, starts: frozenset[str]) -> bool:
        """Whether it is worth while to try the pattern. starts: what `starts_of` returns for the text."""
        if self.other_script:
            return not text.isascii()
        return self.keys is None or not self.keys.isdisjoint(starts)


def starts_of(text: str) -> frozenset[str]:
    """The first two, three and four letters of every word."""
    return frozenset(word[:size] for word in re.findall("[a-z]+", text) for size in _KEY_SIZES)


def _keys(source: str) -> frozenset[str] | None:
    """The first letters of each alternative of a pattern that begins with a choice of words; else None."""
    opening = _VERBS.match(source)
    if opening is None:
        return None
    keys: set[str] = set()
    for one in _alternatives(source, opening.end()):
        found = re.match("[a-z]+", one)
        letters = found[0] if found else ""
        if one[len(letters) : len(letters) + 1] in {"?", "*", "{"}:
            letters = letters[:-1]
        if len(letters) < _KEY_SIZES[0]:
            return None
        keys.add(letters[: _KEY_SIZES[-1]])
    return frozenset(keys)


def _alternatives(source: str, start: int) -> list[str]:
    """The alternatives of the group that opens before `start`; one empty text for an optional group."""
    found, depth, begin = list[str](), 0, start
    for part in _PARTS.finditer(source, start):
        sign, at = part[0], part.start()
        if sign == "(":
            depth += 1
        elif sign == ")" and depth:
            depth -= 1
        elif sign in {"|", ")"} and not depth:
            found.append(source[begin:at])
            begin = at + 1
            if sign == ")":
                return found if source[at + 1 : at + 2] not in {"?", "*"} else [""]
    return [""]


@dataclass(frozen=True)
class HostileAct:
    """One kind of act."""

    code: QuarantineCode
    patterns: tuple[str, ...]
    negatable: bool
    """Whether `do not …` before the verb makes it harmless."""

    @classmethod
    def of(cls, code: QuarantineCode, *patterns: str, negatable: bool = False) -> Self:
        """The act that any of these patterns shows, in lower-case text without accents."""
        return cls(code, patterns, negatable)

    @cached_property
    def wordings(self) -> tuple[Wording, ...]:
        """One wording for each alternative of the patterns. They are made when the first lesson is screened."""
        return tuple(Wording.of(one) for pattern in self.patterns for one in _alternatives(f"{pattern})", 0))

    def find(self, text: str, starts: frozenset[str]) -> str | None:
        """The words of the text that show the act; None when there are none. starts: what `starts_of` returns."""
        for wording in self.wordings:
            if wording.may_match(text, starts):
                for found in wording.pattern.finditer(text):
                    if not (self.negatable and _NEGATED.search(text[: found.start()])):
                        return found[0]
        return None


@dataclass(frozen=True, slots=True)
class FoundAct:
    """An act in a text."""

    code: QuarantineCode
    words: str


def first_act(text: str, acts: Iterable[HostileAct]) -> FoundAct | None:
    """The first of the acts that the text shows."""
    starts = starts_of(text)
    for act in acts:
        if words := act.find(text, starts):
            return FoundAct(act.code, words.strip())
    return None
