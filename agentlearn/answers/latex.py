r"""Mathematics as text, in one spelling of LaTeX, split at what stands outside all brackets; and amounts with units.

Characters outside ASCII become commands, and commands get one spelling: `\frac`, `\binom`, `\leq`, `\to`, plain `-`,
single spaces, `\dollar` for `\$`. Math delimiters and sizes are left out. Amounts are `3\text{ cm}^2`, `45^\circ`,
`50\%`, `\$5 million`.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import partial

from agentlearn.answers.answer_text import LOWERED, RAISED, end_of_braces
from agentlearn.answers.numbers import with_digits
from agentlearn.answers.units import MeasureUnit, magnitude_at
from agentlearn.text import seen

MAX_CHARACTERS = 2_000

_COMMANDS_OF_SIGNS = r"""
×✕ \times|·⋅∙ \cdot|÷ \div|π \pi|∞ \infty|≤⩽≦ \leq|≥⩾≧ \geq|≠ \neq|∪ \cup|∩ \cap|∈ \in|∅ \emptyset|± \pm|∓ \mp
≈ \approx|≡ \equiv|∠ \angle|△ \triangle|∖ \setminus|→ \to|… \ldots|⌊ \lfloor|⌋ \rfloor|⌈ \lceil|⌉ \rceil|⟨ \langle
⟩ \rangle|∑ \sum|∏ \prod|∫ \int|€ \euro|£ \pound|¥￥ \yen|₹ \rupee|°º ^\circ
"""
_PLAIN_SIGNS = r"""
−–‒﹣－ -|∶ :|∕⁄ /|％ \%|′’ '|、 ,|。 .|٫ .|٬ ,|٪ \%|ℕ \mathbb{N}|ℤ \mathbb{Z}|ℚ \mathbb{Q}|ℝ \mathbb{R}|ℂ \mathbb{C}
"""
_SIGNS = {
    **{sign: text for row in _PLAIN_SIGNS.strip().split("|") for sign in row.split()[0] for text in row.split()[1:]},
    **{
        sign: f"{row.split()[1]} "
        for row in _COMMANDS_OF_SIGNS.strip().replace("\n", "|").split("|")
        for sign in row.split()[0]
    },
    **dict.fromkeys("\u00a0\u2009\u202f\u2002\u2003\u200a", " "),
}
_TABLE = str.maketrans(_SIGNS)
_GREEK = frozenset(
    (
        *("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu"),
        *("xi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega"),
    )
)
_CAPITALS = frozenset({"gamma", "delta", "theta", "lambda", "xi", "sigma", "phi", "psi", "omega"})
_RADICAL = re.compile(r"([√∛∜])\s*(?:(\d+|[a-zA-Z])|(?=[({]))")
_DEGREES = {"√": "", "∛": "[3]", "∜": "[4]"}
_VULGAR = re.compile("[\u00bc-\u00be\u2150-\u215e\u2189]")
_GROUPS = re.compile(r"(?<![\d.,])[1-9]\d{0,2}(?:(?: ?\{,\} ?| ?, ?\\! ?| ?\\[,!] ?|\\ |~| )\d{3})+(?!\d| ?/)")
_DELIMITERS = re.compile(r"\$+|(?<!\\)\\[()\[\]]")
_DROPPED = re.compile(
    r"\\(?:left|right|[bB]igg?[lrm]?|displaystyle|textstyle|scriptstyle|limits|nolimits|boldsymbol|rm|bf|it)(?![a-zA-Z])\.?"
    r"|(?<!\\)\\!|\\(?:phantom|label)\s*\{[^{}]*\}"
)
_SPACES = re.compile(r"(?<!\\)\\[,;:> \n]|\\(?:quad|qquad|enspace|thinspace|hfill)(?![a-zA-Z])|~|\s+")
_SAME_COMMANDS = r"""
frac dfrac tfrac cfrac|binom dbinom tbinom|leq le leqslant leqq|geq ge geqslant geqq|to rightarrow longrightarrow|neq ne
{ lbrace|} rbrace|[ lbrack|] rbrack|* ast|< lt|> gt|emptyset varnothing|setminus smallsetminus backslash|asinh arcsinh
infty infin|^\circ degree textdegree|cup lor|cap land|operatorname mathop
"""
_SPELLINGS = dict.fromkeys(("lvert", "rvert", "vert", "mid"), "|") | {
    spelling: row.split()[0]
    for row in _SAME_COMMANDS.strip().replace("\n", "|").split("|")
    for spelling in row.split()[1:]
}
_PLAIN = frozenset({"|", "[", "]", "<", ">", "*", "^\\circ"})
_RELATIONS = re.compile(r"<=(?!>)|=<|>=|<>|(?<=\s)!=|==|\\not\s*(?:=|\\eq(?![a-zA-Z]))")
_RELATION_SPELLINGS = {"<=": r"\leq ", "=<": r"\leq ", ">=": r"\geq ", "==": "="}
_COMMAND = re.compile(r"\\([a-zA-Z]+)\s?")
_PART = re.compile(r"\\[a-zA-Z]+|\\.|[^\W\d_]+|\d*(?:,\d{3}(?!\d))*\.?\d+|\S")
_WRAPPER = re.compile(r"\\(?:text|textbf|textit|textrm|textsf|texttt|mathrm|mathbf|mathit|mathsf|mbox|hbox|emph)\s*\{")

_PIECE = re.compile(r"\\[a-zA-Z]+|\\.|.", re.DOTALL)
_JOINT = re.compile(r"\\(?:text|textbf|mathrm|mbox) ?\{ *(or|and) *\}|(?<![a-zA-Z\\])(or|and)(?![a-zA-Z])")
_OPENING = frozenset({"(", "[", "{", r"\{", r"\langle", r"\lfloor", r"\lceil", r"\begin"})
_CLOSING = frozenset({")", "]", "}", r"\}", r"\rangle", r"\rfloor", r"\rceil", r"\end"})

_SIGN_OF = {
    **{row.split()[1][1:]: row.split()[0][0] for row in _COMMANDS_OF_SIGNS.strip().replace("\n", "|").split("|")},
    "dots": "…",
    "cdots": "…",
    "vdots": "…",
    "prime": "′",
    "circ": "∘",
    "perp": "⊥",
    "parallel": "∥",
    "sim": "∼",
}
_BRACED = r"\{(?:[^{}]|\{(?:[^{}]|\{(?:[^{}]|\{[^{}]{0,200}\}){0,200}+\}){0,400}+\}){0,1000}+\}"
_ALONE = {*_GREEK, *_SIGN_OF, *_SPELLINGS, "left", "right", "displaystyle", "quad", "qquad"}
_MATHEMATICS = re.compile(
    r"\$\$(.{1,1000}?)\$\$|(?<!\\)\$(?!\s)([^$]{1,1000}?)(?<![\s\\])\$(?!\w)|\\\((.{1,1000}?)\\\)|\\\[(.{1,1000}?)\\\]"
    r"|(\\begin ?\{[a-z*]+\}.{1,1000}?\\end ?\{[a-z*]+\}|\^ ?\{? ?\\circ(?![a-zA-Z]) ?\}?)"
    rf"|(?<![a-zA-Z][a-zA-Z])(?<![:/\\])((?:\\[a-zA-Z]+ ?(?:\[[^][\n]{{0,40}}\])?(?:{_BRACED})++|\\[dt]?frac ?\d ?\d"
    rf"|\\(?:{'|'.join(sorted(filter(str.isalpha, _ALONE)))})(?![a-zA-Z{{]))++)",
    re.DOTALL,
)
"""Mathematics in a text: between delimiters, or a command outside of them.

As in Pandoc, no space stands inside the dollars. No letter or digit stands behind them, as in `$HOME/$USER`.
"""
_BRACES = str.maketrans("\ue000\ue001", "{}")


def _atom(part: str | None) -> str:
    text = (part or "").strip()
    return text if re.fullmatch(r"\w*|[\d.,]*", text) else f"({text})"


_AS_TYPED: tuple[tuple[str, Callable[[re.Match[str]], str]], ...] = (
    (r"\\(?:begin|end) ?\{[a-zA-Z*]+\}(?:\{[lcr| ]+\})?|(?<=[^\\])&", lambda _: ""),
    (r"\s*\\\\\s*", lambda _: "; "),
    (r"\^ ?(?:\{ ?\\circ ?\}|\\circ(?![a-zA-Z]))", lambda _: "°"),
    (
        rf"{_WRAPPER.pattern}([^{{}}]*)\}}|\\(?:math[a-z]+|text[a-z]*|boxed) ?\{{([^{{}}]*)\}}",
        lambda it: it[1] or it[2] or "",
    ),
    (
        r"\\[dtc]?frac ?(?:\{([^{}]*)\}|(\w)) ?(?:\{([^{}]*)\}|(\w))",
        lambda it: f"{_atom(it[1] or it[2])}/{_atom(it[3] or it[4])}",
    ),
    (r"\\sqrt ?(?:\[([^]]*)\])? ?(?:\{([^{}]*)\}|(\w))", lambda it: f"{it[1] or ''}√{_atom(it[2] or it[3])}"),
    (r"([\^_]) ?\{([^{}]*)\}", lambda it: f"{it[1]}{_atom(it[2])}"),
    (r"\\(?![dtc]?frac|sqrt|boxed|text|math)([a-zA-Z]+) ?\{([^{}]*)\}", lambda it: f"{it[1]}({it[2]})"),
    (r"(?<![a-zA-Z}])\{([^{}]*)\}", lambda it: it[1]),
)
"""Commands with braces, innermost first, and what one types for each."""


def plain_mathematics(text: str) -> str:
    r"""Return the text with its mathematics as one types it: `$\frac{a}{b} \cdot \sqrt{2}$` becomes `a/b · √2`.

    Dollars around mathematics go; those before amounts of money stay. Commands outside of delimiters count as well:
    `\boxed{4}` becomes `4`. A command without a sign is its bare name.
    """

    def sign(found: re.Match[str]) -> str:
        name = _SPELLINGS.get(found[1], found[1])
        letter = f"{'SMALL' if name.islower() else 'CAPITAL'} LETTER {name.upper().replace('LAMBDA', 'LAMDA')}"
        return _SIGN_OF.get(name) or (unicodedata.lookup(f"GREEK {letter}") if name.lower() in _GREEK else name)

    def typed(found: re.Match[str]) -> str:
        inside = _SPACES.sub(" ", _DROPPED.sub("", next(filter(None, found.groups()))))
        inside, before = inside.replace(r"\{", "\ue000").replace(r"\}", "\ue001"), ""
        while inside != before:
            before = inside
            for pattern, made in _AS_TYPED:
                inside = re.sub(pattern, made, inside)
        return re.sub(r"\\([^a-zA-Z])", r"\1", re.sub(r"\\([a-zA-Z]+)", sign, inside)).translate(_BRACES).strip()

    return _MATHEMATICS.sub(typed, text) if "$" in text or "\\" in text else text


def _in_latex(text: str) -> str:
    """Return the text with the usual characters outside ASCII as LaTeX. Other characters stay as they are."""
    if text.isascii():
        return text

    def compatible(text: str) -> str:
        return unicodedata.normalize("NFKC", text).replace("\N{MINUS SIGN}", "-")

    def script(sign: str, found: re.Match[str]) -> str:
        return f"{sign}{{{compatible(found[0])}}}"

    def fraction(found: re.Match[str]) -> str:
        top, _, bottom = compatible(found[0]).partition("\N{FRACTION SLASH}")
        return f"\\frac{{{top}}}{{{bottom}}}"

    def plain(character: str) -> str:
        """Return a wide, styled or Greek character, a digit of another script, or a space of another width in ASCII."""
        one = unicodedata.normalize("NFKC", character)
        if one.isascii() or (one != character and one in _SIGNS):
            return _SIGNS.get(one, one)
        if (digit := unicodedata.decimal(character, None)) is not None:
            return str(digit)
        if unicodedata.category(character) == "Zs":
            return " "
        script, _, letter = (unicodedata.name(one, "") if len(one) == 1 else "").rpartition(" LETTER ")
        letter = letter.casefold().replace("lamda", "lambda").replace("final ", "")
        if script == "GREEK SMALL" and letter in _GREEK:
            return f"\\{letter} "
        return f"\\{letter.capitalize()} " if script == "GREEK CAPITAL" and letter in _CAPITALS else character

    text = with_digits(seen(text))
    text = _RADICAL.sub(lambda one: f"\\sqrt{_DEGREES[one[1]]}" + (f"{{{one[2]}}}" if one[2] else ""), text)
    for pattern, sign in ((RAISED, "^"), (LOWERED, "_")):
        text = pattern.sub(partial(script, sign), text)
    return "".join(map(plain, _VULGAR.sub(fraction, text).translate(_TABLE)))


def normalise(text: str) -> str:
    """Return the text in one spelling, at most a few times MAX_CHARACTERS long."""

    def respelled(found: re.Match[str]) -> str:
        name = _SPELLINGS.get(found[1], found[1])
        if name in _PLAIN:
            return name
        return f"\\{name} " if found[0].endswith((" ", "\n")) and name not in {"{", "}"} else f"\\{name}"

    text = _in_latex(text[: MAX_CHARACTERS + 1]).replace(r"\$", r"\dollar ")
    text = _DELIMITERS.sub("", text)
    text = _GROUPS.sub(lambda found: re.sub(r"\D", "", found[0]), text).replace("{,}", ",")
    text = _DROPPED.sub("", text)
    text = _RELATIONS.sub(lambda found: _RELATION_SPELLINGS.get(found[0], r"\neq "), text)
    return without_brackets(_SPACES.sub(" ", _COMMAND.sub(respelled, text)))


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
        elif text.startswith("{") and end_of_braces(text, 1) == len(text) - 1:
            text = text[1:-1]
        else:
            return text


def unwrapped(text: str) -> str | None:
    r"""Return the content of a `\text{…}` or `\mathbf{…}` around the whole text; None when there is none."""
    if (found := _WRAPPER.match(text)) and end_of_braces(text, found.end()) == len(text) - 1:
        return text[found.end() : -1].strip()
    return None


def _outer_pieces(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield commands and characters in order, each with its position and the number of open brackets before it.

    A closing bracket counts as outside the pair that it closes.
    """
    depth = 0
    for found in _PIECE.finditer(text):
        piece = found[0]
        depth -= piece in _CLOSING
        yield piece, found.start(), depth
        depth += piece in _OPENING


def split_outside(text: str, *separators: str) -> list[str]:
    """Return the parts between these separators outside all brackets; the whole text when there is none."""
    return [part for part, _ in split_with_separators(text, *separators)]


def split_with_separators(text: str, *separators: str) -> list[tuple[str, str]]:
    """Return the parts, each with the separator before it (empty for the first)."""
    parts: list[tuple[str, str]] = []
    start, sign = 0, ""
    for piece, at, depth in _outer_pieces(text):
        if depth == 0 and piece in separators:
            parts.append((text[start:at].strip(), sign))
            start, sign = at + len(piece), piece
    return [*parts, (text[start:].strip(), sign)]


def words_as_commas(text: str) -> tuple[str, str]:
    """Return the text with outer "or" and "and" as commas, and which of the two words it held: `or`, `and` or ""."""
    held = {found[1] or found[2] for found in _JOINT.finditer(text)}
    return re.sub(r", ?,", ",", _JOINT.sub(",", text)), "or" if "or" in held else "and" if held else ""


def bracketed(text: str) -> tuple[str, str, str] | None:
    """Return opening bracket, content and closing bracket when one pair encloses the whole text."""
    found = list(_outer_pieces(text))
    if len(found) < 2 or found[0][0] not in _OPENING - {r"\begin"} or found[-1][0] not in _CLOSING:
        return None
    if any(depth < 1 for _, _, depth in found[1:-1]):
        return None
    opening, closing = found[0][0], found[-1][0]
    return opening, text[len(opening) : found[-1][1]].strip(), closing


PERCENT, DEGREES = "%", "°"
_SHORT_UNITS = frozenset({"cm", "mm", "km", "kg", "mg", "ml", "ft", "in", "lb", "oz", "hr", "min", "sec", "mph"})
ONE_LETTER_UNITS = frozenset("acfghjklmnsvw")
"""Letters that may be units behind an amount: `3 h`."""
_NO_UNITS = frozenset(
    (
        *("or", "and", "to", "if", "is", "for", "when", "where", "mod", "pi", "sqrt", "sin", "cos", "tan", "cot"),
        *("sec", "csc", "log", "ln", "exp", "with"),
    )
)
_OTHER_NAMES = {"in": "inch", "deg": "°", "buck": "usd", "percentage": "%", "inche": "inch"}
_PREFIXES = {"square ": "2", "sq ": "2", "cubic ": "3", "cu ": "3"}
_POWER = r"(?: ?\^ ?\{? ?([23]) ?\}?)?"
_UNIT_WRAPPER = r"\\(?:text|textrm|textbf|textit|textsf|textnormal|mathrm|mathbf|mbox|hbox)"
_UNIT_IN_WRAPPER = re.compile(rf"(.*?\S?) ?{_UNIT_WRAPPER} ?\{{([^{{}}]*)\}}{_POWER}", re.DOTALL)
_BARE_UNIT = re.compile(rf"(.*[\d)}}]) ([a-zA-Z][a-zA-Z ]*?)\.?{_POWER}", re.DOTALL)
_BEFORE_WORD = re.compile(r".*[\d)}](?= ?[^\W\d_])", re.DOTALL)
_PER = re.compile(rf"(.*[\d)}}]) ([a-z]{{1,5}}) ?/ ?([a-z]{{1,5}}){_POWER}", re.DOTALL)
_GLUED = re.compile(
    rf"(.*\d) ?({'|'.join(sorted(_SHORT_UNITS | {'st', 'nd', 'rd', 'th', 'am', 'pm'}))}){_POWER}", re.DOTALL
)
_DEGREE = re.compile(r"(.*?) ?(?:\^ ?\{? ?\\circ ?\}?|\\degree)(?: ?(?:\\text ?\{ ?)?([CF]) ?\}?)?", re.DOTALL)
_PERCENT = re.compile(r"(.*?) ?\\?%", re.DOTALL)
_CURRENCIES = {"dollar": "usd", "euro": "eur", "pound": "gbp", "yen": "jpy", "rupee": "inr"}
_COMMANDS = "|".join(_CURRENCIES)
_CURRENCY = re.compile(rf"([+-]?) ?(?:USD?)? ?\\({_COMMANDS}) ?(.+)|(.+?) ?\\({_COMMANDS})", re.DOTALL)


def amount_and_unit(text: str) -> tuple[str, int, str] | None:
    """Return the text of an amount, by what a word such as `million` multiplies it, and its unit in one spelling.

    The unit is empty for a magnitude alone, and the factor 0 for one that means several. None without a unit.
    """
    if found := _CURRENCY.fullmatch(text):
        written, currency = found[3] or found[4], _CURRENCIES[found[2] or found[5]]
        if _CURRENCY.fullmatch(written):
            return None
        amount, factor, unit = amount_and_unit(written) or (written, 1, "")
        return ((found[1] or "") + amount, factor, currency) if unit in {currency, ""} else None
    if found := _PERCENT.fullmatch(text):
        return found[1], 1, PERCENT
    if found := _DEGREE.fullmatch(text):
        return found[1], 1, DEGREES + (found[2] or "").lower()
    if (found := _UNIT_IN_WRAPPER.fullmatch(text)) and found[1] and re.search(r"[a-zA-Z%$°]", found[2]):
        return _with_unit(found[1], found[2], found[3])
    if (found := _BEFORE_WORD.match(text)) and magnitude_at(text, found.end()):
        return _with_unit(found[0], text[found.end() :], None)
    if found := _BARE_UNIT.fullmatch(text):
        words = found[2].casefold().split()
        if not _NO_UNITS & set(words) and (len(words[0]) > 2 or words[0] in _SHORT_UNITS):
            return _with_unit(found[1], found[2], found[3])
    if (found := _PER.fullmatch(text)) and {found[2], found[3]} <= _SHORT_UNITS | ONE_LETTER_UNITS:
        return _with_unit(found[1], f"{found[2]}/{found[3]}", found[4])
    found = _GLUED.fullmatch(text)
    return _with_unit(found[1], found[2], found[3]) if found else None


def _with_unit(amount: str, words: str, power: str | None) -> tuple[str, int, str] | None:
    unit = " ".join(words.replace(".", " ").replace("\\", " ").casefold().split())
    factor, end = magnitude_at(unit) or (1, 0)
    is_letter = len(unit) == 1 and unit not in ONE_LETTER_UNITS and not end
    if not unit or is_letter or unit in _NO_UNITS or re.search(r"\d", unit):
        return None
    unit = unit[end:].strip()
    for prefix, exponent in _PREFIXES.items():
        if unit.startswith(prefix):
            unit, power = unit.removeprefix(prefix), exponent
    singular = " ".join(word[:-1] if len(word) > 2 and word.endswith("s") else word for word in unit.split())
    known = MeasureUnit.named(unit) or MeasureUnit.named(singular)
    name = _OTHER_NAMES.get(singular) or (known.name if known else singular)
    return without_brackets(amount), factor, f"{name}^{power}" if power else name
