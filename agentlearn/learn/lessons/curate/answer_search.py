"""Finding expected answers in a lesson.

A lesson that holds the answer of a task it was learned from does not teach, it leaks. Answers that stand in half of
all sentences (a choice letter, yes, a small integer) prove nothing and are only mentioned.
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Self

# Ways of writing that do not change what an answer says, as (pattern, replacement), applied in order.
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
# Letters and digits of scripts that write spaces between words; others have no whole tokens to respect.
_SPACED = r"0-9a-z_\u00c0-\u1fff"
_NEVER = re.compile(r"(?!)")


def _comparable(text: str) -> str:
    text = unicodedata.normalize("NFKC", text).casefold()
    for pattern, replacement in _FORMS:
        text = pattern.sub(replacement, text)
    return text.strip()


def _whole_tokens(texts: Iterable[str]) -> re.Pattern[str]:
    """Finds any of the texts where no letter, digit or decimal continues it; a bracket needs no such edge."""
    by_edges: dict[tuple[str, str], list[str]] = {}
    for text in sorted(texts):
        before = "" if text[0] in "([{" else rf"(?<![{_SPACED}])(?<!\d\.)"
        after = "" if text[-1] in ")]}" else rf"(?![{_SPACED}])(?!\.\d)"
        by_edges.setdefault((before, after), []).append(re.escape(text))
    patterns = [f"{before}(?:{'|'.join(same)}){after}" for (before, after), same in by_edges.items()]
    return re.compile("|".join(patterns)) if patterns else _NEVER


@dataclass(frozen=True, slots=True)
class AnswerSearch:
    """Patterns for a batch's answers."""

    distinctive: re.Pattern[str]
    common: re.Pattern[str]
    choices: re.Pattern[str]

    @classmethod
    def of(cls, answers: Iterable[str]) -> Self:
        texts = {text for answer in answers if (text := _comparable(answer).rstrip("."))}
        common = {text for text in texts if _COMMON.fullmatch(text)}
        letters = {found[1].upper() for text in common if (found := _CHOICE.fullmatch(text))}
        return cls(
            distinctive=_whole_tokens(texts - common),
            common=_whole_tokens(text for text in common if not _CHOICE.fullmatch(text)),
            # As a capital inside the sentence: `a` is an article, and so is `A` where a sentence begins.
            choices=re.compile(rf"(?<=[\s(])(?:{'|'.join(sorted(letters))})(?!\w)") if letters else _NEVER,
        )

    def found(self, lesson: str) -> Literal["distinctive", "common"] | None:
        """What kind of answer stands in the lesson as a whole token, the worse kind first."""
        text = _comparable(lesson)
        if self.distinctive.search(text):
            return "distinctive"
        if self.common.search(text) or self.choices.search(lesson):
            return "common"
        return None
