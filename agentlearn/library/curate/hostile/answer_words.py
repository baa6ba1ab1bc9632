"""Finding an expected answer that a lesson writes in another way: in words, in Roman or binary digits, or in part."""

import re
import unicodedata
from collections.abc import Collection
from fractions import Fraction

from agentlearn.answers.numbers import LARGE_NUMBERS, PARTS, SMALL_NUMBERS

_SIGNS = {"plus": "+", "minus": "-", "times": "*", "over": "/", "negative": "-"}
_ROMAN = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100, "d": 500, "m": 1000}
_ROMAN_NUMBER = re.compile(r"(?=[ivxlcdm]{3})m{0,3}(?:cm|cd|d?c{0,3})(?:xc|xl|l?x{0,3})(?:ix|iv|v?i{0,3})")
_HAN = "\u96f6\u4e00\u4e8c\u4e09\u56db\u4e94\u516d\u4e03\u516b\u4e5d\u5341\u767e\u5343\u4e24\u3007"
_HAN_NUMBER = re.compile(rf"[{_HAN}]{{2,}}")
_TOKEN = re.compile(r"[a-z]+|\d+(?:\.\d+)?|[^\s\w]")
_CLOCK = re.compile(r"\b(half|quarter) (past|to) (\w+)\b|\b(\w+) o'?clock\b")
_MONEY = re.compile(r"(\d+) (?:dollars?|euros?|pounds?)\b(?: and (\d+) cents)?")
_WORD = re.compile(r"[\w.:/'-]*\w")
_LEAST = 13
"""Smaller numbers stand in many lessons that leak nothing."""
_LEAST_SIGNS = 4


def answer_in_other_words(text: str, lesson: str, answers: Collection[str]) -> bool:
    """Whether a lesson, also given as folded text, holds one of the answers in another form."""
    if not answers:
        return False
    numbers, plain = _numbers(text), _compact(_digits(text))
    words = set(_WORD.findall(lesson)) | set(re.findall(r"[\w.-]*\w", lesson))
    return any(
        _compact(answer) in numbers or _stands_in(_compact(answer), plain) or _rare_part(answer) & words
        for answer in answers
    )


def _stands_in(answer: str, plain: str) -> bool:
    """Whether a formula of digits and signs stands in the text as a whole."""
    if (len(answer) < _LEAST_SIGNS and "/" not in answer) or not re.search(r"\d\D+\d", answer):
        return False
    return re.search(rf"(?<!\d){re.escape(answer)}(?!\d)", plain) is not None


def _rare_part(answer: str) -> set[str]:
    """The words of an answer of several words that hardly occur elsewhere: names with a hyphen, files, codes."""
    words = re.findall(r"[\w.'-]*\w", answer)
    return {
        word
        for word in words
        if word != answer
        and len(word) > 5
        and re.search(
            r"[A-Z]\w+-[A-Z]|\w[._]\w+[._]\w|\w_\w|\w\.(?:py|js|ts|c|h|go|rs|java|rb|json|yaml|toml|txt|md)$", word
        )
    }


def _numbers(text: str) -> set[str]:
    written = set(re.findall(r"\d+", text))
    found = {token for token in _digits(text).split() if token.isdigit() and int(token) >= _LEAST} - written
    for word in re.findall(r"[a-z]{3,}", text):
        if _ROMAN_NUMBER.fullmatch(word):
            found.add(str(_roman(word)))
    found |= {str(Fraction(one)) for one in re.findall(r"\b\d\.\d{3,}\b", text)}
    for whole, cents in _MONEY.findall(_digits(text)):
        found |= {whole, f"{whole}.{cents:0>2}"} if cents else {whole}
    found |= {str(int(bits, 2)) for bits in re.findall(r"\b[01]{5,}\b", text)}
    for half, joint, hour, full in _CLOCK.findall(text):
        found |= _times(half, joint, hour or full)
    found |= {str(_han(run)) for run in _HAN_NUMBER.findall(text)}
    return found


def _times(part: str, joint: str, hour: str) -> set[str]:
    at = SMALL_NUMBERS.get(hour, int(hour) if hour.isdigit() else 0)
    minutes = {"half": 30, "quarter": 15}.get(part, 0) * (-1 if joint == "to" else 1)
    return {f"{(60 * at + minutes + half_day) // 60 % 24}:{minutes % 60:02}" for half_day in (0, 720)}


def _digits(text: str) -> str:
    """The text with its number words as digits and its words for signs as signs."""
    result: list[str] = []
    now: int | None = None
    base = 0
    for word in [*_TOKEN.findall(text.replace("-", " ")), ""]:
        if word in SMALL_NUMBERS:
            now = (now or 0) + SMALL_NUMBERS[word]
        elif word in LARGE_NUMBERS and now is not None:
            now *= LARGE_NUMBERS[word]
            if word not in {"hundred", "dozen"}:
                base, now = base + now, 0
        elif now is not None and word == "and" and now % 100 == 0 and now:
            continue
        else:
            if now is not None:
                result.append(str(base + now))
            below = PARTS.get(word, PARTS.get(word.removesuffix("s")))
            result.append(f"/{below}" if below and now is not None else _SIGNS.get(word, word))
            now, base = None, 0
    return " ".join(result)


def _compact(text: str) -> str:
    """A text without spaces, backslashes, dollar signs and `frac`, as a task or a lesson would write it."""
    text = re.sub(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}", r"\1/\2", text)
    return re.sub(r"[\s\\${}]|(?<=\d),(?=\d{3})", "", text).casefold()


def _roman(word: str) -> int:
    values = [_ROMAN[sign] for sign in word]
    return sum(-now if now < max(values[place:]) else now for place, now in enumerate(values))


def _han(run: str) -> int:
    total, digit = 0, 0
    for sign in run:
        value = 2 if sign == "\u4e24" else int(unicodedata.numeric(sign, 0))
        if value < 10:
            digit = value
        else:
            total, digit = total + (digit or 1) * value, 0
    return total + digit
