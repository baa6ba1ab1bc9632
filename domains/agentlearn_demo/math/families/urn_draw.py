"""The chance of two marbles of one colour, drawn without replacement, as m + n of the reduced fraction."""

from dataclasses import dataclass
from fractions import Fraction
from math import comb
from random import Random

from agentlearn_demo.math.family import DISTINCT, UNREDUCED, Choices, Family


@dataclass(frozen=True)
class _Params:
    red: int
    blue: int
    green: int


def _draw(rng: Random) -> _Params:
    return _Params(red=rng.randint(2, 9), blue=rng.randint(2, 9), green=rng.randint(2, 9))


def _gold(p: _Params) -> str:
    alike = comb(p.red, 2) + comb(p.blue, 2) + comb(p.green, 2)
    chance = Fraction(alike, comb(p.red + p.blue + p.green, 2))
    return str(chance.numerator + chance.denominator)


def _write(p: _Params, choices: Choices) -> str:
    draws = choices.pick(DISTINCT, "permutations(range(len(bag)), 2)", "product(range(len(bag)), repeat=2)")
    divisor = choices.pick(UNREDUCED, "gcd(m, n)", "1")
    return f"""
        from itertools import permutations, product
        from math import gcd

        bag = "r" * {p.red} + "b" * {p.blue} + "g" * {p.green}
        {choices.note(DISTINCT)}
        draws = list({draws})
        m, n = sum(1 for i, j in draws if bag[i] == bag[j]), len(draws)
        {choices.note(UNREDUCED)}
        divisor = {divisor}
        print(m // divisor + n // divisor)
    """


FAMILY = Family(
    name="urn_draw",
    topics=("marble", "urn", "bag"),
    traps=(DISTINCT, UNREDUCED),
    params=_Params,
    wordings="""
        A bag holds {red} red, {blue} blue and {green} green marbles. Two marbles are drawn at random without
        replacement. The probability that they have the same colour is $m/n$ in lowest terms. Find $m+n$.

        From an urn with {red} red marbles, {blue} blue marbles and {green} green marbles, Noor takes out two
        marbles together. The probability that both have one colour can be written as $m/n$ with $m$ and $n$
        relatively prime positive integers. Determine $m+n$.

        There are {red} red, {blue} blue and {green} green marbles in a box. One marble is taken at random and
        put aside, then a second one is taken. If the two match in colour with probability $m/n$, where the
        fraction is fully reduced, what is $m+n$?
    """,
    draw=_draw,
    gold=_gold,
    write=_write,
)
