"""Nonnegative solutions of a linear equation in two unknowns."""

from dataclasses import dataclass
from random import Random

from agentlearn_demo.math.family import BOUND, ZERO, Choices, Family


@dataclass(frozen=True)
class _Params:
    a: int
    b: int
    n: int


def _draw(rng: Random) -> _Params:
    a, b = rng.sample(range(2, 12), 2)
    return _Params(a=a, b=b, n=rng.choice((a, b)) * rng.randint(60, 140))


def _gold(p: _Params) -> str:
    return str(sum((p.n - p.b * y) % p.a == 0 for y in range(p.n // p.b + 1)))


def _write(p: _Params, choices: Choices) -> str:
    first = choices.pick(ZERO, "0", "1")
    limit = choices.pick(BOUND, "n // min(a, b)", "50")
    return f"""
        a, b, n = {p.a}, {p.b}, {p.n}
        {choices.note(ZERO)}
        first = {first}
        {choices.note(BOUND)}
        limit = {limit}
        count = 0
        for x in range(first, limit + 1):
            y, rest = divmod(n - a * x, b)
            if rest == 0 and first <= y <= limit:
                count += 1
        print(count)
    """


FAMILY = Family(
    name="linear_pairs",
    topics=("diophantine", "linear"),
    traps=(ZERO, BOUND),
    params=_Params,
    wordings="""
        How many pairs $(x, y)$ of nonnegative integers satisfy ${a}x + {b}y = {n}$?

        Find the number of solutions of the equation ${a}x + {b}y = {n}$ in integers $x >= 0$ and $y >= 0$.

        A parcel weighing exactly {n} grams is to be balanced with weights of {a} grams and weights of {b}
        grams. Any number of either kind may be used, also none. In how many ways can this be done?
    """,
    draw=_draw,
    gold=_gold,
    write=_write,
)
