"""The chance of a number of heads with a biased coin, as m + n of the reduced fraction."""

from dataclasses import dataclass
from fractions import Fraction
from random import Random

from agentlearn_demo.math.family import FORM, UNREDUCED, Choices, Family


@dataclass(frozen=True)
class _Params:
    p: int
    q: int
    flips: int
    heads: int


def _draw(rng: Random) -> _Params:
    q, flips = rng.randint(3, 9), rng.randint(3, 6)
    return _Params(p=rng.randint(1, q - 1), q=q, flips=flips, heads=rng.randint(1, flips - 1))


def _gold(p: _Params) -> str:
    head = Fraction(p.p, p.q)
    chances = [Fraction(1)]
    for _ in range(p.flips):
        up, down = [Fraction(0), *chances], [*chances, Fraction(0)]
        chances = [head * one + (1 - head) * other for one, other in zip(up, down, strict=True)]
    chance = chances[p.heads]
    return str(chance.numerator + chance.denominator)


def _write(p: _Params, choices: Choices) -> str:
    divisor = choices.pick(UNREDUCED, "gcd(m, n)", "1")
    answer = choices.pick(FORM, "m + n", "m, '/', n")
    return f"""
        from math import comb, gcd

        p, q, flips, heads = {p.p}, {p.q}, {p.flips}, {p.heads}
        m = comb(flips, heads) * p ** heads * (q - p) ** (flips - heads)
        n = q ** flips
        {choices.note(UNREDUCED)}
        divisor = {divisor}
        m, n = m // divisor, n // divisor
        {choices.note(FORM)}
        print({answer}, sep="")
    """


FAMILY = Family(
    name="biased_coin",
    topics=("flip", "toss", "heads"),
    traps=(UNREDUCED, FORM),
    params=_Params,
    wordings="""
        A biased coin lands heads with probability {p}/{q}. It is flipped {flips} times. The probability of
        exactly {heads} heads is $m/n$, where $m$ and $n$ are relatively prime positive integers. Find $m+n$.

        In {flips} independent tosses of a bent coin, which shows heads with probability {p}/{q} each time, the
        chance to see heads exactly {heads} times is $m/n$ in lowest terms. What is $m+n$?

        An archer hits the target with probability {p}/{q} on every shot. If she hits with exactly {heads} of
        {flips} independent shots with probability $m/n$, a fraction in lowest terms, determine $m+n$.
    """,
    draw=_draw,
    gold=_gold,
    write=_write,
)
