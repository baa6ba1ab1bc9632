"""A family of generated problems: its wordings, its exact answers, and right and wrong programs for it.

The fields of a family's parameters fill the fields of its wordings; a wording used as a pattern recognises the problem.
`Choices` says which traps a program falls into; each choice changes the code, not just a comment. A drawn problem is
kept only if every trap shows: all its wrong programs print something other than the answer.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from io import StringIO
from itertools import combinations
from random import Random
from string import Formatter
from textwrap import dedent
from typing import Generic, TypeVar

from agentlearn_math.answers import answer_key

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

MAX_DRAWS = 2_000
"""Refused draws in a row after which a family counts as used up."""

P = TypeVar("P")


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


@dataclass(frozen=True)
class Family(Generic[P]):
    """One kind of problem. P is a frozen dataclass of int and str fields, one per field of the wordings."""

    name: str
    topics: tuple[str, ...]
    """Word stems with which a lesson names this kind of problem."""
    traps: tuple[str, ...]
    """Names of the two to four traps in it."""
    params: Callable[..., P]
    wordings: str
    """Format strings separated by blank lines; `{n}` is an integer, `{word:s}` capital letters."""
    draw: Callable[[Random], P]
    """Draw a problem; some of its traps may not show yet."""
    gold: Callable[[P], str]
    """Return the exact answer, computed differently from the programs."""
    write: Callable[[P, Choices], str]
    """Return the program; its indentation is removed later."""

    def generate(self, rng: Random, wanted: Callable[[P], bool] = lambda _: True) -> P | None:
        """Return a wanted problem in which every trap shows; None after MAX_DRAWS refused draws in a row."""
        for _ in range(MAX_DRAWS):
            params = self.draw(rng)
            if wanted(params) and self.shows_every_trap(params):
                return params
        return None

    def ask(self, params: P, rng: Random) -> str:
        """Return the problem in one of the wordings."""
        return rng.choice(self.templates).format_map(vars(params))

    def recognise(self, text: str) -> P | None:
        """Return the problem that the text states; None when it is not of this family."""
        for pattern in self._patterns:
            if found := pattern.search(text):
                values = {name: _value(word) for name, word in found.groupdict().items()}
                return self.params(**values)
        return None

    def program(self, params: P, flaws: frozenset[str] = frozenset(), notes: Mapping[str, str] | None = None) -> str:
        """Return a Python program that prints its answer, with exactly these flaws. notes: as in `Choices`."""
        return dedent(self.write(params, Choices(flaws, notes or {}))).strip() + "\n"

    def shows_every_trap(self, params: P) -> bool:
        """Whether the right program prints the answer and no wrong one does."""
        gold = self.gold(params)
        wrong = (printed(self.program(params, flaws)) for flaws in combinations_of(self.traps))
        return printed(self.program(params)) == gold and all(answer_key(text) != gold for text in wrong)

    @cached_property
    def templates(self) -> tuple[str, ...]:
        """The wordings, each as a single line."""
        return tuple(" ".join(wording.split()) for wording in self.wordings.split("\n\n"))

    @cached_property
    def _patterns(self) -> tuple[re.Pattern[str], ...]:
        return tuple(_pattern(wording) for wording in self.templates)


def combinations_of(traps: tuple[str, ...]) -> Iterator[frozenset[str]]:
    """Yield every non-empty set of the traps."""
    return (frozenset(some) for size in range(1, len(traps) + 1) for some in combinations(traps, size))


def printed(program: str) -> str:
    """Return what one of our own programs prints, run in this process. Never for a program that a model wrote."""
    output = StringIO()
    exec(compile(program, "<program>", "exec"), {"print": partial(print, file=output)})  # noqa: S102  our own text
    return output.getvalue().strip()


def _pattern(wording: str) -> re.Pattern[str]:
    parts: list[str] = []
    seen: set[str] = set()
    for literal, name, kind, _ in Formatter().parse(wording):
        parts.append(r"\s+".join(re.escape(word) for word in re.split(r"\s+", literal)))
        if name is not None:
            value = "[A-Z]+" if kind == "s" else "-?[0-9]{1,400}"
            parts.append(f"(?P={name})" if name in seen else f"(?P<{name}>{value})")
            seen.add(name)
    return re.compile("".join(parts))


def _value(word: str) -> int | str:
    return word if word.isalpha() else int(word)
