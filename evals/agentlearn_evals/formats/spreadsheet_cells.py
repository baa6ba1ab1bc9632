"""Cells of CSV files that spreadsheet programs show as text and never run as a formula.

Spreadsheet programs take a cell for a formula when it starts with `=`, `+`, `-`, `@`, a tab or a line end, also after
white space and in full-width letters. Such a text gets an apostrophe in front, and so does one that starts with
apostrophes and then such a sign, so that `original_cell` can undo it. Numbers are written as they are.
"""

from unicodedata import category, normalize

_SIGNS = frozenset("=+-@\u2212")
_INVISIBLE = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})
"""Unicode categories of controls, formats and white space."""


def spreadsheet_cell(value: object) -> object:
    """The cell to write for a value. Text that a spreadsheet program could run gets an apostrophe in front."""
    return f"'{value}" if isinstance(value, str) and _is_formula(value) else value


def original_cell(text: str) -> str:
    """The text for which `spreadsheet_cell` gave this cell."""
    return text[1:] if text.startswith("'") and _is_formula(text[1:]) else text


def _is_formula(text: str) -> bool:
    bare = text.lstrip("'")
    if bare.startswith(("\t", "\r", "\n")):
        return True
    first = next((letter for letter in bare if category(letter) not in _INVISIBLE), "")
    return normalize("NFKC", first)[:1] in _SIGNS
