"""Ways to pay an amount of dollars and cents with three kinds of coins."""

from dataclasses import dataclass
from random import Random

from agentlearn_demo.math.family import ORDERED, UNITS, ZERO, Choices, Family


@dataclass(frozen=True)
class _Params:
    dollars: int
    cents: int
    small: int
    middle: int
    large: int


def _draw(rng: Random) -> _Params:
    small, middle, large = sorted(rng.sample((5, 10, 20, 25, 50), 3))
    return _Params(dollars=rng.randint(1, 3), cents=rng.randint(1, 19) * 5, small=small, middle=middle, large=large)


def _gold(p: _Params) -> str:
    amount = 100 * p.dollars + p.cents
    ways = [1] + [0] * amount
    for coin in (p.small, p.middle, p.large):
        for paid in range(coin, amount + 1):
            ways[paid] += ways[paid - coin]
    return str(ways[amount])


def _write(p: _Params, choices: Choices) -> str:
    amount = choices.pick(UNITS, "100 * dollars + cents", "dollars + cents")
    least = choices.pick(ZERO, "0", "1")
    weight = choices.pick(ORDERED, "1", "comb(i + j + k, k) * comb(i + j, j)")
    return f"""
        from math import comb

        dollars, cents = {p.dollars}, {p.cents}
        {choices.note(UNITS)}
        amount = {amount}
        {choices.note(ZERO)}
        least = {least}
        ways = 0
        for i in range(least, amount // {p.large} + 1):
            for j in range(least, (amount - {p.large} * i) // {p.middle} + 1):
                k, rest = divmod(amount - {p.large} * i - {p.middle} * j, {p.small})
                if rest == 0 and k >= least:
                    {choices.note(ORDERED)}
                    ways += {weight}
        print(ways)
    """


FAMILY = Family(
    name="coin_payment",
    topics=("coin", "dollar", "payment"),
    traps=(UNITS, ZERO, ORDERED),
    params=_Params,
    wordings="""
        In how many ways can {dollars} dollars and {cents} cents be paid with coins of {small}, {middle} and
        {large} cents? Not every kind of coin has to be used, and only the number of coins of each kind matters.

        A machine pays out {dollars} dollars and {cents} cents in coins worth {small}, {middle} or {large}
        cents. How many different collections of coins, possibly without some of the kinds, make up this
        payment?

        Coins are worth {small} cents, {middle} cents and {large} cents. Find the number of multisets of these
        coins with the total value {dollars} dollars and {cents} cents.
    """,
    draw=_draw,
    gold=_gold,
    write=_write,
)
