r"""Characters outside ASCII, written as LaTeX: signs, Greek letters, full-width digits, `x²`, `½`, `√2`."""

import re
import unicodedata

_SIGNS = {
    **dict.fromkeys("−–‒﹣－", "-"),
    **dict.fromkeys("×✕", r"\times "),
    **dict.fromkeys("·⋅∙", r"\cdot "),
    **dict.fromkeys("\u00a0\u2009\u202f\u2002\u2003\u200a", " "),
    **dict.fromkeys("\u200b\u2060\ufeff", ""),
    "∶": ":",
    "÷": r"\div ",
    "∕": "/",
    "⁄": "/",
    "π": r"\pi ",
    "∞": r"\infty ",
    "≤": r"\leq ",
    "⩽": r"\leq ",
    "≥": r"\geq ",
    "⩾": r"\geq ",
    "≠": r"\neq ",
    "∪": r"\cup ",
    "∩": r"\cap ",
    "∈": r"\in ",
    "∅": r"\emptyset ",
    "±": r"\pm ",
    "°": r"^\circ ",
    "º": r"^\circ ",
    "€": r"\euro ",
    "£": r"\pound ",
    "％": r"\%",
    "′": "'",
    "’": "'",
    "ℕ": r"\mathbb{N}",
    "ℤ": r"\mathbb{Z}",
    "ℚ": r"\mathbb{Q}",
    "ℝ": r"\mathbb{R}",
    "ℂ": r"\mathbb{C}",
    "¥": r"\yen ",
    "￥": r"\yen ",
    "₹": r"\rupee ",
    "≈": r"\approx ",
    "≡": r"\equiv ",
    "∓": r"\mp ",
    "∠": r"\angle ",
    "△": r"\triangle ",
    "∖": r"\setminus ",
    "→": r"\to ",
    "…": r"\ldots ",
    "⌊": r"\lfloor ",
    "⌋": r"\rfloor ",
    "⌈": r"\lceil ",
    "⌉": r"\rceil ",
    "⟨": r"\langle ",
    "⟩": r"\rangle ",
    "∑": r"\sum ",
    "∏": r"\prod ",
    "∫": r"\int ",
    "≦": r"\leq ",
    "≧": r"\geq ",
    "、": ",",
    "。": ".",
}
_GREEK = frozenset(
    (
        *("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu"),
        *("xi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega"),
    )
)
_CAPITALS = frozenset({"gamma", "delta", "theta", "lambda", "xi", "sigma", "phi", "psi", "omega"})
_TABLE = str.maketrans(_SIGNS)
_RADICAL = re.compile(r"([√∛∜])\s*(?:(\d+|[a-zA-Z])|(?=[({]))")
_DEGREES = {"√": "", "∛": "[3]", "∜": "[4]"}
_RAISED = re.compile("[\u2070\u00b9\u00b2\u00b3\u2074-\u207f]+")
_LOWERED = re.compile("[\u2080-\u208e]+")
_VULGAR = re.compile("[\u00bc-\u00be\u2150-\u215e\u2189]")


def in_latex(text: str) -> str:
    """Return the text with the usual characters outside ASCII as LaTeX. Other characters stay as they are."""
    if text.isascii():
        return text
    text = _RADICAL.sub(_root, text)
    text = _RAISED.sub(lambda found: f"^{{{_compatible(found.group())}}}", text)
    text = _LOWERED.sub(lambda found: f"_{{{_compatible(found.group())}}}", text)
    text = _VULGAR.sub(_fraction, text).translate(_TABLE)
    return text if text.isascii() else "".join(map(_plain, text))


def _root(found: re.Match[str]) -> str:
    root = f"\\sqrt{_DEGREES[found[1]]}"
    return f"{root}{{{found[2]}}}" if found[2] else root


def _compatible(text: str) -> str:
    return unicodedata.normalize("NFKC", text).replace("\N{MINUS SIGN}", "-")


def _fraction(found: re.Match[str]) -> str:
    top, _, bottom = unicodedata.normalize("NFKC", found.group()).partition("\N{FRACTION SLASH}")
    return f"\\frac{{{top}}}{{{bottom}}}"


def _plain(character: str) -> str:
    """Return a wide, styled or Greek character, a digit of another script, or a space of another width in ASCII."""
    if character.isascii():
        return character
    compatible = unicodedata.normalize("NFKC", character)
    if compatible.isascii():
        return compatible
    if compatible != character and compatible in _SIGNS:
        return _SIGNS[compatible]
    if (digit := unicodedata.decimal(character, None)) is not None:
        return str(digit)
    kind = unicodedata.category(character)
    if kind in {"Zs", "Cf"}:
        return " " if kind == "Zs" else ""
    return _greek(compatible) or character


def _greek(character: str) -> str | None:
    name = unicodedata.name(character, "") if len(character) == 1 else ""
    script, _, letter = name.rpartition(" LETTER ")
    letter = letter.casefold().replace("lamda", "lambda").replace("final ", "")
    if script == "GREEK SMALL" and letter in _GREEK:
        return f"\\{letter} "
    return f"\\{letter.capitalize()} " if script == "GREEK CAPITAL" and letter in _CAPITALS else None
