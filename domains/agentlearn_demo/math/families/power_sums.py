"""The remainder of a sum of large powers."""

from dataclasses import dataclass
from random import Random

from agentlearn_demo.math.family import ENDPOINTS, FLOATS, FORM, Choices, Family


@dataclass(frozen=True)
class _Params:
    base: int
    low: int
    high: int
    modulus: int


def _draw(rng: Random) -> _Params:
    return _Params(
        base=rng.choice((3, 5, 6, 7, 11, 12, 13)),
        low=rng.randint(1, 6),
        high=rng.randint(36, 60),
        modulus=rng.randint(90, 1000),
    )


def _gold(p: _Params) -> str:
    return str(sum(pow(p.base, k, p.modulus) for k in range(p.low, p.high + 1)) % p.modulus)


def _write(p: _Params, choices: Choices) -> str:
    last = choices.pick(ENDPOINTS, "high + 1", "high")
    base = choices.pick(FLOATS, str(p.base), f"{p.base}.0")
    answer = choices.pick(FORM, "total % modulus", "total")
    return f"""
        low, high, modulus = {p.low}, {p.high}, {p.modulus}
        {choices.note(FLOATS)}
        base = {base}
        {choices.note(ENDPOINTS)}
        exponents = range(low, {last})
        total = int(sum(base ** k for k in exponents))
        {choices.note(FORM)}
        print({answer})
    """


FAMILY = Family(
    name="power_sums",
    topics=("power", "exponent"),
    traps=(FLOATS, ENDPOINTS, FORM),
    params=_Params,
    wordings="""
        Let $S$ be the sum of the powers ${base}^k$ over all integers $k$ from {low} to {high}, inclusive. Find
        the remainder when $S$ is divided by {modulus}.

        The powers of {base} with the exponents {low} through {high}, both included, are added. What remainder
        does the sum leave on division by {modulus}?

        For each integer $k$ with {low} <= k <= {high}, a clerk writes down ${base}^k$. Determine the remainder
        of the sum of all these numbers modulo {modulus}.
    """,
    draw=_draw,
    gold=_gold,
    write=_write,
)
