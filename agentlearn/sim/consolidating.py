"""Stage 3 of the simulated reflector: proposals that say the same thing become one change, the rest is left out."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agentlearn.sim.lesson_writer import LessonSource, fits
from agentlearn.sim.malformed import Item
from agentlearn.sim.reflector_state import ReflectorState
from agentlearn.sim.skills import Trap
from agentlearn.sim.stage_text import ConsolidatePrompt, Suggestion

KEEPS_VAGUE = 0.3
"""How often a lesson that it has no words for is passed on."""
BELIEVES_HARMFUL = 0.4
"""How often a lesson that turns advice round, with none against it, is passed on."""
REPEATS = 0.1
"""How often a lesson that the library already holds is added again."""
MERGES = 0.8
"""How often lessons of the library that say the same thing are merged when proposals bring them up."""
REWORDS = 0.3

_DIGIT = re.compile(r"\d")


@dataclass(frozen=True, slots=True)
class _Theme:
    """Proposals on one subject."""

    trap: Trap | None
    against: bool
    members: tuple[Suggestion, ...]

    @property
    def labels(self) -> list[str]:
        return [one.label for one in self.members]


def consolidate(prompt: ConsolidatePrompt, reflector_state: ReflectorState) -> list[Item]:
    """The plan, in order of the first proposal that each change rests on, deletions last; nothing is touched twice."""
    shown = frozenset(one.label for one in prompt.experiences)
    themes = _themes([one for one in prompt.suggestions if shown.issuperset(one.targets)], reflector_state)
    addressed = {theme.trap.name for theme in themes if theme.trap is not None and not theme.against}
    items: list[Item] = []
    for theme in themes:
        if theme.trap is None:
            items += _untold(theme, reflector_state)
        elif theme.against:
            items += _doubtful(theme, reflector_state) if theme.trap.name not in addressed else []
        else:
            items += _told(theme, theme.trap, prompt, reflector_state)
    # A lesson that is being turned round need not be deleted as well.
    return _untangled(sorted(items, key=lambda item: item["op"] == "delete"))


def _themes(suggestions: Sequence[Suggestion], reflector_state: ReflectorState) -> list[_Theme]:
    grouped: dict[tuple[str, ...], list[Suggestion]] = {}
    for one in suggestions:
        grouped.setdefault(_subject(one, reflector_state), []).append(one)
    traps = reflector_state.vocabulary.reader.traps
    return [
        _Theme(traps.get(trap), stance == "contradicts", tuple(members))
        for (trap, stance, *_), members in grouped.items()
    ]


def _subject(one: Suggestion, reflector_state: ReflectorState) -> tuple[str, ...]:
    """What a proposal is about: the first trap its lesson speaks of and how, else, without a trap, itself."""
    stances = reflector_state.vocabulary.reader.read(one.lesson).stances if one.lesson else {}
    for trap, stance in stances.items():
        if stance == "addresses":
            return (trap, stance)
    return next(iter(stances.items()), ("", one.op, one.lesson, *one.targets))


def _told(theme: _Theme, trap: Trap, prompt: ConsolidatePrompt, reflector_state: ReflectorState) -> list[Item]:
    """One change for a subject that it has words for."""
    known = reflector_state.sayings(trap.name, prompt.experiences)
    lesson = _best_lesson(theme, trap, reflector_state)
    if len(known.general) > 1 and reflector_state.rng.random() < MERGES:
        return [{"op": "merge", "targets": list(known.general), "lesson": lesson, "rests_on": theme.labels}]
    modified = [target for one in theme.members if one.op == "modify" for target in one.targets]
    if modified:
        return [{"op": "modify", "target": modified[0], "lesson": lesson, "rests_on": theme.labels}]
    if known.general and reflector_state.rng.random() >= REPEATS:
        return []
    add: Item = {"op": "add", "lesson": lesson, "rests_on": theme.labels}
    if reflector_state.defect() == "duplicate":
        return [add, {**add, "lesson": reflector_state.writer.lesson(trap, reflector_state.rng)}]
    return [add]


def _best_lesson(theme: _Theme, trap: Trap, reflector_state: ReflectorState) -> str:
    """The theme's shortest sound lesson, its own words now and then, a long one if the dial says so."""
    if reflector_state.defect() == "over_long":
        return reflector_state.lesson(trap, LessonSource(), "over_long")
    read = reflector_state.vocabulary.reader.read
    lessons = [one.lesson for one in theme.members]
    sound = [one for one in lessons if fits(one) and not read(one).families and not _DIGIT.search(one)]
    if not sound and len(lessons) > 1:
        return reflector_state.writer.lesson(trap, reflector_state.rng)
    if sound and reflector_state.rng.random() < REWORDS:
        return reflector_state.writer.lesson(trap, reflector_state.rng)
    # A lone lesson is taken as it is: this reflector has nothing else to go by.
    return min(sound or lessons, key=lambda one: (len(one), one))


def _untold(theme: _Theme, reflector_state: ReflectorState) -> list[Item]:
    """A deletion, which it believes, or words that mean nothing to it."""
    first = theme.members[0]
    if first.op == "delete" and first.targets:
        return [{"op": "delete", "target": first.targets[0], "rests_on": theme.labels}]
    return _carried_on(first, theme) if reflector_state.rng.random() < KEEPS_VAGUE else []


def _doubtful(theme: _Theme, reflector_state: ReflectorState) -> list[Item]:
    return _carried_on(theme.members[0], theme) if reflector_state.rng.random() < BELIEVES_HARMFUL else []


def _carried_on(one: Suggestion, theme: _Theme) -> list[Item]:
    if one.op == "modify" and one.targets:
        return [{"op": "modify", "target": one.targets[0], "lesson": one.lesson, "rests_on": theme.labels}]
    return [{"op": "add", "lesson": one.lesson, "rests_on": theme.labels}] if one.lesson else []


def _untangled(items: Sequence[Item]) -> list[Item]:
    """The items without those that touch a lesson that an earlier one touches."""
    touched: set[str] = set()
    kept: list[Item] = []
    for item in items:
        targets = item.get("targets", [item["target"]] if "target" in item else [])
        names = {str(one) for one in targets} if isinstance(targets, list) else set[str]()
        if touched.isdisjoint(names):
            kept.append(item)
            touched |= names
    return kept
