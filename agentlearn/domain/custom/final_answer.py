"""Finding the final answer in an agent's text, and the form in which two texts are the same."""

import re
import unicodedata

MAX_BARE_CHARACTERS = 200
"""A text without tag and label counts as its own answer up to this length."""

_TAG = re.compile(r"<(/?)answer>", re.IGNORECASE)
_LABELLED = re.compile(
    r"^[ \t>#*_-]*(?:the |my )?(?:final )?answer(?: is)?[*_]*[ \t]*[:：][*_]*[ \t]*(\S.*)$",
    re.IGNORECASE | re.MULTILINE,
)
_DRESSING = ("**", "__", "```", "`", "*", "$")


def final_answer_in(text: str) -> str | None:
    """The content of the last `<answer>…</answer>`, else of the last line `Answer: …`, else a short text whole.

    None where there is none of these, or nothing in it.
    """
    found = _tagged(text)
    if found is None:
        labelled = _LABELLED.findall(text)
        found = labelled[-1] if labelled else text if len(text.strip()) <= MAX_BARE_CHARACTERS else ""
    return without_marks(found) or None


def without_marks(text: str) -> str:
    """The text without white space and Markdown marks around it."""
    text = text.strip()
    for mark in _DRESSING:
        if len(text) > 2 * len(mark) and text.startswith(mark) and text.endswith(mark):
            inside = text[len(mark) : -len(mark)]
            if mark not in inside:
                return without_marks(inside)
    return text


def normalised(text: str) -> str:
    """The form in which capital letters, compatible characters (NFKC), white space and a final period do not matter."""
    # Twice: folding the case can bring forth what only then is normalised away.
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", without_marks(text)).casefold())
    text = " ".join(text.split())
    return text[:-1].rstrip() if text.endswith(".") and not text.endswith("..") else text


def _tagged(text: str) -> str | None:
    """What stands in the last pair of tags; None without a pair."""
    found, start = None, None
    for tag in _TAG.finditer(text):
        if not tag[1]:
            start = tag.end()
        elif start is not None:
            found, start = text[start : tag.start()], None
    return found
