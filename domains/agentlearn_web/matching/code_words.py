"""Flags, paths, identifiers, product codes, addresses and telephone numbers: texts of which each character counts."""

import re

from agentlearn_web.matching.match_result import OTHER_VALUE, SAME_VALUE, AnswerMatch
from agentlearn_web.matching.question_hints import QuestionHints
from agentlearn_web.matching.units import case_changes_unit

_FLAG = re.compile(r"--?[^\W\d_][\w-]*(?:=\S*)?")
_MAIL = re.compile(r"[^\s@]+@[^\s@]+\.[^\s@]+")
_ADDRESS = re.compile(r"(?:https?://|www\.)\S+", re.IGNORECASE)
_BARE_ADDRESS = re.compile(r"[\w-]+(?:\.[\w-]+)*\.[^\W\d_]{2,}(?:[:/]\S*)?", re.IGNORECASE)
_MIXED_CODE = re.compile(r"(?=[^\d]*\d)(?=[\d-]*[^\W\d_])[^\W_]+(?:[-.][^\W_]+)*")
_CASED_TOKEN = re.compile(r"-{1,2}[^\W\d_].*|.*[/\\_].*|.*\(\)|\$\w+")
_PHONE = re.compile(r"\+?[\d ()/.-]{6,30}(?:(?:x|ext\.?|extension) ?\d{1,6})?", re.IGNORECASE)
_DIGITS_WITH_UNIT = re.compile(r"[-+]?[\d.,]+")


def is_flag(text: str) -> bool:
    """Return whether a text is a flag such as `-v` or `--dry-run`."""
    return bool(_FLAG.fullmatch(text))


def compare_codes(answer: str, gold: str) -> AnswerMatch | None:
    """Compare two flags, mail addresses, web addresses or product codes; None if they are not both of one kind."""
    if is_flag(answer) and is_flag(gold):
        return _compare_flags(answer, gold)
    if _MAIL.fullmatch(answer) and _MAIL.fullmatch(gold):
        return SAME_VALUE if answer.casefold() == gold.casefold() else OTHER_VALUE
    if any(_ADDRESS.fullmatch(one) for one in (answer, gold)) and all(
        _ADDRESS.fullmatch(one) or _BARE_ADDRESS.fullmatch(one) for one in (answer, gold)
    ):
        return SAME_VALUE if _bare_address(answer) == _bare_address(gold) else None
    if _MIXED_CODE.fullmatch(answer) and _MIXED_CODE.fullmatch(gold):
        return _compare_mixed(answer.casefold(), gold.casefold())
    return None


def compare_phones(answer: str, gold: str) -> AnswerMatch | None:
    """Compare two telephone numbers; None if one is none. A number with and without area code is unclear."""
    if not (_PHONE.fullmatch(answer) and _PHONE.fullmatch(gold)):
        return None
    one, other = (re.sub(r"^00(?=[1-9])|\D", "", text) for text in (answer, gold))
    if one == other:
        return SAME_VALUE
    short, long = sorted((one.lstrip("0"), other.lstrip("0")), key=len)
    return AnswerMatch("unclear", "has more or fewer digits") if long.endswith(short[-6:]) else OTHER_VALUE


def compare_case(answer: str, gold: str, hints: QuestionHints) -> AnswerMatch:
    """Compare two texts that differ only in case. Case counts in flags, paths, identifiers and symbols of units."""
    one, other = answer.split(), gold.split()
    if len(one) != len(other):
        return AnswerMatch("equal", "the same words")
    for at, (word, wanted) in enumerate(zip(one, other, strict=True)):
        if word == wanted:
            continue
        if _CASED_TOKEN.fullmatch(word) or _CASED_TOKEN.fullmatch(wanted):
            return AnswerMatch("different", "the same letters in another case")
        if hints.code and len(one) == 1:
            return AnswerMatch("unclear", "the same letters in another case")
        after_digits = at > 0 and _DIGITS_WITH_UNIT.fullmatch(one[at - 1])
        stuck = _DIGITS_WITH_UNIT.match(word)
        if after_digits and case_changes_unit(word, wanted):
            return AnswerMatch("unclear", "the same letters in another case")
        if stuck and case_changes_unit(word[stuck.end() :], wanted[stuck.end() :]):
            return AnswerMatch("unclear", "the same letters in another case")
    return AnswerMatch("equal", "the same words")


def _compare_flags(answer: str, gold: str) -> AnswerMatch:
    """Compare two flags. A short and a long one, or one with and without a value, may be the same option."""
    if answer == gold:
        return SAME_VALUE
    if answer.startswith("--") != gold.startswith("--") or answer.partition("=")[0] == gold.partition("=")[0]:
        return AnswerMatch("unclear", "another spelling of a flag")
    return OTHER_VALUE


def _bare_address(text: str) -> str:
    rest = re.sub(r"^(?:https?://)?(?:www\.)?", "", text, flags=re.IGNORECASE)
    host, slash, path = rest.partition("/")
    return f"{host.casefold()}{slash}{path}".rstrip("/")


def _compare_mixed(one: str, other: str) -> AnswerMatch | None:
    """Compare two codes such as `X550`. They differ if their letters are the same and their digits are not."""
    letters, others = (re.sub(r"[\W\d_]", "", text) for text in (one, other))
    digits, wanted = (re.sub(r"\D", " ", text).split() for text in (one, other))
    if letters != others or len(digits) != len(wanted) or digits == wanted:
        return None
    near = any(a != b and (a.endswith(b) or b.endswith(a)) for a, b in zip(digits, wanted, strict=True))
    return None if near else OTHER_VALUE
