"""Rows of letter tiles, some alike, where a row and its reverse count as one."""

from collections import Counter
from dataclasses import dataclass
from math import factorial, prod
from random import Random

from agentlearn_demo.math.family import DISTINCT, ORDERED, Choices, Family


@dataclass(frozen=True)
class _Params:
    word: str


def _draw(rng: Random) -> _Params:
    kinds = rng.sample("ABCDEGKLMNOPRSTU", rng.randint(2, 4))
    word = kinds + [rng.choice(kinds) for _ in range(rng.randint(5, 6) - len(kinds))]
    rng.shuffle(word)
    return _Params(word="".join(word))


def _gold(p: _Params) -> str:
    counts = Counter(p.word).values()
    rows = factorial(len(p.word)) // prod(map(factorial, counts))
    palindromes = 0
    if sum(count % 2 for count in counts) <= 1:
        halves = [count // 2 for count in counts]
        palindromes = factorial(sum(halves)) // prod(map(factorial, halves))
    return str((rows + palindromes) // 2)


def _write(p: _Params, choices: Choices) -> str:
    tiles = choices.pick(DISTINCT, "list(word)", "list(enumerate(word))")
    rows = choices.pick(ORDERED, "{min(row, row[::-1]) for row in rows}", "rows")
    return f"""
        from itertools import permutations

        word = "{p.word}"
        {choices.note(DISTINCT)}
        tiles = {tiles}
        rows = set(permutations(tiles))
        {choices.note(ORDERED)}
        rows = {rows}
        print(len(rows))
    """


FAMILY = Family(
    name="letter_rows",
    topics=("letter", "tiles"),
    traps=(DISTINCT, ORDERED),
    params=_Params,
    wordings="""
        The letters of {word:s} are written on tiles and laid in a row. Tiles with the same letter look alike,
        and a row read from left to right counts as the same as that row read from right to left. How many
        different rows are possible?

        How many distinguishable necklaces, open at both ends, can be strung from beads marked with the letters
        {word:s}, if a string may be turned around and beads with equal letters cannot be told apart?

        Consider all arrangements of the letters {word:s} in a line. Two arrangements are called equal if they
        spell the same, forwards or backwards. Find the number of arrangements no two of which are equal.
    """,
    draw=_draw,
    gold=_gold,
    write=_write,
)
