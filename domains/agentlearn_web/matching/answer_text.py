"""Normalises answers: dashes, quotes, articles and surrounding marks no longer matter, the meaning stays."""

import re
import unicodedata

from agentlearn.domain.custom.final_answer import normalised, without_marks

_POWERS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_POWER = re.compile(r"[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_VULGAR = re.compile(r"(?<=\d)(?=[¼-¾⅐-⅞])")
_DASHES = re.compile(r"[‐‑‒–—―−﹘﹣－]")
_SINGLE = re.compile(r"[‘’‚‛′`´]")
_DOUBLE = re.compile(r"[“”„‟″«»]")
_INVISIBLE = re.compile(r"[\u00ad\u200b-\u200f\u2060\ufeff]")
_PAIRS = (('"', '"'), ("'", "'"), ("(", ")"), ("[", "]"))
_LED_IN = re.compile(r"(?:the |my )?(?:final )?answer(?: is|:| is:) +(?=\S)", re.IGNORECASE)
_CITING = r"according to|based on|as (?:stated|listed|given|shown|described|written) (?:on|in|by)"
_PAGE = r"(?:the|this|that) [^,:;\d]*?\b(?:page|site|website)\b"
_CITED = re.compile(
    rf"(?:(?:{_CITING}) [^,:;\d]*|(?:on|in|from|per) {_PAGE}[^,:;\d]*)[,:] (?=\S)"
    rf"|{_PAGE} (?:says|states|lists|gives|shows)(?: that|:)? (?=\S)",
    re.IGNORECASE,
)
_CITED_AFTER = re.compile(rf"(?<=\S),? (?:{_CITING}) [^,:;\d]*$", re.IGNORECASE)
_ARTICLE = re.compile(r"(?:the|an?) (?!(?:and|or)\b)(?=[\w\"'])", re.IGNORECASE)
_BULLET = re.compile(r"[-*•·] +(?=[^\W\d])")
_END = re.compile(r"(?<=[\w)\]\"'%€$£¥+#])[.,;:!]+$")


def without_citation(text: str) -> str:
    """Return an answer without a clause at its start or end that only names where it was read.

    Such as `According to the page, ...`, with a comma or colon and without a number.
    """
    text = text.strip()
    led = _CITED.match(text)
    return text[led.end() :] if led else _CITED_AFTER.sub("", text.removesuffix("."))


def normal_lines(text: str, *, fold: bool = True) -> str:
    """Return the text with one kind of dash, quote and space. Line ends stay. fold: whether to ignore case."""
    text = _VULGAR.sub(" ", _INVISIBLE.sub("", text))
    # Keep a power apart from its base; NFKC would turn m² into m2.
    text = _POWER.sub(lambda found: "^" + found[0].translate(_POWERS), text)
    for marks, one in ((_SINGLE, "'"), (_DOUBLE, '"'), (_DASHES, "-")):
        text = marks.sub(one, text)
    normal = normalised if fold else _with_case
    lines = (normal(line).replace("\N{FRACTION SLASH}", "/") for line in text.splitlines())
    return "\n".join(line for line in lines if line)


def normal_text(text: str, *, fold: bool = True) -> str:
    """Return the text on one line, without quotes, brackets, an article or closing marks around it."""
    text = " ".join(normal_lines(text, fold=fold).split())
    while (inner := _peeled(text)) != text:
        text = inner
    return text


def _with_case(line: str) -> str:
    """Return a line as `normalised` does, but in the case in which it was written."""
    text = " ".join(unicodedata.normalize("NFKC", without_marks(line)).split())
    return text[:-1].rstrip() if text.endswith(".") and not text.endswith("..") else text


def _peeled(text: str) -> str:
    text = without_marks(_END.sub("", text.strip()))
    for opening, closing in _PAIRS:
        inside = text[1:-1]
        if len(text) > 2 and text[0] == opening and text[-1] == closing and not {opening, closing} & set(inside):
            return inside.strip() or text
    for mark in (_LED_IN, _BULLET, _ARTICLE):
        if found := mark.match(text):
            return text[found.end() :]
    return text
