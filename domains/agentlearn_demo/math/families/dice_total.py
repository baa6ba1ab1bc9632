"""The chance that a few fair dice reach a total, as m + n of the reduced fraction."""

from dataclasses import dataclass
from fractions import Fraction
from random import Random

from agentlearn_demo.math.family import ENDPOINTS, FORM, UNREDUCED, Choices, Family


@dataclass(frozen=True)
class _Params:
    dice: int
    sides: int
    total: int


def _draw(rng: Random) -> _Params:
    dice = rng.choice((2, 3))
    sides = rng.randint(4, 14 if dice == 2 else 8)
    return _Params(dice=dice, sides=sides, total=rng.randint(dice + 2, dice * sides - 1))


def _gold(p: _Params) -> str:
    ways = {0: 1}
    for _ in range(p.dice):
        reached: dict[int, int] = {}
        for total, count in ways.items():
            for face in range(1, p.sides + 1):
                reached[total + face] = reached.get(total + face, 0) + count
        ways = reached
    chance = Fraction(sum(count for total, count in ways.items() if total >= p.total), p.sides**p.dice)
    return str(chance.numerator + chance.denominator)


def _write(p: _Params, choices: Choices) -> str:
    reaches = choices.pick(ENDPOINTS, ">=", ">")
    divisor = choices.pick(UNREDUCED, "gcd(m, n)", "1")
    answer = choices.pick(FORM, "m + n", "m, '/', n")
    return f"""
        from itertools import product
        from math import gcd

        total = {p.total}
        rolls = list(product(range(1, {p.sides} + 1), repeat={p.dice}))
        {choices.note(ENDPOINTS)}
        good = [roll for roll in rolls if sum(roll) {reaches} total]
        m, n = len(good), len(rolls)
        {choices.note(UNREDUCED)}
        divisor = {divisor}
        m, n = m // divisor, n // divisor
        {choices.note(FORM)}
        print({answer}, sep="")
    """


FAMILY = Family(
    name="dice_total",
    topics=("dice",),
    traps=(ENDPOINTS, UNREDUCED, FORM),
    params=_Params,
    wordings="""
        We roll {dice} fair dice whose faces are numbered from 1 to {sides}. The probability that the sum of the
        faces is at least {total} is $m/n$ for relatively prime positive integers $m$ and $n$. Find $m+n$.

        A game uses {dice} fair {sides}-sided dice, numbered 1 through {sides}. A throw wins if it shows {total}
        or more in total. Written in lowest terms, the probability of winning is $m/n$. What is $m+n$?

        Let $p$ be the probability that {dice} fair dice, each with the numbers 1 to {sides} on its faces, show
        a total not smaller than {total}. If $p = m/n$ where $m$ and $n$ are coprime positive integers, compute
        $m+n$.
    """,
    draw=_draw,
    gold=_gold,
    write=_write,
)
