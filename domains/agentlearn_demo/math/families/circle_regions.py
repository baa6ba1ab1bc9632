"""Regions into which all chords between points cut a disk, asked for as a remainder."""

from dataclasses import dataclass
from math import comb
from random import Random

from agentlearn_demo.math.family import FORM, UNCHECKED, Choices, Family


@dataclass(frozen=True)
class _Params:
    n: int
    modulus: int


def _draw(rng: Random) -> _Params:
    return _Params(n=rng.randint(14, 60), modulus=rng.randint(90, 1000))


def _gold(p: _Params) -> str:
    return str(sum(comb(p.n - 1, i) for i in range(5)) % p.modulus)


def _write(p: _Params, choices: Choices) -> str:
    trusted = choices.pick(UNCHECKED, "all(shortcut(k) == regions(k) for k in range(1, 9))", "True")
    answer = choices.pick(FORM, "count % modulus", "count")
    return f"""
        from math import comb

        n, modulus = {p.n}, {p.modulus}

        def regions(points):
            # each chord adds a region, and so does each crossing
            chords, crossings = comb(points, 2), comb(points, 4)
            return 1 + chords + crossings

        def shortcut(points):
            return 2 ** (points - 1)

        {choices.note(UNCHECKED)}
        trusted = {trusted}
        count = shortcut(n) if trusted else regions(n)
        {choices.note(FORM)}
        print({answer})
    """


FAMILY = Family(
    name="circle_regions",
    topics=("circle", "chord", "region"),
    traps=(UNCHECKED, FORM),
    params=_Params,
    wordings="""
        On a circle {n} points are marked and every two of them are joined by a chord. No three chords meet in
        one point inside the circle. Into how many regions is the disk divided? Give the remainder modulo
        {modulus}.

        All chords between {n} points of a circle are drawn, in such a way that no point inside lies on three of
        them. Let $R$ be the number of regions inside the circle. Find the remainder when $R$ is divided by
        {modulus}.

        A round cake is cut along every straight line that joins two of {n} marks on its rim; no three cuts run
        through one inner point. If there are $P$ pieces, what remainder does $P$ leave on division by
        {modulus}?
    """,
    draw=_draw,
    gold=_gold,
    write=_write,
)
