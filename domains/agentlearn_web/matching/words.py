"""Text in the form in which case, dashes, quotes, articles and marks around it do not matter; its meaning stays."""

import re

from agentlearn.domain.custom.final_answer import normalised, without_marks

_POWERS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_POWER = re.compile(r"[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_VULGAR = re.compile(r"(?<=\d)(?=[¼-¾⅐-⅞])")
_DASHES = re.compile(r"[‐‑‒–—―−﹘﹣－]")
_SINGLE = re.compile(r"[‘’‚‛′`´]")
_DOUBLE = re.compile(r"[“”„‟″«»]")
_INVISIBLE = re.compile(r"[\u00ad\u200b-\u200f\u2060\ufeff]")
_PAIRS = (('"', '"'), ("'", "'"), ("(", ")"), ("[", "]"))
_LED_IN = re.compile(r"(?:the |my )?(?:final )?answer(?: is|:| is:) +(?=\S)")
_ARTICLE = re.compile(r"(?:the|an?) (?!(?:and|or)\b)(?=[\w\"'])")
_BULLET = re.compile(r"[-*•·] +(?=[^\W\d])")
_END = re.compile(r"(?<=[\w)\]\"'%€$£¥+#])[.,;:!]+$")


def plain(text: str) -> str:
    """The text with one notation for dashes, quotes and spaces, in small letters; line ends stay."""
    text = _VULGAR.sub(" ", _INVISIBLE.sub("", text))
    # A power is no digit beside its base, as it would be after NFKC.
    text = _POWER.sub(lambda found: "^" + found[0].translate(_POWERS), text)
    for marks, one in ((_SINGLE, "'"), (_DOUBLE, '"'), (_DASHES, "-")):
        text = marks.sub(one, text)
    lines = (normalised(line).replace("\N{FRACTION SLASH}", "/") for line in text.splitlines())
    return "\n".join(line for line in lines if line)


def words(text: str) -> str:
    """The text on one line without what may stand around an answer: quotes, brackets, an article, closing marks."""
    text = " ".join(plain(text).split())
    while (inner := _peeled(text)) != text:
        text = inner
    return text


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
