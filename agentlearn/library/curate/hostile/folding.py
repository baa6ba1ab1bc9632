"""Views of a lesson in which a disguised sentence becomes a plain one: look-alike letters, split and joined words.

A view is only for matching. Nobody reads it, so it may change what the lesson means.
"""

import re
import unicodedata
from itertools import pairwise

from agentlearn.library.curate.hostile.lookalikes import LOOKALIKES
from agentlearn.library.curate.similarity import normalised

_IGNORABLE = re.compile(
    r"[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0]"
)
_QUOTES = str.maketrans(
    {"\u2018": "'", "\u2019": "'", "\u02bc": "'", "`": "'", "\u2013": "-", "\u2014": "-", "\u2010": "-", "\u2011": "-"}
)
_DIGITS_AS_LETTERS = str.maketrans("0134578@$!|", "oieastbasii")
_WORD_WITH_DIGIT = re.compile(r"(?=[a-z@$!|]*[0134578@$!|])(?=[0-9@$!|]*[a-z])[a-z0134578@$!|]{3,}(?![\w])")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z][a-z])")
_WORD_JOINTS = re.compile(r"(?<=[^\W\d])[_+./\\|~*=-]+(?=[^\W\d])")
_INSIDE_WORD = re.compile(r"(?<=[^\W\d])[-_.*~^|'\"\u00b7\u2022](?=[^\W\d])")
_SPELLED = re.compile(r"(?<![^\W_])[^\W\d_](?:([ ._*~|/\\\u00b7\u2022-]{1,3})[^\W\d_]){4,}(?![^\W_])")
_FEW = 5


def fold(text: str) -> str:
    """The text in lower case, each letter replaced by the Latin one that it looks like, without accents."""
    if text.isascii():
        return " ".join(text.casefold().translate(_QUOTES).split())
    text = _IGNORABLE.sub("", normalised(text)).translate(_QUOTES)
    plain = "".join(sign for sign in unicodedata.normalize("NFKD", text) if not unicodedata.combining(sign))
    return " ".join(plain.translate(LOOKALIKES).casefold().translate(LOOKALIKES).split())


def mixes_scripts(text: str) -> str | None:
    """The first word of three or more letters that mixes Latin letters with Cyrillic, Armenian or Cherokee ones."""
    if text.isascii():
        return None
    for word in re.findall(r"[^\W\d_]{3,}", unicodedata.normalize("NFKC", text)):
        scripts = {unicodedata.name(sign, "").split(" ")[0] for sign in word}
        if "LATIN" in scripts and scripts & {"CYRILLIC", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU"}:
            return word
    return None


def spelled_out(text: str) -> str | None:
    """Letters with a separator after each, such as `i g n o r e`, joined; None when there are none.

    Letters in alphabetical order are names of points or choices, and no word.
    """
    for found in _SPELLED.finditer(text):
        letters = [sign for sign in found[0].casefold() if sign.isalpha()]
        pairs = pairwise(letters)
        if len(letters) >= _FEW and len(set(letters) & set("aeiou")) and not all(a < b for a, b in pairs):
            return "".join(letters)
    return None


def _letters(word: re.Match[str]) -> str:
    """A word with its digits as letters."""
    return word[0].translate(_DIGITS_AS_LETTERS)


def views(text: str) -> tuple[str, ...]:
    """The folded text, then those of its rewritings that differ: digits as letters, words split and words joined."""
    plain = fold(text)
    found = [plain]
    if _WORD_WITH_DIGIT.search(plain):
        found.append(_WORD_WITH_DIGIT.sub(_letters, plain))
    if _CAMEL.search(text):
        found.append(fold(_CAMEL.sub(" ", text)))
    if _WORD_JOINTS.search(plain):
        found += [_WORD_JOINTS.sub(" ", plain), _INSIDE_WORD.sub("", plain)]
    return tuple(dict.fromkeys(found))
