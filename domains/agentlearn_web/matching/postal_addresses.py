"""Postal addresses: commas, line ends and short forms such as `St.` do not matter. Pure."""

import re

from agentlearn_web.matching.match_result import SAME_VALUE, AnswerMatch
from agentlearn_web.matching.question_hints import QuestionHints

_SHORT = {
    "st": "street",
    "str": "street",
    "rd": "road",
    "ave": "avenue",
    "av": "avenue",
    "blvd": "boulevard",
    "ln": "lane",
    "dr": "drive",
    "sq": "square",
    "pl": "place",
    "hwy": "highway",
    "apt": "apartment",
}
_PART = re.compile(r"[\w'-]+")
_SHAPE = re.compile(r"(?=.*\d)(?=.*[^\W\d_]{2})(?=\S+ \S)[^/\\_]+")
"""Several words, one of them with a digit; not a path."""


def compare_addresses(answer: str, gold: str, hints: QuestionHints) -> AnswerMatch | None:
    """Compare two addresses of places; None if they are none, or not proven equal. The texts are in lower case."""
    if not (hints.address and _SHAPE.fullmatch(answer) and _SHAPE.fullmatch(gold)):
        return None
    return SAME_VALUE if _parts(answer) == _parts(gold) else None


def _parts(text: str) -> list[str]:
    parts: list[str] = _PART.findall(text)
    return [_SHORT.get(part, part) for part in parts]
