"""Finding the final answer in an agent's text, and normalising texts for comparison."""

import re
import unicodedata

MAX_BARE_CHARACTERS = 200
"""A text of at most this length without tag and label is an answer as a whole."""

_TAG = re.compile(r"<(/?)answer>", re.IGNORECASE)
_LABELLED = re.compile(
    r"^[ \t>#*_-]*(?:the |my )?(?:final )?answer(?: is)?[*_]*[ \t]*[:：][*_]*[ \t]*(\S.*)$",
    re.IGNORECASE | re.MULTILINE,
)
_DRESSING = ("**", "__", "```", "`", "*", "$")


def final_answer_in(text: str) -> str | None:
    """Return the content of the last `<answer>…</answer>`, else of the last line `Answer: …`, else a short text whole.

    None when there is none of these, or it is empty.
    """
    found = _tagged(text)
    if found is None:
        labelled = _LABELLED.findall(text)
        found = labelled[-1] if labelled else text if len(text.strip()) <= MAX_BARE_CHARACTERS else ""
    return without_marks(found) or None


def without_marks(text: str) -> str:
    """Return the text without surrounding white space and Markdown marks."""
    text = text.strip()
    for mark in _DRESSING:
        if len(text) > 2 * len(mark) and text.startswith(mark) and text.endswith(mark):
            inside = text[len(mark) : -len(mark)]
            if mark not in inside:
                return without_marks(inside)
    return text


def normalised(text: str) -> str:
    """Return the text without differences in case, compatible characters (NFKC), white space and final period."""
    # Twice: casefolding can produce characters that NFKC changes again.
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", without_marks(text)).casefold())
    text = " ".join(text.split())
    return text[:-1].rstrip() if text.endswith(".") and not text.endswith("..") else text


def _tagged(text: str) -> str | None:
    """Return the content of the last pair of tags; None without a pair."""
    found, start = None, None
    for tag in _TAG.finditer(text):
        if not tag[1]:
            start = tag.end()
        elif start is not None:
            found, start = text[start : tag.start()], None
    return found
