"""How often a digit is written in a run of integers."""

from dataclasses import dataclass
from random import Random

from agentlearn_demo.math.family import ENDPOINTS, MULTIPLICITY, Choices, Family


@dataclass(frozen=True)
class _Params:
    digit: int
    low: int
    high: int


def _draw(rng: Random) -> _Params:
    digit, low = rng.randint(1, 9), rng.randint(1, 300)
    high = low + rng.randint(100, 1500)
    while str(digit) not in str(high):
        high += 1
    return _Params(digit=digit, low=low, high=high)


def _gold(p: _Params) -> str:
    def written_up_to(n: int) -> int:
        total, unit = 0, 1
        while unit <= n:
            above, here, below = n // (10 * unit), n // unit % 10, n % unit
            total += above * unit + (unit if here > p.digit else below + 1 if here == p.digit else 0)
            unit *= 10
        return total

    return str(written_up_to(p.high) - written_up_to(p.low - 1))


def _write(p: _Params, choices: Choices) -> str:
    last = choices.pick(ENDPOINTS, "high + 1", "high")
    times = choices.pick(MULTIPLICITY, "str(n).count(digit)", "digit in str(n)")
    return f"""
        digit, low, high = "{p.digit}", {p.low}, {p.high}
        {choices.note(ENDPOINTS)}
        numbers = range(low, {last})
        {choices.note(MULTIPLICITY)}
        print(sum({times} for n in numbers))
    """


FAMILY = Family(
    name="digit_writing",
    topics=("digit",),
    traps=(ENDPOINTS, MULTIPLICITY),
    params=_Params,
    wordings="""
        How many times is the digit {digit} written when all integers from {low} to {high}, inclusive, are
        written down?

        The pages {low} through {high} of an archive, first and last page included, are stamped with their
        numbers. How often does the stamp print the digit {digit}?

        All integers $n$ with {low} <= n <= {high} are written in decimal notation. Find the total number of
        digits equal to {digit}.
    """,
    draw=_draw,
    gold=_gold,
    write=_write,
)
