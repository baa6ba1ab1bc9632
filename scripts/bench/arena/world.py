"""Sealed worlds that only a text can teach: a made-up shop with rules, and a simulated model that reads them.

An order names one to three goods; its answer is the code of the route of each, in their order. The simulated model
follows what its text says about a good: what is said most often, of that the last. Of a good that the text does not
name it knows the code at times. It takes rules from examples too, for goods on which no sentence is. As a reflector it
knows what an expected answer shows about a good, and errs as often as the world says.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from scripts.bench.arena.proxy import Conclusion, Task

GOODS = ("glass", "paper", "honey", "copper", "salt", "wool", "lamps", "seeds", "bricks", "paint")
TRAIN, CHOOSE, HELD_OUT = 25, 15, 200
SLIP, LUCK = 0.03, 0.3
"""Probabilities that the model does not do what it has read about a good, and that it knows a good by itself."""
RIGHT, WRONG = 3, 2
"""Rules that the text says rightly and wrongly at the start."""
LATE = 120
"""Calls after which the reflector of late harm errs."""
_SENTENCE = re.compile(r"\b(?:(Sea|Land) o|O)rders with (\w+) go by route (\w+)\.")
_EXAMPLE = re.compile(r"^(.*rder [\w-]+: [\w, ]+\.) -> ([\w ]+)$", re.MULTILINE)
_ORDER = re.compile(r"(?:(Sea|Land) o|O)rder [\w-]+: ([\w, ]+)\.")
HEAD = "You name the routes of an order, in the order of its goods, with one space between them. Say nothing else.\n"
Good = tuple[str, str]
"""The kind of an order (empty if there is only one) and a good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """How rules and reflector are in a kind of world."""

    name: str
    wrong: float = 0.0
    """Probability that a conclusion is harmful: another code, or another code for a good that the text had right."""
    late: float = 0.0
    """The same after LATE calls."""
    idle: float = 0.1
    """Probability of a sentence of no use."""
    pairs: int = 0
    """Pairs of goods that the model mixes up, so that both fail, if its text names just one of them."""
    opposite: int = 0
    """Goods whose orders by sea go by another route than those by land."""


KINDS = (
    Kind(name="clean"),
    Kind(name="30 % harmful", wrong=0.3),
    Kind(name="60 % harmful", wrong=0.6),
    Kind(name="rules that interact", wrong=0.1, pairs=2),
    Kind(name="late harm", late=0.9),
    Kind(name="opposite families", wrong=0.1, opposite=5),
)


@dataclass
class World:
    """One world, drawn by its seed. Implements `Ground`."""

    kind: Kind
    seed: int
    exact: bool = True
    train: Sequence[Task] = field(init=False)
    choose: Sequence[Task] = field(init=False)
    codes: dict[Good, str] = field(init=False)
    pairs: dict[str, str] = field(init=False)
    _random: Random = field(init=False)

    def __post_init__(self) -> None:
        draw = Random(f"world {self.kind.name} {self.seed}")
        goods = draw.sample(GOODS, len(GOODS))
        both = {good: _code(draw) for good in goods}
        other = {good: _code(draw) if at < self.kind.opposite else both[good] for at, good in enumerate(goods)}
        families = {"Sea": both, "Land": other} if self.kind.opposite else {"": both}
        self.codes = {(family, good): code for family, codes in families.items() for good, code in codes.items()}
        unknown = goods[RIGHT + WRONG :]
        self.pairs = {}
        for at in range(self.kind.pairs):
            one, two = unknown[2 * at : 2 * at + 2]
            self.pairs |= {one: two, two: one}
        said = [(good, both[good]) for good in goods[:RIGHT]]
        said += [(good, _code(draw)) for good in goods[RIGHT : RIGHT + WRONG]]
        self.name = self.kind.name
        self.start = "\n".join([HEAD, *(sentence("", *one) for one in said)]) + "\n"
        self.person = "\n".join([HEAD, *(sentence(*at, code) for at, code in self.codes.items())]) + "\n"
        self.train, self.choose = self._tasks(TRAIN, "learn"), self._tasks(CHOOSE, "choose")
        self._held_out = [self._read(problem) for problem, _ in self._tasks(HELD_OUT, "test")]
        self._random = Random(f"model {self.kind.name} {self.seed}")

    def _tasks(self, number: int, part: str) -> list[Task]:
        draw, made = Random(f"{part} {self.kind.name} {self.seed}"), dict[str, str]()
        while len(made) < number:
            goods, family = draw.sample(GOODS, draw.randint(1, 3)), draw.choice(["Sea", "Land"])
            word = f"{family} order" if self.kind.opposite else "Order"
            problem = f"{word} {part}-{draw.randint(1000, 9999)}: {', '.join(goods)}."
            made[problem] = " ".join(self.codes[at] for at in self._read(problem))
        return list(made.items())

    def _read(self, problem: str) -> list[Good]:
        found = _ORDER.search(problem)
        assert found, problem
        return [(found[1] or "", good) for good in found[2].split(", ")]

    def solve(self, text: str, problem: str) -> str:
        """Answer an order."""
        known, codes = self._known(text), list[str]()
        for at in self._read(problem):
            right = self._random.random() < self._chance(known, at)
            code = known.get(at) or "none"
            codes.append(self.codes[at] if right else code if code != self.codes[at] else "none")
        return " ".join(codes)

    def right(self, answer: str, gold: str) -> bool:
        """Whether the codes are the same."""
        return answer.split() == gold.split()

    def score(self, text: str) -> float:
        """The expected share of held-out orders that are answered rightly."""
        known, total = self._known(text), 0.0
        for order in self._held_out:
            share = 1.0
            for at in order:
                share *= self._chance(known, at)
            total += share
        return total / len(self._held_out)

    def _known(self, text: str) -> dict[Good, str]:
        told: dict[Good, list[str]] = {}
        for family, good, code in _SENTENCE.findall(text):
            told.setdefault((family, good), []).append(code)
        examples = [(self._read(order), answer.split()) for order, answer in _EXAMPLE.findall(text)]
        pairs = (pair for order, codes in examples for pair in zip(order, codes, strict=False))
        shown = {at: code for at, code in pairs if code != "none"}
        said = {at: max(reversed(codes), key=Counter(codes).__getitem__) for at, codes in told.items()}
        known: dict[Good, str] = {}
        for family, good in self.codes:
            # A sentence on one kind of orders goes before one on all; an example counts where no sentence does.
            for code in (said.get((family, good)), said.get(("", good)), shown.get((family, good))):
                if code:
                    known[family, good] = code
                    break
        return known

    def _chance(self, known: dict[Good, str], at: Good) -> float:
        """Probability that a good's code is right."""
        partner = self.pairs.get(at[1])
        if partner and (at in known) != ((at[0], partner) in known):
            return 0.0
        return LUCK if at not in known else 1 - SLIP if known[at] == self.codes[at] else 0.0

    def learned(self, text: str, task: Task, calls: int) -> list[Conclusion]:
        """Sentences on the goods of an order that the text does not say rightly, some of them harmful."""
        known, found, draw = self._known(text), list[Conclusion](), self._random
        late = calls > LATE and self.kind.late > 0
        wrong = self.kind.late if late else self.kind.wrong
        for at in self._read(task[0]):
            fails = known.get(at) != self.codes[at]
            if not fails and not (late and draw.random() < 0.2):  # it takes a slip for a rule
                continue
            family, good, code = at[0] if draw.random() < 0.5 else "", at[1], self.codes[at]
            if draw.random() < wrong:
                said_rightly = [one for one in known if known[one] == self.codes[one]]
                good = draw.choice(said_rightly)[1] if said_rightly and draw.random() < 0.5 else good
                code = _code(draw)
            found.append((self._sentence_on(text, good, family), sentence(family, good, code)))
        if draw.random() < self.kind.idle:
            found.append(("", f"Read the order {draw.choice(['twice', 'slowly', 'to its end'])} first."))
        return found

    @staticmethod
    def _sentence_on(text: str, good: str, family: str) -> str:
        said = [one for one in _SENTENCE.finditer(text) if (one[1] or "", one[2]) == (family, good)]
        return said[-1][0] if said else ""

    def about(self, sentence: str) -> str:
        """The kind of orders and the good that a sentence is about."""
        found = _SENTENCE.search(sentence)
        return f"{found[1] or ''} {found[2]}" if found else ""


def sentence(family: str, good: str, code: str) -> str:
    """A rule as a sentence."""
    return f"{family + ' o' if family else 'O'}rders with {good} go by route {code}."


def _code(draw: Random) -> str:
    return f"{draw.choice('BCDFGHKLMNPRT')}{draw.randint(2, 9)}{draw.choice('aeiou')}"
