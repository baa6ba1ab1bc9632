"""Finding answers that a lesson states: `the answer was eighteen`, `answer 42`, `the answer is always B`.

Such a lesson gives a result away instead of a way to it. Sentences that only speak of answers (`if the answer is 0,
check again`) are advice.
"""

import re
import unicodedata
from collections.abc import Collection, Container
from fractions import Fraction

from agentlearn.answers.numbers import LARGE_NUMBERS, NUMBER_WORD, PARTS, SMALL_NUMBERS, leading_number

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
_POSITION = re.compile(
    r"\b(?:answers?|correct (?:choice|option|answer|one)|right (?:choice|option|answer"
    r"|one))\s(?:\w+ )?(?:is|are|was|lies|will be|must be|should be)\s(?:nearly |almost )?(?:always"
    r"|usually|mostly|typically|generally|often|invariably|in most cases|most often|every time)\s(?:the\s"
    r"|in\s|at\s|option\s|choice\s|letter\s|answer\s|on\s)*"
    r"(?:\(?[a-h]\)?(?=\s*(?:$|[.!?;,:)]|in\b|for\b|so\b|and\b|when\b))|first|last|second|third|fourth"
    r"|middle|longest|shortest|(?:top|bottom)(?: of the list| option| one)?\b|-?\d+(?:\.\d+)?(?=\s*(?:$"
    r"|[.!;,]|for\b|in\b)))"
    r"|\b(?:always|just|simply|(?:when|if|whenever) (?:you are |you're )?(?:unsure|in doubt|stuck"
    r"|uncertain|not sure|lost|out of time)|blindly)[, ]+(?:choose|pick|select|mark|guess|take|answer"
    r"|tick|click)\s(?:with\s)?(?:(?:the|option|choice|letter|answer)\s)*(?:\(?[a-h]\)?(?=\s*(?:$"
    r"|[.!?;,:)]|in\b|for\b))|(?:first|last|second|third|middle|longest|shortest)\s(?:option|choice"
    r"|answer|one)\b)"
    r"|(?:^|[.!?;]\s)(?:choose|pick|select|mark|tick)\s(?:(?:the|option|choice|letter"
    r"|answer)\s)*\(?[a-h]\)?(?=\s*(?:$|[.!?;]|every|always|for (?:all|every|this)|in (?:all|every|this)"
    r"|whenever in doubt|when in doubt))"
)
_TURNED_OUT = re.compile(
    r"\b(?:it|this|that|all of it|everything|the (?:count|number|total|sum|area|length|probability"
    r"|whole thing)) (?:turned out"
    rf"|turns out|came out|comes out|worked out|ended up)(?: to be| as| at| to| being)? {_VALUE}{_END}"
    r"|\b(?:every|each|all|any) (?:tasks?|questions?|problems?|answers?)\b.{0,30}?\b(?:ends? (?:in"
    r"|with|up at)|is|are|equals?)"
    rf" (?:the answer )?{_VALUE.replace('?P<value>', '?P<each>')}{_END}"
    r"|\b(?:result|number|value|letter|option|choice|thing) (?:to|you|that|they|we) (?:\w+ ){1,4}(?:is"
    rf"|was) {_VALUE.replace('?P<value>', '?P<noun>')}{_END}"
    rf"|(?<!\w){_VALUE.replace('?P<value>', '?P<first>')} (?:is|was) (?:what|the (?:number|value|answer"
    r"|result|one)) (?:you|to|that|we|they|expected|wanted|asked|here)\b"
    r"|\b[b-h] (?:was|is) (?:right|correct|the answer) (?:each|every|always|again|all)\b"
    r"|\b(?:option|choice|answer|letter) [a-h] (?:\w+ )?(?:wins|is (?:usually|always|often|mostly"
    r"|right most|correct most|the right|the correct))\b"
    r"|\b(?:answer|respond|reply|choose|pick|select|guess|write) (?:option |letter )?[a-h] (?:whatever"
    r"|regardless|no matter|every time|always|each time|in all|for all|without)\b"
)
_ABOUT_TASK = re.compile(
    r"\b(?:answer|solution|result) (?:to|of|for|in) (?:the|this|that|a) (?:\w+ ){0,2}(?:question|task|problem|puzzle"
    rf"|exercise|case)s? (?:about|with|on|of|where|that) .{{0,40}}?(?:is|was|equals|comes to) {_VALUE}{_END}"
    r"|\b(?:correct|right|expected|true) (?:choice|option|answer|item|product|link) (?:here )?(?:is"
    r"|was) (?:always )?the"
    r" (?:first|second|third|fourth|fifth|last|middle)(?: one)?(?=\s*(?:$|[.!]))"
    r"|\b(?:for|in|on) (?:the|this|that|a) (?:\w+ )?(?:task|question|problem|puzzle|exercise)s? (?:with|about|on|of"
    r"|where) [^.;]{0,40}?\b(?:write|answer|choose|take|give|use|enter|pick|box|submit|it is|say)"
    rf" {_VALUE.replace('?P<value>', '?P<task>')}{_END}"
    r"|\b(?:take|pick|choose|select|mark|tick) (?:option|choice|letter|answer) [a-h] (?:for|in|on) (?:the|this|that|all"
    r"|every) "
    r"|\b(?:count|number|total|sum|area|probability|length|product|remainder|residue) of (?:\w+ ){1,3}(?:comes to"
    r"|came to"
    rf"|must come to|turns out as|was) {_VALUE.replace('?P<value>', '?P<count>')}{_END}"
    r"|\b(?:its|the|your) (?:final )?(?:result|answer) (?:is|equals|was) \d+ (?:times|plus|minus|\*|\+) \d+\b"
)
_PUZZLE = re.compile(
    r"\b(?:answers?|final (?:value|answer|result|number))\s(?:here )?(?:is|was|equals"
    r"|will be)\s(?:simply |just |exactly )?"
    r"(?:the number of (?:days|months|letters|hours|weeks|legs|states|minutes|cards|sides|fingers|players)\b"
    r"|\d+ (?:factorial|plus|minus|times|squared|cubed)\b|(?:twice|double|half|one (?:more"
    r"|less) than) (?:of )?(?:\d|[a-z]+ty\b))"
    r"|\b(?:always|invariably|are answered|is answered) (?:answered |solved )?(?:by|with) -?\d+\b"
    r"|(?:answer|solution|result) (?:key |code )?(?:in|as) (?:hex|binary|roman|morse)\b"
    r"|^it is \(?[a-h]\)?\.?$|\b(?:past|earlier|previous|all|other) (?:attempts?|solvers?|runs"
    r"|tries)\b.{0,30}\b(?:found|agreed|got|gave)\b(?: on)? (?:the )?[\d(]"
    r"|\b(?:option|choice) [a-h] is what\b"
    r"|\bit is (?:always|usually) the (?:one |option |choice )?(?:just )?(?:before|after|next to|second"
    r"|first|last|middle)"
)
_SURE = (_POSITION, _TURNED_OUT, _ABOUT_TASK, _PUZZLE)
_CONDITION = re.compile(
    r"\b(?:if|when|whenever|whether|until|unless|that|whose|where|why|once|before|e\.g\.|example|such as"
    r"|assum\w+|suppos\w+|never|not|n't|says?|like|in case|as soon as|because|since|provided)\b"
)


def stated_answer(text: str, answers: Container[str] = ()) -> str | None:
    """The words of a folded text that state an answer; None when it states none.

    answers: expected answers of the batch's tasks. A sentence with a condition is refused only for one of these.
    """
    if found := next(filter(None, (one.search(text) for one in _SURE)), None):
        return found[0].strip()
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
