"""Finding expected answers in a lesson.

A lesson that holds the answer of a task it was learned from leaks the answer instead of teaching. Answers that occur in
many sentences anyway (a choice letter, yes, a small integer) prove nothing and only raise a flag.
"""

import re
from collections import Counter
from collections.abc import Collection, Container, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Self

from agentlearn.answers.numbers import (
    HAN_NUMERAL,
    LARGE_NUMBERS,
    NUMBER_WORD,
    PARTS,
    SMALL_NUMBERS,
    leading_number,
    numeral_value,
)
from agentlearn.text import plain, word_places
from agentlearn.types.task import Task

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
_NEVER = re.compile(r"(?!)")
_NO_DECIMAL_BEFORE, _NO_DECIMAL_BEHIND = re.compile(r"(?<!\d\.)"), re.compile(r"(?!\.\d)")


def _comparable(text: str) -> str:
    text = plain(text).casefold()
    for pattern, replacement in _FORMS:
        text = pattern.sub(replacement, text)
    return text.strip()


def _stands(answer: str, text: str) -> bool:
    """Whether an answer stands in a text where no letter, digit or decimal continues it."""
    places = ((at, at + len(answer)) for at in word_places(text, answer))
    return any(_NO_DECIMAL_BEFORE.match(text, at) and _NO_DECIMAL_BEHIND.match(text, end) for at, end in places)


@dataclass(frozen=True, slots=True)
class AnswerSearch:
    """What finds a batch's answers."""

    distinctive: frozenset[str]
    """Answers that hardly occur by chance."""
    common: frozenset[str]
    """Small integers, several choice letters, yes, no and the like."""
    choices: re.Pattern[str]
    """Single choice letters."""

    @classmethod
    def of(cls, answers: Iterable[str]) -> Self:
        """The search for these answers."""
        texts = {text for answer in answers if (text := _comparable(answer).rstrip("."))}
        common = {text for text in texts if _COMMON.fullmatch(text)}
        letters = {found[1].upper() for text in common if (found := _CHOICE.fullmatch(text))}
        return cls(
            distinctive=frozenset(texts - common),
            common=frozenset(text for text in common if not _CHOICE.fullmatch(text)),
            # Only a capital inside the sentence: `a` is an article, and so is `A` at the start of a sentence.
            choices=re.compile(rf"(?<=[\s(])(?:{'|'.join(sorted(letters))})(?!\w)") if letters else _NEVER,
        )

    def found(self, lesson: str) -> Literal["distinctive", "common"] | None:
        """Which kind of answer the lesson holds as a whole token; `distinctive` if it holds both, None if neither."""
        text = _comparable(lesson)
        if any(_stands(one, text) for one in self.distinctive):
            return "distinctive"
        if any(_stands(one, text) for one in self.common) or self.choices.search(lesson):
            return "common"
        return None


_CLASS_SIZE = 3
_PART = re.compile(r"[^\s,;|]+")
_NUMERAL = re.compile(r"(?<![^\W_])\d")
"""The first digit of a number; one behind a letter belongs to a name, such as `P1`."""


def class_answers(tasks: Sequence[Task]) -> frozenset[str]:
    """Return the expected answers of tasks that are sorted into classes, such as the team that a message goes to.

    A rule for such tasks must name a class, and this leaks no answer. There are classes where three or more tasks have
    the same answer on average. A class is an answer without a number that three tasks or more have. Tasks may be sorted
    into several classes at once: then the same holds of the parts of answers, if there are fewer parts than answers.
    """
    answers = [task.answer for task in {task.problem: task for task in tasks}.values() if task.answer is not None]
    parts = [part for answer in answers for part in {*_PART.findall(answer)}]
    found = set[str]()
    for count in (Counter(answers), Counter(parts if len({*parts}) < len({*answers}) else ())):
        if count.total() >= _CLASS_SIZE * len(count):
            found |= {one for one, times in count.items() if times >= _CLASS_SIZE and not _NUMERAL.search(one)}
    return frozenset(found)


_NUMBER = (
    rf"(?:[-+]?\$?\d[\d,]*(?:\.\d+)?(?:/\d+)?\s?%?|(?:minus |negative )?(?:{NUMBER_WORD})(?: (?:hundred"
    rf"|thousand|million)(?: (?:and )?(?:{NUMBER_WORD}))?)?|an? hundred)"
)
_VALUE = (
    rf"(?P<value>{_NUMBER}|\(?(?:option |choice |letter )?\(?[a-h]\)|(?:option|choice|letter) [a-h]\b"
    r"|[b-h]\b|a\b(?=\s*(?:$|[.!,;])))"
)
_END = (
    r"(?=\s*(?:$|[.!?;,)\"']|for (?:this|that|the|these|such|all|every|it)\b|in (?:this|that|the|all"
    r"|every|such)\b|here\b|(?:dollars|apples|eggs|units|cm|meters|euros|hours|minutes|days|people"
    r"|degrees)\b))"
)
_NOUN = (
    r"(?:answers?|solutions?|right (?:choice|option|value|number)|correct (?:choice|option|value|number"
    r"|result)|final (?:result|value|number)|expected (?:value here|result here|output)|gold)"
)
_IS = (
    r"(?:is|was|were|are|equals|equalled|=|turned out to be|turns out to be|came out (?:as|to be|to)"
    r"|came to|comes to|should be|must be|will be|would be|has to be|had to be|always is|:)"
)
_STATED = re.compile(
    rf"\b{_NOUN}\b(?:\s(?:here|to (?:this|that|the) (?:\w+ )?(?:problem|task|question|one)|of (?:this"
    r"|that|the) (?:\w+ )?(?:problem|task|question)|for (?:this|that|the) (?:\w+ )?(?:problem|task"
    rf"|question|one)|in (?:this|that|the) (?:\w+ )?(?:case|problem|task|question)))?\s?{_IS}\s(?:always "
    r"|simply |just |exactly |the number |the value |really |actually |again |probably "
    rf"|:)*[\"'(]?{_VALUE}{_END}"
)
_ORDERED = re.compile(
    r"(?:^|[.!?;:,]\s|\b(?:and|then|just|simply|always|should|must|to|please|only|instead|rules"
    r"|so)\s)(?:answer|reply|respond|output|submit|box|put down|write down|guess|say|return"
    r"|print)\s(?:with |only |just |simply |the number |the value |the letter |always |that it is "
    rf"|:)*[\"'(]?{_VALUE}{_END}"
)
_HERE = re.compile(
    r"\b(?:here|in this (?:problem|task|question|case)|for this (?:problem|task|question)"
    r"|this (?:problem|task|question)'?s?)\b.{0,40}?(?:\bis|\bwas|\bget|\bgot|\bgives?|\bgave"
    rf"|\byields?|=|\bequals|\banswer(?:ed)?)\s(?:the )?(?:answer |number |value |result )?{_VALUE}{_END}"
)
_CONDITION = re.compile(
    r"\b(?:if|when|whenever|whether|until|unless|that|whose|where|why|once|before|e\.g\.|example|such as"
    r"|assum\w+|suppos\w+|never|not|n't|says?|like|in case|as soon as|because|since|provided)\b"
)


def stated_answer(text: str, answers: Container[str] = ()) -> str | None:
    """The words of a folded text that state an answer; None when it states none.

    answers: expected answers of the batch's tasks. A sentence with a condition is refused only for one of these.
    """
    for pattern in (_STATED, _ORDERED, _HERE):
        for found in pattern.finditer(text):
            clause = re.split(r"[.!?;]\s", text[: found.start()])[-1]
            if not _CONDITION.search(clause) or _plain_value(found["value"]) in answers:
                return found[0].strip()
    return None


def _plain_value(value: str) -> str:
    """A value as a task would have it: `18` for `eighteen`, `B` for `option (b)`."""
    number = leading_number(value)
    if number is not None and not number.rest and number.value.denominator == 1:
        return str(number.value)
    bare = value
    if not value[:1].isalpha() or len(value) < 3 or value.startswith(("option", "choice", "letter")):
        bare = re.sub(r"\b(?:option|choice|letter)\b|[()$%,\s]", "", value)
    return bare.upper() if bare.isalpha() and len(bare) == 1 else bare


_SIGNS = {"plus": "+", "minus": "-", "times": "*", "over": "/", "negative": "-"}
_ROMAN = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100, "d": 500, "m": 1000}
_ROMAN_NUMBER = re.compile(r"(?=[ivxlcdm]{3})m{0,3}(?:cm|cd|d?c{0,3})(?:xc|xl|l?x{0,3})(?:ix|iv|v?i{0,3})")
_TOKEN = re.compile(r"[a-z]+|\d+(?:\.\d+)?|[^\s\w]")
_CLOCK = re.compile(r"\b(half|quarter) (past|to) (\w+)\b|\b(\w+) o'?clock\b")
_MONEY = re.compile(r"(\d+) (?:dollars?|euros?|pounds?)\b(?: and (\d+) cents)?")
_WORD = re.compile(r"[\w.:/'-]*\w")
_LEAST = 13
"""Smaller numbers stand in many lessons that leak nothing."""
_LEAST_SIGNS = 4
_RARE = re.compile(r"[A-Z]\w+-[A-Z]|\w[._]\w+[._]\w|\w_\w|\w\.(?:py|js|ts|c|h|go|rs|java|rb|json|yaml|toml|txt|md)$")
"""Names with a hyphen, files and codes."""


def answer_in_other_words(text: str, lesson: str, answers: Collection[str]) -> bool:
    """Whether a lesson, also given as folded text, holds one of the answers in another form."""
    if not answers:
        return False
    numbers, plain = _numbers(text), _compact(_digits(text))
    words = set(_WORD.findall(lesson)) | set(re.findall(r"[\w.-]*\w", lesson))

    def stands(answer: str) -> bool:
        """Whether a formula of digits and signs stands in the text as a whole."""
        if (len(answer) < _LEAST_SIGNS and "/" not in answer) or not re.search(r"\d\D+\d", answer):
            return False
        return re.search(rf"(?<!\d){re.escape(answer)}(?!\d)", plain) is not None

    def has_rare_part(answer: str) -> bool:
        """Whether a word of an answer of several words that hardly occurs elsewhere stands in the lesson."""
        parts = (word for word in re.findall(r"[\w.'-]*\w", answer) if word != answer and len(word) > 5)
        return any(_RARE.search(word) is not None and word in words for word in parts)

    compact = ((answer, _compact(answer)) for answer in answers)
    return any(short in numbers or stands(short) or has_rare_part(answer) for answer, short in compact)


def _numbers(text: str) -> set[str]:
    """The numbers that a folded text names in words, money, Roman and Chinese digits, bits and times of day."""
    digits = _digits(text)
    found = {token for token in digits.split() if token.isdigit() and int(token) >= _LEAST}
    found -= set(re.findall(r"\d+", text))
    for word in filter(_ROMAN_NUMBER.fullmatch, re.findall(r"[a-z]{3,}", text)):
        values = [_ROMAN[sign] for sign in word]
        found.add(str(sum(-now if now < max(values[place:]) else now for place, now in enumerate(values))))
    found |= {str(Fraction(one)) for one in re.findall(r"\b\d\.\d{3,}\b", text)}
    for whole, cents in _MONEY.findall(digits):
        found |= {whole, f"{whole}.{cents:0>2}"} if cents else {whole}
    found |= {str(int(bits, 2)) for bits in re.findall(r"\b[01]{5,}\b", text)}
    for part, joint, past, full in _CLOCK.findall(text):
        hour = past or full
        at = SMALL_NUMBERS.get(hour, int(hour) if hour.isdigit() else 0)
        minutes = {"half": 30, "quarter": 15}.get(part, 0) * (-1 if joint == "to" else 1)
        found |= {f"{(60 * at + minutes + half_day) // 60 % 24}:{minutes % 60:02}" for half_day in (0, 720)}
    return found | {str(value) for run in HAN_NUMERAL.findall(text) if (value := numeral_value(run)) is not None}


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
