"""The sum of the prime factors of a number, each as often as it divides."""

from dataclasses import dataclass
from random import Random

from agentlearn_demo.math.family import BOUND, MULTIPLICITY, Choices, Family

LARGE = (31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107, 109, 113, 127, 131, 137, 139)


@dataclass(frozen=True)
class _Params:
    n: int


def _draw(rng: Random) -> _Params:
    p, q = rng.sample((2, 3, 5, 7), 2)
    return _Params(n=p ** rng.randint(2, 3) * q * rng.choice(LARGE))


def _gold(p: _Params) -> str:
    rest, total, factor = p.n, 0, 2
    while factor * factor <= rest:
        if rest % factor == 0:
            rest, total = rest // factor, total + factor
        else:
            factor += 1
    return str(total + rest)


def _write(p: _Params, choices: Choices) -> str:
    limit = choices.pick(BOUND, "n", "30")
    weight = choices.pick(MULTIPLICITY, "times", "min(times, 1)")
    return f"""
        n = {p.n}
        {choices.note(BOUND)}
        limit = {limit}
        total, p = 0, 2
        while n > 1 and p <= limit:
            times = 0
            while n % p == 0:
                n, times = n // p, times + 1
            {choices.note(MULTIPLICITY)}
            total += p * {weight}
            p += 1
        print(total)
    """


FAMILY = Family(
    name="prime_factors",
    topics=("prime factor", "primes"),
    traps=(BOUND, MULTIPLICITY),
    params=_Params,
    wordings="""
        Find the sum of the prime factors of {n}, where each prime is counted as often as it divides the number.

        The number {n} is written as a product of primes, which need not be different. What is the sum of the
        primes in this product?

        For a positive integer $n$ let $s(n)$ be the sum of its prime factors with multiplicity; for example
        $s(12) = 2 + 2 + 3 = 7$. Compute $s({n})$.
    """,
    draw=_draw,
    gold=_gold,
    write=_write,
)
