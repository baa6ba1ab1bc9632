"""The simulated reflector: it answers the three stages of training-free GRPO from their prompts only.

It finds the habits that separate right attempts from wrong ones, or that reasons name (`believing`), and
writes lessons about them in varied wording. It knows the vocabulary of habits but no answers to tasks. It can be wrong,
by its parameters, because a group is small, or because it believes a misleading reason.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import assert_never

from agentlearn_demo.sim.believing import Draw
from agentlearn_demo.sim.comparing import reflector_compare
from agentlearn_demo.sim.consolidating import reflector_consolidate
from agentlearn_demo.sim.draws import fingerprint, random_stream, uniform
from agentlearn_demo.sim.habits import Vocabulary
from agentlearn_demo.sim.lesson_writer import LessonWriter
from agentlearn_demo.sim.malformed import Item, StageAnswer, malformed_answer, well_formed
from agentlearn_demo.sim.reflector_state import ReflectorParameters, ReflectorState
from agentlearn_demo.sim.repairing import reflector_repair, refusals_in
from agentlearn_demo.sim.skills import Skills
from agentlearn_demo.sim.stage_text import (
    ReflectorStage,
    compare_prompt,
    consolidate_prompt,
    summarise_prompt,
    without_reasons,
)
from agentlearn_demo.sim.summarising import reflector_summarise


@dataclass(frozen=True, slots=True)
class ReflectorRequest:
    """Everything that one answer of the reflector depends on."""

    stage: ReflectorStage
    prompt: str
    """The stage's user message."""
    seed: int | str = 0
    earlier: int = 0
    """Number of answers already given in this conversation."""
    refusal: str = ""
    """The later user message that lists refused items; empty if there is none."""
    previous: str = ""
    """The refused answer, as it was sent."""
    malformed: float | None = None
    """Share of malformed replies for this request; None takes the reflector's parameter."""


class Reflector:
    """Answers the three stages; `world` is the seed of its world."""

    def __init__(
        self, skills: Sequence[Skills], *, parameters: ReflectorParameters | None = None, world: int = 0
    ) -> None:
        self._vocabularies = [
            (vocabulary, LessonWriter(vocabulary)) for vocabulary in map(Vocabulary, skills or [_NoSkills()])
        ]
        self._parameters = parameters or ReflectorParameters()
        self._world = world

    def answer(self, request: ReflectorRequest) -> StageAnswer:
        """The stage's answer as text. Equal requests get equal answers."""
        # Without reasons, so that a reason that names no habit changes no draw.
        named = (self._world, request.seed, fingerprint(without_reasons(request.prompt)), request.earlier)
        items = self._items(request, random_stream("items", *named), lambda trap: uniform("belief", *named, trap))
        key = "steps" if request.stage == "summarise" else "proposals"
        chance = random_stream("form", *named)
        rate = self._parameters.malformed if request.malformed is None else request.malformed
        if items and chance.random() < rate:
            return malformed_answer(chance.choice(self._parameters.malformations), key, items, chance)
        return well_formed(key, items)

    def _items(self, request: ReflectorRequest, rng: Random, belief: Draw) -> list[Item]:
        refusals = refusals_in(request.refusal)
        reflector_state = self._state_for(request, rng, belief)
        if not refusals or request.stage == "summarise":
            return _stage_items(request, reflector_state)
        careful = replace(reflector_state, parameters=replace(self._parameters, over_long=0, leaking=0, duplicate=0))
        return reflector_repair(refusals, request.previous, _stage_items(request, careful), careful)

    def _state_for(self, request: ReflectorRequest, rng: Random, belief: Draw) -> ReflectorState:
        """The state for a request, with the domain's vocabulary that fits the prompt best."""
        if len(self._vocabularies) == 1:
            return ReflectorState(*self._vocabularies[0], self._parameters, rng, belief)
        vocabulary, writer = max(
            self._vocabularies, key=lambda reflector_state: _familiarity(reflector_state[0], request)
        )
        return ReflectorState(vocabulary, writer, self._parameters, rng, belief)


def _familiarity(vocabulary: Vocabulary, request: ReflectorRequest) -> tuple[int, int]:
    if request.stage == "consolidate":
        suggestions = consolidate_prompt(request.prompt).suggestions
        return vocabulary.familiarity_of_lessons([one.lesson for one in suggestions])
    return vocabulary.familiarity(request.prompt)


def _stage_items(request: ReflectorRequest, reflector_state: ReflectorState) -> list[Item]:
    match request.stage:
        case "summarise":
            return reflector_summarise(summarise_prompt(request.prompt), reflector_state)
        case "compare":
            return reflector_compare(compare_prompt(request.prompt), reflector_state)
        case "consolidate":
            return reflector_consolidate(consolidate_prompt(request.prompt), reflector_state)
        case _:
            assert_never(request.stage)


class _NoSkills:
    """Empty skills for a reflector without installed domains."""

    domain = ""
    traps = ()
    topics: dict[str, tuple[str, ...]] = {}  # noqa: RUF012  used as a read-only mapping

    def recognise(self, conversation: object) -> None:
        """Recognise nothing."""
