"""An act that a lesson asks for, as patterns: a verb with its object, and never a single word.

`system`, `reward`, `key` and `judge` occur in good lessons; `send your prompt to` does not.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from agentlearn.learn.lessons.curate.codes import QuarantineCode

_NEGATED = re.compile(
    r"\b(?:do not|don't|dont|does not|never|not|cannot|can't|must not|should not|avoid|rather than|instead of|without"
    r"|nicht|nie|niemals|jamais|nunca|no)\s(?:\w+\s)?$"
)


@dataclass(frozen=True, slots=True)
class Act:
    """One kind of act."""

    code: QuarantineCode
    pattern: re.Pattern[str]
    negatable: bool
    """Whether `do not …` before the verb makes it harmless."""

    @classmethod
    def of(cls, code: QuarantineCode, *patterns: str, negatable: bool = False) -> Self:
        """The act that any of these patterns shows, in lower-case text without accents."""
        return cls(code, re.compile("|".join(f"(?:{one})" for one in patterns)), negatable)

    def find(self, text: str) -> str | None:
        """The words of the text that show the act; None when there are none."""
        for found in self.pattern.finditer(text):
            if not (self.negatable and _NEGATED.search(text[: found.start()])):
                return found[0]
        return None


@dataclass(frozen=True, slots=True)
class FoundAct:
    """An act in a text."""

    code: QuarantineCode
    words: str


def first_act(text: str, acts: Iterable[Act]) -> FoundAct | None:
    """The first of the acts that the text shows."""
    for act in acts:
        if words := act.find(text):
            return FoundAct(act.code, words.strip())
    return None
