"""A sum of rounded-down multiples of a fraction."""

from dataclasses import dataclass
from math import floor
from random import Random

from agentlearn_demo.math.family import ENDPOINTS, FLOATS, Choices, Family


@dataclass(frozen=True)
class _Params:
    a: int
    b: int
    low: int
    high: int


def _draw(rng: Random) -> _Params:
    """A sum in which some product of floats falls below the integer that it should be."""
    while True:
        p = _Params(a=rng.randint(2, 60), b=rng.randint(7, 60), low=rng.randint(1, 9), high=rng.randint(60, 200))
        if any(floor(k * (p.a / p.b)) != k * p.a // p.b for k in range(p.low, p.high)):
            return p


def _gold(p: _Params) -> str:
    terms = range(p.low, p.high + 1)
    return str((sum(p.a * k for k in terms) - sum(p.a * k % p.b for k in terms)) // p.b)


def _write(p: _Params, choices: Choices) -> str:
    last = choices.pick(ENDPOINTS, "high + 1", "high")
    term = choices.pick(FLOATS, "a * k // b", "floor(k * (a / b))")
    return f"""
        from math import floor

        a, b, low, high = {p.a}, {p.b}, {p.low}, {p.high}
        {choices.note(ENDPOINTS)}
        terms = range(low, {last})
        {choices.note(FLOATS)}
        print(sum({term} for k in terms))
    """


FAMILY = Family(
    name="floor_sum",
    topics=("floor",),
    traps=(ENDPOINTS, FLOATS),
    params=_Params,
    wordings="""
        Evaluate the sum of $floor({a}k/{b})$ over all integers $k$ from {low} to {high}, inclusive, where
        $floor(x)$ is the greatest integer not exceeding $x$.

        For each integer $k$ with {low} <= k <= {high}, the number ${a}k/{b}$ is rounded down to an integer.
        What is the sum of the rounded numbers?

        Let $[x]$ denote the largest integer that is at most $x$. Find the sum of all $[{a}k/{b}]$ where $k$
        runs through the integers between {low} and {high}, both included.
    """,
    draw=_draw,
    gold=_gold,
    write=_write,
)
