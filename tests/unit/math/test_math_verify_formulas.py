"""The formula reader: what it reads, what it refuses and why, and the exact values of what it read."""

from fractions import Fraction

import pytest

from agentlearn.answers.formula import MAX_CHARACTERS, MAX_DEPTH, UnreadableFormula, parse
from agentlearn.answers.latex import normalise
from agentlearn.answers.syntax import Apply, Literal, Node, Symbol, exact_value, free_symbols


def shown(node: Node) -> str:
    """The tree in prefix form."""
    if isinstance(node, Literal):
        return str(node.value)
    if isinstance(node, Symbol):
        return node.name
    return f"({' '.join([node.op, *map(shown, node.args)])})"


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("1+2-3", "(add 1 2 (neg 3))"),
        ("-x^2", "(neg (pow x 2))"),
        ("2^{-1}", "(pow 2 (neg 1))"),
        ("2^-1", "(pow 2 (neg 1))"),
        ("2x", "(mul 2 x)"),
        ("2xy^2", "(mul 2 x (pow y 2))"),
        ("x(x+1)", "(mul x (add x 1))"),
        ("(x+1)(x-1)", "(mul (add x 1) (add x (neg 1)))"),
        (r"2\cdot 3x", "(mul 2 (mul 3 x))"),
        (r"a/b", "(div a b)"),
        (r"2\pi/3", "(div (mul 2 pi) 3)"),
        (r"a/b\cdot c", "(mul (div a b) c)"),
        ("a/b/c", "(div (div a b) c)"),
        (r"\frac12", "(div 1 2)"),
        (r"\frac1{20}", "(div 1 20)"),
        (r"\frac\pi4", "(div pi 4)"),
        (r"\frac{a}{b}c", "(mul (div a b) c)"),
        (r"3\frac{x}{2}", "(mul 3 (div x 2))"),
        (r"2\frac{1}{3}", "7/3"),
        (r"(2)\frac{1}{3}", "(mul 2 (div 1 3))"),
        (r"\sqrt2", "(root 2 2)"),
        (r"\sqrt[3]{x}", "(root x 3)"),
        (r"\sqrt(x+1)", "(root (add x 1) 2)"),
        ("sqrt(2)", "(root 2 2)"),
        (r"\sin 2x\cos x", "(mul (sin (mul 2 x)) (cos x))"),
        (r"\sin^2 x", "(pow (sin x) 2)"),
        (r"\sin^{-1} x", "(arcsin x)"),
        (r"\ln x^2", "(ln (pow x 2))"),
        (r"\log_2 8", "(log 8 2)"),
        (r"\log_{10}(x)", "(log x 10)"),
        (r"\cos 30^\circ", "(cos (mul 30 (div pi 180)))"),
        ("5!", "(factorial 5)"),
        ("(n-1)!", "(factorial (add n (neg 1)))"),
        (r"\binom{n}{k}", "(binomial n k)"),
        (r"\gcd(4, 6)", "(gcd 4 6)"),
        ("|x-1|", "(abs (add x (neg 1)))"),
        ("2|x|y", "(mul 2 (abs x) y)"),
        (r"\left|\frac{|x|}{2}\right|", "(abs (div (abs x) 2))"),
        (r"\lfloor x \rfloor", "(floor x)"),
        ("x_1+x_{10}", "(add x_1 x_10)"),
        (r"\alpha_2", r"\alpha_2"),
        (r"\mathrm{e}^{x}", "(pow e x)"),
        ("1,234x", "(mul 1234 x)"),
        (r"\sum_{k=1}^{n} k^2 + 1", "(add (sum k 1 n (pow k 2)) 1)"),
        (r"\int_0^1 x e^x \, dx", "(integral x 0 1 (mul x (pow e x)))"),
        (r"\lim_{x\to 0^+} \frac{1}{x}", "(lim+ x 0 (div 1 x))"),
        (r"\lim_{n \to \infty} a", "(lim n oo a)"),
        ("2 × 3", "(mul 2 3)"),
        ("√2", "(root 2 2)"),
        ("x²", "(pow x 2)"),
    ],
)
def test_formulas_are_read_as_they_are_meant(text: str, tree: str) -> None:
    assert shown(parse(normalise(text))) == tree


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1/2x", "holds a division before a product without brackets"),
        ("2^3^4", "holds a tower of powers without braces"),
        ("f(x)", "holds 'f', which may be a function"),
        (r"\Gamma(x)", "holds 'Gamma', which may be a function"),
        ("f'", "holds a prime"),
        ("2 3", "holds a number right behind another part"),
        (r"\sqrt12", "holds a number right behind another part"),
        ("x 3", "holds a number right behind another part"),
        ("2+", "is cut off"),
        ("((x)", "is cut off"),
        ("x)", "holds ')' where the formula should end"),
        ("(x]", "holds ']' where ')' is expected"),
        ("apples", "holds the word 'apples'"),
        (r"\text{cm}", "holds the command 'text'"),
        (r"\mathrm{cm}", "holds the word 'cm'"),
        ("xsin", "holds 'xsin', in which 'sin' runs into other letters"),
        (r"\foo", "holds the command 'foo'"),
        ("1 - - 2", "holds two signs in a row"),
        (r"2\frac{5}{3}", "holds a number right before a fraction that makes no mixed number"),
        (r"2\frac{1}{3}x", "holds a mixed number inside a product"),
        (r"\frac{1}{2}^2", "holds a power that could belong to a part or to the whole"),
        ("x^2!", "holds a factorial of a power without brackets"),
        ("3!!!", "holds a factorial of a factorial without brackets"),
        (r"\sin x(1+y)", "holds a function before a product with brackets"),
        (r"\sin x/2", "holds a function before a division without brackets"),
        (r"\ln^{-1} x", "holds the power -1 of 'ln', which may mean its inverse"),
        (r"\int x dx", "holds 'x' where '_' is expected"),
        (r"\int_0^1 x", "holds an integral without its differential"),
        (r"\frac{dy}{dx}", "holds a differential"),
        (r"1,2,\ldots", "holds ',' where the formula should end"),
        (r"\gcd 4", "holds 'gcd' without its arguments in brackets"),
        ("x#", "holds '#', which is not part of a formula"),
        ("(" * 30 + "x" + ")" * 30, f"nests more than {MAX_DEPTH} deep"),
        ("x+" * MAX_CHARACTERS + "x", f"is longer than {MAX_CHARACTERS} characters"),
        ("x/" * 50 + "x", "holds more than 40 divisions"),
    ],
)
def test_what_cannot_be_read_whole_is_refused(text: str, reason: str) -> None:
    with pytest.raises(UnreadableFormula) as refused:
        parse(normalise(text))
    assert str(refused.value) == reason


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2^{10}", 1024),
        (r"\frac{2}{3}-\frac{1}{6}", Fraction(1, 2)),
        ("8^{2/3}", 4),
        (r"\sqrt{\frac{49}{16}}", Fraction(7, 4)),
        (r"\sqrt[5]{-32}", -2),
        ("(-1)^{10}", 1),
        ("|{-3}|", 3),
        (r"\lceil 7/2 \rceil", 4),
        (r"\sqrt[3]{0}", 0),
        ("0^{2/3}", 0),
        ("7!!", 105),
        (r"\binom{1000000000}{2}", 499999999500000000),
        (r"\max(1,3,2)", 3),
        (r"\sum_{k=1}^{100} k", 5050),
        (r"\prod_{k=1}^{4} (2k)", 384),
        (r"\sum_{k=5}^{1} k", 0),
    ],
)
def test_exact_values(text: str, value: int | Fraction) -> None:
    assert exact_value(parse(normalise(text))) == value


@pytest.mark.parametrize(
    "text",
    [
        r"\sqrt{2}",
        "1/0",
        "0^0",
        "0^{-1}",
        "x",
        r"\pi",
        "(-8)^{1/3}",
        r"\sqrt{-4}",
        "9^{9^{9^9}}",
        "2^{100000}",
        "1000000!",
        "(-1)!",
        "(1/2)!",
        r"\sum_{k=1}^{10^9} k",
        r"\gcd(1/2, 3)",
        r"\binom{10^{30}}{10^{29}}",
        r"\infty",
    ],
)
def test_no_exact_value_is_claimed(text: str) -> None:
    assert exact_value(parse(normalise(text))) is None


def test_bound_letters_are_not_free() -> None:
    assert free_symbols(parse(r"\sum_{k=1}^n kx")) == {"n", "x"}
    assert free_symbols(parse(r"\int_0^1 xy dx + \pi e i")) == {"y"}


def test_letters_take_values() -> None:
    assert exact_value(Apply("mul", (Symbol("x"), Symbol("y"))), {"x": Fraction(2), "y": Fraction(1, 4)}) == Fraction(
        1, 2
    )
