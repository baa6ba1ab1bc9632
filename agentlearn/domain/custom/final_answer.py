"""Finding the final answer in an agent's text, and normalising texts for comparison."""

import re
import unicodedata

from agentlearn.thoughts import split_thoughts

MAX_BARE_CHARACTERS = 200
"""A text of at most this length without tag and label is an answer as a whole."""

_TAG = re.compile(r"<(/?)answer>", re.IGNORECASE)
_LABELLED = re.compile(
    r"^[ \t>#*_-]*(?:the |my )?(?:final )?answer(?: is)?[*_]*[ \t]*[:：][*_]*[ \t]*(\S.*)$",
    re.IGNORECASE | re.MULTILINE,
)
_RAISED = re.compile("[\u2070\u00b9\u00b2\u00b3\u2074-\u207f]+")
_LOWERED = re.compile("[\u2080-\u208e]+")
_VULGAR = re.compile("(\\d?)[\u00bc-\u00be\u2150-\u215e\u2189]")
_DRESSING = ("**", "__", "```", "`", "*", "$")


def final_answer_in(text: str) -> str | None:
    """Return the content of the last `<answer>…</answer>`, else of the last line `Answer: …`, else a short text whole.

    None when there is none of these, or it is empty. Thoughts are left out, and a reply whose last thought never ends
    has no answer.
    """
    spoken = split_thoughts(text)
    if spoken.unfinished:
        return None
    text = spoken.said
    found = _tagged(text)
    if found is None:
        labelled = _LABELLED.findall(text)
        found = labelled[-1] if labelled else text if len(text.strip()) <= MAX_BARE_CHARACTERS else ""
    return without_marks(found) or None


def without_marks(text: str) -> str:
    """Return the text without surrounding white space and Markdown marks. A name such as `__init__` keeps its lines."""
    text = text.strip()
    for mark in _DRESSING:
        if len(text) > 2 * len(mark) and text.startswith(mark) and text.endswith(mark):
            inside = text[len(mark) : -len(mark)]
            if mark not in inside and not (mark == "__" and inside.isidentifier()):
                return without_marks(inside)
    return text


def normalised(text: str) -> str:
    """Return the text without differences in case, compatible characters (NFKC), white space and final period.

    Raised and lowered characters and fractions keep their meaning: `10²` becomes `10^2`, and `2½` becomes `2 1/2`.
    """
    # Twice: casefolding can produce characters that NFKC changes again.
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", plainly_set(without_marks(text))).casefold())
    text = " ".join(text.split())
    return text[:-1].rstrip() if text.endswith(".") and not text.endswith("..") else text


def plainly_set(text: str) -> str:
    """Return the text with raised and lowered characters behind `^` and `_`, and fractions with a slash."""
    if text.isascii():
        return text
    text = _VULGAR.sub(_fraction, text)
    text = _RAISED.sub(lambda found: f"^{unicodedata.normalize('NFKC', found.group())}", text)
    return _LOWERED.sub(lambda found: f"_{unicodedata.normalize('NFKC', found.group())}", text)


def _fraction(found: re.Match[str]) -> str:
    plain = unicodedata.normalize("NFKC", found[0][-1]).replace("\N{FRACTION SLASH}", "/")
    return f"{found[1]} {plain}" if found[1] else plain


def _tagged(text: str) -> str | None:
    """Return the content of the last pair of tags; None without a pair."""
    found, start = None, None
    for tag in _TAG.finditer(text):
        if not tag[1]:
            start = tag.end()
        elif start is not None:
            found, start = text[start : tag.start()], None
    return found
