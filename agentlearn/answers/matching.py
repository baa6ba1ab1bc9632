"""Compares an answer in a few words with the expected one: as values, lists and words, reduced to what is asked for.

`equal` and `different` are said only where they are proven. Texts that differ may be two names of one thing, so they
are `unclear`, and a judge has to decide.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from agentlearn.answers.answer_text import NO_HINTS, QuestionHints, normal_lines, normal_text
from agentlearn.answers.codes import CodeComparator, is_flag
from agentlearn.answers.match import Match
from agentlearn.answers.numbers import leading_number, parse_number
from agentlearn.answers.times import ClockTime, Day, calendar_name
from agentlearn.answers.units import MAGNITUDES, MeasureUnit
from agentlearn.answers.values import YES, ValueComparator, is_value

_OTHER_WORDS = Match.unclear("says it in other words, or something else")
_SAME_WORDS = Match.equal("the same words")

_MAX_ITEMS = 40
_AND = re.compile(r",? (?:and|&) ")
_COMMA = re.compile(r",(?!\d)|(?<!\d),")
_LEADING_AND = re.compile(r"^\s*(?:and|&) ")
_STRONG = re.compile(r"[;\n]")
_BULLET = re.compile(r"[-*•·] +")
_NUMBERED = re.compile(r"\(?(\d{1,2})[.)] +")
_NUMBERED_INLINE = re.compile(r"(?:^|[\s,;])\(?(\d{1,2})[.)] +(?=[^\W\d])")
_OF_DATE = re.compile(r"(?<=[a-z] )(\d{1,2}(?:st|nd|rd|th)?), (?=\d{4}\b)", re.IGNORECASE)
_FIRST = re.compile(r"\s*first(?:ly)?:? ", re.IGNORECASE)
_THEN = re.compile(r"\s*(?:and )?(?:then|next|after that|afterwards|finally|lastly|secondly|thirdly):? ", re.IGNORECASE)
_FROM_TO = re.compile(r"from (?P<start>(?:(?! to ).)+) to (?P<end>(?:(?! to ).)+)", re.IGNORECASE)
_OR = re.compile(r",? or ")
_SAME_LIST, _OTHER_LIST = Match.equal("the same list"), Match.different("another list")
_OTHER_ORDER = "the same list in another order"
_ORDER = {"no": _SAME_LIST, "possible": Match.unclear(_OTHER_ORDER), "yes": Match.different(_OTHER_ORDER)}
"""By whether a question asks for an order: the result for the same list in another order."""

_TITLE = re.compile(
    r"(?:(?:dr|prof|professor|doctor|mr|mrs|ms|miss|sir|dame|rev|reverend|ing|dipl|mag|hon)\.?(?:-ing\.?)?"
    r"|h\. ?c\.?|emeritus|assoc\.?|asst\.?|associate|assistant) (?=\S)",
    re.IGNORECASE,
)
_DEGREE = re.compile(r",? (?:ph\.? ?d|m\.? ?d|m\.? ?sc|b\.? ?sc|mba|esq|phd|llm)\.?$", re.IGNORECASE)
_GENDERED = {"mr": "m", "sir": "m", "mrs": "f", "ms": "f", "miss": "f", "dame": "f"}
_IN = re.compile(r"(?:(?:in|on|at|during) (?:the )?(?:year )?|(?:the )?year )(?=\S)", re.IGNORECASE)
_LAST = re.compile(r"^(?:until|till|up to|through|by) (?:and including )?", re.IGNORECASE)
_NUMBER_WITH_NAME = re.compile(r"(?P<number>\d{1,5})[ :-]{1,3}(?P<name>[^\W\d_][^\d]*)")
_LED_IN = re.compile(
    r"(?:it|this|that|there|these|they|he|she)(?:'s| is| was| are| were|'re| has been| will be| costs?| weighs?| has"
    r"| opens(?: at)?| closes(?: at)?)(?: (?:called|named|held|due|on|at|in))? (?=\S)",
    re.IGNORECASE,
)
_REMARK = re.compile(r"(?P<kept>\S.*?) \((?P<remark>[^()]*)\)")
_HARMLESS = re.compile(
    r"(?:see|according to|as of|as (?:stated|listed|given|shown)|stated|listed|source|page|from|found|based on|per the"
    r"|i\.e\.|e\.g\.|that is|also known as|confirmed|official)\b.*",
    re.IGNORECASE,
)
_DROPPED = (
    re.compile(rf" \((?:{_HARMLESS.pattern})\)$", re.IGNORECASE),
    _DEGREE,
    re.compile(rf"(?:{_TITLE.pattern})+", re.IGNORECASE),
)
_DOUBTFUL = re.compile(
    r"\b(?:not|no|or|maybe|perhaps|possibly|likely|probably|about|around|approx\w*|over|under|former\w*|previous\w*|until"
    r"|before|after|except|instead|unless|was|per|each|if|only|but|either|unsure|guess\w*|million|thousand|billion)\b|\?",
    re.IGNORECASE,
)
_STOP = frozenset(
    (
        *("the", "a", "an", "is", "are", "was", "were", "be", "been", "has", "have", "had", "of", "in", "on", "at"),
        *("by", "for", "to", "it", "its", "there", "this", "that", "as", "do", "does", "did", "will", "with", "their"),
        *("his", "her", "can", "called", "named", "due", "which", "who"),
    )
)
_NEVER_REMOVED = frozenset(
    (
        *("and", "or", "not", "no", "more", "less", "than", "over", "under", "least", "most", "before", "after"),
        *("until", "except", "about", "around", "between", "and/or", "am", "pm", "a.m.", "p.m.", "per", "but", "from"),
        *("by", "to", "north", "south", "east", "west", "minus", "plus", "version", "v", "only", "each", "both"),
        *("either", "if"),
    )
)


def match_answers(answer: str, gold: str, question: str = "") -> Match:
    """Return whether the answer says the same as the expected one, `gold`.

    The answer may omit the unit of the expected answer. A unit that only the answer has must fit the question.
    question: text of the task.
    """
    comparator = _AnswerComparator(QuestionHints.of(question))
    match = comparator.compare(answer, gold)
    plain = _without_citation(answer)
    return match if match.status == "equal" or plain == answer else comparator.compare(plain, gold)


_CITING = r"according to|based on|as (?:stated|listed|given|shown|described|written) (?:on|in|by)"
_PAGE = r"(?:the|this|that) [^,:;\d]*?\b(?:page|site|website)\b"
_CITED = re.compile(
    rf"(?:(?:{_CITING}) [^,:;\d]*|(?:on|in|from|per) {_PAGE}[^,:;\d]*)[,:] (?=\S)"
    rf"|{_PAGE} (?:says|states|lists|gives|shows)(?: that|:)? (?=\S)",
    re.IGNORECASE,
)
_CITED_AFTER = re.compile(rf"(?<=\S),? (?:{_CITING}) [^,:;\d]*$", re.IGNORECASE)


def _without_citation(text: str) -> str:
    """Return an answer without a clause at its start or end that only names where it was read.

    Such as `According to the page, ...`, with a comma or colon and without a number.
    """
    text = text.strip()
    led = _CITED.match(text)
    return text[led.end() :] if led else _CITED_AFTER.sub("", text.removesuffix("."))


def answer_match_key(answer: str) -> str | None:
    """Return a text that is the same for equal dates, numbers and lists; None for an empty answer.

    The key of a key is the key itself. A number keeps its unit. A number such as `3.10` keeps its zero, because it may
    be a version. Flags keep their case.
    """

    def canonical(text: str) -> str:
        folded = normal_text(text)
        if readings := Day.readings(folded):
            return str(readings[0]) if len(readings) == 1 else folded
        number = parse_number(text)
        if number is None or len(number.readings) > 1:
            return text if is_flag(text) else folded
        keeps_zero = not number.unit.name and "." in number.text and number.text.endswith("0")
        return number.text if keeps_zero and number.text.rstrip("0")[-1] != "." else str(number)

    text = normal_text(answer, fold=False)
    items = [] if is_value(text) else _item_lists(answer, fold=False)[-1:]
    return "; ".join(sorted(map(canonical, items[0]))) if items else canonical(text) or None


@dataclass(frozen=True, slots=True)
class _AnswerComparator:
    """Compares answers to one question."""

    hints: QuestionHints

    def compare(self, answer: str, gold: str) -> Match:
        """Compare two answers as values, as lists, as names, and as what is asked for."""
        one, other = normal_text(answer, fold=False), normal_text(gold, fold=False)
        if match := self._plainly(one, other) or self._lists(answer, gold) or self._alternatives(one, other):
            return match
        if self.hints.asks("person", "place") and _plain_name(one) == _plain_name(other):
            return Match.equal("the same name")
        return self._asked_parts(one, other) or _OTHER_WORDS

    def _item(self, answer: str, gold: str) -> Match:
        """Compare two items of lists."""
        return self._plainly(answer, gold) or self._asked_parts(answer, gold) or _OTHER_WORDS

    def _plainly(self, answer: str, gold: str) -> Match | None:
        """Compare two texts as values, then as words; None if nothing is known."""
        if answer == gold:
            return _SAME_WORDS
        if match := ValueComparator(self.hints).compare(answer, gold):
            return match
        return CodeComparator(self.hints).case(answer, gold) if normal_text(answer) == normal_text(gold) else None

    def _asked_parts(self, answer: str, gold: str) -> Match | None:
        """Compare what is left without titles, remarks and words of the question; None if nothing can be left out."""
        one, other = (normal_text(self._asked_part(text), fold=False) for text in (answer, gold))
        genders = {_GENDERED.get(text.split(" ")[0].rstrip(".").casefold()) for text in (answer, gold)} - {None}
        if (one, other) == (answer, gold) or len(genders) > 1:
            return None

        def left_out(text: str, short: str) -> set[str]:
            """Return the words that only the long text has, without titles and words such as `the`."""
            for pattern in _DROPPED:
                text = pattern.sub("", text)
            words, kept = (set(map(_core, one.split())) for one in (text, short))
            return words - kept - _STOP - {""}

        match = self._plainly(one, other)
        out, gold_out = left_out(answer, one), left_out(gold, other)
        # Different words were left out of both, so that what is left may be two things.
        return None if match and out - gold_out and gold_out - out else match

    def _lists(self, answer: str, gold: str) -> Match | None:
        """Compare two texts as lists; None if neither is a list, or nothing is proven.

        The order counts only if the question asks for one. `from Rome to Paris` lists both ends then.
        """

        def ways_of(text: str) -> list[list[str]]:
            found = _FROM_TO.fullmatch(normal_text(text, fold=False)) if self.hints.order != "no" else None
            return _item_lists(text, fold=False) + ([[found["start"], found["end"]]] if found else [])

        ways, wanted_ways = ways_of(answer), ways_of(gold)
        pairs = [(items, wanted) for items in ways for wanted in wanted_ways]
        matches: list[Match] = []
        for items, wanted in pairs:
            if max(len(items), len(wanted)) > _MAX_ITEMS:
                continue
            left, extra, in_order = self._unmatched(items, wanted)
            if not left and not extra:
                matches.append(_SAME_LIST if in_order else _ORDER[self.hints.order])
            elif all(map(is_value, [*items, *wanted])) and not any(
                self._item(one, other).status == "unclear" for one in extra for other in left
            ):
                matches.append(_OTHER_LIST)
        if not matches and self.hints.asks("listed") and _STRONG.search(gold):
            sides = [self._unmatched(*pair)[:2] for pair in pairs]
            if any(left and not extra for left, extra in sides):
                return Match.different("lacks a part of the list")
        if matches:
            return min(matches, key=lambda match: ("equal", "unclear", "different").index(match.status))
        if bool(ways) == bool(wanted_ways):
            return None
        single = gold if ways else answer
        for items in ways or wanted_ways:  # a list of values with one value: others of its kind make it another answer
            if all(map(is_value, [*items, single])):
                statuses = {self._item(one, single).status for one in items}
                return _OTHER_LIST if "unclear" not in statuses and "different" in statuses else None
        return None

    def _unmatched(self, items: Sequence[str], wanted: Sequence[str]) -> tuple[list[str], list[str], bool]:
        """Return the wanted items that no item equals, the items left over, and whether both are in one order."""
        pairs = zip(items, wanted, strict=False)
        if len(items) == len(wanted) and all(self._item(one, other).status == "equal" for one, other in pairs):
            return [], [], True
        left, extra = list(wanted), []
        for one in items:
            at = next((at for at, other in enumerate(left) if self._item(one, other).status == "equal"), None)
            if at is None:
                extra.append(one)
            else:
                del left[at]
        return left, extra, False

    def _alternatives(self, answer: str, gold: str) -> Match | None:
        """Compare an answer that offers several values, such as `12 or 13`, with a single expected one."""
        options = _OR.split(answer)
        if len(options) < 2 or _OR.search(gold) or not all(map(is_value, [*options, gold])):
            return None
        statuses = {self._item(option, gold).status for option in options}
        if statuses == {"equal"}:
            return Match.equal("the same value")
        return Match.different("offers several values") if "unclear" not in statuses else None

    def _asked_part(self, text: str) -> str:
        """Return the part of an answer that the question asks for; the text itself if nothing surely is superfluous.

        Without a remark in brackets, `it is`, words of the question, `in`, titles, and the name behind a code.
        """
        text = self._without_remark(text)
        if found := _LED_IN.match(text):
            rest = text[found.end() :]
            text = rest if is_value(rest) or not re.search(r"\b(?:not|no|and|or)\b", rest, re.IGNORECASE) else text
        text = self._without_preposition(self._without_question_words(text))
        name = text
        while found := _TITLE.match(name):
            name = name[found.end() :]
        name = _DEGREE.sub("", name)
        text = name if self.hints.asks("person") or len(name.split()) > 1 else text
        found = _NUMBER_WITH_NAME.fullmatch(text) if self.hints.asks("numbered") else None
        return text if found is None or re.search(r"\b(?:or|and|to)\b", found["name"]) else found["number"]

    def _without_remark(self, text: str) -> str:
        """Return the text without a remark in brackets at its end, unless the remark may change the answer."""
        found = _REMARK.fullmatch(text)
        if found is None or _DOUBTFUL.search(found["remark"]):
            return text
        kept, remark, holds_digit = found["kept"], found["remark"], re.search(r"\d", found["remark"])
        is_harmless = _HARMLESS.fullmatch(remark)
        if not is_value(kept):
            if holds_digit:
                return text
        elif MeasureUnit.named(remark) is not None or remark.casefold() in MAGNITUDES:
            return text
        elif (holds_digit or leading_number(remark.casefold()) is not None) and not is_harmless:
            match = ValueComparator(NO_HINTS).compare(kept, remark)
            if match is None or match.status != "equal":
                return text
        remark = remark.strip()
        initials = "".join(word[0] for word in re.findall(r"[^\W\d_]+", kept) if word[0].isupper())
        words, asked = re.findall(r"[\w'-]+", remark.casefold()), set(re.findall(r"[\w'-]+", self.hints.text)) | _STOP
        is_asked = bool(words) and not self.hints.asks("choice") and asked.issuperset(words)
        explains = _HARMLESS.fullmatch(remark) or is_value(kept) or (len(remark) > 1 and remark == initials)
        return kept if explains or is_asked else text

    def _without_question_words(self, text: str) -> str:
        """Return the text without the words at its start and end that the question has too.

        A question with `or` or `not` names candidates itself, so that its words may be the answer. What is removed must
        not be subject or object: `Who beat Rome?` is not answered by `Rome beat Paris`, and `Whom did Rome beat?` not
        by `Paris beat Rome`.
        """
        if not self.hints.text or self.hints.asks("choice") or is_value(text):
            return text
        asked = set(re.findall(r"[\w'/.-]*\w", self.hints.text))
        asked |= {word + ending for word in asked if len(word) > 2 for ending in ("s", "es", "d", "ed")}

        def is_removable(word: str, before: str) -> bool:
            core = _core(word)
            if (
                not core
                or core in _NEVER_REMOVED
                or MeasureUnit.named(core)
                or core in MAGNITUDES
                or leading_number(core)
            ):
                return False
            if any(letter.isdigit() for letter in core):
                return core in asked and _core(before) in {"in", "of", "on", "at", "year"}
            return not calendar_name(core) and (core in asked or core in _STOP)

        words = text.split(" ")
        start, end = 0, len(words)
        while start < end and is_removable(words[start], words[start - 1] if start else ""):
            start += 1
        while end > start and is_removable(words[end - 1], words[end - 2] if end > 1 else ""):
            end -= 1
        rest = " ".join(words[start:end]).strip(" ,.:;")
        content, after = ([word for word in part if _core(word) not in _STOP] for part in (words[:start], words[end:]))
        ends_in_verb = len(content) > 1 and content[-1] == words[start - 1]
        other_part = bool(after) if self.hints.asks("inverted") else ends_in_verb
        if not rest or rest.casefold() in YES or (not is_value(rest) and other_part):
            return text
        return rest if content or after else text

    def _without_preposition(self, text: str) -> str:
        found = _IN.match(text)
        rest = text[found.end() :] if found else text
        if self.hints.text.startswith("by ") and is_value(text.removeprefix("by ")):
            return text.removeprefix("by ")
        if self.hints.asks("ends") and (Day.readings(last := _LAST.sub("", text).casefold()) or ClockTime.read(last)):
            return _LAST.sub("", text)
        folded = rest.casefold()
        is_day = Day.readings(folded) or calendar_name(folded) or re.fullmatch(r"[12]\d{3}", rest)
        if is_day or (is_value(rest) and not parse_number(rest)):
            return rest
        return rest if found and self.hints.asks("place") and "year" not in found[0].casefold() else text


def _plain_name(name: str) -> str:
    """Return a name such as `Núñez, José` in the usual order, in lower case, without accents."""
    plain = "".join(one for one in unicodedata.normalize("NFD", name.casefold()) if not unicodedata.combining(one))
    last, comma, first = plain.partition(", ")
    return f"{first} {last}" if comma and "," not in first else plain


def _item_lists(text: str, *, fold: bool = True) -> list[list[str]]:
    """Return every way to split a text into two or more items, coarse splits first."""
    lines = _unbulleted(normal_lines(text, fold=fold))
    joined = _OF_DATE.sub(r"\1 ", lines if "\n" in lines else normal_text(lines, fold=fold))
    if _STRONG.search(joined):
        ways = [_STRONG.split(joined)]
    elif is_value(joined):
        return []
    elif " / " in joined:
        ways = [joined.split(" / ")]
    else:
        parts = _COMMA.split(joined)
        if len(parts) > 1 and _FIRST.match(parts[0]) and all(map(_THEN.match, parts[1:])):
            parts = [_FIRST.sub("", parts[0]), *(_THEN.sub("", part) for part in parts[1:])]
        anywhere = parts if ", " in joined else joined.split(",")
        ways = [parts, [part for one in anywhere for part in _AND.split(one)]]
    items = ([normal_text(_LEADING_AND.sub("", part).strip(" ,"), fold=fold) for part in way] for way in ways)
    return [kept for way in items if len(kept := [one for one in way if one]) > 1]


def _unbulleted(lines: str) -> str:
    """Return several lines without bullets or numbers, if each has one. A single dash before a number is its sign."""
    each = lines.split("\n")
    if len(each) > 1 and all(map(_BULLET.match, each)):
        return "\n".join(_BULLET.sub("", line, count=1) for line in each)
    if len(each) > 1 and [int(mark[1]) for mark in map(_NUMBERED.match, each) if mark] == list(range(1, len(each) + 1)):
        return "\n".join(_NUMBERED.sub("", line, count=1) for line in each)
    inline = [int(found[1]) for found in _NUMBERED_INLINE.finditer(lines)]
    if len(inline) > 1 and inline == list(range(1, len(inline) + 1)) and _NUMBERED_INLINE.match(lines):
        return "\n".join(part for part in _NUMBERED_INLINE.sub("\n", lines).split("\n") if part.strip())
    return lines


def _core(word: str) -> str:
    return word.casefold().strip(".,:;!?\"'()")
