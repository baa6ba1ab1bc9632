"""Unordered pairs with a given least common multiple."""

from dataclasses import dataclass
from random import Random

from agentlearn_demo.math.family import BOUND, ORDERED, Choices, Family


@dataclass(frozen=True)
class _Params:
    n: int


def _draw(rng: Random) -> _Params:
    p, q, r = rng.sample((2, 3, 5, 7, 11, 13), 3)
    n = p ** rng.randint(1, 4) * q ** rng.randint(1, 2) * r ** rng.randint(0, 1)
    return _Params(n=n) if 50 <= n <= 5000 else _draw(rng)


def _gold(p: _Params) -> str:
    rest, ordered, factor = p.n, 1, 2
    while rest > 1:
        exponent = 0
        while rest % factor == 0:
            rest, exponent = rest // factor, exponent + 1
        ordered, factor = ordered * (2 * exponent + 1), factor + 1
    return str((ordered + 1) // 2)


def _write(p: _Params, choices: Choices) -> str:
    limit = choices.pick(BOUND, "n", "25")
    cases = choices.pick(ORDERED, "{tuple(sorted(pair)) for pair in pairs}", "pairs")
    return f"""
        from math import lcm

        n = {p.n}
        {choices.note(BOUND)}
        limit = {limit}
        divisors = [k for k in range(1, limit + 1) if n % k == 0]
        pairs = [(x, y) for x in divisors for y in divisors if lcm(x, y) == n]
        {choices.note(ORDERED)}
        print(len({cases}))
    """


FAMILY = Family(
    name="lcm_pairs",
    topics=("lcm", "least common"),
    traps=(BOUND, ORDERED),
    params=_Params,
    wordings="""
        How many unordered pairs of positive integers, equal or not, have the least common multiple {n}?

        Two positive integers have lcm {n}. Not caring which of the two comes first, in how many ways can they
        be chosen?

        Find the number of multisets of two positive integers whose least common multiple equals {n}.
    """,
    draw=_draw,
    gold=_gold,
    write=_write,
)
