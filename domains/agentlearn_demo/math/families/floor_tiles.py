"""How many square slabs cover a hall whose sides are given in another unit."""

from dataclasses import dataclass
from math import ceil
from random import Random

from agentlearn_demo.math.family import FLOATS, UNITS, Choices, Family


@dataclass(frozen=True)
class _Params:
    width: int
    length: int
    side: int


def _draw(rng: Random) -> _Params:
    """A hall whose width is a whole number of slabs, but not when it is divided as floats."""
    while True:
        side, width = rng.randint(15, 400), rng.randint(2, 80)
        if 1000 * width % side == 0 and ceil(width / (side / 1000)) != 1000 * width // side:
            return _Params(width=width, length=rng.randint(3, 60), side=side)


def _gold(p: _Params) -> str:
    across, along = (1000 * size // p.side + (1000 * size % p.side > 0) for size in (p.width, p.length))
    return str(across * along)


def _write(p: _Params, choices: Choices) -> str:
    per_meter = choices.pick(UNITS, "1000", "100")
    needed = choices.pick(FLOATS, "-(-size * per_meter // side)", "ceil(size / (side / per_meter))")
    return f"""
        from math import ceil

        width, length, side = {p.width}, {p.length}, {p.side}
        {choices.note(UNITS)}
        per_meter = {per_meter}

        def needed(size):
            {choices.note(FLOATS)}
            return {needed}

        print(needed(width) * needed(length))
    """


FAMILY = Family(
    name="floor_tiles",
    topics=("slab", "hall"),
    traps=(UNITS, FLOATS),
    params=_Params,
    wordings="""
        The floor of a hall is a rectangle of {width} meters by {length} meters. It is covered with square slabs
        of side {side} millimeters laid in straight rows; slabs may be cut at two of the walls, and what is cut
        off is thrown away. How many slabs are needed?

        Square slabs with a side of {side} mm are laid in rows, parallel to the walls, until a rectangular hall
        of {width} m by {length} m is covered. Offcuts are never used again. Find the smallest number of slabs.

        A rectangular hall measures {width} m by {length} m. A grid of square slabs, {side} mm on each side,
        starts in one corner and must cover the hall completely. What is the least number of slabs in such a
        grid?
    """,
    draw=_draw,
    gold=_gold,
    write=_write,
)
