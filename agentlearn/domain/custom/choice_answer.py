"""Reading the one choice letter in an answer, A to J, in the usual notations."""

import re
import unicodedata

_ALONE = re.compile(r"[(\[{]?([A-J])[)\]}.:,;]*", re.IGNORECASE)
_NAMED = re.compile(
    r"\b(?:answer|option|choice|letter)(?: is| would be|:)?:? *[(\[]?([A-J])(?![\w'])(?! [a-z]{2})", re.IGNORECASE
)
_MARKED = re.compile(r"[(\[]([A-Ja-j])[)\]]|(?<![\w'(\[])([A-Ja-j])[)\]]|(?<![\w'])([A-J])(?=[.:,;](?:\s|$))")
_BARE = re.compile(r"(?<![\w'(\[])(?:([B-HJ])(?![\w'+#-])|([AI])(?![\w'+#-]| (?!and\b|or\b|is\b)[a-z]))")
"""Capital letters alone; A and I are words when another word follows."""

_LETTER = r"[(\[]?[A-J][)\]]?(?![\w'])"
_DENIED = re.compile(
    r"\b(?:not|neither|rather than|instead of) (?:the )?(?:answer |option |choice |letter )?"
    rf"{_LETTER}(?:(?:,? (?:or|nor|and)|,) {_LETTER})*(?! (?!so\b|but\b|nor\b|or\b)[a-z])"
)
"""Letters that the answer rules out."""

_FIRST_SENTENCE = re.compile(
    r"[(\[]?([A-J])([.:)\]]|[.:]?$)[)\].:]?\s+(?=[^\W\d_]{2})(?![a-z])(.*)", re.DOTALL | re.MULTILINE
)
"""A letter that is a sentence or a line of its own, and what follows it."""
_NEXT_OF_A_LIST = r"(?<![^\W_])[(\[]?[A-Ja-j]{mark}"

_DRESSING = re.compile(r"[*_`$]|\\(?:boxed|text|textbf|mathrm|mathbf)\b")


def single_choice(text: str) -> str | None:
    """Return the letter in upper case (from `(b)`, `B.`, `Option B`, `B) Paris`); None for none or several."""
    text = _DRESSING.sub("", unicodedata.normalize("NFKC", text)).strip()
    first = _FIRST_SENTENCE.match(text)
    if first and not re.search(
        _NEXT_OF_A_LIST.format(mark=re.escape(first[2]) if first[2] else "$"), first[3], re.MULTILINE
    ):
        return first[1]
    text = " ".join(text.split())
    if alone := _ALONE.fullmatch(text):
        return alone[1].upper()
    text = _DENIED.sub(" ", text)
    letters = {
        letter.upper()
        for pattern in (_NAMED, _MARKED, _BARE)
        for found in pattern.finditer(text)
        for letter in found.groups()
        if letter
    }
    return letters.pop() if len(letters) == 1 else None
