"""Stage 2 of the simulated reflector: find the habits of wrong attempts, and propose lessons against them.

A habit is a suspect because a believed reason names it (`believing`), or because it separates wrong attempts from right
ones.
"""

from collections.abc import Sequence

from agentlearn_demo.sim.believing import AttemptHabits, believed_traps
from agentlearn_demo.sim.habits import Habit
from agentlearn_demo.sim.lesson_writer import LessonSource
from agentlearn_demo.sim.malformed import Item
from agentlearn_demo.sim.neutral import neutral_lessons
from agentlearn_demo.sim.reflector_state import ReflectorState
from agentlearn_demo.sim.skills import Trap
from agentlearn_demo.sim.stage_text import ComparePrompt

MAX_PROPOSALS = 3
MIN_SURPLUS = 0.25
"""Smallest surplus of a habit among wrong attempts that makes it a suspect."""
NEAR_MAXIMUM = 0.6
"""Share of the largest surplus that makes another habit a suspect too."""
REWORD_CHANCE = 0.25
"""Probability of rewording an existing lesson that did not help."""
GENERALISE_CHANCE = 0.8
"""Probability of generalising a lesson tied to one topic instead of adding another lesson."""
DELETE_CHANCE = 0.5
"""Probability of deleting a misleading lesson instead of correcting it."""


def reflector_compare(prompt: ComparePrompt, reflector_state: ReflectorState) -> list[Item]:
    """Return at most three proposals, those about the most suspicious habits first."""
    vocabulary = reflector_state.vocabulary
    seen = [
        AttemptHabits(one.right, vocabulary.habits_in(one.text), vocabulary.traps_told(one.reason))
        for one in prompt.attempts
    ]
    source = LessonSource(prompt.problem, prompt.gold)
    items = [
        item for trap in _suspects(seen, reflector_state) for item in _proposals(trap, prompt, source, reflector_state)
    ]
    return _distinct_targets(items or _without_suspects(reflector_state))[:MAX_PROPOSALS]


def _suspects(seen: Sequence[AttemptHabits], reflector_state: ReflectorState) -> list[Trap]:
    """The suspected traps: those that believed reasons name first, then those with the largest surplus."""
    traps = reflector_state.vocabulary.traps
    by_name = {trap.name: trap for trap in traps}
    told = [by_name[name] for name in believed_traps(seen, reflector_state.belief)]
    blamed = [_mistaken(trap, traps, reflector_state) for trap in _separating(seen, traps) if trap not in told]
    return list({trap.name: trap for trap in (*told, *blamed)}.values())


def _mistaken(trap: Trap, traps: Sequence[Trap], reflector_state: ReflectorState) -> Trap:
    """The trap, or by chance another one that the attempts do not prove."""
    share = reflector_state.parameters.mistaken
    return reflector_state.rng.choice(traps) if share and reflector_state.rng.random() < share else trap


def _separating(seen: Sequence[AttemptHabits], traps: Sequence[Trap]) -> list[Trap]:
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
    bar = max(MIN_SURPLUS, NEAR_MAXIMUM * max(surplus.values(), default=0.0))
    by_surplus = sorted(traps, key=lambda trap: (-surplus[trap.name], trap.name))
    return [trap for trap in by_surplus if surplus[trap.name] >= bar]


def _share(trap: Trap, attempts: Sequence[Sequence[Habit]], *, careless: bool) -> float:
    """Share of attempts that show the trap's careless or careful habit."""
    showing = sum(any(one.trap == trap.name and one.careless == careless for one in habits) for habits in attempts)
    return showing / len(attempts)


def _proposals(trap: Trap, prompt: ComparePrompt, source: LessonSource, reflector_state: ReflectorState) -> list[Item]:
    known = reflector_state.known_lessons(trap.name, prompt.experiences)
    defect = reflector_state.defect()
    lesson = reflector_state.lesson(trap, source, defect)
    draw = reflector_state.rng.random()
    if known.against:
        return _replace_harmful(known.against[0], lesson, has_better=bool(known.general), deletes=draw < DELETE_CHANCE)
    if known.general:
        if defect == "duplicate":
            return [{"op": "add", "lesson": lesson}]
        return [{"op": "modify", "target": known.general[0], "lesson": lesson}] if draw < REWORD_CHANCE else []
    if known.narrow and draw < GENERALISE_CHANCE:
        return [{"op": "modify", "target": known.narrow[0], "lesson": lesson}]
    adds: list[Item] = [{"op": "add", "lesson": lesson}]
    return (
        [*adds, {"op": "add", "lesson": reflector_state.writer.lesson(trap, reflector_state.rng)}]
        if defect == "duplicate"
        else adds
    )


def _replace_harmful(label: str, lesson: str, *, has_better: bool, deletes: bool) -> list[Item]:
    """Proposals about a misleading lesson: delete, correct or replace it."""
    if not deletes:
        return [{"op": "modify", "target": label, "lesson": lesson}]
    delete: Item = {"op": "delete", "target": label}
    return [delete] if has_better else [delete, {"op": "add", "lesson": lesson}]


def _without_suspects(reflector_state: ReflectorState) -> list[Item]:
    """Proposals if no known habit separates the attempts: mostly none, sometimes a useless lesson."""
    if reflector_state.rng.random() >= reflector_state.parameters.useless:
        return []
    platitude = next(
        neutral_lessons(reflector_state.rng, lambda lesson: not reflector_state.vocabulary.reader.read(lesson).cues),
        None,
    )
    return [{"op": "add", "lesson": platitude}] if platitude else []


def _distinct_targets(items: Sequence[Item]) -> list[Item]:
    """The items without those whose target an earlier item has already used."""
    touched: set[object] = set()
    kept: list[Item] = []
    for item in items:
        target = item.get("target")
        if target is None or target not in touched:
            kept.append(item)
            touched.add(target)
    return kept
