"""Yes and no, alone or with the question repeated after it, and texts that differ only by a negation. Pure."""

import re

from agentlearn_web.matching.match_result import OTHER_VALUE, SAME_VALUE, AnswerMatch
from agentlearn_web.matching.question_hints import QuestionHints

YES = {"yes": True, "true": True, "no": False, "false": False}
_LED_BY = re.compile(r"(?P<word>yes|no)(?:,|\.|;|:| -) (?P<rest>.+)", re.DOTALL)
_WORD = re.compile(r"[\w'-]+")
_NEGATIONS = frozenset({"not", "no", "never", "non", "neither", "nor", "without", "cannot"})
_FILL = frozenset(
    [
        *("the", "a", "an", "is", "are", "was", "were", "be", "it", "they", "he", "she", "this", "that", "there"),
        *("does", "do", "did", "has", "have", "can", "may", "will", "must", "you", "we", "of", "in", "on", "at", "to"),
    ]
)
_QUALIFIED = frozenset(
    {"if", "when", "unless", "except", "but", "only", "or", "and", "until", "before", "after", "for"}
)


def compare_affirmations(answer: str, gold: str, hints: QuestionHints) -> AnswerMatch | None:
    """Compare two answers to a yes-or-no question, or two texts of which one is negated; None for others.

    The texts are in lower case.
    """
    one, other = _affirmed(answer, hints), _affirmed(gold, hints)
    if one is not None and other is not None:
        return SAME_VALUE if one == other else OTHER_VALUE
    if not hints.text or hints.choice or not _is_negation_of(answer, gold):
        return None
    return AnswerMatch("different", "says the opposite")


def _affirmed(text: str, hints: QuestionHints) -> bool | None:
    """Return whether a text says yes; None if it is neither yes nor no, or says more than the question."""
    if text in YES:
        return YES[text]
    found = _LED_BY.fullmatch(text)
    if found is None or hints.choice:
        return None
    words = _WORD.findall(found["rest"])
    negations = sum(word in _NEGATIONS or word.endswith("n't") for word in words)
    asked = set(_WORD.findall(hints.text)) | _FILL | _NEGATIONS
    known = all((word in asked and word not in _QUALIFIED) or word.endswith("n't") for word in words)
    says_yes = found["word"] == "yes"
    return says_yes if known and negations == (0 if says_yes else 1) else None


def _is_negation_of(answer: str, gold: str) -> bool:
    """Return whether the texts have the same words but for one negation, such as `not` or `non-`."""
    one, other = (re.findall(r"non(?=-)|\w+'?\w*", text) for text in (answer, gold))
    short, long = sorted((one, other), key=len)
    if len(long) != len(short) + 1 or not short:
        return False
    at = next((at for at, word in enumerate(short) if word != long[at]), len(short))
    return long[at] in {"not", "non", "never"} and long[at + 1 :] == short[at:]
