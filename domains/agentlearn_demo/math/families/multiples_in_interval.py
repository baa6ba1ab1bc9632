"""Multiples of one of two numbers in an interval that holds zero."""

from dataclasses import dataclass
from math import lcm
from random import Random

from agentlearn_demo.math.family import ENDPOINTS, ZERO, Choices, Family


@dataclass(frozen=True)
class _Params:
    low: int
    high: int
    a: int
    b: int


def _draw(rng: Random) -> _Params:
    a, b = rng.sample(range(3, 14), 2)
    return _Params(low=-rng.randint(15, 120), high=rng.choice((a, b)) * rng.randint(6, 25), a=a, b=b)


def _gold(p: _Params) -> str:
    def multiples(of: int) -> int:
        return p.high // of - (p.low - 1) // of

    return str(multiples(p.a) + multiples(p.b) - multiples(lcm(p.a, p.b)))


def _write(p: _Params, choices: Choices) -> str:
    last = choices.pick(ENDPOINTS, "high + 1", "high")
    wanted = choices.pick(ZERO, "n % a == 0 or n % b == 0", "n != 0 and (n % a == 0 or n % b == 0)")
    return f"""
        low, high = {p.low}, {p.high}
        a, b = {p.a}, {p.b}
        {choices.note(ENDPOINTS)}
        numbers = range(low, {last})
        {choices.note(ZERO)}
        print(sum(1 for n in numbers if {wanted}))
    """


FAMILY = Family(
    name="multiples_in_interval",
    topics=("multiples", "divisib"),
    traps=(ENDPOINTS, ZERO),
    params=_Params,
    wordings="""
        How many integers $n$ with {low} <= n <= {high} are multiples of {a} or of {b} (or of both)?

        Find the number of integers from {low} to {high}, inclusive, that are divisible by {a} or by {b}.

        Among the integers between {low} and {high}, both included, how many are divisible by at least one of
        the numbers {a} and {b}?
    """,
    draw=_draw,
    gold=_gold,
    write=_write,
)
