"""Two pipes with rates in different units fill a tank together, as m + n of the reduced fraction."""

from dataclasses import dataclass
from fractions import Fraction
from random import Random

from agentlearn_demo.math.family import UNITS, UNREDUCED, Choices, Family


@dataclass(frozen=True)
class _Params:
    minutes: int
    hours: int


def _draw(rng: Random) -> _Params:
    return _Params(minutes=rng.randint(10, 90), hours=rng.randint(2, 9))


def _gold(p: _Params) -> str:
    time = 1 / (Fraction(1, p.minutes) + Fraction(1, 60 * p.hours))
    return str(time.numerator + time.denominator)


def _write(p: _Params, choices: Choices) -> str:
    slow = choices.pick(UNITS, "60 * hours", "hours")
    divisor = choices.pick(UNREDUCED, "gcd(m, n)", "1")
    return f"""
        from math import gcd

        fast, hours = {p.minutes}, {p.hours}
        {choices.note(UNITS)}
        slow = {slow}
        m, n = fast * slow, fast + slow
        {choices.note(UNREDUCED)}
        divisor = {divisor}
        print(m // divisor + n // divisor)
    """


FAMILY = Family(
    name="tank_filling",
    topics=("tank", "pipe", "pump"),
    traps=(UNITS, UNREDUCED),
    params=_Params,
    wordings="""
        One pipe fills a tank in {minutes} minutes, another one fills it in {hours} hours. Together they fill it
        in $m/n$ minutes, where $m$ and $n$ are relatively prime positive integers. Find $m+n$.

        A pump empties a pool in {minutes} minutes; an older pump needs {hours} hours for the same work. Running
        both, the pool is empty after $m/n$ minutes, in lowest terms. What is $m+n$?

        Ada paints a fence alone in {minutes} minutes and Bo in {hours} hours. Working side by side they are
        done after $m/n$ minutes with $m$ and $n$ coprime. Compute $m+n$.
    """,
    draw=_draw,
    gold=_gold,
    write=_write,
)
