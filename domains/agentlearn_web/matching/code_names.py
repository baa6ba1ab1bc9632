"""Names that can be written in several ways: key chords, a flag's two forms, `f()`, `$VAR`, postcodes. Pure."""

import re

from agentlearn_web.matching.match_result import OTHER_VALUE, SAME_VALUE, AnswerMatch
from agentlearn_web.matching.question_hints import QuestionHints

_MODIFIERS = {
    **{name: name for name in ("ctrl", "alt", "shift", "meta", "super", "fn", "win")},
    "control": "ctrl",
    "cmd": "cmd",
    "command": "cmd",
    "option": "alt",
    "opt": "alt",
    "windows": "win",
}
_PLUS = re.compile(r" ?\+ ?")
_SHORT_FLAG = re.compile(r"-[^\W_]")
_LONG_FLAG = re.compile(r"--[^\W\d_][\w-]+")
_BETWEEN_FLAGS = re.compile(r"(?:, | / |/| \| |\|| or )")
_CALL = re.compile(r"(?P<name>[^\W\d][\w.:]*)\(\)")
_VARIABLE = re.compile(r"\$(?:(?P<bare>[^\W\d]\w*)|\{(?P<braced>[^\W\d]\w*)\})")
_BARE = re.compile(r"[^\W\d][\w.:]*")
_LITERALS = tuple(
    map(
        re.compile,
        (
            r"(?:\d{1,3}\.){3}\d{1,3}(?:/\d{1,2}|:\d{1,5})?",
            r"#(?:[\da-f]{6}|[\da-f]{3}|[\da-f]{8})",
            r"(?:[\da-f]{2}[:-]){5}[\da-f]{2}",
            r"[^\w\s]{1,4}",
            r"[a-z](?:\+{1,2}|-|#|\*)?",
        ),
    )
)
"""Internet addresses, colours, hardware addresses, operators, and letters with a mark such as `B+`; in lower case."""


def compare_code_names(answer: str, gold: str, hints: QuestionHints) -> AnswerMatch | None:
    """Compare two names of code, keys or records; None if they are not both of one kind."""
    if hints.identifier and (match := _compare_identifiers(answer, gold)):
        return match
    one, other = answer.casefold(), gold.casefold()
    if hints.text and one != other and any(kind.fullmatch(one) and kind.fullmatch(other) for kind in _LITERALS):
        return OTHER_VALUE
    return (
        _compare_chords(answer, gold) or _compare_spellings(answer, gold, hints) or _compare_bare(answer, gold, hints)
    )


def _compare_identifiers(answer: str, gold: str) -> AnswerMatch | None:
    """Compare two identifiers of one length, without spaces, points and dashes."""
    one, other = (re.sub(r"[ .-]", "", text).casefold() for text in (answer, gold))
    if not (one.isalnum() and other.isalnum()) or len(one) != len(other):
        return None
    has_digits = re.search(r"\d", one) and re.search(r"\d", other)
    return (SAME_VALUE if one == other else OTHER_VALUE) if has_digits else None


def _compare_chords(answer: str, gold: str) -> AnswerMatch | None:
    """Compare two chords of keys such as `Ctrl+P`. The order of the modifiers does not matter, case is unclear."""
    one, other = _chord(answer), _chord(gold)
    if one is None or other is None:
        return None
    if one == other:
        return SAME_VALUE
    same_letter = one[0] == other[0] and one[1].casefold() == other[1].casefold()
    return AnswerMatch("unclear", "the same keys in another case") if same_letter else OTHER_VALUE


def _chord(text: str) -> tuple[frozenset[str], str] | None:
    *held, key = _PLUS.split(text) if not text.endswith("+") else [text]
    names = [_MODIFIERS.get(one.casefold(), "") for one in held]
    return (frozenset(names), key) if held and all(names) and key and " " not in key else None


def _compare_spellings(answer: str, gold: str, hints: QuestionHints) -> AnswerMatch | None:
    """Compare an answer with a flag that the expected answer gives in its short and its long form."""
    given, wanted = _flag_forms(answer), _flag_forms(gold)
    if not given or len(wanted) < 2 or (hints.listed and not hints.code):
        return None
    if given == wanted:
        return SAME_VALUE
    if given < wanted:
        return None if _asks_several(hints) else AnswerMatch("equal", "one form of the same flag")
    return None if given & wanted else OTHER_VALUE


def _asks_several(hints: QuestionHints) -> bool:
    return bool(re.search(r"\b(?:options|flags|switches|forms|both|all)\b", hints.text))


def _flag_forms(text: str) -> frozenset[str]:
    """Return the one or two forms of a flag that a text consists of; empty for any other text."""
    forms = [one.strip("`'\" ") for one in _BETWEEN_FLAGS.split(text)]
    short, long = ([one for one in forms if form.fullmatch(one)] for form in (_SHORT_FLAG, _LONG_FLAG))
    fits = len(short) + len(long) == len(forms) and len(short) < 2 and len(long) < 2
    return frozenset(forms) if fits else frozenset()


def _compare_bare(answer: str, gold: str, hints: QuestionHints) -> AnswerMatch | None:
    """Compare a function or variable with the same name without `()` or `$`; None if the question asks for no name."""
    if not hints.code or hints.choice:
        return None
    for one, other in ((answer, gold), (gold, answer)):
        call, variable = _CALL.fullmatch(one), _VARIABLE.fullmatch(one)
        name = call["name"] if call else variable and (variable["bare"] or variable["braced"])
        if name and _BARE.fullmatch(other):
            return SAME_VALUE if name == other else None
    return None
