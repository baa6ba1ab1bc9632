"""Stage 3 of the simulated reflector: proposals that say the same thing become one change, the rest is left out."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agentlearn.sim.malformed import Item
from agentlearn.sim.mind import Mind
from agentlearn.sim.skills import Trap
from agentlearn.sim.stage_text import ConsolidatePrompt, Suggestion
from agentlearn.sim.wording import Source, fits

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


def consolidate(prompt: ConsolidatePrompt, mind: Mind) -> list[Item]:
    """The plan, in order of the first proposal that each change rests on, deletions last; nothing is touched twice."""
    shown = frozenset(one.label for one in prompt.experiences)
    themes = _themes([one for one in prompt.suggestions if shown.issuperset(one.targets)], mind)
    addressed = {theme.trap.name for theme in themes if theme.trap is not None and not theme.against}
    items: list[Item] = []
    for theme in themes:
        if theme.trap is None:
            items += _untold(theme, mind)
        elif theme.against:
            items += _doubtful(theme, mind) if theme.trap.name not in addressed else []
        else:
            items += _told(theme, theme.trap, prompt, mind)
    # A lesson that is being turned round need not be deleted as well.
    return _untangled(sorted(items, key=lambda item: item["op"] == "delete"))


def _themes(suggestions: Sequence[Suggestion], mind: Mind) -> list[_Theme]:
    grouped: dict[tuple[str, ...], list[Suggestion]] = {}
    for one in suggestions:
        grouped.setdefault(_subject(one, mind), []).append(one)
    traps = mind.vocabulary.reader.traps
    return [
        _Theme(traps.get(trap), stance == "contradicts", tuple(members))
        for (trap, stance, *_), members in grouped.items()
    ]


def _subject(one: Suggestion, mind: Mind) -> tuple[str, ...]:
    """What a proposal is about: the first trap its lesson speaks of and how, else, without a trap, itself."""
    stances = mind.vocabulary.reader.read(one.lesson).stances if one.lesson else {}
    for trap, stance in stances.items():
        if stance == "addresses":
            return (trap, stance)
    return next(iter(stances.items()), ("", one.op, one.lesson, *one.targets))


def _told(theme: _Theme, trap: Trap, prompt: ConsolidatePrompt, mind: Mind) -> list[Item]:
    """One change for a subject that it has words for."""
    known = mind.sayings(trap.name, prompt.experiences)
    lesson = _best_lesson(theme, trap, mind)
    if len(known.general) > 1 and mind.rng.random() < MERGES:
        return [{"op": "merge", "targets": list(known.general), "lesson": lesson, "rests_on": theme.labels}]
    modified = [target for one in theme.members if one.op == "modify" for target in one.targets]
    if modified:
        return [{"op": "modify", "target": modified[0], "lesson": lesson, "rests_on": theme.labels}]
    if known.general and mind.rng.random() >= REPEATS:
        return []
    add: Item = {"op": "add", "lesson": lesson, "rests_on": theme.labels}
    if mind.defect() == "duplicate":
        return [add, {**add, "lesson": mind.writer.lesson(trap, mind.rng)}]
    return [add]


def _best_lesson(theme: _Theme, trap: Trap, mind: Mind) -> str:
    """The theme's shortest sound lesson, its own words now and then, a long one if the dial says so."""
    if mind.defect() == "over_long":
        return mind.lesson(trap, Source(), "over_long")
    read = mind.vocabulary.reader.read
    lessons = [one.lesson for one in theme.members]
    sound = [one for one in lessons if fits(one) and not read(one).families and not _DIGIT.search(one)]
    if not sound and len(lessons) > 1:
        return mind.writer.lesson(trap, mind.rng)
    if sound and mind.rng.random() < REWORDS:
        return mind.writer.lesson(trap, mind.rng)
    # A lone lesson is taken as it is: this reflector has nothing else to go by.
    return min(sound or lessons, key=lambda one: (len(one), one))


def _untold(theme: _Theme, mind: Mind) -> list[Item]:
    """A deletion, which it believes, or words that mean nothing to it."""
    first = theme.members[0]
    if first.op == "delete" and first.targets:
        return [{"op": "delete", "target": first.targets[0], "rests_on": theme.labels}]
    return _carried_on(first, theme) if mind.rng.random() < KEEPS_VAGUE else []


def _doubtful(theme: _Theme, mind: Mind) -> list[Item]:
    return _carried_on(theme.members[0], theme) if mind.rng.random() < BELIEVES_HARMFUL else []


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
