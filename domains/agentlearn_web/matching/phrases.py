"""Reduces an answer to what is asked for: without titles, `in`, remarks and the question's own words. Pure."""

import re

from agentlearn_web.matching.affirmations import YES
from agentlearn_web.matching.clock_times import parse_time
from agentlearn_web.matching.dates import parse_calendar_name, parse_dates
from agentlearn_web.matching.number_words import leading_number
from agentlearn_web.matching.numbers import parse_number
from agentlearn_web.matching.question_hints import QuestionHints, read_question
from agentlearn_web.matching.units import MAGNITUDES, known_unit
from agentlearn_web.matching.value_kinds import compare_values, is_value

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
_HARMLESS_REMARK = re.compile(rf" \((?:{_HARMLESS.pattern})\)$", re.IGNORECASE)
_DOUBTFUL = re.compile(
    r"\b(?:not|no|or|maybe|perhaps|possibly|likely|probably|about|around|approx\w*|over|under|former\w*|previous\w*|until"
    r"|before|after|except|instead|unless|was|per|each|if|only|but|either|unsure|guess\w*|million|thousand|billion)\b|\?",
    re.IGNORECASE,
)
_NO_HINTS = read_question("")
_STOP = frozenset(
    [
        "the",
        "a",
        "an",
        "is",
        "are",
        "was",
        "were",
        "be",
        "been",
        "has",
        "have",
        "had",
        "of",
        "in",
        "on",
        "at",
        "by",
        "for",
        "to",
        "it",
        "its",
        "there",
        "this",
        "that",
        "as",
        "do",
        "does",
        "did",
        "will",
        "with",
        "their",
        "his",
        "her",
        "can",
        "called",
        "named",
        "due",
        "which",
        "who",
    ]
)
_NEVER_REMOVED = frozenset(
    [
        "and",
        "or",
        "not",
        "no",
        "more",
        "less",
        "than",
        "over",
        "under",
        "least",
        "most",
        "before",
        "after",
        "until",
        "except",
        "about",
        "around",
        "between",
        "and/or",
        "am",
        "pm",
        "a.m.",
        "p.m.",
        "per",
        "but",
        "from",
        "by",
        "to",
        "north",
        "south",
        "east",
        "west",
        "minus",
        "plus",
        "version",
        "v",
        "only",
        "each",
        "both",
        "either",
        "if",
    ]
)


def asked_part(text: str, hints: QuestionHints) -> str:
    """Return the part of an answer that the question asks for; the text itself if nothing is sure to be superfluous."""
    for reduce in (
        *(_without_remark, _without_lead_in, _without_question_words, _without_preposition, _without_title),
        _without_name_of_number,
    ):
        text = reduce(text, hints)
    return text


def other_person(answer: str, gold: str) -> bool:
    """Return whether two names have titles of different persons, such as `Mr.` and `Mrs.`"""
    genders = {
        gender for text in (answer, gold) if (gender := _GENDERED.get(text.split(" ")[0].rstrip(".").casefold()))
    }
    return len(genders) > 1


def left_out_other_words(answer: str, gold: str, short_answer: str, short_gold: str) -> bool:
    """Return whether different words were left out of both texts, so that what is left may be two things."""
    out, gold_out = _left_out(answer, short_answer), _left_out(gold, short_gold)
    return bool(out - gold_out) and bool(gold_out - out)


def _left_out(text: str, short: str) -> set[str]:
    """Return the words that only the long text has, without titles and words such as `the`."""
    title_free = re.sub(
        rf"(?:{_TITLE.pattern})+", "", _DEGREE.sub("", _HARMLESS_REMARK.sub("", text)), flags=re.IGNORECASE
    )
    words, kept = (set(map(_core, one.split())) for one in (title_free, short))
    return {word for word in words - kept - _STOP if word}


def _without_remark(text: str, hints: QuestionHints) -> str:
    """Return the text without a remark in brackets at its end, unless the remark may change the answer."""
    found = _REMARK.fullmatch(text)
    if found is None or _DOUBTFUL.search(found["remark"]) or _changes_value(found["kept"], found["remark"]):
        return text
    kept, remark = found["kept"], found["remark"].strip()
    initials = "".join(word[0] for word in re.findall(r"[^\W\d_]+", kept) if word[0].isupper())
    explains = _HARMLESS.fullmatch(remark) or is_value(kept) or (len(remark) > 1 and remark == initials)
    return kept if explains or _is_asked_already(remark, hints) else text


def _changes_value(kept: str, remark: str) -> bool:
    """Return whether a remark is a unit of the value before it, or begins with another number."""
    if not is_value(kept):
        return bool(re.search(r"\d", remark))
    if known_unit(remark) is not None or remark.casefold() in MAGNITUDES:
        return True
    has_number = bool(re.search(r"\d", remark)) or leading_number(remark.casefold()) is not None
    match = compare_values(kept, remark, _NO_HINTS) if has_number else None
    return has_number and not _HARMLESS.fullmatch(remark) and (match is None or match.status != "equal")


def _is_asked_already(remark: str, hints: QuestionHints) -> bool:
    words = re.findall(r"[\w'-]+", remark.casefold())
    asked = set(re.findall(r"[\w'-]+", hints.text))
    return bool(words) and not hints.choice and all(word in asked or word in _STOP for word in words)


def _without_lead_in(text: str, _hints: QuestionHints) -> str:
    found = _LED_IN.match(text)
    rest = text[found.end() :] if found else text
    return rest if is_value(rest) or not re.search(r"\b(?:not|no|and|or)\b", rest, re.IGNORECASE) else text


def _without_question_words(text: str, hints: QuestionHints) -> str:
    """Return the text without the words at its start and end that the question has too.

    A question with `or` or `not` names candidates itself, so that its words may be the answer.
    """
    if not hints.text or hints.choice or is_value(text):
        return text
    asked = _question_words(hints)
    words = text.split(" ")
    start, end = 0, len(words)
    while start < end and _is_removable(words[start], words[start - 1] if start else "", asked):
        start += 1
    while end > start and _is_removable(words[end - 1], words[end - 2] if end > 1 else "", asked):
        end -= 1
    rest = " ".join(words[start:end]).strip(" ,.:;")
    if rest.casefold() in YES or (not is_value(rest) and _may_be_other_part(words[:start], words[end:], hints)):
        return text
    removed = words[:start] + words[end:]
    has_content = any(_core(word) not in _STOP for word in removed)
    return rest if rest and has_content else text


def _may_be_other_part(before: list[str], after: list[str], hints: QuestionHints) -> bool:
    """Return whether what was removed may be subject or object, so that the rest is what the question does not ask for.

    `Who beat Rome?` is not answered by `Rome beat Paris`, and `Whom did Rome beat?` not by `Paris beat Rome`.
    """
    content, content_after = ([word for word in part if _core(word) not in _STOP] for part in (before, after))
    ends_in_verb = len(content) > 1 and content[-1] == before[-1]
    return (ends_in_verb and not hints.inverted) or (hints.inverted and bool(content_after))


def _question_words(hints: QuestionHints) -> frozenset[str]:
    words = set(re.findall(r"[\w'/.-]*\w", hints.text))
    verbs = {form for word in words if len(word) > 2 for form in (f"{word}s", f"{word}es", f"{word}d", f"{word}ed")}
    return frozenset(words | verbs)


def _is_removable(word: str, before: str, asked: frozenset[str]) -> bool:
    core = _core(word)
    if not core or core in _NEVER_REMOVED or known_unit(core) or core in MAGNITUDES or leading_number(core):
        return False
    if any(letter.isdigit() for letter in core):
        return core in asked and _core(before) in {"in", "of", "on", "at", "year"}
    if parse_calendar_name(core):
        return False
    return core in asked or core in _STOP


def _core(word: str) -> str:
    return word.casefold().strip(".,:;!?\"'()")


def _without_preposition(text: str, hints: QuestionHints) -> str:
    found = _IN.match(text)
    rest = text[found.end() :] if found else text
    if hints.text.startswith("by ") and is_value(text.removeprefix("by ")):
        return text.removeprefix("by ")
    if hints.ends and (parse_dates(last := _LAST.sub("", text).casefold()) or parse_time(last)):
        return _LAST.sub("", text)
    year = re.fullmatch(r"[12]\d{3}", rest)
    folded = rest.casefold()
    if year or parse_dates(folded) or parse_calendar_name(folded) or (is_value(rest) and not parse_number(rest)):
        return rest
    return rest if found and hints.place and "year" not in found[0].casefold() else text


def _without_title(text: str, hints: QuestionHints) -> str:
    rest = text
    while found := _TITLE.match(rest):
        rest = rest[found.end() :]
    rest = _DEGREE.sub("", rest)
    return rest if hints.person or len(rest.split()) > 1 else text


def _without_name_of_number(text: str, hints: QuestionHints) -> str:
    """Return only the number of a text such as `404 Not Found`, if the question asks for a code or port."""
    found = _NUMBER_WITH_NAME.fullmatch(text) if hints.numbered else None
    return text if found is None or re.search(r"\b(?:or|and|to)\b", found["name"]) else found["number"]
