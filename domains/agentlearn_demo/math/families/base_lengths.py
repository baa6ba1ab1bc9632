"""How many digits a run of integers takes in another base."""

from dataclasses import dataclass
from math import log
from random import Random

from agentlearn_demo.math.family import ENDPOINTS, FLOATS, Choices, Family

POWERS = tuple(
    (base, base**exponent)
    for base in range(3, 20)
    for exponent in range(2, 15)
    if 100 < base**exponent < 10**9 and int(log(base**exponent, base)) != exponent
)
"""Where a logarithm computed as a float falls short of the exponent."""


@dataclass(frozen=True)
class _Params:
    base: int
    low: int
    high: int


def _draw(rng: Random) -> _Params:
    base, power = rng.choice(POWERS)
    return _Params(base=base, low=power - rng.randint(20, 80), high=power + rng.randint(20, 400))


def _gold(p: _Params) -> str:
    def written_up_to(n: int) -> int:
        total, power = 0, 1
        while power <= n:
            total, power = total + n - power + 1, power * p.base
        return total

    return str(written_up_to(p.high) - written_up_to(p.low - 1))


def _write(p: _Params, choices: Choices) -> str:
    last = choices.pick(ENDPOINTS, "high + 1", "high")
    length = choices.pick(FLOATS, "exact_length(n)", "int(log(n, base)) + 1")
    return f"""
        from math import log

        base, low, high = {p.base}, {p.low}, {p.high}

        def exact_length(n):
            length = 0
            while n:
                n, length = n // base, length + 1
            return length

        {choices.note(ENDPOINTS)}
        numbers = range(low, {last})
        {choices.note(FLOATS)}
        print(sum({length} for n in numbers))
    """


FAMILY = Family(
    name="base_lengths",
    topics=("base", "numeral"),
    traps=(ENDPOINTS, FLOATS),
    params=_Params,
    wordings="""
        The integers from {low} to {high}, inclusive, are written in base {base}. How many digits are written
        altogether?

        For a positive integer $n$ let $d(n)$ be the number of digits of $n$ in base {base}. Find the sum of
        $d(n)$ over all $n$ with {low} <= n <= {high}.

        A counter shows numerals in base {base}. It runs through all values from {low} up to and including
        {high}. What is the total length of the numerals shown?
    """,
    draw=_draw,
    gold=_gold,
    write=_write,
)
