"""Splitting an answer at commas, signs and words outside all brackets."""

import re
from collections.abc import Iterator

_PIECE = re.compile(r"\\[a-zA-Z]+|\\.|.", re.DOTALL)
_WORD = re.compile(r"\\(?:text|textbf|mathrm|mbox) ?\{ *(or|and) *\}|(?<![a-zA-Z\\])(or|and)(?![a-zA-Z])")
_OPENING = frozenset({"(", "[", "{", r"\{", r"\langle", r"\lfloor", r"\lceil", r"\begin"})
_CLOSING = frozenset({")", "]", "}", r"\}", r"\rangle", r"\rfloor", r"\rceil", r"\end"})


def outer_pieces(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield commands and characters in order, each with its position and the number of open brackets before it.

    A closing bracket counts as outside the pair that it closes.
    """
    depth = 0
    for found in _PIECE.finditer(text):
        piece = found.group()
        if piece in _CLOSING:
            depth -= 1
        yield piece, found.start(), depth
        if piece in _OPENING:
            depth += 1


def split_outside(text: str, *separators: str) -> list[str]:
    """Return the parts between these separators outside all brackets; the whole text when there is none."""
    return [part for part, _ in split_with_separators(text, *separators)]


def split_with_separators(text: str, *separators: str) -> list[tuple[str, str]]:
    """Return the parts, each with the separator before it (empty for the first)."""
    parts: list[tuple[str, str]] = []
    start, sign = 0, ""
    for piece, at, depth in outer_pieces(text):
        if depth == 0 and piece in separators:
            parts.append((text[start:at].strip(), sign))
            start, sign = at + len(piece), piece
    return [*parts, (text[start:].strip(), sign)]


def words_as_commas(text: str) -> tuple[str, str]:
    """Return the text with outer "or" and "and" as commas, and which of the two words it held: `or`, `and` or ""."""
    held: set[str] = set()

    def comma(found: re.Match[str]) -> str:
        held.add(found[1] or found[2])
        return ","

    replaced = re.sub(r", ?,", ",", _WORD.sub(comma, text))
    return replaced, "or" if "or" in held else "and" if held else ""


def bracketed(text: str) -> tuple[str, str, str] | None:
    """Return opening bracket, content and closing bracket when one pair encloses the whole text."""
    found = list(outer_pieces(text))
    if len(found) < 2 or found[0][0] not in _OPENING - {r"\begin"} or found[-1][0] not in _CLOSING:
        return None
    if any(depth < 1 for _, _, depth in found[1:-1]):
        return None
    opening, closing = found[0][0], found[-1][0]
    return opening, text[len(opening) : found[-1][1]].strip(), closing
