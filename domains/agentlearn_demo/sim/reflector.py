"""The simulated reflector: it answers the three stages of training-free GRPO from their prompts only.

It finds the habits that separate right attempts from wrong ones, or that reasons name, and writes lessons about them in
varied wording. It knows the vocabulary of habits but no answers to tasks. It can be wrong, by its parameters, because a
group is small, or because it believes a misleading reason.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Literal, get_args

from agentlearn_demo.sim import fingerprint, random_stream, uniform
from agentlearn_demo.sim.prompts import (
    ComparePrompt,
    ConsolidatePrompt,
    ReflectorStage,
    RefusedItem,
    Suggestion,
    SummarisePrompt,
    refusals_in,
    summarise,
    without_reasons,
)
from agentlearn_demo.sim.skills import ShownLesson, Skills, Trap
from agentlearn_demo.sim.vocabulary import DEFECTS, Defect, Habit, Vocabulary, shorten_lesson, within_lesson_limits

_Malformation = Literal["prose", "object", "single", "strings", "unknown_ids", "cut", "bad_neighbour"]
"""prose: no JSON at all; object: one object instead of the list; single: a bare item instead of the whole object;
strings: items as plain strings; unknown_ids: labels that were never shown; cut: JSON that ends too early;
bad_neighbour: one bad item among good ones."""

MAX_PROPOSALS = 3
MIN_SURPLUS = 0.25
"""Smallest surplus of a habit among wrong attempts that makes it a suspect."""
NEAR_MAXIMUM = 0.6
"""Share of the largest surplus that makes another habit a suspect too."""
BELIEF = {True: 0.95, None: 0.6, False: 0.2}
"""Probability of believing a reason whose attempt's summary shows what it says (True), nothing, or the opposite."""
REWORD_CHANCE = 0.25
"""Probability of rewording an existing lesson that did not help."""
GENERALISE_CHANCE = 0.8
"""Probability of generalising a lesson tied to one topic instead of adding another lesson."""
DELETE_CHANCE = 0.5
"""Probability of deleting a misleading lesson instead of correcting it."""
KEEP_VAGUE_CHANCE = 0.3
"""Probability of passing on a lesson about an unknown habit when proposals are consolidated."""
KEEP_HARMFUL_CHANCE = 0.4
"""The same for a lesson with reversed advice that no proposal contradicts."""
REPEAT_CHANCE = 0.1
"""Probability of adding a lesson that the library already has."""
MERGE_CHANCE = 0.8
"""Probability of merging equivalent lessons of the library when a proposal is about the same trap."""
REWORD_SOUND_CHANCE = 0.3
"""Probability of rewording a sound lesson when proposals are consolidated."""

_UNREADABLE = frozenset({"prose", "object_not_array", "cut_json", "wrong_key", "no_reply"})
"""Codes that refuse a whole reply, so that its items must be sent again."""
_WRONG_TARGET = frozenset({"unknown_id", "id_used_twice", "too_few_targets", "missing_field"})
"""Codes of changes with invalid targets; their lessons can still be added."""
_REWORDABLE = frozenset({
    "too_long", "holds_answer", "copies_task", "copies_page", "copies_reason", "names_address", "not_an_object",
    "multi_line", "control_characters", "invisible_characters", "surrogates", "forged_id", "forged_header",
    "role_tag", "tool_syntax", "malformed", "unsupported",
})  # fmt: skip
"""Codes that rewording, or using the requested form, can fix."""

Item = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ReflectorParameters:
    """How often the reflector is wrong. The first six are shares of its lessons and add up to at most 1."""

    useless: float = 0.08
    """Share of lessons without content."""
    over_specific: float = 0.06
    """Share of lessons that are tied to one problem."""
    over_long: float = 0.06
    """Share of lessons that are too long."""
    duplicate: float = 0.06
    """Share of lessons that repeat another one."""
    harmful: float = 0.02
    """Share of lessons with reversed advice."""
    leaking: float = 0.03
    """Share of lessons that contain the task's answer."""
    malformed: float = 0.04
    """Share of replies that are malformed, each kind as often as the others."""


FLAWLESS = ReflectorParameters(useless=0, over_specific=0, over_long=0, duplicate=0, harmful=0, leaking=0, malformed=0)
"""Parameters of a reflector without defects; it can still draw wrong conclusions."""


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

    @property
    def key(self) -> str:
        """Name of the list in the answer."""
        return "steps" if self.stage == "summarise" else "proposals"


@dataclass(frozen=True, slots=True)
class StageAnswer:
    """A stage's answer as text; `structured`: whether it can be sent as the arguments of an output tool."""

    text: str
    structured: bool = True


class Reflector:
    """Answers the three stages; `world` is the seed of its world."""

    def __init__(
        self, skills: Sequence[Skills], *, parameters: ReflectorParameters | None = None, world: int = 0
    ) -> None:
        self._vocabularies = list(map(Vocabulary, skills))
        self._parameters = parameters or ReflectorParameters()
        self._world = world

    def answer(self, request: ReflectorRequest) -> StageAnswer:
        """The stage's answer as text. Equal requests get equal answers."""
        # Without reasons, so that a reason that names no habit changes no draw.
        named = (self._world, request.seed, fingerprint(without_reasons(request.prompt)), request.earlier)
        refusals = () if request.stage == "summarise" else refusals_in(request.refusal)
        state = ReflectorState(
            self._vocabulary_of(request),
            # A reflector that is asked to repair takes care.
            replace(self._parameters, over_long=0, leaking=0, duplicate=0) if refusals else self._parameters,
            random_stream("items", *named),
            lambda trap: uniform("belief", *named, trap),
        )
        match request.stage:
            case "summarise":
                items = summarise(SummarisePrompt.read(request.prompt), state.vocabulary, state.rng)
            case "compare":
                items = state.compare(ComparePrompt.read(request.prompt))
            case "consolidate":
                items = state.consolidate(ConsolidatePrompt.read(request.prompt))
        if refusals:
            items = state.repair(refusals, request.previous, items)
        chance = random_stream("form", *named)
        if items and chance.random() < self._parameters.malformed:
            kind: _Malformation = chance.choice(get_args(_Malformation))
            return StageAnswer(_malformed(kind, request.key, items, chance), kind != "prose")
        return StageAnswer(_json({request.key: items}))

    def _vocabulary_of(self, request: ReflectorRequest) -> Vocabulary:
        """The domain's vocabulary that fits the prompt best."""
        lessons = request.stage == "consolidate"
        texts = (
            [one.lesson for one in ConsolidatePrompt.read(request.prompt).suggestions] if lessons else [request.prompt]
        )
        return max(self._vocabularies, key=lambda one: one.familiarity(texts, lessons=lessons))


@dataclass(frozen=True, slots=True)
class ReflectorState:
    """The state while one prompt is answered."""

    vocabulary: Vocabulary
    parameters: ReflectorParameters
    rng: Random
    belief: Callable[[str], float] = lambda _trap: 0.0
    """A number in [0, 1) for a trap that a reason names; below its probability the reason is believed."""

    def compare(self, prompt: ComparePrompt) -> list[Item]:
        """Return at most three proposals, those about the most suspicious habits first."""
        items = [item for trap in self._suspects(prompt) for item in self._proposals(trap, prompt)]
        if not items and self.rng.random() < self.parameters.useless:
            platitude = self.vocabulary.neutral(self.rng)
            items = [{"op": "add", "lesson": platitude}] if platitude else []
        return _without_overlaps(items)[:MAX_PROPOSALS]

    def _suspects(self, prompt: ComparePrompt) -> list[Trap]:
        """The suspected traps: those that believed reasons name first, then those that separate attempts.

        A reason that names a habit makes it a suspect with a probability that depends on the summary of its attempt: a
        wrong attempt is expected to show the careless habit, a right one the careful habit.
        """
        traps = self.vocabulary.traps
        seen = [(one.right, self.vocabulary.habits_in(one.text)) for one in prompt.attempts]
        named: dict[str, list[float]] = {}
        for one, (right, habits) in zip(prompt.attempts, seen, strict=True):
            for name in self.vocabulary.traps_told(one.reason):
                shown = {habit.careless for habit in habits if habit.trap == name}
                named.setdefault(name, []).append(BELIEF[(not right) in shown if shown else None])
        believed = [name for name, chances in named.items() if self.belief(name) < max(chances)]
        told = sorted(believed, key=lambda name: (-len(named[name]), name))
        by_name = {trap.name: trap for trap in traps}
        return [*map(by_name.__getitem__, told), *(one for one in _separating(seen, traps) if one.name not in told)]

    def _proposals(self, trap: Trap, prompt: ComparePrompt) -> list[Item]:
        known = self.known(trap.name, prompt.experiences)
        defect = self._defect()
        source = (prompt.problem, prompt.gold)
        lesson = self.vocabulary.defective(defect, trap, self.rng, source) if defect else None
        lesson = lesson or self.vocabulary.lesson(trap, self.rng)
        draw = self.rng.random()
        add: Item = {"op": "add", "lesson": lesson}
        if known.against:
            label = known.against[0]
            if draw >= DELETE_CHANCE:
                return [{"op": "modify", "target": label, "lesson": lesson}]
            return [{"op": "delete", "target": label}, *([] if known.general else [add])]
        if known.general:
            if defect == "duplicate":
                return [add]
            return [{"op": "modify", "target": known.general[0], "lesson": lesson}] if draw < REWORD_CHANCE else []
        if known.narrow and draw < GENERALISE_CHANCE:
            return [{"op": "modify", "target": known.narrow[0], "lesson": lesson}]
        if defect == "duplicate":
            return [add, {"op": "add", "lesson": self.vocabulary.lesson(trap, self.rng)}]
        return [add]

    def consolidate(self, prompt: ConsolidatePrompt) -> list[Item]:
        """Return the final proposals ordered by first source, deletions last; each lesson is changed at most once.

        Proposals about the same trap become one change. Those with reversed advice lose against sound ones.
        """
        shown = frozenset(one.label for one in prompt.experiences)
        themes: dict[tuple[str, ...], list[Suggestion]] = {}
        for one in prompt.suggestions:
            if shown.issuperset(one.targets):
                themes.setdefault(self._subject(one), []).append(one)
        addressed = {trap for trap, stance, *_ in themes if trap and stance == "addresses"}
        items: list[Item] = []
        for (name, stance, *_), theme in themes.items():
            first = theme[0]
            if not name and first.op == "delete" and first.targets:
                items.append({"op": "delete", "target": first.targets[0], "rests_on": [one.label for one in theme]})
            elif not name:
                items += self._passed_on(theme, KEEP_VAGUE_CHANCE)
            elif stance == "contradicts":
                items += [] if name in addressed else self._passed_on(theme, KEEP_HARMFUL_CHANCE)
            else:
                items += self._changes(theme, self.vocabulary.reader.traps[name], prompt.experiences)
        # A lesson that is corrected need not be deleted.
        return _without_overlaps(sorted(items, key=lambda item: item["op"] == "delete"))

    def _subject(self, one: Suggestion) -> tuple[str, ...]:
        """Grouping key of a proposal: the first trap of its lesson and the stance; without a trap, its own content."""
        stances = self.vocabulary.reader.read(one.lesson).stances if one.lesson else {}
        found = next(((trap, stance) for trap, stance in stances.items() if stance == "addresses"), None)
        return found or next(iter(stances.items()), ("", one.op, one.lesson, *one.targets))

    def _changes(self, theme: Sequence[Suggestion], trap: Trap, experiences: Sequence[ShownLesson]) -> list[Item]:
        """At most one change (two for a duplicate) that puts a lesson on a known trap into the library."""
        known = self.known(trap.name, experiences).general
        lesson, labels = self._best_lesson(theme, trap), [one.label for one in theme]
        if len(known) > 1 and self.rng.random() < MERGE_CHANCE:
            return [{"op": "merge", "targets": list(known), "lesson": lesson, "rests_on": labels}]
        if modified := [target for one in theme if one.op == "modify" for target in one.targets]:
            return [{"op": "modify", "target": modified[0], "lesson": lesson, "rests_on": labels}]
        if known and self.rng.random() >= REPEAT_CHANCE:
            return []
        add: Item = {"op": "add", "lesson": lesson, "rests_on": labels}
        if self._defect() == "duplicate":
            return [add, {**add, "lesson": self.vocabulary.lesson(trap, self.rng)}]
        return [add]

    def _best_lesson(self, theme: Sequence[Suggestion], trap: Trap) -> str:
        """The shortest sound lesson of the theme, sometimes reworded; an over-long one if that defect is drawn."""
        if self._defect() == "over_long":
            return self.vocabulary.defective("over_long", trap, self.rng) or ""
        lessons = [one.lesson for one in theme]
        sound = [
            one
            for one in lessons
            if within_lesson_limits(one)
            and not self.vocabulary.reader.read(one).families
            and not any(character.isdigit() for character in one)
        ]
        if (not sound and len(lessons) > 1) or (sound and self.rng.random() < REWORD_SOUND_CHANCE):
            return self.vocabulary.lesson(trap, self.rng)
        # A single lesson is used unchanged: there is no other source.
        return min(sound or lessons, key=lambda one: (len(one), one))

    def _passed_on(self, theme: Sequence[Suggestion], chance: float) -> list[Item]:
        one, labels = theme[0], [one.label for one in theme]
        if self.rng.random() >= chance:
            return []
        if one.op == "modify" and one.targets:
            return [{"op": "modify", "target": one.targets[0], "lesson": one.lesson, "rests_on": labels}]
        return [{"op": "add", "lesson": one.lesson, "rests_on": labels}] if one.lesson else []

    def repair(self, refusals: Sequence[RefusedItem], previous: str, again: Sequence[Item]) -> list[Item]:
        """Return the items that can be repaired, in the same form.

        previous: the refused reply as it was sent. again: a new answer of the stage, used for what is missing in it.
        """
        try:
            value: object = json.loads(previous)
        except ValueError:
            value = []
        found: object = value.get("proposals", value) if isinstance(value, dict) else value
        items: list[object] = list(found) if isinstance(found, list) else [found]
        if any(one.code in _UNREADABLE for one in refusals):
            covered = [trap for one in items if (trap := self._trap_of(_lesson_of(one))) is not None]
            return [item for item in again if self._trap_of(_lesson_of(item)) not in covered]
        numbered = [(one.code, items[one.item - 1]) for one in refusals if 1 <= one.item <= len(items)]
        repaired = (self._repaired(code, item, again) for code, item in numbered)
        return [item for item in repaired if item is not None]

    def _repaired(self, code: str, item: object, again: Sequence[Item]) -> Item | None:
        lesson = _lesson_of(item)
        if not lesson or code not in _REWORDABLE | _WRONG_TARGET:
            return None
        if not within_lesson_limits(lesson):
            better = shorten_lesson(lesson)
        elif (trap := self._trap_of(lesson)) is not None:
            better = self.vocabulary.lesson(trap, self.rng)
        else:
            return None
        supports = any("rests_on" in one for one in again)
        if isinstance(item, dict) and code not in _WRONG_TARGET and ("rests_on" in item or not supports):
            return {**item, "lesson": better}
        trap = self._trap_of(better)
        same = (one for one in again if self._trap_of(_lesson_of(one)) is trap and "rests_on" in one)
        rests_on = next((one["rests_on"] for one in same), None)
        return {"op": "add", "lesson": better, **({"rests_on": rests_on} if rests_on else {})}

    def _trap_of(self, lesson: str) -> Trap | None:
        """The trap that a lesson addresses."""
        reader = self.vocabulary.reader
        stances = reader.read(lesson).stances
        return next((reader.traps[name] for name, stance in stances.items() if stance == "addresses"), None)

    def _defect(self) -> Defect | None:
        """Draw the defect of the next lesson; None for no defect."""
        draw = self.rng.random()
        for defect in DEFECTS:
            share: float = getattr(self.parameters, defect)
            if draw < share:
                return defect
            draw -= share
        return None

    def known(self, trap: str, experiences: Sequence[ShownLesson]) -> "_KnownLessons":
        """The library's lessons about a trap."""
        read = [(shown.label, self.vocabulary.reader.read(shown.text)) for shown in experiences]
        on = [(label, lesson.stances.get(trap), bool(lesson.families)) for label, lesson in read]
        return _KnownLessons(
            general=tuple(label for label, stance, narrow in on if stance == "addresses" and not narrow),
            narrow=tuple(label for label, stance, narrow in on if stance == "addresses" and narrow),
            against=tuple(label for label, stance, _ in on if stance == "contradicts"),
        )


@dataclass(frozen=True, slots=True)
class _KnownLessons:
    """Labels of the library's lessons about one trap."""

    general: tuple[str, ...]
    """Lessons that address the trap in all families."""
    narrow: tuple[str, ...]
    """Lessons that address the trap in some families only."""
    against: tuple[str, ...]
    """Lessons that contradict the advice against the trap."""


def _separating(seen: Sequence[tuple[bool, Sequence[Habit]]], traps: Sequence[Trap]) -> list[Trap]:
    """The traps whose habits separate wrong attempts from right ones, the largest surplus first."""
    sides = {side: [habits for right, habits in seen if right == side] for side in (True, False)}
    if not sides[True] or not sides[False]:
        return []

    def share(trap: Trap, right: bool, careless: bool) -> float:
        showing = (any(one.trap == trap.name and one.careless == careless for one in each) for each in sides[right])
        return sum(showing) / len(sides[right])

    surplus = {
        trap.name: share(trap, False, True)
        - share(trap, True, True)
        + share(trap, True, False)
        - share(trap, False, False)
        for trap in traps
    }
    bar = max(MIN_SURPLUS, NEAR_MAXIMUM * max(surplus.values(), default=0.0))
    by_surplus = sorted(traps, key=lambda trap: (-surplus[trap.name], trap.name))
    return [trap for trap in by_surplus if surplus[trap.name] >= bar]


def _lesson_of(item: object) -> str:
    lesson = item.get("lesson") if isinstance(item, dict) else item
    return lesson if isinstance(lesson, str) else ""


def _without_overlaps(items: Sequence[Item]) -> list[Item]:
    """The items without those whose targets an earlier item has already used."""
    touched: set[object] = set()
    kept: list[Item] = []
    for item in items:
        targets = item.get("targets", [item["target"]] if "target" in item else [])
        names = set(targets) if isinstance(targets, list) else set[object]()
        if touched.isdisjoint(names):
            kept.append(item)
            touched |= names
    return kept


def _json(value: Item) -> str:
    return json.dumps(value, ensure_ascii=False)


def _malformed(kind: _Malformation, key: str, items: Sequence[Item], rng: Random) -> str:
    """The answer with a malformation. items: at least one."""
    words = [str(item.get("lesson") or item.get("text") or f"delete {item.get('target')}") for item in items]
    match kind:
        case "prose":
            return f"Here is what I make of it. {' '.join(f'I would note this: {one}' for one in words)}"
        case "object":
            return _json({key: items[0]})
        case "single":
            return _json(items[0])
        case "strings":
            return _json({key: words})
        case "unknown_ids":
            unknown = f"G{900 + rng.randrange(99)}"
            item = {**items[0], "used": [unknown]} if key == "steps" else {"op": "delete", "target": unknown}
            return _json({key: [item, *items[1:]]})
        case "cut":
            whole = _json({key: items})
            return whole[: len(whole) * 3 // 5]
        case "bad_neighbour":
            bad: Item = {"text": 7} if key == "steps" else {"op": "rewrite", "lesson": 7}
            return _json({key: [items[0], bad, *items[1:]]})
