"""Compares two answers as values, lists and words. Pure.

`equal` and `different` are said only where they are proven. Texts that differ may be two names of one thing, so they
are `unclear`, and a judge has to decide.
"""

import unicodedata
from functools import partial

from agentlearn_web.matching.answer_text import normal_text, without_citation
from agentlearn_web.matching.code_words import compare_case, is_flag
from agentlearn_web.matching.dates import parse_dates
from agentlearn_web.matching.item_lists import compare_alternatives, compare_lists, item_lists
from agentlearn_web.matching.match_result import OTHER_WORDS, AnswerMatch
from agentlearn_web.matching.numbers import parse_number
from agentlearn_web.matching.phrases import asked_part, left_out_other_words, other_person
from agentlearn_web.matching.question_hints import QuestionHints, read_question
from agentlearn_web.matching.value_kinds import compare_values, is_value

__all__ = ["AnswerMatch", "answer_match_key", "match_answers"]


def match_answers(answer: str, gold: str, question: str = "") -> AnswerMatch:
    """Return whether the answer says the same as the expected one, `gold`.

    The answer may omit the unit of the expected answer. A unit that only the answer has must fit the question.
    question: text of the task.
    """
    hints = read_question(question)
    match, plain = _compare(answer, gold, hints), without_citation(answer)
    return match if match.status == "equal" or plain == answer else _compare(plain, gold, hints)


def answer_match_key(answer: str) -> str | None:
    """Return a text that is the same for equal dates, numbers and lists; None for an empty answer.

    The key of a key is the key itself. A number keeps its unit. A number such as `3.10` keeps its zero, because it may
    be a version.
    """
    text = normal_text(answer, fold=False)
    items = [] if is_value(text) else item_lists(answer, fold=False)[-1:]
    return "; ".join(sorted(map(_canonical, items[0]))) if items else _canonical(text) or None


def _compare(answer: str, gold: str, hints: QuestionHints) -> AnswerMatch:
    one, other = normal_text(answer, fold=False), normal_text(gold, fold=False)
    if match := _compare_plainly(one, other, hints):
        return match
    item_match = partial(_compare_short, hints=hints)
    if match := compare_lists(answer, gold, hints, item_match) or compare_alternatives(one, other, item_match):
        return match
    if (hints.person or hints.place) and _plain_name(one) == _plain_name(other):
        return AnswerMatch("equal", "the same name")
    return _compare_asked_parts(one, other, hints) or OTHER_WORDS


def _compare_short(answer: str, gold: str, hints: QuestionHints) -> AnswerMatch:
    """Compare two items of lists."""
    return _compare_plainly(answer, gold, hints) or _compare_asked_parts(answer, gold, hints) or OTHER_WORDS


def _compare_plainly(answer: str, gold: str, hints: QuestionHints) -> AnswerMatch | None:
    """Compare two texts as values, then as words; None if nothing is known."""
    if answer == gold:
        return AnswerMatch("equal", "the same words")
    if match := compare_values(answer, gold, hints):
        return match
    return compare_case(answer, gold, hints) if normal_text(answer) == normal_text(gold) else None


def _compare_asked_parts(answer: str, gold: str, hints: QuestionHints) -> AnswerMatch | None:
    """Compare what is left without titles, remarks and words of the question; None if nothing can be left out."""
    one, other = normal_text(asked_part(answer, hints), fold=False), normal_text(asked_part(gold, hints), fold=False)
    if (one, other) == (answer, gold) or other_person(answer, gold):
        return None
    match = _compare_plainly(one, other, hints)
    return None if match and left_out_other_words(answer, gold, one, other) else match


def _plain_name(name: str) -> str:
    """Return a name such as `Núñez, José` in the usual order, in lower case, without accents."""
    plain = "".join(one for one in unicodedata.normalize("NFD", name.casefold()) if not unicodedata.combining(one))
    last, comma, first = plain.partition(", ")
    return f"{first} {last}" if comma and "," not in first else plain


def _canonical(text: str) -> str:
    """Return the canonical form of a date or number with one reading, a flag as it is, other text in lower case."""
    folded = normal_text(text)
    if readings := parse_dates(folded):
        return str(readings[0]) if len(readings) == 1 else folded
    number = parse_number(text)
    if number is None or len(number.readings) > 1:
        return text if is_flag(text) else folded
    keeps_zero = not number.unit.name and "." in number.text and number.text.endswith("0")
    return number.text if keeps_zero and number.text.rstrip("0")[-1] != "." else str(number)
