"""Finding expected answers in a lesson.

A lesson that holds the answer of a task it was learned from leaks the answer instead of teaching. Answers that occur in
many sentences anyway (a choice letter, yes, a small integer) prove nothing and only raise a flag.
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Self

# Notations that do not change an answer's meaning, as (pattern, replacement), applied in order.
_FORMS = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}", r"\1/\2"),
        (r"\\boxed\s*\{([^{}]*)\}", r"\1"),
        (r"\\(?:left|right)\b|\\[,;!]|\$", ""),
        (r"(?<=\d)(?:,|\{,\})(?=\d{3}(?!\d))", ""),
        (r"\s*([*/^=,])\s*", r"\1"),
        (r"(?<=\w)\s+([-+])\s+(?=\w)", r"\1"),
        (r"(?<=[(\[{])\s+|\s+(?=[)\]}])", ""),
        (r"\s+", " "),
    )
)
_COMMON = re.compile(
    r"[+-]?0*\d{1,2}(?:\.0*)?\s?[%°]?"  # an integer between -100 and 100
    r"|\(?[a-z]\)?\.?|[a-z](?:\s?,\s?[a-z])+"  # one choice or several
    r"|yes|no|true|false|none|n/a"
)
_CHOICE = re.compile(r"\(?([a-z])\)?\.?")
# Letters and digits of scripts with spaces between words. Other scripts have no token boundaries.
_SPACED = r"0-9a-z_\u00c0-\u1fff"
_NEVER = re.compile(r"(?!)")


def _comparable(text: str) -> str:
    text = unicodedata.normalize("NFKC", text).casefold()
    for pattern, replacement in _FORMS:
        text = pattern.sub(replacement, text)
    return text.strip()


def _whole_tokens(texts: Iterable[str]) -> re.Pattern[str]:
    """A pattern for any of the texts where no letter, digit or decimal continues it. A bracket needs no boundary."""
    by_edges: dict[tuple[str, str], list[str]] = {}
    for text in sorted(texts):
        before = "" if text[0] in "([{" else rf"(?<![{_SPACED}])(?<!\d\.)"
        after = "" if text[-1] in ")]}" else rf"(?![{_SPACED}])(?!\.\d)"
        by_edges.setdefault((before, after), []).append(re.escape(text))
    patterns = [f"{before}(?:{'|'.join(same)}){after}" for (before, after), same in by_edges.items()]
    return re.compile("|".join(patterns)) if patterns else _NEVER


@dataclass(frozen=True, slots=True)
class AnswerSearch:
    """Patterns that find a batch's answers."""

    distinctive: re.Pattern[str]
    """Answers that hardly occur by chance."""
    common: re.Pattern[str]
    """Small integers, several choice letters, yes, no and the like."""
    choices: re.Pattern[str]
    """Single choice letters."""

    @classmethod
    def of(cls, answers: Iterable[str]) -> Self:
        """The patterns for these answers."""
        texts = {text for answer in answers if (text := _comparable(answer).rstrip("."))}
        common = {text for text in texts if _COMMON.fullmatch(text)}
        letters = {found[1].upper() for text in common if (found := _CHOICE.fullmatch(text))}
        return cls(
            distinctive=_whole_tokens(texts - common),
            common=_whole_tokens(text for text in common if not _CHOICE.fullmatch(text)),
            # Only a capital inside the sentence: `a` is an article, and so is `A` at the start of a sentence.
            choices=re.compile(rf"(?<=[\s(])(?:{'|'.join(sorted(letters))})(?!\w)") if letters else _NEVER,
        )

    def found(self, lesson: str) -> Literal["distinctive", "common"] | None:
        """Which kind of answer the lesson holds as a whole token; `distinctive` if it holds both, None if neither."""
        text = _comparable(lesson)
        if self.distinctive.search(text):
            return "distinctive"
        if self.common.search(text) or self.choices.search(lesson):
            return "common"
        return None
