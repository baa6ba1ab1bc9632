"""How often a prime divides a factorial."""

from dataclasses import dataclass
from random import Random

from agentlearn_demo.math.family import BOUND, MULTIPLICITY, Choices, Family


@dataclass(frozen=True)
class _Params:
    n: int
    p: int


def _draw(rng: Random) -> _Params:
    return _Params(n=rng.randint(60, 500), p=rng.choice((2, 3, 5, 7)))


def _gold(p: _Params) -> str:
    total, rest = 0, p.n
    while rest:
        rest //= p.p
        total += rest
    return str(total)


def _write(p: _Params, choices: Choices) -> str:
    limit = choices.pick(BOUND, "n", "40")
    weight = choices.pick(MULTIPLICITY, "times", "min(times, 1)")
    return f"""
        n, p = {p.n}, {p.p}
        {choices.note(BOUND)}
        limit = {limit}
        total = 0
        for factor in range(1, limit + 1):
            times = 0
            while factor % p == 0:
                factor, times = factor // p, times + 1
            {choices.note(MULTIPLICITY)}
            total += {weight}
        print(total)
    """


FAMILY = Family(
    name="factorial_power",
    topics=("factorial",),
    traps=(BOUND, MULTIPLICITY),
    params=_Params,
    wordings="""
        Find the largest integer $k$ for which ${p}^k$ divides ${n}!$, the factorial of {n}.

        The number ${n}!$ is divided by {p} again and again as long as the result is an integer. How many
        divisions are made?

        What is the exponent of {p} in the factorization of ${n}!$ into primes?
    """,
    draw=_draw,
    gold=_gold,
    write=_write,
)
