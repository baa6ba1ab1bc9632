"""The law of the simulated solver: how probable each trap is, given the lessons in context.

This is the whole truth about the solver, kept apart from its draws, so that an oracle can state it exactly. Traps act
independently given the library, but for the declared `INTERACTIONS`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentlearn.sim.draws import uniform
from agentlearn.sim.lessons import LessonReader, ReadLesson

TEMPERATURE = 0.7
"""Where a trap's base rate is stated; also taken for a request that names no temperature."""
COLD = 0.85
"""Scale of every probability at temperature 0."""
HEEDED = 0.04
CONTRADICTED = 0.8
CEILING = 0.95
BASE_SHIFT = 0.05
"""Each world moves each trap's base rate by at most this much."""
FREE_IRRELEVANT = 20
"""Irrelevant lessons that cost nothing."""
IRRELEVANT_COST = 0.004
FREE_TOKENS = 2_000
"""Estimated tokens of lessons that cost nothing."""
THOUSAND_TOKENS_COST = 0.02

INTERACTIONS: Mapping[tuple[str, str], float] = {
    # Checking a small case by hand also shows a missing end and a wrong order.
    ("small_case_unchecked", "endpoints_left_out"): 0.7,
    ("small_case_unchecked", "ordered_for_unordered"): 0.7,
    # Who keeps fractions exact is nearer to reducing them.
    ("float_for_exact", "fraction_not_reduced"): 0.8,
    # Who has learnt to drop repeats drops those that count.
    ("distinct_ignored", "multiplicity_ignored"): 1.3,
}
"""(trap that a lesson keeps one out of, other trap): factor on the other's probability."""


@dataclass(frozen=True, slots=True)
class Heed:
    """What the lessons in context say about one trap."""

    by: int | None = None
    """Place of the first lesson that addresses it."""
    contradicted: bool = False

    @property
    def safe(self) -> bool:
        """Addressed, and by no lesson contradicted."""
        return self.by is not None and not self.contradicted


def scale(temperature: float | None) -> float:
    """How temperature moves every probability: 0.85 at 0, 1 at 0.7, and on along that line."""
    return COLD + (1 - COLD) * (TEMPERATURE if temperature is None else max(temperature, 0.0)) / TEMPERATURE


def bloat(irrelevant: int, tokens: int) -> float:
    """What a crowded context adds to every trap's probability."""
    crowd = IRRELEVANT_COST * max(0, irrelevant - FREE_IRRELEVANT)
    return crowd + THOUSAND_TOKENS_COST * max(0, tokens - FREE_TOKENS) / 1_000


@dataclass(frozen=True)
class TrapModel:
    """One world's law for one domain's traps."""

    reader: LessonReader
    world: int
    """The world's seed: another one is another novice."""

    def base(self, trap: str) -> float:
        """The trap's probability in this world without a lesson, at temperature 0.7."""
        shift = BASE_SHIFT * (2 * uniform("base", self.world, trap) - 1)
        return min(max(self.reader.traps[trap].base + shift, 0.0), CEILING)

    def heeds(self, traps: Sequence[str], family: str, lessons: Sequence[str]) -> dict[str, Heed]:
        """What the lessons say about each of the traps in that family."""
        read = [self.reader.read(lesson) for lesson in lessons]
        return {trap: _heed(trap, family, read) for trap in traps}

    def probabilities(
        self, traps: Sequence[str], family: str, lessons: Sequence[str], temperature: float | None
    ) -> dict[str, float]:
        """The probability of falling into each trap of a situation; the draws are independent."""
        read = [self.reader.read(lesson) for lesson in lessons]
        irrelevant = sum(all(lesson.on(trap, family) == "silent" for trap in traps) for lesson in read)
        weight = bloat(irrelevant, sum(lesson.tokens for lesson in read))
        warmth = scale(temperature)

        def probability(trap: str) -> float:
            level = self._level(trap, _heed(trap, family, read))
            for (cause, effect), factor in INTERACTIONS.items():
                if effect == trap and cause in self.reader.traps and _heed(cause, family, read).safe:
                    level *= factor
            return min(level * warmth + weight, CEILING)

        return {trap: probability(trap) for trap in traps}

    def _level(self, trap: str, heed: Heed) -> float:
        if heed.contradicted:
            return CONTRADICTED if heed.by is None else (HEEDED + CONTRADICTED) / 2
        return self.base(trap) if heed.by is None else HEEDED


def _heed(trap: str, family: str, lessons: Sequence[ReadLesson]) -> Heed:
    sayings = [lesson.on(trap, family) for lesson in lessons]
    by = sayings.index("addresses") if "addresses" in sayings else None
    return Heed(by, "contradicts" in sayings)
