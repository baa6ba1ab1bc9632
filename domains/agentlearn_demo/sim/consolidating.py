"""Stage 3 of the simulated reflector: merge proposals about the same trap into one change, and drop the rest.

A reflector that is not blind knows which lessons give reversed advice. A blind one decides by support (`deciding`).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agentlearn_demo.sim.deciding import Side, decided_sides, subject_of
from agentlearn_demo.sim.lesson_writer import LessonSource, within_lesson_limits
from agentlearn_demo.sim.malformed import Item
from agentlearn_demo.sim.reflector_state import ReflectorState
from agentlearn_demo.sim.skills import Trap
from agentlearn_demo.sim.stage_text import ConsolidatePrompt, Suggestion

KEEP_VAGUE_CHANCE = 0.3
"""Probability of passing on a lesson about an unknown habit."""
KEEP_HARMFUL_CHANCE = 0.4
"""Probability of passing on a lesson with reversed advice if no proposal contradicts it."""
REPEAT_CHANCE = 0.1
"""Probability of adding a lesson that the library already has."""
MERGE_CHANCE = 0.8
"""Probability of merging equivalent lessons of the library when a proposal is about the same trap."""
REWORD_CHANCE = 0.3
"""Probability of rewording a sound lesson."""

_DIGIT = re.compile(r"\d")


@dataclass(frozen=True, slots=True)
class _Theme:
    """Proposals about the same trap, with the same stance."""

    trap: Trap | None
    against: bool
    members: tuple[Suggestion, ...]

    @property
    def labels(self) -> list[str]:
        return [one.label for one in self.members]


def reflector_consolidate(prompt: ConsolidatePrompt, reflector_state: ReflectorState) -> list[Item]:
    """Return the final proposals ordered by first source, deletions last; each lesson is changed at most once."""
    shown = frozenset(one.label for one in prompt.experiences)
    known = [one for one in prompt.suggestions if shown.issuperset(one.targets)]
    decide = _decided_blindly if reflector_state.parameters.blind else _decided
    # A lesson that is corrected need not be deleted.
    return _without_overlaps(sorted(decide(known, prompt, reflector_state), key=lambda item: item["op"] == "delete"))


def _decided(
    suggestions: Sequence[Suggestion], prompt: ConsolidatePrompt, reflector_state: ReflectorState
) -> list[Item]:
    themes = _themes(suggestions, reflector_state)
    addressed = {theme.trap.name for theme in themes if theme.trap is not None and not theme.against}
    items: list[Item] = []
    for theme in themes:
        if theme.trap is None:
            items += _unknown_theme(theme, reflector_state)
        elif theme.against:
            items += _harmful_theme(theme, reflector_state) if theme.trap.name not in addressed else []
        else:
            items += _trap_theme(theme, theme.trap, prompt, reflector_state)
    return items


def _decided_blindly(
    suggestions: Sequence[Suggestion], prompt: ConsolidatePrompt, reflector_state: ReflectorState
) -> list[Item]:
    unknown = [one for one in suggestions if subject_of(one, prompt, reflector_state) is None]
    sides = decided_sides(suggestions, prompt, reflector_state)
    return [
        *(item for side in sides for item in _side(side, reflector_state)),
        *(item for theme in _themes(unknown, reflector_state) for item in _unknown_theme(theme, reflector_state)),
    ]


def _side(side: Side, reflector_state: ReflectorState) -> list[Item]:
    """Changes for the side of a subject that is kept: lessons of the other side are turned round or deleted."""
    spoken = tuple(one for one in side.members if one.lesson)
    asked = tuple(target for one in side.members if not one.lesson for target in one.targets)
    losing = tuple(dict.fromkeys((*side.other, *asked)))
    theme = _Theme(side.trap, side.against, spoken)
    turned = losing[:1] if spoken and side.other and not side.same else ()
    deletes: list[Item] = [
        {"op": "delete", "target": label, "rests_on": side.labels} for label in losing if label not in turned
    ]
    if not spoken or (side.other and side.same):
        return deletes
    lesson = min((one.lesson for one in spoken), key=lambda one: (len(one), one)) if side.against else None
    lesson = lesson or _best_lesson(theme, side.trap, reflector_state)
    if turned:
        return [{"op": "modify", "target": turned[0], "lesson": lesson, "rests_on": side.labels}, *deletes]
    return [*_changes(theme, side.trap, side.same, lesson, reflector_state), *deletes]


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
    """Grouping key of a proposal: the first trap of its lesson and the stance; without a trap, its own content."""
    stances = reflector_state.vocabulary.reader.read(one.lesson).stances if one.lesson else {}
    for trap, stance in stances.items():
        if stance == "addresses":
            return (trap, stance)
    return next(iter(stances.items()), ("", one.op, one.lesson, *one.targets))


def _trap_theme(theme: _Theme, trap: Trap, prompt: ConsolidatePrompt, reflector_state: ReflectorState) -> list[Item]:
    """At most one change (two for a duplicate) about a known trap."""
    known = reflector_state.known_lessons(trap.name, prompt.experiences)
    lesson = _best_lesson(theme, trap, reflector_state)
    return _changes(theme, trap, known.general, lesson, reflector_state)


def _changes(
    theme: _Theme, trap: Trap, same: Sequence[str], lesson: str, reflector_state: ReflectorState
) -> list[Item]:
    """At most one change (two for a duplicate) that puts a lesson into the library. same: its lessons that say it."""
    if len(same) > 1 and reflector_state.rng.random() < MERGE_CHANCE:
        return [{"op": "merge", "targets": list(same), "lesson": lesson, "rests_on": theme.labels}]
    modified = [target for one in theme.members if one.op == "modify" for target in one.targets]
    if modified:
        return [{"op": "modify", "target": modified[0], "lesson": lesson, "rests_on": theme.labels}]
    if same and reflector_state.rng.random() >= REPEAT_CHANCE:
        return []
    add: Item = {"op": "add", "lesson": lesson, "rests_on": theme.labels}
    if reflector_state.defect() == "duplicate" and not theme.against:
        return [add, {**add, "lesson": reflector_state.writer.lesson(trap, reflector_state.rng)}]
    return [add]


def _best_lesson(theme: _Theme, trap: Trap, reflector_state: ReflectorState) -> str:
    """The shortest sound lesson of the theme, sometimes reworded, or an over-long lesson if that defect is drawn."""
    if reflector_state.defect() == "over_long":
        return reflector_state.lesson(trap, LessonSource(), "over_long")
    read = reflector_state.vocabulary.reader.read
    lessons = [one.lesson for one in theme.members]
    sound = [one for one in lessons if within_lesson_limits(one) and not read(one).families and not _DIGIT.search(one)]
    if not sound and len(lessons) > 1:
        return reflector_state.writer.lesson(trap, reflector_state.rng)
    if sound and reflector_state.rng.random() < REWORD_CHANCE:
        return reflector_state.writer.lesson(trap, reflector_state.rng)
    # A single lesson is used unchanged: there is no other source.
    return min(sound or lessons, key=lambda one: (len(one), one))


def _unknown_theme(theme: _Theme, reflector_state: ReflectorState) -> list[Item]:
    """Changes for proposals without a known trap: deletions are passed on, lessons only sometimes."""
    first = theme.members[0]
    if first.op == "delete" and first.targets:
        return [{"op": "delete", "target": first.targets[0], "rests_on": theme.labels}]
    return _passed_on(first, theme) if reflector_state.rng.random() < KEEP_VAGUE_CHANCE else []


def _harmful_theme(theme: _Theme, reflector_state: ReflectorState) -> list[Item]:
    return _passed_on(theme.members[0], theme) if reflector_state.rng.random() < KEEP_HARMFUL_CHANCE else []


def _passed_on(one: Suggestion, theme: _Theme) -> list[Item]:
    if one.op == "modify" and one.targets:
        return [{"op": "modify", "target": one.targets[0], "lesson": one.lesson, "rests_on": theme.labels}]
    return [{"op": "add", "lesson": one.lesson, "rests_on": theme.labels}] if one.lesson else []


def _without_overlaps(items: Sequence[Item]) -> list[Item]:
    """The items without those whose targets an earlier item has already used."""
    touched: set[str] = set()
    kept: list[Item] = []
    for item in items:
        targets = item.get("targets", [item["target"]] if "target" in item else [])
        names = {str(one) for one in targets} if isinstance(targets, list) else set[str]()
        if touched.isdisjoint(names):
            kept.append(item)
            touched |= names
    return kept
