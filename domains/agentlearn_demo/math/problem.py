"""What every family of generated problems can do: draw a problem, ask it, recognise it, and write programs for it."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from io import StringIO
from itertools import combinations
from random import Random
from textwrap import dedent
from typing import ClassVar, Self

from agentlearn.types.ids import content_hash
from agentlearn.types.task import Split
from agentlearn_demo.demos import pattern_of, templates
from agentlearn_math.verify import answer_key


class Flaw:
    """Names of the traps."""

    ENDPOINTS = "endpoints_left_out"
    ORDERED = "ordered_for_unordered"
    UNREDUCED = "fraction_not_reduced"
    BOUND = "search_bound_too_small"
    FLOATS = "float_for_exact"
    DISTINCT = "distinct_ignored"
    MULTIPLICITY = "multiplicity_ignored"
    ZERO = "zero_case_forgotten"
    UNITS = "unit_mixed_up"
    FORM = "wrong_answer_form"
    UNCHECKED = "small_case_unchecked"


_SHARES: tuple[Split, ...] = ("train", "validation", "test", "train", "test")
"""Two fifths of all problems belong to train and two fifths to test."""
MAX_DRAWS = 2_000
"""Refused draws in a row after which a family counts as used up."""


@dataclass(frozen=True, slots=True)
class Choices:
    """Which decisions a program gets wrong, and the comment on each."""

    flaws: frozenset[str] = frozenset()
    notes: Mapping[str, str] = field(default_factory=dict[str, str])
    """Comment by trap name; a trap without an entry is commented with its name."""

    def pick(self, trap: str, careful: str, careless: str) -> str:
        """Return the code for one decision."""
        return careless if trap in self.flaws else careful

    def note(self, trap: str) -> str:
        """Return the comment line that shows the decision."""
        return f"# {self.notes.get(trap, trap)}"


class Problem(ABC):
    """A problem. Each family is a frozen dataclass of int fields, one per field of its wordings."""

    name: ClassVar[str]
    topics: ClassVar[tuple[str, ...]]
    """Word stems with which a lesson names this kind of problem."""
    traps: ClassVar[tuple[str, ...]]
    """Names of the two or three traps in it."""
    wordings: ClassVar[str]
    """Format strings separated by blank lines."""

    @classmethod
    @abstractmethod
    def draw(cls, rng: Random) -> Self:
        """Draw a problem; some of its traps may not show yet."""

    @abstractmethod
    def gold(self) -> str:
        """Return the exact answer, computed differently from the programs."""

    @abstractmethod
    def code(self, choices: Choices) -> str:
        """Return the program; its indentation is removed later."""

    @classmethod
    def generate(cls, rng: Random, wanted: Callable[[Self], bool] = lambda _: True) -> Self | None:
        """Return a wanted problem in which every trap shows; None after MAX_DRAWS refused draws in a row."""
        drawn = (cls.draw(rng) for _ in range(MAX_DRAWS))
        return next((one for one in drawn if wanted(one) and one.shows_every_trap()), None)

    @classmethod
    def recognise(cls, text: str) -> Self | None:
        """Return the problem that the text states; None when it is not of this family."""
        found = next(filter(None, (pattern.search(text) for pattern in _patterns(cls.wordings))), None)
        return cls(**{name: int(number) for name, number in found.groupdict().items()}) if found else None

    @property
    def home(self) -> Split:
        """The only split that may contain this problem."""
        return _SHARES[int(content_hash("home", self.name, vars(self))[:8], 16) % len(_SHARES)]

    def ask(self, rng: Random) -> str:
        """Return the problem in one of the wordings."""
        return rng.choice(templates(self.wordings)).format_map(vars(self))

    def program(self, flaws: frozenset[str] = frozenset(), notes: Mapping[str, str] | None = None) -> str:
        """Return a Python program that prints its answer, with exactly these flaws. notes: as in `Choices`."""
        return dedent(self.code(Choices(flaws, notes or {}))).strip() + "\n"

    def shows_every_trap(self) -> bool:
        """Whether the right program prints the answer and no wrong one does."""
        gold = self.gold()
        wrong = (printed(self.program(flaws)) for flaws in combinations_of(self.traps))
        return printed(self.program()) == gold and all(answer_key(text) != gold for text in wrong)


def combinations_of(traps: tuple[str, ...]) -> Iterator[frozenset[str]]:
    """Yield every non-empty set of the traps."""
    return (frozenset(some) for size in range(1, len(traps) + 1) for some in combinations(traps, size))


def printed(program: str) -> str:
    """Return what one of our own programs prints, run in this process. Never for a program that a model wrote."""
    output = StringIO()
    exec(compile(program, "<program>", "exec"), {"print": partial(print, file=output)})  # noqa: S102  our own text
    return output.getvalue().strip()


@cache
def _patterns(wordings: str) -> tuple[re.Pattern[str], ...]:
    return tuple(pattern_of(wording, "-?[0-9]{1,400}", loose=True) for wording in templates(wordings))
