r"""Normalising an answer: math delimiters, spacing, spellings of one command, characters outside ASCII.

The result is LaTeX in one spelling: `\frac`, `\binom`, `\leq`, `\to`, plain `-`, single spaces, `\dollar` for `\$`.
"""

import re

from agentlearn_math.judging.characters import in_latex

MAX_CHARACTERS = 2_000

_GROUPS = re.compile(r"(?<![\d.,])[1-9]\d{0,2}(?:(?: ?\{,\} ?| ?, ?\\! ?| ?\\[,!] ?|\\ |~| )\d{3})+(?!\d| ?/)")
_DELIMITERS = re.compile(r"\$+|(?<!\\)\\[()\[\]]")
_DROPPED = re.compile(
    r"\\(?:left|right|[bB]igg?[lrm]?|displaystyle|textstyle|scriptstyle|limits|nolimits|boldsymbol|rm|bf|it)(?![a-zA-Z])\.?"
    r"|(?<!\\)\\!|\\(?:phantom|label)\s*\{[^{}]*\}"
)
_SPACES = re.compile(r"(?<!\\)\\[,;:> \n]|\\(?:quad|qquad|enspace|thinspace|hfill)(?![a-zA-Z])|~|\s+")
_SPELLINGS = {
    **dict.fromkeys(("dfrac", "tfrac", "cfrac"), "frac"),
    **dict.fromkeys(("dbinom", "tbinom"), "binom"),
    **dict.fromkeys(("le", "leqslant", "leqq"), "leq"),
    **dict.fromkeys(("ge", "geqslant", "geqq"), "geq"),
    **dict.fromkeys(("rightarrow", "longrightarrow"), "to"),
    **dict.fromkeys(("lvert", "rvert", "vert", "mid"), "|"),
    **dict.fromkeys(("lbrace",), "{"),
    **dict.fromkeys(("rbrace",), "}"),
    **dict.fromkeys(("lbrack",), "["),
    **dict.fromkeys(("rbrack",), "]"),
    **dict.fromkeys(("ast",), "*"),
    **dict.fromkeys(("varnothing",), "emptyset"),
    **dict.fromkeys(("smallsetminus", "backslash"), "setminus"),
    "ne": "neq",
    "lt": "<",
    "gt": ">",
    "arcsinh": "asinh",
    "infin": "infty",
    "degree": "^\\circ",
    "lor": "cup",
    "textdegree": "^\\circ",
    "land": "cap",
    "mathop": "operatorname",
}
_RELATIONS = re.compile(r"<=(?!>)|=<|>=|<>|(?<=\s)!=|==|\\not\s*(?:=|\\eq(?![a-zA-Z]))")
_RELATION_SPELLINGS = {"<=": r"\leq ", "=<": r"\leq ", ">=": r"\geq ", "==": "="}
_COMMAND = re.compile(r"\\([a-zA-Z]+)\s?")
_PART = re.compile(r"\\[a-zA-Z]+|\\.|[^\W\d_]+|\d*(?:,\d{3}(?!\d))*\.?\d+|\S")
_PLAIN = frozenset({"|", "[", "]", "<", ">", "*", "^\\circ"})
_WRAPPER = re.compile(r"\\(?:text|textbf|textit|textrm|textsf|texttt|mathrm|mathbf|mathit|mathsf|mbox|hbox|emph)\s*\{")


def normalise(text: str) -> str:
    """Return the text in one spelling, at most a few times MAX_CHARACTERS long."""
    text = in_latex(text[: MAX_CHARACTERS + 1]).replace(r"\$", r"\dollar ")
    text = _DELIMITERS.sub("", text)
    text = _GROUPS.sub(lambda found: re.sub(r"\D", "", found.group()), text).replace("{,}", ",")
    text = _DROPPED.sub("", text)
    text = _RELATIONS.sub(lambda found: _RELATION_SPELLINGS.get(found.group(), r"\neq "), text)
    text = _COMMAND.sub(_respelled, text)
    return without_brackets(_SPACES.sub(" ", text))


def spaced_parts(text: str) -> str:
    """Return the normalised text with one space between its numbers, words, commands and signs, and no other space.

    Two texts with the same parts are the same text. White space that separates two numbers separates two parts.
    """
    return " ".join(_PART.findall(normalise(text))) if len(text) <= MAX_CHARACTERS else text


def without_brackets(text: str) -> str:
    """Return the text without braces around all of it, a final period, and space at its ends."""
    while True:
        text = text.strip()
        if text.endswith(".") and not text.endswith((r"\.", "..")):
            text = text[:-1]
        elif text.startswith("{") and closing(text, 0) == len(text) - 1:
            text = text[1:-1]
        else:
            return text


def unwrapped(text: str) -> str | None:
    r"""Return the content of a `\text{…}` or `\mathbf{…}` around the whole text; None when there is none."""
    if (found := _WRAPPER.match(text)) and closing(text, found.end() - 1) == len(text) - 1:
        return text[found.end() : -1].strip()
    return None


def closing(text: str, opening: int) -> int:
    """Return where the brace that opens at `opening` is closed; -1 when it is not."""
    depth = 0
    at = opening
    while at < len(text):
        sign = text[at]
        if sign == "\\":
            at += 1
        elif sign == "{":
            depth += 1
        elif sign == "}":
            depth -= 1
            if depth == 0:
                return at
        at += 1
    return -1


def _respelled(found: re.Match[str]) -> str:
    name = _SPELLINGS.get(found[1], found[1])
    if name in _PLAIN:
        return name
    return f"\\{name}" if name in {"{", "}"} or not found.group().endswith((" ", "\n")) else f"\\{name} "
