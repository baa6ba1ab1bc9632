"""Sealed worlds that only an instruction can teach: a made-up shop with rules, and a simulated model that reads them.

An order names one to three goods; its answer is the code of the route of each. Nobody can guess a code. The simulated
model follows the first sentence of its instructions that names a good, whatever it says, and slips now and then. As a
reflector it knows what an expected answer shows about a good, and errs as often as the world says: then it names
another code, or says something of no use. It has the same knowledge in every format that a learner asks for.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random

GOODS = ("glass", "paper", "honey", "copper", "salt", "wool", "lamps", "seeds", "bricks", "paint", "cheese", "rope")
SLIP = 0.05
"""Probability that the simulated model answers `none` for a good whose code it has read."""
_SENTENCE = re.compile(r"Orders with (\w+) go by route (\w+)\.")
START = "You name the routes of an order, in the order of its goods, with one space between them. Say nothing else.\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """How the reflector errs in a kind of world."""

    name: str
    wrong: float = 0.0
    """Probability that a sentence which it writes about a good names another code."""
    idle: float = 0.1
    """Probability that it adds a sentence of no use."""
    forgets: float = 0.0
    """Probability that it leaves a sentence out when it writes the instructions anew."""


KINDS = (
    Kind(name="clean"),
    Kind(name="30 % wrong", wrong=0.3),
    Kind(name="60 % wrong", wrong=0.6),
    Kind(name="forgets", wrong=0.1, forgets=0.1),
)


def said(instructions: str) -> dict[str, str]:
    """What instructions say about each good: the first sentence about it counts."""
    found: dict[str, str] = {}
    for good, code in _SENTENCE.findall(instructions):
        found.setdefault(good, code)
    return found


def sentence(good: str, code: str) -> str:
    """A rule as a sentence."""
    return f"Orders with {good} go by route {code}."


def goods_in(problem: str) -> list[str]:
    """The goods of an order."""
    return re.findall(r"\b(?:" + "|".join(GOODS) + r")\b", problem)


@dataclass
class World:
    """One world, drawn by its seed."""

    kind: Kind
    seed: int
    calls: int = 0
    """Calls of the simulated model so far, of any kind."""
    codes: Mapping[str, str] = field(init=False)
    """The code of each good."""
    _random: Random = field(init=False)

    def __post_init__(self) -> None:
        draw = Random(f"world {self.kind.name} {self.seed}")
        self.codes = {good: self._code(draw) for good in GOODS}
        self._random = Random(f"model {self.kind.name} {self.seed}")

    @staticmethod
    def _code(draw: Random) -> str:
        return f"{draw.choice('BCDFGHKLMNPRT')}{draw.randint(2, 9)}{draw.choice('aeiou')}"

    @cached_property
    def start(self) -> str:
        """The instructions to start from: two rules are there already, and one of them is wrong."""
        right, wrong = Random(f"start {self.seed}").sample(GOODS, 2)
        other = self._code(Random(f"other {self.seed}"))
        return f"{START}\n{sentence(right, self.codes[right])}\n{sentence(wrong, other)}\n"

    def tasks(self, number: int, part: str) -> list[tuple[str, str]]:
        """Orders with their answers."""
        draw, made = Random(f"{part} {self.seed}"), dict[str, str]()
        while len(made) < number:
            goods = draw.sample(GOODS, draw.randint(1, 3))
            made[f"Order {part}-{draw.randint(1000, 9999)}: {', '.join(goods)}."] = self.answer(goods)
        return list(made.items())

    def answer(self, goods: Iterable[str]) -> str:
        """The right answer for goods in this order."""
        return " ".join(self.codes[good] for good in goods)

    def solve(self, instructions: str, problem: str) -> str:
        """The simulated model's answer. One call."""
        self.calls += 1
        known = said(instructions)
        return " ".join(
            "none" if good not in known or self._random.random() < SLIP else known[good] for good in goods_in(problem)
        )

    def score(self, instructions: str, tasks: Sequence[tuple[str, str]]) -> float:
        """The share of tasks that a model solves which follows instructions without slips."""
        known = said(instructions)
        return sum(
            " ".join(known.get(one, "none") for one in goods_in(problem)) == gold for problem, gold in tasks
        ) / len(tasks)

    def learned(self, instructions: str, problem: str, gold: str) -> list[tuple[str, str]]:
        """What the reflector concludes from a task: (the sentence that it wants replaced, or nothing; a sentence)."""
        known, found = said(instructions), list[tuple[str, str]]()
        for good, code in zip(goods_in(problem), gold.split(), strict=True):
            if known.get(good) == code:
                continue
            wrong = self._random.random() < self.kind.wrong
            new = sentence(good, self._code(self._random) if wrong else code)
            found.append((sentence(good, known[good]) if good in known else "", new))
        if self._random.random() < self.kind.idle:
            found.append(("", f"Read the order {self._random.choice(['twice', 'slowly', 'to its end'])} first."))
        return found

    def rewritten(self, instructions: str, conclusions: Iterable[tuple[str, str]]) -> str:
        """The instructions written anew with conclusions; a forgetful reflector leaves sentences out."""
        for old, new in conclusions:
            if old:
                instructions = instructions.replace(old, new, 1)
            elif new not in instructions:
                instructions = f"{instructions.rstrip()}\n{new}\n"
        lines = instructions.split("\n")
        return "\n".join(
            one for one in lines if not _SENTENCE.search(one) or self._random.random() >= self.kind.forgets
        )
