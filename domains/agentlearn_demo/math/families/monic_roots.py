"""The squares of the roots of a quartic with integer roots, one of them double and one of them large."""

from dataclasses import dataclass
from random import Random

from agentlearn_demo.math.family import BOUND, MULTIPLICITY, Choices, Family


@dataclass(frozen=True)
class _Params:
    a: int
    b: int
    c: int
    d: int


def _draw(rng: Random) -> _Params:
    def signed(low: int, high: int) -> int:
        return rng.choice((-1, 1)) * rng.randint(low, high)

    twice = signed(1, 6)
    coefficients = [1]
    for root in (twice, twice, signed(11, 16), signed(1, 5)):
        shifted = [*coefficients, 0]
        coefficients = [high - root * low for high, low in zip(shifted, [0, *coefficients], strict=True)]
    return _Params(*coefficients[1:])


def _gold(p: _Params) -> str:
    return str(p.a * p.a - 2 * p.b)


def _write(p: _Params, choices: Choices) -> str:
    limit = choices.pick(BOUND, "abs(p[-1])", "10")
    weight = choices.pick(MULTIPLICITY, "order(r)", "1")
    return f"""
        p = [1, {p.a}, {p.b}, {p.c}, {p.d}]

        def divide(q, r):
            values = [q[0]]
            for coefficient in q[1:]:
                values.append(coefficient + r * values[-1])
            return values

        def order(r):
            q, times = p, 0
            while divide(q, r)[-1] == 0:
                q, times = divide(q, r)[:-1], times + 1
            return times

        {choices.note(BOUND)}
        limit = {limit}
        candidates = [r for r in range(-limit, limit + 1) if r != 0 and p[-1] % r == 0]
        roots = [r for r in candidates if divide(p, r)[-1] == 0]
        {choices.note(MULTIPLICITY)}
        print(sum(r * r * {weight} for r in roots))
    """


FAMILY = Family(
    name="monic_roots",
    topics=("polynomial", "root", "coefficient"),
    traps=(BOUND, MULTIPLICITY),
    params=_Params,
    wordings="""
        All roots of the polynomial $P(x) = x^4 + ax^3 + bx^2 + cx + d$ with $a = {a}$, $b = {b}$, $c = {c}$ and
        $d = {d}$ are integers. Find the sum of the squares of its roots, where a root of multiplicity $k$ is
        counted $k$ times.

        A monic quartic has the coefficients 1, {a}, {b}, {c}, {d}, from the highest power down, and only
        integer roots. What is the sum of the squares of its four roots, counted with multiplicity?

        The equation $x^4 + ({a})x^3 + ({b})x^2 + ({c})x + ({d}) = 0$ has four integer solutions, not
        necessarily different. Compute the sum of the squares of these four solutions.
    """,
    draw=_draw,
    gold=_gold,
    write=_write,
)
