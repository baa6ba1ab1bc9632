"""Unordered pairs of different numbers with a given product that is a square."""

from dataclasses import dataclass
from random import Random

from agentlearn_demo.math.family import DISTINCT, ORDERED, Choices, Family


@dataclass(frozen=True)
class _Params:
    n: int
    least: int


def _draw(rng: Random) -> _Params:
    return _Params(n=rng.randint(6, 120) ** 2, least=rng.randint(1, 5))


def _gold(p: _Params) -> str:
    x, pairs = p.least, 0
    while x * x < p.n:
        pairs += p.n % x == 0
        x += 1
    return str(pairs)


def _write(p: _Params, choices: Choices) -> str:
    kept = choices.pick(DISTINCT, "[(x, y) for x, y in pairs if x != y]", "list(pairs)")
    cases = choices.pick(ORDERED, "{tuple(sorted(pair)) for pair in pairs}", "pairs")
    return f"""
        n, least = {p.n}, {p.least}
        pairs = [(x, n // x) for x in range(least, n // least + 1) if n % x == 0]
        {choices.note(DISTINCT)}
        pairs = {kept}
        {choices.note(ORDERED)}
        print(len({cases}))
    """


FAMILY = Family(
    name="factor_pairs",
    topics=("product",),
    traps=(DISTINCT, ORDERED),
    params=_Params,
    wordings="""
        How many unordered pairs of distinct integers, each at least {least}, have the product {n}?

        Two different integers, neither of them below {least}, multiply to {n}. How many sets of two such
        integers are there?

        Let $x$ and $y$ be distinct integers greater than or equal to {least} with $xy = {n}$. Counting the pair
        $x, y$ and the pair $y, x$ as the same, find the number of possible pairs.
    """,
    draw=_draw,
    gold=_gold,
    write=_write,
)
