r"""A strict reader of formulas in LaTeX or plain text: the whole text becomes a syntax tree, or is refused.

It refuses notation that mathematicians read differently: a slash before a product without brackets (`1/2x`), a tower
without braces (`2^3^4`), a letter that may be a function (`f(x)`), an ellipsis. A whole number directly before a proper
fraction of digits is a mixed number. `e` and `i` are the constants; a logarithm without base may have base 10 or e.
"""

from fractions import Fraction

from agentlearn_math.judging.syntax import Apply, Literal, Node, Symbol
from agentlearn_math.judging.tokens import END, FUNCTIONS, GREEK, Token, UnreadableFormula, formula_tokens

MAX_CHARACTERS = 1_000
MAX_DEPTH = 25
MAX_DIVISIONS = 40
MAX_DIGITS = 1_000
"""Most digits of one number."""

_CLOSING = {"(": ")", "[": "]", "{": "}"}
_POSSIBLE_FUNCTIONS = frozenset("fghFGHPQ")
_GREEK_FUNCTIONS = frozenset({"Gamma", "Phi", "zeta", "phi", "varphi", "sigma", "tau", "mu", "psi", "pi"})
_ALIASES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan"}
_ROUNDING = {"lfloor": ("rfloor", "floor"), "lceil": ("rceil", "ceil")}
_INVERSES = {"sin": "arcsin", "cos": "arccos", "tan": "arctan", "cot": "arccot"}
_OF_MANY = frozenset({"gcd", "lcm", "max", "min"})
_BIG = {"sum": "sum", "prod": "prod", "int": "integral"}
_PI = Symbol("pi")


def parse(text: str) -> Node:
    """Return the syntax tree of the whole normalised text. Raises UnreadableFormula with the reason."""
    if len(text) > MAX_CHARACTERS:
        raise UnreadableFormula(f"is longer than {MAX_CHARACTERS} characters")
    reader = _Reader(formula_tokens(text))
    node = reader.stacked()
    if reader.here is not END:
        raise UnreadableFormula(f"holds {reader.here.text!r} where the formula should end")
    return node


class _Reader:
    """Recursive descent over the tokens; each method reads one kind of part and moves the position behind it."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self._bars = 0
        self._integrals = 0
        self._divisions = 0

    @property
    def here(self) -> Token:
        """The token at the current position."""
        return self._peek(0)

    def _peek(self, ahead: int) -> Token:
        at = self._at + ahead
        return self._tokens[at] if at < len(self._tokens) else END

    def _next(self) -> Token:
        token = self.here
        self._at += 1
        return token

    def _is(self, *texts: str, ahead: int = 0) -> bool:
        token = self._peek(ahead)
        return token.kind in {"sign", "command"} and token.text in texts

    def _take(self, text: str) -> None:
        if not self._is(text):
            raise UnreadableFormula(
                f"holds {self.here.text!r} where {text!r} is expected" if self.here.text else "is cut off"
            )
        self._at += 1

    def sum(self) -> Node:
        """Read terms with plus and minus between them."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise UnreadableFormula(f"nests more than {MAX_DEPTH} deep")
        terms = [self._term()]
        while self._is("+", "-"):
            sign = self._next().text
            if self._is("+", "-"):
                raise UnreadableFormula("holds two signs in a row")
            term = self._term()
            terms.append(Apply("neg", (term,)) if sign == "-" else term)
        self._depth -= 1
        return terms[0] if len(terms) == 1 else Apply("add", tuple(terms))

    def stacked(self) -> Node:
        r"""Read a sum, or two of them with `\choose` or `\over` between them."""
        top = self.sum()
        if not self._is("choose", "over"):
            return top
        op = "binomial" if self._next().text == "choose" else "div"
        return Apply(op, (top, self.sum()))

    def _term(self) -> Node:
        """Read factors with `*`, `/` or nothing between them, and a sign before them."""
        if self._is("+", "-"):
            sign = self._next().text
            if self._is("+", "-"):
                raise UnreadableFormula("holds two signs in a row")
            term = self._term()
            return Apply("neg", (term,)) if sign == "-" else term
        factors = [_product(self._side_by_side())]
        while self._is("*", "/", "times", "cdot", "div"):
            divides = self._next().text in {"/", "div"}
            negative = self._is("-") and bool(self._next())
            adjacent = self._side_by_side()
            if divides and len(adjacent) > 1:
                raise UnreadableFormula("holds a division before a product without brackets")
            right = Apply("neg", (_product(adjacent),)) if negative else _product(adjacent)
            factors = [self._divided(_product(factors), right)] if divides else [*factors, right]
        return _product(factors)

    def _divided(self, top: Node, bottom: Node) -> Node:
        self._divisions += 1
        if self._divisions > MAX_DIVISIONS:
            raise UnreadableFormula(f"holds more than {MAX_DIVISIONS} divisions")
        return Apply("div", (top, bottom))

    def _side_by_side(self) -> list[Node]:
        """Read factors with nothing between them, including a mixed number."""
        factors = [self._factor()]
        while self._starts_factor():
            if self.here.kind == "number" and not self._is_factorial_behind_another():
                raise UnreadableFormula("holds a number right behind another part")
            factors.append(self._beside(factors[-1]))
        match factors:
            case [Literal(value=whole), _Mixed(value=part)]:
                return [Literal(whole + part)]
            case _ if any(isinstance(factor, _Mixed) for factor in factors):
                raise UnreadableFormula("holds a mixed number inside a product")
            case _:
                return factors

    def _is_factorial_behind_another(self) -> bool:
        """Whether a factorial of digits follows right behind a factorial: `2!3!`."""
        return self._peek(-1).text == "!" and self._is("!", ahead=1)

    def _beside(self, before: Node) -> Node:
        """Read the next factor; after a whole number it may be the fraction of a mixed number."""
        is_fraction = self._is("frac", "{") and self._peek(-1).kind == "number"
        factor = self._factor()
        if not (is_fraction and isinstance(before, Literal) and isinstance(factor, Apply) and factor.op == "div"):
            return factor
        top, bottom = factor.args
        if not (isinstance(top, Literal) and isinstance(bottom, Literal)):
            return factor
        if before.value.denominator != 1 or not 0 < top.value < bottom.value:
            raise UnreadableFormula("holds a number right before a fraction that makes no mixed number")
        return _Mixed(top.value / bottom.value)

    def _starts_factor(self) -> bool:
        token = self.here
        if token.kind in {"number", "letter"}:
            return not (self._integrals and self._is_differential())
        if token.kind == "sign":
            return token.text in "([{" or (token.text == "|" and not self._bars)
        return token.kind == "command" and token.text not in _NO_FACTOR

    def _is_differential(self) -> bool:
        return self.here.text == "d" and (self._peek(1).kind == "letter" or self._peek(1).text in GREEK)

    def _factor(self) -> Node:
        """Read a primary with its factorials and its power."""
        before = self._at
        base = self._primary()
        if self._is("!", "!!"):
            base = Apply("factorial" if self._next().text == "!" else "factorial2", (base,))
        if self._is("!", "!!"):
            raise UnreadableFormula("holds a factorial of a factorial without brackets")
        if self._is("'", "prime"):
            raise UnreadableFormula("holds a prime")
        if self._is("_"):
            raise UnreadableFormula("holds an index that is not part of a letter")
        if not self._is("^", "**"):
            return base
        if self._tokens[before] == Token("command", "frac", self._tokens[before].spaced):
            raise UnreadableFormula("holds a power that could belong to a part or to the whole")
        base = self._raised(base)
        if self._is("^", "**"):
            raise UnreadableFormula("holds a tower of powers without braces")
        if self._is("!", "!!"):
            raise UnreadableFormula("holds a factorial of a power without brackets")
        return base

    def _raised(self, base: Node) -> Node:
        self._next()
        if self._is("circ") or (self._is("{") and self._is("circ", ahead=1)):
            braced = self._is("{")
            self._at += 2 if braced else 1
            if braced:
                self._take("}")
            return Apply("mul", (base, Apply("div", (_PI, Literal(Fraction(180))))))
        return Apply("pow", (base, self._exponent()))

    def _exponent(self) -> Node:
        if self._is("{"):
            return self._group()
        negative = self._is("-") and bool(self._next())
        exponent = self._primary()
        return Apply("neg", (exponent,)) if negative else exponent

    def _argument(self) -> Node:
        """Read the argument of a command: a group in braces, or one digit or letter."""
        if self._is("{"):
            return self._group()
        token = self.here
        if token.kind == "number" and token.text.isdecimal():
            digit, rest = token.text[0], token.text[1:]
            if rest:
                self._tokens[self._at] = Token("number", rest)
            else:
                self._at += 1
            return Literal(Fraction(int(digit)))
        if token.kind == "letter" or (token.kind == "command" and token.text in GREEK | {"pi"}):
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
                return self._number()
            case "letter":
                return self._letter()
            case "sign" if token.text in _CLOSING:
                return self._group()
            case "sign" if token.text == "|":
                return self._absolute()
            case "command":
                return self._command()
            case "end":
                raise UnreadableFormula("is cut off")
            case _:
                raise UnreadableFormula(f"holds {token.text!r} where a number or letter is expected")

    def _number(self) -> Node:
        text = self._next().text
        if len(text) > MAX_DIGITS:
            raise UnreadableFormula(f"holds a number of more than {MAX_DIGITS} digits")
        return Literal(Fraction(text))

    def _letter(self) -> Node:
        token = self._next()
        if token.text == "d" and not self._integrals and self.here.kind == "letter" and self.here.text in "xytuvz":
            raise UnreadableFormula("holds a differential")
        name = token.text + self._index()
        if name in _POSSIBLE_FUNCTIONS and self._is("("):
            raise UnreadableFormula(f"holds {name!r}, which may be a function")
        return Symbol(name)

    def _index(self) -> str:
        """Read the index of a letter as part of its name."""
        if not self._is("_"):
            return ""
        self._next()
        if not self._is("{"):
            token = self._next()
            if token.kind not in {"number", "letter"} or len(token.text) > 1:
                raise UnreadableFormula("holds an index without braces")
            return f"_{token.text}"
        self._next()
        words: list[str] = []
        while not self._is("}"):
            if self.here is END:
                raise UnreadableFormula("is cut off")
            words.append(self._next().text)
        self._next()
        return f"_{','.join(words)}"

    def _absolute(self) -> Node:
        self._next()
        self._bars += 1
        node = self.sum()
        self._bars -= 1
        self._take("|")
        return Apply("abs", (node,))

    def _command(self) -> Node:
        name = self._next().text
        if name in GREEK:
            if name in _GREEK_FUNCTIONS and self._is("("):
                raise UnreadableFormula(f"holds {name!r}, which may be a function")
            return Symbol(f"\\{name}{self._index()}")
        if name in FUNCTIONS or name in _ALIASES:
            return self._function(_ALIASES.get(name, name))
        if name in _ROUNDING:
            end, op = _ROUNDING[name]
            node = self.sum()
            self._take(end)
            return Apply(op, (node,))
        match name:
            case "pi":
                return _PI
            case "infty":
                return Symbol("oo")
            case "frac":
                top = self._argument()
                return Apply("div", (top, self._argument()))
            case "sqrt":
                return self._root()
            case "binom":
                top = self._argument()
                return Apply("binomial", (top, self._argument()))
            case "abs" if self._is("("):
                return Apply("abs", (self._group(),))
            case "sum" | "prod" | "int":
                return self._big(_BIG[name])
            case "lim":
                return self._limit()
            case _:
                raise UnreadableFormula(f"holds the command {name!r}")

    def _root(self) -> Node:
        degree: Node = Literal(Fraction(2))
        if self._is("["):
            degree = self._group()
        radicand = self._group() if self._is("(") else self._argument()
        return Apply("root", (radicand, degree))

    def _function(self, name: str) -> Node:
        base = self._base() if name == "log" else None
        power: Node | None = None
        if self._is("^"):
            self._next()
            power = self._exponent()
        if name in _OF_MANY:
            return self._of_many(name, power)
        bracketed = self._is("(", "[", "{")
        argument = self._group() if bracketed else self._bare_argument()
        if bracketed and self._is("!", "!!"):
            raise UnreadableFormula("holds a factorial right behind a function")
        op, power = self._inverted(name, power)
        call = Apply(op, (argument,) if base is None else (argument, base))
        return call if power is None else Apply("pow", (call, power))

    def _base(self) -> Node | None:
        if not self._is("_"):
            return None
        self._next()
        return self._argument()

    def _inverted(self, name: str, power: Node | None) -> tuple[str, Node | None]:
        if power != Apply("neg", (Literal(Fraction(1)),)):
            return name, power
        if name not in _INVERSES:
            raise UnreadableFormula(f"holds the power -1 of {name!r}, which may mean its inverse")
        return _INVERSES[name], None

    def _bare_argument(self) -> Node:
        """Read a function's argument without brackets: the factors up to a sign, a bracket or another function."""
        if self._is("-"):
            raise UnreadableFormula("holds a function before a sign")
        factors: list[Node] = []
        while self._starts_factor() and not self._is(*FUNCTIONS, *_ALIASES, "sum", "prod", "int", "lim"):
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

    def _of_many(self, name: str, power: Node | None) -> Node:
        if power is not None or not self._is("("):
            raise UnreadableFormula(f"holds {name!r} without its arguments in brackets")
        self._next()
        args = [self.sum()]
        while self._is(","):
            self._next()
            args.append(self.sum())
        self._take(")")
        return Apply(name, tuple(args))

    def _big(self, op: str) -> Node:
        """Read a sum, product or integral with both bounds."""
        self._take("_")
        if op == "integral":
            low = self._argument_or_sign()
            self._take("^")
            high = self._argument_or_sign()
            self._integrals += 1
            body = self.sum()
            self._integrals -= 1
            if not (self.here.kind == "letter" and self._is_differential()):
                raise UnreadableFormula("holds an integral without its differential")
            self._next()
            return Apply(op, (self._variable(), low, high, body))
        self._take("{")
        variable = self._variable()
        self._take("=")
        low = self.sum()
        self._take("}")
        self._take("^")
        return Apply(op, (variable, low, self._argument_or_sign(), self._term()))

    def _argument_or_sign(self) -> Node:
        if self._is("infty"):
            self._next()
            return Symbol("oo")
        return self._argument()

    def _limit(self) -> Node:
        self._take("_")
        self._take("{")
        variable = self._variable()
        self._take("to")
        towards, side = self._towards()
        return Apply(f"lim{side}", (variable, towards, self._term()))

    def _towards(self) -> tuple[Node, str]:
        """Read where a limit goes, and from which side: `+`, `-` or both (empty)."""
        if self._is("+") and self._is("infty", ahead=1):
            self._next()
        node, side = self._signed_primary(), ""
        if self._is("^") and self._is("+", "-", ahead=1):
            self._next()
            side = self._next().text
        elif self._is("^") and self._is("{", ahead=1) and self._is("+", "-", ahead=2):
            self._at += 2
            side = self._next().text
            self._take("}")
        self._take("}")
        return node, side

    def _signed_primary(self) -> Node:
        if self._is("-"):
            self._next()
            return Apply("neg", (self._primary(),))
        return self._primary()

    def _variable(self) -> Symbol:
        token = self._next()
        if token.kind == "letter" and token.text != "e":
            return Symbol(token.text)
        if token.kind == "command" and token.text in GREEK:
            return Symbol(f"\\{token.text}")
        raise UnreadableFormula("holds a sum, product, integral or limit over something that is not a letter")


def _product(factors: list[Node]) -> Node:
    return factors[0] if len(factors) == 1 else Apply("mul", tuple(factors))


class _Mixed(Literal):
    """The fraction of a mixed number, before it is added to the whole number."""

    __slots__ = ()


_NO_FACTOR = frozenset(
    (
        *("times", "cdot", "div", "rfloor", "rceil", "to", "circ", "prime", "leq", "geq", "neq", "in", "cup", "cap"),
        *("choose", "over"),
    )
)
