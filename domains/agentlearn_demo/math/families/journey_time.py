"""The length of a journey whose parts are given in hours and minutes, as m + n of the reduced fraction."""

from dataclasses import dataclass
from fractions import Fraction
from random import Random

from agentlearn_demo.math.family import UNITS, UNREDUCED, Choices, Family


@dataclass(frozen=True)
class _Params:
    first: int
    fast: int
    rest: int
    second: int
    slow: int


def _draw(rng: Random) -> _Params:
    return _Params(
        first=rng.randint(4, 40),
        fast=rng.randint(12, 30),
        rest=rng.randint(2, 11) * 5,
        second=rng.randint(2, 15),
        slow=rng.randint(3, 11),
    )


def _gold(p: _Params) -> str:
    hours = Fraction(p.first, p.fast) + Fraction(p.rest, 60) + Fraction(p.second, p.slow)
    return str(hours.numerator + hours.denominator)


def _write(p: _Params, choices: Choices) -> str:
    per_hour = choices.pick(UNITS, "60", "1")
    divisor = choices.pick(UNREDUCED, "gcd(m, n)", "1")
    return f"""
        from math import gcd

        first, fast, second, slow = {p.first}, {p.fast}, {p.second}, {p.slow}
        {choices.note(UNITS)}
        rest, per_hour = {p.rest}, {per_hour}
        n = fast * slow * per_hour
        m = first * slow * per_hour + second * fast * per_hour + rest * fast * slow
        {choices.note(UNREDUCED)}
        divisor = {divisor}
        print(m // divisor + n // divisor)
    """


FAMILY = Family(
    name="journey_time",
    topics=("journey", "cycl", "kilomet"),
    traps=(UNITS, UNREDUCED),
    params=_Params,
    wordings="""
        Ines cycles {first} kilometers at {fast} kilometers per hour, rests for {rest} minutes, and then walks
        {second} kilometers at {slow} kilometers per hour. Her journey takes $m/n$ hours, where $m$ and $n$ are
        relatively prime positive integers. Find $m+n$.

        A journey has three parts: {first} km by bicycle at {fast} km/h, a break of {rest} minutes, and {second}
        km on foot at {slow} km/h. In hours, its duration is $m/n$ in lowest terms. What is $m+n$?

        Tomas rides his bicycle at {fast} km/h for {first} km, stops for lunch for {rest} minutes and covers the
        remaining {second} km on foot at {slow} km/h. If the whole journey lasts $m/n$ hours with $m$ and $n$
        coprime, determine $m+n$.
    """,
    draw=_draw,
    gold=_gold,
    write=_write,
)
