"""Scalene triangles with bounded integer sides, up to congruence."""

from dataclasses import dataclass
from random import Random

from agentlearn_demo.math.family import DISTINCT, ENDPOINTS, ORDERED, Choices, Family


@dataclass(frozen=True)
class _Params:
    longest: int
    divisor: int


def _draw(rng: Random) -> _Params:
    return _Params(longest=rng.randint(6, 17), divisor=rng.randint(2, 9))


def _gold(p: _Params) -> str:
    return str(
        sum(
            (a + b + c) % p.divisor == 0
            for c in range(3, p.longest + 1)
            for b in range(2, c)
            for a in range(c - b + 1, b)
        )
    )


def _write(p: _Params, choices: Choices) -> str:
    last = choices.pick(ENDPOINTS, "longest + 1", "longest")
    kept = choices.pick(DISTINCT, "[t for t in triangles if len(set(t)) == 3]", "list(triangles)")
    cases = choices.pick(ORDERED, "{tuple(sorted(t)) for t in triangles}", "triangles")
    return f"""
        longest, divisor = {p.longest}, {p.divisor}
        {choices.note(ENDPOINTS)}
        sides = range(1, {last})
        triples = [(a, b, c) for a in sides for b in sides for c in sides if (a + b + c) % divisor == 0]
        triangles = [t for t in triples if 2 * max(t) < sum(t)]
        {choices.note(DISTINCT)}
        triangles = {kept}
        {choices.note(ORDERED)}
        print(len({cases}))
    """


FAMILY = Family(
    name="scalene_triangles",
    topics=("triangle", "scalene"),
    traps=(ENDPOINTS, DISTINCT, ORDERED),
    params=_Params,
    wordings="""
        How many non-congruent scalene triangles have integer side lengths that do not exceed {longest} and a
        perimeter divisible by {divisor}?

        Find the number of triangles, up to congruence, with three different integer side lengths, the longest
        being at most {longest}, whose perimeter is a multiple of {divisor}.

        From sticks of every integer length from 1 to {longest}, endpoints included, three of different lengths
        are taken to form a triangle whose perimeter leaves no remainder on division by {divisor}. How many such
        triangles are there?
    """,
    draw=_draw,
    gold=_gold,
    write=_write,
)
