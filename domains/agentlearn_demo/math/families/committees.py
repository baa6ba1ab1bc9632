"""Committees with at least some members of one group."""

from dataclasses import dataclass
from math import comb
from random import Random

from agentlearn_demo.math.family import ENDPOINTS, ORDERED, Choices, Family


@dataclass(frozen=True)
class _Params:
    women: int
    men: int
    size: int
    least: int


def _draw(rng: Random) -> _Params:
    size = rng.randint(3, 4)
    return _Params(women=rng.randint(3, 7), men=rng.randint(2, 5), size=size, least=rng.randint(1, size - 1))


def _gold(p: _Params) -> str:
    return str(sum(comb(p.women, k) * comb(p.men, p.size - k) for k in range(p.least, p.size + 1)))


def _write(p: _Params, choices: Choices) -> str:
    groups = choices.pick(ORDERED, "combinations", "permutations")
    enough = choices.pick(ENDPOINTS, ">=", ">")
    return f"""
        from itertools import combinations, permutations

        people = "w" * {p.women} + "m" * {p.men}
        {choices.note(ORDERED)}
        groups = {groups}(people, {p.size})
        {choices.note(ENDPOINTS)}
        print(sum(1 for group in groups if group.count("w") {enough} {p.least}))
    """


FAMILY = Family(
    name="committees",
    topics=("committee", "delegat"),
    traps=(ORDERED, ENDPOINTS),
    params=_Params,
    wordings="""
        From {women} women and {men} men a committee of {size} people is chosen. How many committees include at
        least {least} of the women?

        A choir of {women} sopranos and {men} basses sends a delegation of {size} singers. Find the number of
        possible delegations with {least} or more sopranos.

        How many groups of {size} students can be formed from {women} seniors and {men} juniors so that the
        number of seniors in the group is not below {least}?
    """,
    draw=_draw,
    gold=_gold,
    write=_write,
)
