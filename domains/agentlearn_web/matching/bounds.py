"""Limits of numbers: `at least 2` is `2 or more`; `at most 60` is `no more than 60`. Pure."""

import re
from dataclasses import dataclass
from typing import Literal

Relation = Literal[">=", ">", "<=", "<"]
_BEFORE: tuple[tuple[Relation, str], ...] = (
    (">=", r"at (?:the )?(?:very )?least|not? (?:less|fewer|lower|under) than|(?:an? )?minimum(?: of)?|min\.?|≥|>="),
    (
        "<=",
        r"at (?:the )?(?:very )?most|not? (?:more|greater|higher|over) than|(?:an? )?maximum(?: of)?|max\.?|up to|≤|<=",
    ),
    (">", r"(?:more|greater|higher|larger|longer) than|over|above|exceeding|>"),
    ("<", r"(?:less|fewer|lower|smaller|shorter) than|under|below|<"),
)
_AFTER: tuple[tuple[Relation, str], ...] = (
    (">=", r"(?:or|and) (?:more|above|over|older|greater|higher|longer|later|newer|up(?:wards)?)|at least|minimum|\+"),
    ("<=", r"(?:or|and) (?:less|fewer|below|under|younger|lower|shorter|earlier|older versions)|at most|maximum"),
)
_Patterns = tuple[tuple[Relation, re.Pattern[str]], ...]
_LEADING: _Patterns = tuple(
    (kind, re.compile(rf"(?:{words})(?: (?=\S)|(?<=\W)(?=\S)|(?=\d))", re.IGNORECASE)) for kind, words in _BEFORE
)
_TRAILING: _Patterns = tuple((kind, re.compile(rf"(?<=\w) ?(?:{words})", re.IGNORECASE)) for kind, words in _AFTER)


@dataclass(frozen=True, slots=True)
class Bound:
    """A limit."""

    relation: Relation
    value: str
    """The text of the limit itself."""

    @property
    def is_lower(self) -> bool:
        """Whether larger values fit."""
        return self.relation in {">=", ">"}


def parse_bound(text: str) -> Bound | None:
    """Return the limit that a text names; None for any other text."""
    for relation, pattern in _LEADING:
        if found := pattern.match(text):
            return Bound(relation, text[found.end() :])
    for relation, pattern in _TRAILING:
        found = pattern.search(text)
        if found is None:
            continue
        noun = text[found.end() :]
        if not noun or noun.startswith(" "):
            return Bound(relation, text[: found.start()] + noun)
    return None
