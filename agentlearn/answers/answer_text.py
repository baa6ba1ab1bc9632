r"""Answers as text, without what does not change their meaning: marks around them, case, spaces, kinds of dashes.

`normalised` is for short answers to tasks of one's own. `normal_text` also takes away an article, brackets and a
lead-in such as `the answer is`, for answers in sentences.
"""

import re
import unicodedata

from agentlearn.answers.units import magnitude_at
from agentlearn.text import plain, seen, word_places

_MAX_MARKS = 8
"""Largest number of marks inside one another that are taken off an answer."""
_FENCED = re.compile(r"(`{3,}|~{3,})[ \t]*[\w+#.-]*[ \t]*\n(.*?)\n?[ \t]*\1", re.DOTALL)
_COMMAND = re.compile(r"\\(?:f?boxed|framebox|text(?:bf)?|math(?:rm|bf))\s?\{(.*)\}", re.DOTALL)
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
BRACKETS = (("(", ")"), ("[", "]"), ("【", "】"), ("「", "」"), ("“", "”"), ("«", "»"))
SYMMETRIC = ("**", "__", "```", "`", "*", "$$", "$")
"""Marks that stand before and behind a text."""
_QUOTES = (*BRACKETS[3:], ('"', '"'), ("'", "'"), ("‘", "’"), ("„", "“"), ("„", "”"))
_DRESSING = (*((mark, mark) for mark in SYMMETRIC), ("\\(", "\\)"), ("\\[", "\\]"))

RAISED = re.compile("[\u2070\u00b9\u00b2\u00b3\u2074-\u207f]+")
LOWERED = re.compile("[\u2080-\u208e]+")
_VULGAR = re.compile("(\\d?)([\u00bc-\u00be\u2150-\u215e\u2189])")
_POWER = re.compile(r"[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_BEFORE_VULGAR = re.compile(r"(?<=\d)(?=[¼-¾⅐-⅞])")
_ALIKE = (
    (re.compile(r"[‘’‚‛′`´]"), "'"),
    (re.compile(r"[“”„‟″«»]"), '"'),
    (re.compile(r"[‐‑‒–—―−﹘﹣－]"), "-"),
)

_LED_IN = re.compile(r"(?:the |my )?(?:final )?answer(?: is|:| is:) +(?=\S)", re.IGNORECASE)
_ARTICLE = re.compile(r"(?:the|an?) (?!(?:and|or)\b)(?=[\w\"'])", re.IGNORECASE)
_BULLET = re.compile(r"[-*•·] +(?=[^\W\d])")
_END = re.compile(r"(?<=[\w)\]\"'%€$£¥+#])[.,;:!]+$")

_BEFORE_NUMBER = re.compile(r"(?<!\d[.,:/])(?<![.])(?<!\A-)(?<![\s(=$:]-)(?<!\N{MINUS SIGN})")
_BEHIND_NUMBER = re.compile(r"(?![.,:/]\d)(?! \d+ ?/)(?! \d{3}(?!\d))")
_BEHIND_WORD = re.compile(r"(?![+#])(?![.]\w)")
_END_OF_NUMBER = re.compile(r"\d+ ?/|\d{3}(?!\d)")
"""What a digit and a space may stand before, as in `1 1/2` and `1 500`."""


def end_of_braces(text: str, start: int = 0) -> int | None:
    """Return where a brace closes that was opened before `start`; None when it does not."""
    depth = 1
    for found in _BRACE.finditer(text, start):
        depth += (found[0] == "{") - (found[0] == "}")
        if not depth:
            return found.start()
    return None


def without_marks(text: str) -> str:
    """Return the text without surrounding white space, Markdown and LaTeX marks. `__init__` keeps its lines."""

    def inside(text: str) -> str | None:
        if (fenced := _FENCED.fullmatch(text)) and fenced[1] not in fenced[2]:
            return fenced[2]
        for opening, closing in _DRESSING:
            inner = text[len(opening) : -len(closing)]
            is_name = opening == "__" and inner.isidentifier()
            if inner and text == f"{opening}{inner}{closing}" and opening not in inner and not is_name:
                return inner
        command = _COMMAND.fullmatch(text)
        return command[1] if command and end_of_braces(command[1]) is None else None

    text = text.strip()
    for _ in range(_MAX_MARKS):
        if (inner := inside(text)) is None:
            break
        text = inner.strip()
    return text


def plainly_set(text: str) -> str:
    """Return the text with raised and lowered characters behind `^` and `_`, and fractions with a slash."""
    if text.isascii():
        return text

    def fraction(found: re.Match[str]) -> str:
        written = unicodedata.normalize("NFKC", found[2]).replace("\N{FRACTION SLASH}", "/")
        return f"{found[1]} {written}" if found[1] else written

    text = _VULGAR.sub(fraction, text)
    text = RAISED.sub(lambda found: f"^{unicodedata.normalize('NFKC', found[0])}", text)
    return LOWERED.sub(lambda found: f"_{unicodedata.normalize('NFKC', found[0])}", text)


def normalised(text: str) -> str:
    """Return the text without differences in case, compatible characters (NFKC), digits of other scripts, white space,
    characters that nobody sees, quotation marks around it and final period.

    Raised and lowered characters and fractions keep their meaning: `10²` becomes `10^2`, and `2½` becomes `2 1/2`.
    """
    text, quoted = seen(text), True
    while quoted:
        text, quoted = without_marks(text), False
        for opening, closing in _QUOTES:
            inner = text[len(opening) : -len(closing)]
            if inner.strip() and text == f"{opening}{inner}{closing}" and not {opening, closing} & set(inner):
                text, quoted = inner, True
                break
    # Twice: casefolding can produce characters that NFKC changes again.
    text = " ".join(plain(plain(plainly_set(text)).casefold()).split())
    return text[:-1].rstrip() if text.endswith((".", "。")) and not text.endswith("..") else text


def normal_lines(text: str, *, fold: bool = True) -> str:
    """Return the text with one kind of dash, quote and space. Line ends stay. fold: whether to ignore case."""
    text = _BEFORE_VULGAR.sub(" ", text)
    # Keep a power apart from its base; NFKC would turn m² into m2.
    text = _POWER.sub(lambda found: "^" + unicodedata.normalize("NFKC", found[0]), text)
    for marks, one in _ALIKE:
        text = marks.sub(one, text)

    def in_its_case(line: str) -> str:
        line = " ".join(plain(without_marks(line)).split())
        return line[:-1].rstrip() if line.endswith(".") and not line.endswith("..") else line

    normal = normalised if fold else in_its_case
    lines = (normal(line).replace("\N{FRACTION SLASH}", "/") for line in text.splitlines())
    return "\n".join(line for line in lines if line)


def normal_text(text: str, *, fold: bool = True) -> str:
    """Return the text on one line, without quotes, brackets, an article or closing marks around it."""

    def peeled(text: str) -> str:
        text = without_marks(_END.sub("", text.strip()))
        for opening, closing in (('"', '"'), ("'", "'"), *BRACKETS[:2]):
            inside = text[1:-1]
            if len(text) > 2 and text[0] == opening and text[-1] == closing and not {opening, closing} & set(inside):
                return inside.strip() or text
        for mark in (_LED_IN, _BULLET, _ARTICLE):
            if found := mark.match(text):
                return text[found.end() :]
        return text

    text = " ".join(normal_lines(text, fold=fold).split())
    while (inner := peeled(text)) != text:
        text = inner
    return text


def contains(answer: str, gold: str) -> bool:
    """Whether the expected answer stands in the answer as it is: not inside a word, nor as a part of a number."""
    text, wanted = normalised(answer), normalised(gold)
    ends_in_digit = wanted[-1:].isdecimal()

    def is_whole(at: int) -> bool:
        if wanted[:1].isdecimal() and not _BEFORE_NUMBER.match(text, at):
            return False
        if text[max(0, at - 1) : at] == " " and text[at - 2 : at - 1].isdecimal() and _END_OF_NUMBER.match(wanted):
            return False
        end = at + len(wanted)
        if ends_in_digit and magnitude_at(text, end):
            return False
        return (_BEHIND_NUMBER if ends_in_digit else _BEHIND_WORD).match(text, end) is not None

    return any(map(is_whole, word_places(text, wanted)))
