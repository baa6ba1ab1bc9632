"""Paths on a grid that stay on one side of a line they may touch."""

from dataclasses import dataclass
from math import comb
from random import Random

from agentlearn_demo.math.family import ENDPOINTS, UNCHECKED, Choices, Family


@dataclass(frozen=True)
class _Params:
    a: int
    b: int
    k: int


def _draw(rng: Random) -> _Params:
    a, k = rng.randint(4, 13), rng.randint(0, 4)
    return _Params(a=a, b=rng.randint(k + 2, a + k), k=k)


def _gold(p: _Params) -> str:
    # Reflection: a path that crosses the line meets y = x + k + 1.
    return str(comb(p.a + p.b, p.b) - comb(p.a + p.b, p.b - p.k - 1))


def _write(p: _Params, choices: Choices) -> str:
    inside = choices.pick(ENDPOINTS, "y <= x + k", "y < x + k or (x, y) == (0, 0)")
    trusted = choices.pick(
        UNCHECKED, "all(shortcut(x, y) == walks(x, y) for x in range(1, 5) for y in range(1, x + 1))", "True"
    )
    return f"""
        from functools import lru_cache
        from math import comb

        a, b, k = {p.a}, {p.b}, {p.k}

        @lru_cache(maxsize=None)
        def walks(x, y):
            {choices.note(ENDPOINTS)}
            inside = {inside}
            if x < 0 or y < 0 or not inside:
                return 0
            return 1 if x == y == 0 else walks(x - 1, y) + walks(x, y - 1)

        def shortcut(x, y):
            return comb(x + y, y) * (k + 1) // (y + 1)

        {choices.note(UNCHECKED)}
        trusted = {trusted}
        print(shortcut(a, b) if trusted else walks(a, b))
    """


FAMILY = Family(
    name="grid_paths",
    topics=("path", "grid", "walk"),
    traps=(ENDPOINTS, UNCHECKED),
    params=_Params,
    wordings="""
        A path goes from (0, 0) to ({a}, {b}) in unit steps to the right or up. How many such paths never go
        above the line $y = x + {k}$? (Touching the line is allowed.)

        A robot starts at the origin and walks to the point ({a}, {b}), each step being one unit east or one
        unit north. It may stand on the line $y = x + {k}$ but may not cross to the points above it. Find the
        number of walks it can take.

        How many lattice paths from (0, 0) to ({a}, {b}) with steps (1, 0) and (0, 1) contain only points $(x,
        y)$ with $y - x$ at most {k}?
    """,
    draw=_draw,
    gold=_gold,
    write=_write,
)
