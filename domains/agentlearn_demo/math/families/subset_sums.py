"""Subsets of a run of integers whose sum is a multiple of a number, the empty one among them."""

from dataclasses import dataclass
from random import Random

from agentlearn_demo.math.family import UNCHECKED, ZERO, Choices, Family


@dataclass(frozen=True)
class _Params:
    low: int
    high: int
    divisor: int


def _draw(rng: Random) -> _Params:
    low = rng.randint(1, 7)
    return _Params(low=low, high=low + rng.randint(6, 9), divisor=rng.randint(3, 9))


def _gold(p: _Params) -> str:
    ways = [1] + [0] * (p.divisor - 1)
    for x in range(p.low, p.high + 1):
        ways = [ways[r] + ways[(r - x) % p.divisor] for r in range(p.divisor)]
    return str(ways[0])


def _write(p: _Params, choices: Choices) -> str:
    least = choices.pick(ZERO, "0", "1")
    trusted = choices.pick(UNCHECKED, "all(shortcut(k) == count(k) for k in range(1, 5))", "True")
    return f"""
        from itertools import combinations

        low, high, divisor = {p.low}, {p.high}, {p.divisor}
        {choices.note(ZERO)}
        least = {least}

        def count(size):
            numbers = range(low, low + size)
            chosen = (c for k in range(least, size + 1) for c in combinations(numbers, k))
            return sum(1 for c in chosen if sum(c) % divisor == 0)

        def shortcut(size):
            return 2 ** size // divisor

        size = high - low + 1
        {choices.note(UNCHECKED)}
        trusted = {trusted}
        print(shortcut(size) if trusted else count(size))
    """


FAMILY = Family(
    name="subset_sums",
    topics=("subset",),
    traps=(ZERO, UNCHECKED),
    params=_Params,
    wordings="""
        How many subsets of the set of integers from {low} to {high}, the empty set among them, have a sum of
        elements that is divisible by {divisor}?

        Cards carry the integers {low} through {high}. Somebody takes any number of cards, possibly none or all.
        Find the number of choices for which the sum on the cards taken is a multiple of {divisor}. (An empty
        sum is 0.)

        Let $A$ be the set of all integers $n$ with {low} <= n <= {high}. Determine the number of subsets of
        $A$, including the empty one, whose elements add up to a multiple of {divisor}.
    """,
    draw=_draw,
    gold=_gold,
    write=_write,
)
