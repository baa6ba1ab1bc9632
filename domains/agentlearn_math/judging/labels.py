r"""Reading the left side of an equation that names a value: `x`, `f(2)`, `|AB|`, `S_{\triangle ABC}`, `\angle A`.

A left side such as `x+y` or `x^2` is no name: its equation is more than the value on its right.
"""

import re

from agentlearn_math.judging.splitting import split_outside

LETTER = r"(?:[a-zA-Z]|\\(?!in|cup|cap|leq|geq|neq|frac|sqrt|pi|infty)[a-zA-Z]+)(?: ?_ ?(?:\w|\{[\w, ]+\}))?'?"
"""A variable: a letter or a command that stands for one, with its index."""
_LETTERS = rf"\( ?{LETTER}(?: ?, ?{LETTER})* ?\)"
_SIMPLE = rf"{_LETTERS}|{LETTER}(?: ?\^ ?\{{ ?-1 ?\}})? ?{_LETTERS}|{LETTER}"

_NESTED = r"(?:[^{}]|\{[^{}]*\})*"
_INDEX = rf" ?_ ?(?:\\?\w+|\{{{_NESTED}\}})"
_POINT = r"[A-Z](?: ?_ ?\{? ?\d ?\}?)?'*"
_POINTS = rf"{_POINT}(?: ?{_POINT}){{1,7}}"
_MARK = r"\\(?:overline|overrightarrow|overleftrightarrow|overarc|widehat|widetilde|vec|hat|bar|tilde|mathbf|bf|mathbb)"
_MARKED = rf"{_MARK} ?(?:\{{{_NESTED}\}}|[a-zA-Z](?![a-zA-Z]))"
_ANGLE = rf"(?:m ?)?\\(?:angle|measuredangle) ?(?:\{{? ?(?:{_POINTS}|{_POINT}|[a-z]|\d) ?\}}?|\\[a-z]+)"
_SHAPE = rf"\\(?:triangle|square|odot) ?{_POINTS}"
_SIZE = rf"\\?\| ?(?:{_POINTS}|[A-Z]|{_MARKED}) ?\\?\||\[ ?{_POINTS} ?\]"
_ANY_GROUP = r" ?(?:\([^=()]*(?:\([^()]*\)[^=()]*)?\)|\([^()]*\)|\[[^\[\]]*\])"
_FUNCTION = r"[fghnpEFGHPNVDC]|\\(?:mathbb ?\{ ?[EP] ?\}|operatorname ?\{ ?\w+ ?\}|Pr|deg|dim|det)"
_CALL = rf"(?:{_FUNCTION})(?:{_INDEX})?'*{_ANY_GROUP}"
_OPERATOR = r"\\(?:operatorname ?\{ ?\w+ ?\}|deg|dim|det|arg|max|min|gcd|lcm|Pr)"
_NUMBER_OF = rf"{_OPERATOR} ?(?:{_INDEX})? ?(?:[a-zA-Z]|{_MARKED}|{_ANY_GROUP})"
_ARGUMENT = rf"(?:\d* ?(?:[a-zA-Z]|\\[a-z]+|{_ANGLE}|{_POINTS})|\\frac ?\{{[^{{}}]*\}} ?\{{[^{{}}]*\}}|{_ANY_GROUP})"
_RATIO_OF_ANGLE = rf"\\(?:sin|cos|tan|cot|sec|csc) ?(?:\^ ?\{{? ?2 ?\}}?)? ?{_ARGUMENT}"
_LENGTHS = re.compile(rf"(?:{_POINTS}|\\overline ?\{{ ?{_POINTS} ?\}}|\\frac|\\cdot|\\times|[-+/:{{}} ^2])+")
_WORDY = re.compile(r"\\(?:text|textbf|textit|mathrm|mathbf|mbox|operatorname) ?\{ ?[a-zA-Z][^{}]*[a-zA-Z][^{}]*\}")
_COMPARING = re.compile(
    r"\b(?:not|never|except|less|more|most|least|fewer|greater|about|approximately|or)\b", re.IGNORECASE
)

_NAME = re.compile(
    "|".join(
        (
            *(_SIMPLE, rf"{LETTER}(?:{_INDEX})'?", _POINTS, _MARKED, rf"{_MARKED}(?:{_INDEX})", _ANGLE, _SHAPE, _SIZE),
            *(_CALL, _NUMBER_OF, _RATIO_OF_ANGLE),
        )
    )
)
_DRESSING = re.compile(r"\\overline|\\measured(?=angle)|\\?\||[{} ]")


def name_in(left: str) -> str | None:
    """Return the name in one spelling (`|AB|` and `\\overline{AB}` are `AB`); None for a left side that is none."""
    if len(left) == 1 and left.isalpha():
        return left
    if _NAME.fullmatch(left) or _is_of_lengths(left) or _is_wordy(left) or _is_ratio(left):
        return re.sub(r"^m(?=\\angle)", "", _DRESSING.sub("", left).replace(r"\measuredangle", r"\angle"))
    return None


def _is_of_lengths(left: str) -> bool:
    r"""Whether the left side is calculated from lengths: `\frac{AB}{CD}`, `AB+CD`."""
    return _LENGTHS.fullmatch(left) is not None and re.search("[A-Z]", left) is not None


def _is_ratio(left: str) -> bool:
    """Whether the left side is a ratio of names: `S_1:S_2`."""
    parts = split_outside(left, ":")
    return len(parts) > 1 and all(_NAME.fullmatch(part) for part in parts)


def _is_wordy(left: str) -> bool:
    r"""Whether words name the value: `\text{Area}`, `\text{area of } \triangle ABC`."""
    if not _WORDY.search(left) or _COMPARING.search(left):
        return False
    return re.search(r"[-+*/^<>=]|\\(?:cdot|times|frac|pm)", _WORDY.sub("", left)) is None
