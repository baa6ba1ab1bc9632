"""Splitting a formula into tokens. A text with anything else is refused with a reason."""

import re
from dataclasses import dataclass
from typing import Literal

TokenKind = Literal["number", "letter", "command", "sign", "end"]

FUNCTIONS = frozenset(
    (
        *("sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "arccot", "sinh", "cosh"),
        *("tanh", "coth", "asinh", "ln", "log", "lg", "exp", "gcd", "lcm", "max", "min"),
    )
)
PLAIN_WORDS = FUNCTIONS | {"sqrt", "pi", "abs", "infty", "asin", "acos", "atan", "binom"}
GREEK = frozenset(
    (
        *("alpha", "beta", "gamma", "delta", "epsilon", "varepsilon", "zeta", "eta", "theta", "vartheta", "iota"),
        *("kappa", "lambda", "mu", "nu", "xi", "rho", "sigma", "tau", "upsilon", "phi", "varphi", "chi", "psi"),
        *("omega", "Gamma", "Delta", "Theta", "Lambda", "Xi", "Sigma", "Phi", "Psi", "Omega", "ell"),
    )
)
MAX_WORD = 3
"""Most letters side by side that are read as a product of variables when they are not a known name."""

_UPRIGHT = frozenset("ei")
"""Upright letters that are constants; any other upright letter may be a unit."""

_TOKEN = re.compile(
    r" *(?:(?P<number>[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?(?!\d)|\d+(?:\.\d+)?|\.\d+)"
    r"|\\(?:(?:mathrm|mathit|operatorname|mathsf) *\{ *|(?:text|textrm|textit|mathbf) *\{ *(?=[ei] *\}))"
    r"(?P<named>[a-zA-Z]+) *\}"
    r"|\\(?P<command>[a-zA-Z]+)"
    r"|(?P<word>[a-zA-Z]+)"
    r"|(?P<sign>\*\*|!!|[-+*/^_=(){}\[\]|!,<>']))",
    re.ASCII,
)


class UnreadableFormula(Exception):
    """Raised with what the text contains that a formula may not. Its message continues "the answer"."""


@dataclass(frozen=True, slots=True)
class Token:
    """One token; `text` is a command's name without its backslash."""

    kind: TokenKind
    text: str
    spaced: bool = False
    """Whether white space comes before it."""


END = Token("end", "")


def formula_tokens(text: str) -> list[Token]:
    """Return all tokens of the text. Raises UnreadableFormula."""
    found: list[Token] = []
    at, text = 0, text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise UnreadableFormula(f"holds {text[at : at + 10].strip()!r}, which is not part of a formula")
        spaced = text[at] == " "
        kind, word = match.lastgroup, match[match.lastgroup or 0]
        if kind == "word" and word not in PLAIN_WORDS:
            found += _letters(word, spaced=spaced)
        elif kind == "named" and word in _UPRIGHT:
            found.append(Token("letter", word, spaced))
        elif kind in {"named", "word"}:
            if word not in PLAIN_WORDS:
                raise UnreadableFormula(f"holds the word {word!r}")
            found.append(Token("command", word, spaced))
        elif kind == "number":
            found.append(Token("number", word.replace(",", ""), spaced))
        else:
            found.append(Token("command" if kind == "command" else "sign", word, spaced))
        at = match.end()
    return found


def _letters(word: str, *, spaced: bool) -> list[Token]:
    """Return the word as single letters. Raises UnreadableFormula when it contains a known name."""
    for name in sorted(PLAIN_WORDS, key=len, reverse=True):
        if len(name) > 2 and name in word:
            raise UnreadableFormula(f"holds {word!r}, in which {name!r} runs into other letters")
    if len(word) > MAX_WORD:
        raise UnreadableFormula(f"holds the word {word!r}")
    return [Token("letter", letter, spaced and not at) for at, letter in enumerate(word)]
