"""Stage 2 of the simulated reflector: which habits set the wrong attempts apart, and what to tell the next ones."""

from collections.abc import Sequence
from dataclasses import dataclass

from agentlearn.sim.habits import Habit
from agentlearn.sim.lesson_writer import LessonSource
from agentlearn.sim.malformed import Item
from agentlearn.sim.neutral import neutral_lessons
from agentlearn.sim.reflector_state import ReflectorState
from agentlearn.sim.skills import Trap
from agentlearn.sim.stage_text import ComparePrompt

MAX_PROPOSALS = 3
SUSPICIOUS = 0.25
"""A habit's surplus among the wrong attempts, from which on it counts."""
NEAR_THE_TOP = 0.6
"""Habits this close to the most suspicious one are taken up too."""
REFINES = 0.25
"""How often a lesson that was there, and did not help, is put in other words."""
WIDENS = 0.8
"""How often a lesson tied to one topic is made general, rather than another one added."""
DELETES = 0.5
"""How often a misleading lesson is deleted rather than turned round."""


@dataclass(frozen=True, slots=True)
class _Seen:
    right: bool
    habits: tuple[Habit, ...]


def compare(prompt: ComparePrompt, reflector_state: ReflectorState) -> list[Item]:
    """At most three proposals, those on the most suspicious habits first."""
    seen = [_Seen(one.right, reflector_state.vocabulary.habits_in(one.text)) for one in prompt.attempts]
    source = LessonSource(prompt.problem, prompt.gold)
    items = [
        item
        for trap in _suspects(seen, reflector_state.vocabulary.traps)
        for item in _proposals(trap, prompt, source, reflector_state)
    ]
    return _distinct_targets(items or _at_a_loss(reflector_state))[:MAX_PROPOSALS]


def _suspects(seen: Sequence[_Seen], traps: Sequence[Trap]) -> list[Trap]:
    right = [one.habits for one in seen if one.right]
    wrong = [one.habits for one in seen if not one.right]
    if not right or not wrong:
        return []
    surplus = {
        trap.name: _share(trap, wrong, careless=True)
        - _share(trap, right, careless=True)
        + _share(trap, right, careless=False)
        - _share(trap, wrong, careless=False)
        for trap in traps
    }
    bar = max(SUSPICIOUS, NEAR_THE_TOP * max(surplus.values(), default=0.0))
    by_surplus = sorted(traps, key=lambda trap: (-surplus[trap.name], trap.name))
    return [trap for trap in by_surplus if surplus[trap.name] >= bar]


def _share(trap: Trap, attempts: Sequence[Sequence[Habit]], *, careless: bool) -> float:
    """The share of attempts that show the trap's habit."""
    showing = sum(any(one.trap == trap.name and one.careless == careless for one in habits) for habits in attempts)
    return showing / len(attempts)


def _proposals(trap: Trap, prompt: ComparePrompt, source: LessonSource, reflector_state: ReflectorState) -> list[Item]:
    known = reflector_state.sayings(trap.name, prompt.experiences)
    defect = reflector_state.defect()
    lesson = reflector_state.lesson(trap, source, defect)
    draw = reflector_state.rng.random()
    if known.against:
        return _against(known.against[0], lesson, has_better=bool(known.general), deletes=draw < DELETES)
    if known.general:
        if defect == "duplicate":
            return [{"op": "add", "lesson": lesson}]
        return [{"op": "modify", "target": known.general[0], "lesson": lesson}] if draw < REFINES else []
    if known.narrow and draw < WIDENS:
        return [{"op": "modify", "target": known.narrow[0], "lesson": lesson}]
    adds: list[Item] = [{"op": "add", "lesson": lesson}]
    return (
        [*adds, {"op": "add", "lesson": reflector_state.writer.lesson(trap, reflector_state.rng)}]
        if defect == "duplicate"
        else adds
    )


def _against(label: str, lesson: str, *, has_better: bool, deletes: bool) -> list[Item]:
    """What to do about a lesson that led attempts astray."""
    if not deletes:
        return [{"op": "modify", "target": label, "lesson": lesson}]
    delete: Item = {"op": "delete", "target": label}
    return [delete] if has_better else [delete, {"op": "add", "lesson": lesson}]


def _at_a_loss(reflector_state: ReflectorState) -> list[Item]:
    """Nothing set the attempts apart in words it knows: mostly silence, sometimes a platitude."""
    if reflector_state.rng.random() >= reflector_state.parameters.useless:
        return []
    platitude = next(
        neutral_lessons(reflector_state.rng, lambda lesson: not reflector_state.vocabulary.reader.read(lesson).cues),
        None,
    )
    return [{"op": "add", "lesson": platitude}] if platitude else []


def _distinct_targets(items: Sequence[Item]) -> list[Item]:
    """The items, without those that touch a lesson that an earlier one touches."""
    touched: set[object] = set()
    kept: list[Item] = []
    for item in items:
        target = item.get("target")
        if target is None or target not in touched:
            kept.append(item)
            touched.add(target)
    return kept
