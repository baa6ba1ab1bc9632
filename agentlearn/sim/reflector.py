"""The simulated reflector: it reads only its prompt, and answers the three semantic stages from it.

It finds what separates right attempts from wrong ones in the words before it and says so in varied wording. It knows
the vocabulary of habits, never an answer, and it may be wrong: by its dials, and because a small group misleads.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import assert_never

from agentlearn.sim.comparing import compare
from agentlearn.sim.consolidating import consolidate
from agentlearn.sim.draws import fingerprint, stream
from agentlearn.sim.habits import Vocabulary
from agentlearn.sim.lesson_writer import LessonWriter
from agentlearn.sim.malformed import Item, StageAnswer, spoilt, well_formed
from agentlearn.sim.reflector_state import ReflectorParameters, ReflectorState
from agentlearn.sim.repairing import refusals_in, repair
from agentlearn.sim.skills import Skills
from agentlearn.sim.stage_text import ReflectorStage, compare_prompt, consolidate_prompt, summarise_prompt
from agentlearn.sim.summarising import summarise


@dataclass(frozen=True, slots=True)
class Reflection:
    """Everything one answer of the reflector depends on."""

    stage: ReflectorStage
    prompt: str
    """The user message of the stage."""
    seed: int | str = 0
    earlier: int = 0
    """Answers already given in this conversation."""
    refusal: str = ""
    """The later user message that lists refused items; empty for none."""
    previous: str = ""
    """The answer that it refuses, as it was sent."""
    malformed: float | None = None
    """Share of malformed replies for this request; None takes the dial."""


class Reflector:
    """Answers the three stages."""

    def __init__(
        self, skills: Sequence[Skills], *, parameters: ReflectorParameters | None = None, world: int = 0
    ) -> None:
        self._minds = [
            (vocabulary, LessonWriter(vocabulary)) for vocabulary in map(Vocabulary, skills or [_NoSkills()])
        ]
        self._dials = parameters or ReflectorParameters()
        self._world = world

    def answer(self, reflection: Reflection) -> StageAnswer:
        """The stage's reply as text. Equal reflections get equal replies."""
        named = (self._world, reflection.seed, fingerprint(reflection.prompt), reflection.earlier)
        items = self._items(reflection, stream("items", *named))
        key = "steps" if reflection.stage == "summarise" else "proposals"
        chance = stream("form", *named)
        rate = self._dials.malformed if reflection.malformed is None else reflection.malformed
        if items and chance.random() < rate:
            return spoilt(chance.choice(self._dials.malformations), key, items, chance)
        return well_formed(key, items)

    def _items(self, reflection: Reflection, rng: Random) -> list[Item]:
        refusals = refusals_in(reflection.refusal)
        reflector_state = self._mind(reflection, rng)
        if not refusals or reflection.stage == "summarise":
            return _stage_items(reflection, reflector_state)
        careful = replace(reflector_state, parameters=replace(self._dials, over_long=0, leaking=0, duplicate=0))
        return repair(refusals, reflection.previous, _stage_items(reflection, careful), careful)

    def _mind(self, reflection: Reflection, rng: Random) -> ReflectorState:
        """The vocabulary that has most words for the prompt."""
        if len(self._minds) == 1:
            return ReflectorState(*self._minds[0], self._dials, rng)
        vocabulary, writer = max(self._minds, key=lambda reflector_state: _familiarity(reflector_state[0], reflection))
        return ReflectorState(vocabulary, writer, self._dials, rng)


def _familiarity(vocabulary: Vocabulary, reflection: Reflection) -> tuple[int, int]:
    if reflection.stage == "consolidate":
        suggestions = consolidate_prompt(reflection.prompt).suggestions
        return vocabulary.familiarity_of_lessons([one.lesson for one in suggestions])
    return vocabulary.familiarity(reflection.prompt)


def _stage_items(reflection: Reflection, reflector_state: ReflectorState) -> list[Item]:
    match reflection.stage:
        case "summarise":
            return summarise(summarise_prompt(reflection.prompt), reflector_state)
        case "compare":
            return compare(compare_prompt(reflection.prompt), reflector_state)
        case "consolidate":
            return consolidate(consolidate_prompt(reflection.prompt), reflector_state)
        case _:
            assert_never(reflection.stage)


class _NoSkills:
    """Stands in where no domain gave any: a reflector without a vocabulary."""

    domain = ""
    traps = ()
    topics: dict[str, tuple[str, ...]] = {}  # noqa: RUF012  stands for a read-only mapping

    def recognise(self, conversation: object) -> None:
        """Nothing is recognised."""
