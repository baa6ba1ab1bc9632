"""Tilings of a strip with dominoes and squares, asked for as a remainder."""

from dataclasses import dataclass
from random import Random

from agentlearn_demo.math.family import FORM, UNCHECKED, Choices, Family


@dataclass(frozen=True)
class _Params:
    n: int
    modulus: int


def _draw(rng: Random) -> _Params:
    return _Params(n=rng.randint(12, 60), modulus=rng.randint(90, 1000))


def _gold(p: _Params) -> str:
    return str((2 ** (p.n + 1) + (-1) ** p.n) // 3 % p.modulus)


def _write(p: _Params, choices: Choices) -> str:
    trusted = choices.pick(UNCHECKED, "all(shortcut(k) == tilings(k) for k in range(1, 7))", "True")
    answer = choices.pick(FORM, "count % modulus", "count")
    return f"""
        n, modulus = {p.n}, {p.modulus}

        def tilings(length):
            before, now = 1, 1
            for _ in range(length - 1):
                before, now = now, now + 2 * before
            return now

        def shortcut(length):
            return 2 ** length - 1

        {choices.note(UNCHECKED)}
        trusted = {trusted}
        count = shortcut(n) if trusted else tilings(n)
        {choices.note(FORM)}
        print({answer})
    """


FAMILY = Family(
    name="domino_tilings",
    topics=("domino", "tiling"),
    traps=(UNCHECKED, FORM),
    params=_Params,
    wordings="""
        In how many ways can a strip of 2 by {n} unit cells be tiled with 1 by 2 dominoes, laid in either
        direction, and 2 by 2 squares? Give the remainder of that number on division by {modulus}.

        Let $T$ be the number of tilings of a $2 x {n}$ board by dominoes and by squares of side 2. Find the
        remainder when $T$ is divided by {modulus}.

        A path 2 units wide and {n} units long is paved with dominoes (1 by 2 units) and square stones (2 by 2
        units). If there are $N$ ways to pave it, what is $N$ modulo {modulus}?
    """,
    draw=_draw,
    gold=_gold,
    write=_write,
)
