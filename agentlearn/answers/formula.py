r"""A strict reader of formulas in LaTeX or plain text: the whole text becomes a syntax tree, or is refused.

It refuses notation that mathematicians read differently: a slash before a product without brackets (`1/2x`), a tower
without braces (`2^3^4`), a letter that may be a function (`f(x)`), an ellipsis. A whole number directly before a proper
fraction of digits is a mixed number. `e` and `i` are the constants; a logarithm without base may have base 10 or e.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal as OneOf

from agentlearn.answers.forms import Apply, Literal, Node, Symbol

MAX_CHARACTERS = 1_000
MAX_DEPTH = 25
MAX_DIVISIONS = 40
MAX_DIGITS = 1_000
"""Most digits of one number."""
MAX_WORD = 3
"""Most letters side by side that are read as a product of variables when they are not a known name."""

_FUNCTIONS = frozenset(
    (
        *("sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "arccot", "sinh", "cosh"),
        *("tanh", "coth", "asinh", "ln", "log", "lg", "exp", "gcd", "lcm", "max", "min"),
    )
)
_ALIASES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan"}
_KNOWN_WORDS = _FUNCTIONS | {"sqrt", "pi", "abs", "infty", "binom", *_ALIASES}
_GREEK = frozenset(
    (
        *("alpha", "beta", "gamma", "delta", "epsilon", "varepsilon", "zeta", "eta", "theta", "vartheta", "iota"),
        *("kappa", "lambda", "mu", "nu", "xi", "rho", "sigma", "tau", "upsilon", "phi", "varphi", "chi", "psi"),
        *("omega", "Gamma", "Delta", "Theta", "Lambda", "Xi", "Sigma", "Phi", "Psi", "Omega", "ell"),
    )
)
_UPRIGHT = frozenset("ei")
"""Upright letters that are constants; any other upright letter may be a unit."""
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_POSSIBLE_FUNCTIONS = frozenset(
    (*"fghFGHPQ", *("\\" + name for name in ("Gamma", "Phi", "zeta", "phi", "varphi", "sigma", "tau", "mu", "psi")))
)
_ROUNDING = {"lfloor": ("rfloor", "floor"), "lceil": ("rceil", "ceil")}
_INVERSES = {"sin": "arcsin", "cos": "arccos", "tan": "arctan", "cot": "arccot"}
_OF_MANY = frozenset({"gcd", "lcm", "max", "min"})
_BIG = {"sum": "sum", "prod": "prod", "int": "integral"}
_NO_FACTOR = frozenset(
    (
        *("times", "cdot", "div", "rfloor", "rceil", "to", "circ", "prime", "leq", "geq", "neq", "in", "cup", "cap"),
        *("choose", "over"),
    )
)
"""Commands that no factor begins with."""
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


def parse(text: str) -> Node:
    """Return the syntax tree of the whole normalised text. Raises UnreadableFormula with the reason."""
    if len(text) > MAX_CHARACTERS:
        raise UnreadableFormula(f"is longer than {MAX_CHARACTERS} characters")
    reader = _Reader(_tokens(text))
    node = reader.stacked()
    if reader.here is not _END:
        raise UnreadableFormula(f"holds {reader.here.text!r} where the formula should end")
    return node


@dataclass(frozen=True, slots=True)
class _Token:
    """One token; `text` is a command's name without its backslash."""

    kind: OneOf["number", "letter", "command", "sign", "end"]
    text: str


_END = _Token("end", "")


class _Mixed(Literal):
    """The fraction of a mixed number, before it is added to the whole number."""

    __slots__ = ()


def _tokens(text: str) -> list[_Token]:
    """Return all tokens of the text. Raises UnreadableFormula."""
    found: list[_Token] = []
    at, text = 0, text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise UnreadableFormula(f"holds {text[at : at + 10].strip()!r}, which is not part of a formula")
        kind, word, at = match.lastgroup, match[match.lastgroup or 0], match.end()
        if kind == "number":
            found.append(_Token("number", word.replace(",", "")))
        elif kind == "sign":
            found.append(_Token("sign", word))
        elif kind == "command" or word in _KNOWN_WORDS:
            found.append(_Token("command", word))
        elif kind == "named" and word not in _UPRIGHT:
            raise UnreadableFormula(f"holds the word {word!r}")
        else:
            for name in sorted(_KNOWN_WORDS, key=len, reverse=True):
                if len(name) > 2 and name in word:
                    raise UnreadableFormula(f"holds {word!r}, in which {name!r} runs into other letters")
            if len(word) > MAX_WORD:
                raise UnreadableFormula(f"holds the word {word!r}")
            found += [_Token("letter", letter) for letter in word]
    return found


class _Reader:
    """Recursive descent over the tokens; each method reads one kind of part and moves the position behind it."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self._bars = 0
        self._integrals = 0
        self._divisions = 0

    @property
    def here(self) -> _Token:
        """The token at the current position."""
        return self._peek(0)

    def _peek(self, ahead: int) -> _Token:
        at = self._at + ahead
        return self._tokens[at] if at < len(self._tokens) else _END

    def _next(self) -> _Token:
        token = self.here
        self._at += 1
        return token

    def _is(self, *texts: str, ahead: int = 0) -> bool:
        token = self._peek(ahead)
        return token.kind in {"sign", "command"} and token.text in texts

    def _skip(self, *texts: str) -> str:
        """Move behind one of these tokens and return it; empty when another token is here."""
        return self._next().text if self._is(*texts) else ""

    def _take(self, text: str) -> None:
        if not self._skip(text):
            found = self.here.text
            raise UnreadableFormula(f"holds {found!r} where {text!r} is expected" if found else "is cut off")

    def stacked(self) -> Node:
        r"""Read a sum, or two of them with `\choose` or `\over` between them."""
        top = self.sum()
        if sign := self._skip("choose", "over"):
            return Apply("binomial" if sign == "choose" else "div", (top, self.sum()))
        return top

    def sum(self) -> Node:
        """Read terms with plus and minus between them."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise UnreadableFormula(f"nests more than {MAX_DEPTH} deep")
        terms = [self._term()]
        while self._is("+", "-"):
            terms.append(self._term())
        self._depth -= 1
        return terms[0] if len(terms) == 1 else Apply("add", tuple(terms))

    def _term(self) -> Node:
        """Read factors with `*`, `/` or nothing between them, and a sign before them."""
        if sign := self._skip("+", "-"):
            if self._is("+", "-"):
                raise UnreadableFormula("holds two signs in a row")
            term = self._term()
            return Apply("neg", (term,)) if sign == "-" else term
        factors: list[Node] = [_product(self._side_by_side())]
        while sign := self._skip("*", "/", "times", "cdot", "div"):
            negative = bool(self._skip("-"))
            adjacent = self._side_by_side()
            right = Apply("neg", (_product(adjacent),)) if negative else _product(adjacent)
            if sign not in {"/", "div"}:
                factors.append(right)
                continue
            if len(adjacent) > 1:
                raise UnreadableFormula("holds a division before a product without brackets")
            self._divisions += 1
            if self._divisions > MAX_DIVISIONS:
                raise UnreadableFormula(f"holds more than {MAX_DIVISIONS} divisions")
            factors = [Apply("div", (_product(factors), right))]
        return _product(factors)

    def _side_by_side(self) -> list[Node]:
        """Read factors with nothing between them, including a mixed number."""
        factors = [self._factor()]
        while self._starts_factor():
            behind_factorial = self._peek(-1).text == "!" and self._is("!", ahead=1)  # 2!3!
            if self.here.kind == "number" and not behind_factorial:
                raise UnreadableFormula("holds a number right behind another part")
            factors.append(self._beside(factors[-1]))
        match factors:
            case [Literal(value=whole), _Mixed(value=part)]:
                return [Literal(whole + part)]
            case _ if any(isinstance(factor, _Mixed) for factor in factors):
                raise UnreadableFormula("holds a mixed number inside a product")
            case _:
                return factors

    def _beside(self, before: Node) -> Node:
        """Read the next factor; after a whole number it may be the fraction of a mixed number."""
        is_fraction = self._is("frac", "{") and self._peek(-1).kind == "number"
        factor = self._factor()
        match before, factor:
            case Literal(value=whole), Apply(op="div", args=(Literal(value=top), Literal(value=bottom))) if is_fraction:
                if whole.denominator != 1 or not 0 < top < bottom:
                    raise UnreadableFormula("holds a number right before a fraction that makes no mixed number")
                return _Mixed(top / bottom)
            case _:
                return factor

    def _starts_factor(self) -> bool:
        token = self.here
        if token.kind in {"number", "letter"}:
            return not (self._integrals and self._is_differential())
        if token.kind == "sign":
            return token.text in "([{" or (token.text == "|" and not self._bars)
        return token.kind == "command" and token.text not in _NO_FACTOR

    def _is_differential(self) -> bool:
        after = self._peek(1)
        return self.here == _Token("letter", "d") and (after.kind == "letter" or after.text in _GREEK)

    def _factor(self) -> Node:
        """Read a primary with its factorials and its power."""
        is_frac = self.here == _Token("command", "frac")
        base = self._primary()
        if sign := self._skip("!", "!!"):
            base = Apply("factorial" if sign == "!" else "factorial2", (base,))
        for signs, what in (
            (("!", "!!"), "a factorial of a factorial without brackets"),
            (("'", "prime"), "a prime"),
            (("_",), "an index that is not part of a letter"),
        ):
            if self._is(*signs):
                raise UnreadableFormula(f"holds {what}")
        if not self._skip("^", "**"):
            return base
        if is_frac:
            raise UnreadableFormula("holds a power that could belong to a part or to the whole")
        braced = self._is("{") and self._is("circ", ahead=1)
        if braced or self._is("circ"):
            self._at += 2 if braced else 1
            if braced:
                self._take("}")
            base = Apply("mul", (base, Apply("div", (Symbol("pi"), Literal(Fraction(180))))))
        else:
            base = Apply("pow", (base, self._exponent()))
        if self._is("^", "**"):
            raise UnreadableFormula("holds a tower of powers without braces")
        if self._is("!", "!!"):
            raise UnreadableFormula("holds a factorial of a power without brackets")
        return base

    def _exponent(self) -> Node:
        return self._group() if self._is("{") else self._signed_primary()

    def _signed_primary(self) -> Node:
        return Apply("neg", (self._primary(),)) if self._skip("-") else self._primary()

    def _argument(self, *, endless: bool = False) -> Node:
        """Read the argument of a command: a group in braces, or one digit or letter. endless: or infinity."""
        if self._is("{"):
            return self._group()
        if endless and self._skip("infty"):
            return Symbol("oo")
        token = self.here
        if token.kind == "number" and token.text.isdecimal():
            if len(token.text) == 1:
                self._at += 1
            else:
                self._tokens[self._at] = _Token("number", token.text[1:])
            return Literal(Fraction(int(token.text[0])))
        if token.kind == "letter" or (token.kind == "command" and token.text in _GREEK | {"pi"}):
            return self._primary()
        raise UnreadableFormula("holds a command without what it applies to")

    def _group(self) -> Node:
        opening = self._next().text
        bars, self._bars = self._bars, 0
        node = self.stacked() if opening == "{" else self.sum()
        self._bars = bars
        self._take(_CLOSING[opening])
        return node

    def _primary(self) -> Node:
        token = self.here
        match token.kind:
            case "number":
                if len(self._next().text) > MAX_DIGITS:
                    raise UnreadableFormula(f"holds a number of more than {MAX_DIGITS} digits")
                return Literal(Fraction(token.text))
            case "letter":
                return self._letter()
            case "sign" if token.text in _CLOSING:
                return self._group()
            case "sign" if self._skip("|"):
                self._bars += 1
                node = self.sum()
                self._bars -= 1
                self._take("|")
                return Apply("abs", (node,))
            case "command":
                return self._command()
            case "end":
                raise UnreadableFormula("is cut off")
            case _:
                raise UnreadableFormula(f"holds {token.text!r} where a number or letter is expected")

    def _letter(self) -> Node:
        """Read a letter with its index, which is part of its name."""
        token = self._next()
        if token.text == "d" and not self._integrals and self.here.kind == "letter" and self.here.text in "xytuvz":
            raise UnreadableFormula("holds a differential")
        name = token.text if token.kind == "letter" else f"\\{token.text}"
        if name in _POSSIBLE_FUNCTIONS and self._is("("):
            raise UnreadableFormula(f"holds {token.text!r}, which may be a function")
        if not self._skip("_"):
            return Symbol(name)
        if not self._skip("{"):
            token = self._next()
            if token.kind not in {"number", "letter"} or len(token.text) > 1:
                raise UnreadableFormula("holds an index without braces")
            name = f"{name}_{token.text}"
        else:
            words: list[str] = []
            while not self._skip("}"):
                if self.here is _END:
                    raise UnreadableFormula("is cut off")
                words.append(self._next().text)
            name = f"{name}_{','.join(words)}"
        return Symbol(name)

    def _command(self) -> Node:
        if self.here.text in _GREEK:
            return self._letter()
        name = self._next().text
        if name in _FUNCTIONS or name in _ALIASES:
            return self._function(_ALIASES.get(name, name))
        if name in _ROUNDING:
            end, op = _ROUNDING[name]
            node = self.sum()
            self._take(end)
            return Apply(op, (node,))
        match name:
            case "pi":
                return Symbol("pi")
            case "infty":
                return Symbol("oo")
            case "frac" | "binom":
                top = self._argument()
                return Apply("div" if name == "frac" else "binomial", (top, self._argument()))
            case "sqrt":
                degree = self._group() if self._is("[") else Literal(Fraction(2))
                return Apply("root", (self._group() if self._is("(") else self._argument(), degree))
            case "abs" if self._is("("):
                return Apply("abs", (self._group(),))
            case "sum" | "prod" | "int":
                return self._big(_BIG[name])
            case "lim":
                return self._limit()
            case _:
                raise UnreadableFormula(f"holds the command {name!r}")

    def _function(self, name: str) -> Node:
        base = self._argument() if name == "log" and self._skip("_") else None
        power = self._exponent() if self._skip("^") else None
        if name in _OF_MANY:
            if power is not None or not self._skip("("):
                raise UnreadableFormula(f"holds {name!r} without its arguments in brackets")
            args = [self.sum()]
            while self._skip(","):
                args.append(self.sum())
            self._take(")")
            return Apply(name, tuple(args))
        if self._is("(", "[", "{"):
            argument = self._group()
            if self._is("!", "!!"):
                raise UnreadableFormula("holds a factorial right behind a function")
        else:
            argument = self._bare_argument()
        if power == Apply("neg", (Literal(Fraction(1)),)):
            if name not in _INVERSES:
                raise UnreadableFormula(f"holds the power -1 of {name!r}, which may mean its inverse")
            name, power = _INVERSES[name], None
        call = Apply(name, (argument,) if base is None else (argument, base))
        return call if power is None else Apply("pow", (call, power))

    def _bare_argument(self) -> Node:
        """Read a function's argument without brackets: the factors up to a sign, a bracket or another function."""
        if self._is("-"):
            raise UnreadableFormula("holds a function before a sign")
        factors: list[Node] = []
        while self._starts_factor() and not self._is(*_FUNCTIONS, *_ALIASES, "sum", "prod", "int", "lim"):
            if self._is("(", "["):
                raise UnreadableFormula("holds a function before a product with brackets")
            if factors and self.here.kind == "number":
                raise UnreadableFormula("holds a number right behind another part")
            factors.append(self._beside(factors[-1]) if factors else self._factor())
        if not factors or any(isinstance(factor, _Mixed) for factor in factors):
            raise UnreadableFormula("holds a function without what it applies to")
        if self._is("/"):
            raise UnreadableFormula("holds a function before a division without brackets")
        return _product(factors)

    def _big(self, op: str) -> Node:
        """Read a sum, product or integral with both bounds."""
        self._take("_")
        if op == "integral":
            low = self._argument(endless=True)
            self._take("^")
            high = self._argument(endless=True)
            self._integrals += 1
            body = self.sum()
            self._integrals -= 1
            if not self._is_differential():
                raise UnreadableFormula("holds an integral without its differential")
            self._next()
            return Apply(op, (self._variable(), low, high, body))
        self._take("{")
        variable = self._variable()
        self._take("=")
        low = self.sum()
        self._take("}")
        self._take("^")
        return Apply(op, (variable, low, self._argument(endless=True), self._term()))

    def _limit(self) -> Node:
        """Read a limit, of both sides or only from above (`lim+`) or below (`lim-`)."""
        self._take("_")
        self._take("{")
        variable = self._variable()
        self._take("to")
        if self._is("+") and self._is("infty", ahead=1):
            self._next()
        towards, side = self._signed_primary(), ""
        braced = self._is("^") and self._is("{", ahead=1)
        if self._is("^") and self._is("+", "-", ahead=2 if braced else 1):
            self._at += 2 if braced else 1
            side = self._next().text
            if braced:
                self._take("}")
        self._take("}")
        return Apply(f"lim{side}", (variable, towards, self._term()))

    def _variable(self) -> Symbol:
        token = self._next()
        if token.kind == "letter" and token.text != "e":
            return Symbol(token.text)
        if token.kind == "command" and token.text in _GREEK:
            return Symbol(f"\\{token.text}")
        raise UnreadableFormula("holds a sum, product, integral or limit over something that is not a letter")


def _product(factors: list[Node]) -> Node:
    return factors[0] if len(factors) == 1 else Apply("mul", tuple(factors))
