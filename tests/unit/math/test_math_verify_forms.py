r"""Right and wrong answers in fifteen forms, twenty of each, made by rule with exact arithmetic.

No wrong answer may be accepted. Right answers may be undecided, and hardly ever incorrect.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from itertools import permutations
from math import comb, factorial
from random import Random

import pytest

from agentlearn.answers.workers import open_workers
from agentlearn_math.verify import judge

EACH = 20
Pair = tuple[str, str, str]
"""The expected answer, a right answer and a wrong one."""


def grouped(n: int, sign: str) -> str:
    return f"{n:,}".replace(",", sign)


def frac(value: Fraction, rng: Random) -> str:
    top, bottom = value.numerator, value.denominator
    ways = [rf"\frac{{{top}}}{{{bottom}}}", rf"\dfrac{{{top}}}{{{bottom}}}", f"{top}/{bottom}"]
    if top > 0:
        ways += [rf"{{{top} \over {bottom}}}", rf"\left(\tfrac{{{3 * top}}}{{{3 * bottom}}}\right)"]
    return rng.choice(ways)


def wide(text: str) -> str:
    """Return the text in full-width characters."""
    return "".join(chr(ord(one) + 0xFEE0) if one in "0123456789(),-" else one for one in text)


def integers(rng: Random) -> Pair:
    n = rng.randrange(10_000, 10**9)
    signs = (",", "{,}", r"\,", ",\\!", r",\! ", " ", "\N{THIN SPACE}", "")
    right = rng.choice((grouped(n, rng.choice(signs)), wide(str(n)), f"{n}.0", f"={n}", rf"\text{{{n}}}"))
    digits = str(n)
    at = rng.randrange(1, len(digits) - 1)
    lost = digits[:at] + digits[at + 1 :]
    wrong = rng.choice((lost, f"{digits[:2]} {digits[2:4]} {digits[4:]}", f"{n + 1}", f"{digits[0]}.{digits[1:]}"))
    return grouped(n, rng.choice(signs)), right, wrong


def fractions(rng: Random) -> Pair:
    bottom = rng.choice((3, 7, 9, 11, 13))
    top = rng.choice([n for n in range(1, 90) if n % bottom])
    value = Fraction(top, bottom)
    wrong = rng.choice((1 / value, value + 1, -value, Fraction(top, bottom * 10), Fraction(top * 10, bottom)))
    return frac(value, rng), frac(value, rng), frac(wrong, rng)


def mixed(rng: Random) -> Pair:
    whole, bottom = rng.randrange(1, 40), rng.choice((3, 4, 5, 7, 8, 9))
    top = rng.randrange(1, bottom)
    value = whole + Fraction(top, bottom)
    written = [f"{whole} {top}/{bottom}", rf"{whole}\frac{{{top}}}{{{bottom}}}", rf"{whole} \tfrac{top}{bottom}"]
    wrong = rng.choice(
        (f"{whole}{top}/{bottom}", rf"\frac{{{whole}{top}}}{{{bottom}}}", f"{whole} {bottom - 1}/{bottom * 9}")
    )
    return rng.choice(written), rng.choice((*written, frac(value, rng))), wrong


def decimals(rng: Random) -> Pair:
    digits = rng.randrange(1, 10**5)
    value = Fraction(digits, 10**4)
    plain = f"{digits / 10**4:.4f}"
    right = rng.choice(
        (plain, plain.rstrip("0"), f"{plain}00", frac(value, rng), f"{plain.rstrip('0')} \\approx {plain}")
    )
    wrong = rng.choice(
        (f"{plain}1", plain.replace(".", " "), plain.replace(".", ""), f"{digits / 10**3:.3f}", f"-{plain}")
    )
    return plain, right, wrong


def repeating(rng: Random) -> Pair:
    period = rng.choice(("3", "6", "27", "45", "142857", "09"))
    whole = rng.randrange(0, 9)
    value = whole + Fraction(int(period), 10 ** len(period) - 1)
    right = rng.choice((frac(value, rng), f"{whole}.({period})", rf"{whole}.\overline{{{period + period}}}"))
    wrong = rng.choice((f"{whole}.{period}", f"{whole}.{period * 4}", rf"{whole}.0\overline{{{period}}}"))
    return rf"{whole}.\overline{{{period}}}", right, wrong


def surds(rng: Random) -> Pair:
    a, b, c = rng.randrange(2, 9), rng.choice((2, 3, 5, 6, 7)), rng.randrange(1, 9)
    inside = a * a * b
    golds = (rf"{c}+{a}\sqrt{{{b}}}", rf"\sqrt{{{inside}}}+{c}", rf"{a}\sqrt{b}+{c}")
    right = rng.choice((*golds, f"{c} + {a}*sqrt({b})", f"{c}+√{inside}", rf"{c}+\frac{{{a * b}}}{{\sqrt{{{b}}}}}"))
    wrong = rng.choice(
        (
            rf"{c}-{a}\sqrt{{{b}}}",
            rf"{a}+{c}\sqrt{{{b}}}" if a != c else rf"{a}+{c + 1}\sqrt{{{b}}}",
            rf"{c}+\sqrt{{{inside + 1}}}",
            f"{c + a * b**0.5:.6f}",
            rf"{c}+{a}\sqrt[3]{{{b}}}",
        )
    )
    return rng.choice(golds), right, wrong


def amounts(rng: Random) -> Pair:
    n = rng.randrange(2, 400)
    unit = rng.choice(("cm", "kg", "hours", "dollars", "degrees", "percent", "m^2"))
    right = {
        "cm": (rf"{n}\text{{ cm}}", rf"{n}\ \mathrm{{cm}}", rf"{n}\,\text{{centimeters}}", f"{n}"),
        "kg": (rf"{n}\text{{ kilograms}}", f"{n} kg", f"{n}"),
        "hours": (f"{n} h", rf"{n}\text{{ hr}}", f"{n}"),
        "dollars": (rf"\${n}", rf"\${n}.00", f"{n} USD", f"{n} dollars"),
        "degrees": (rf"{n}^\circ", rf"{n}^{{\circ}}", f"{n}°", f"{n} degrees", f"{n}"),
        "percent": (rf"{n}\%", f"{n}%", f"{n} pct", f"{n} per cent"),
        "m^2": (rf"{n}\text{{ m}}^2", rf"{n}\text{{ square meters}}", f"{n} m²", f"{n}"),
    }[unit]
    written = f"{n} {unit}" if unit != "m^2" else rf"{n}\text{{ m}}^2"
    wrong = rng.choice((f"{n + 1}", rf"{n + 2}\text{{ cm}}", rf"\frac{{1}}{{{n}}}", f"{n}/3", f"-{n}"))
    return written, rng.choice(right), wrong


def clock(rng: Random) -> Pair:
    hour, minute, half = rng.randrange(1, 13), rng.randrange(60), rng.choice("ap")
    other = "p" if half == "a" else "a"

    def written(h: int, m: int, letter: str) -> str:
        spelled = (f"{letter}.m.", f"{letter}m", f"{letter.upper()}M", f"{letter.upper()}.M.")
        mark = rng.choice(spelled)
        return rng.choice((f"{h}:{m:02} {mark}", rf"{h}:{m:02}\text{{ {mark}}}", rf"{h}:{m:02}\,\mathrm{{{mark}}}"))

    hour_24 = hour % 12 + (12 if half == "p" else 0)
    rights = [written(hour, minute, half)]
    if hour_24 > 12:
        rights.append(f"{hour_24}:{minute:02}")
    wrongs = [
        written(hour, minute, other),
        written(hour % 12 + 1, minute, half),
        written(hour, (minute + 10) % 60, half),
        f"{(hour_24 + 12) % 24}:{minute:02}",
        rf"\frac{{{hour}}}{{{minute or 1}}}",
        f"{hour}:{(minute + 1) % 60:02}",
    ]
    return written(hour, minute, half), rng.choice(rights), rng.choice(wrongs)


NAMES = (
    *(r"|CD|", r"\overline{PQ}", "XY", r"S_{\triangle PQR}", r"V_{\text{cone}}", r"\angle PQR", r"m\angle Q", "[PQR]"),
    *(r"\cos\theta", r"\tan 2A", r"P(X=3)", "f(4)", "f'(2)", "a_{12}", r"\text{Perimeter}", r"\frac{PQ}{QR}", "k", "n"),
    *(r"|\vec{u}|", r"\operatorname{Var}(X)", r"\text{area of } PQRS"),
)


def named(rng: Random) -> Pair:
    name = rng.choice(NAMES)
    value = Fraction(rng.randrange(2, 60), rng.choice((1, 1, 3, 7)))
    text = str(value) if value.denominator == 1 else frac(value, rng)
    wrong = rng.choice((f"{value + 1}", f"{name}={value + 2}", f"{name}=-{value}", str(1 / value + 10)))
    sides = [f"{name}={text}", str(value)]
    rng.shuffle(sides)
    return sides[0], sides[1], wrong


def named_lists(rng: Random) -> Pair:
    names = rng.choice((("PQ", "RS"), ("x", "y"), ("a", "b"), (r"\angle P", r"\angle Q"), ("f(1)", "f(2)"), ("m", "n")))
    one, two = rng.sample(range(2, 99), 2)
    gold = f"{names[0]}={one},{names[1]}={two}"
    rights = [
        f"{one}, {two}",
        f"{names[1]} = {two}, {names[0]} = {one}",
        rf"{names[0]}={one}\text{{ and }}{names[1]}={two}",
    ]
    wrongs = [
        f"{two}, {one}",
        f"{names[0]}={two},{names[1]}={one}",
        f"{one}, {two + 1}",
        f"({two},{one})",
        f"{one}",
        f"{one}{two}",
    ]
    return gold, rng.choice(rights), rng.choice(wrongs)


def collections(rng: Random) -> Pair:
    items = rng.sample(range(-9, 30), 3)
    shuffled = rng.choice([list(one) for one in permutations(items) if list(one) != items])

    def inside(values: Sequence[int]) -> str:
        return rng.choice((",", ", ", r",\,")).join(map(str, values))

    if rng.random() < 0.5:
        gold = rf"\{{{inside(items)}\}}"
        right = rng.choice(
            (rf"\left\{{{inside(shuffled)}\right\}}", inside(shuffled), rf"\{{{inside([*items, items[0]])}\}}")
        )
        wrong = rng.choice((rf"\{{{inside([*items[:2], 77])}\}}", inside(items[:2]), rf"\{{{inside([*items, 78])}\}}"))
    else:
        gold = f"({inside(items)})"
        right = rng.choice(
            (rf"\left({inside(items)}\right)", rf"\langle {inside(items)}\rangle", f"（{inside(items)}）")
        )
        wrong = rng.choice((f"({inside(shuffled)})", f"({inside(items[:2])})", f"({inside([*items[:2], 79])})"))
    return gold, right, wrong


def inequalities(rng: Random) -> Pair:
    low, high = sorted(rng.sample(range(-20, 20), 2))
    closed = rng.choice((True, False))
    sign, ascii_sign, plain = (r"\le", "<=", "≤") if closed else ("<", "<", "<")
    brackets = "[]" if closed else "()"
    gold = rng.choice((f"{low} {sign} x {sign} {high}", f"{brackets[0]}{low},{high}{brackets[1]}"))
    rights = [
        f"{low}{ascii_sign}x{ascii_sign}{high}",
        f"{low} {plain} x {plain} {high}",
        rf"x\in \left{brackets[0]}{low},{high}\right{brackets[1]}",
        f"{high} {'>=' if closed else '>'} x {'>=' if closed else '>'} {low}",
    ]
    other = "()" if closed else "[]"
    wrongs = [
        f"{other[0]}{low},{high}{other[1]}",
        f"{low}{'<' if closed else '<='}x{'<' if closed else '<='}{high}",
        f"x {ascii_sign} {high}",
        f"{brackets[0]}{low},{high + 1}{brackets[1]}",
        rf"x \ne {low}",
    ]
    return gold, rng.choice(rights), rng.choice(wrongs)


def matrices(rng: Random) -> Pair:
    a, b, c, d = rng.sample(range(-9, 20), 4)
    kind = rng.choice(("pmatrix", "bmatrix"))

    def lists(p: int, q: int, r: int, s: int) -> str:
        ways = (f"[[{p},{q}],[{r},{s}]]", f"[[{p}, {q}], [{r}, {s}]]", f"Matrix([[{p}, {q}], [{r}, {s}]])")
        rows = (f"[{p}, {q}; {r}, {s}]", rf"\left[\begin{{array}}{{cc}}{p}&{q}\\{r}&{s}\end{{array}}\right]")
        return rng.choice((*ways, *rows))

    gold = rf"\begin{{{kind}}} {a} & {b} \\ {c} & {d} \end{{{kind}}}"
    wrong = rng.choice(
        (lists(a, c, b, d), lists(c, d, a, b), lists(a, b, c, d + 1), f"[{a},{b},{c},{d}]", f"[[{a},{b}]]")
    )
    return gold, lists(a, b, c, d), wrong


def complex_numbers(rng: Random) -> Pair:
    a, b = rng.sample(range(2, 30), 2)
    gold = rng.choice((f"{a}+{b}i", rf"{a}+{b}\mathrm{{i}}", f"{b}i + {a}"))
    rights = (f"{a} + {b}*I", f"({a}+{b}j)", rf"{a}+{b}\,\text{{i}}", rf"{a}+{b}\mathit{{i}}", f"{a}+{b}I")
    wrongs = (f"{a}-{b}*I", f"{b}+{a}i", f"{a}+{b}", f"{a}+{b + 1}I", f"-{a}+{b}i", f"{a}+{b}k")
    return gold, rng.choice(rights), rng.choice(wrongs)


def counting(rng: Random) -> Pair:
    n = rng.randrange(5, 12)
    k = rng.randrange(2, n - 2)
    value = comb(n, k)
    shapes = (
        rf"{{{n} \choose {k}}}",
        rf"\binom{{{n}}}{{{k}}}",
        rf"\dbinom{{{n}}}{{{k}}}",
        rf"\frac{{{n}!}}{{{k}!{n - k}!}}",
        rf"\frac{{{n}!}}{{{k}!\,({n}-{k})!}}",
        rf"\binom{{{n}}}{{{k}}}={value}",
        str(value),
    )
    wrong = rng.choice(
        (
            rf"\binom{{{n}}}{{{k}}}={value + 1}",
            rf"{{{n + 1} \choose {k}}}",
            rf"\frac{{{n}!}}{{{k}!}}",
            rf"{n}!\,{k}!",
            str(factorial(k) * value),
            rf"\frac{{{n}}}{{{k}}}",
        )
    )
    gold, right = rng.sample(shapes, 2)
    return gold, right, wrong


FORMS: dict[str, Callable[[Random], Pair]] = {
    made.__name__: made
    for made in (
        *(integers, fractions, mixed, decimals, repeating, surds, amounts, clock, named, named_lists, collections),
        *(inequalities, matrices, complex_numbers, counting),
    )
}


def cases(form: str) -> list[Pair]:
    """Return twenty different triples of a form."""
    found: dict[Pair, None] = {}
    rng = Random(f"pairs of {form}")
    while len(found) < EACH:
        found.setdefault(FORMS[form](rng))
    return list(found)


@cache
def judged() -> dict[tuple[str, bool], list[tuple[str, str, str, str]]]:
    """Return status, reason, expected and given answer of every pair, by form and by whether it is right."""

    async def judge_all() -> dict[tuple[str, bool], list[tuple[str, str, str, str]]]:
        found: dict[tuple[str, bool], list[tuple[str, str, str, str]]] = {}
        async with open_workers(limit_s=60.0, quick_s=60.0) as workers:
            for form in FORMS:
                for gold, right, wrong in cases(form):
                    for answer, is_right in ((right, True), (wrong, False)):
                        verdict = await judge(answer, gold, workers)
                        row = (verdict.status, verdict.reason, gold, answer)
                        found.setdefault((form, is_right), []).append(row)
        return found

    return asyncio.run(judge_all())


@pytest.mark.parametrize("form", FORMS)
def test_no_wrong_answer_is_accepted(form: str) -> None:
    rows = judged()[form, False]
    assert len(rows) == EACH
    assert [row for row in rows if row[0] == "correct"] == []


def test_right_answers_are_hardly_ever_called_wrong() -> None:
    rows = [row for form in FORMS for row in judged()[form, True]]
    assert len(rows) == 300
    counts = Counter(row[0] for row in rows)
    assert counts["incorrect"] <= 0.02 * len(rows), [row for row in rows if row[0] == "incorrect"]
    assert counts["undecided"] <= 0.02 * len(rows), [row for row in rows if row[0] == "undecided"]


def test_most_wrong_answers_are_decided() -> None:
    rows = [row for form in FORMS for row in judged()[form, False]]
    undecided = [row for row in rows if row[0] == "undecided"]
    assert len(rows) == 300
    assert len(undecided) <= 0.1 * len(rows), undecided
