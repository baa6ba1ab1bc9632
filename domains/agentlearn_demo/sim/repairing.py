"""The simulated reflector's answer to a refusal: repaired items, without those that it cannot repair."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from agentlearn_demo.sim.lesson_writer import shorten_lesson, within_lesson_limits
from agentlearn_demo.sim.malformed import Item
from agentlearn_demo.sim.reflector_state import ReflectorState
from agentlearn_demo.sim.skills import Trap

_REFUSED = re.compile(r"\brefused\b", re.IGNORECASE)
_REFUSAL = re.compile(r"^[ \t]*- item (\d+):[ \t]*(\w+)", re.MULTILINE)
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


@dataclass(frozen=True, slots=True)
class RefusedItem:
    """A refused item: its number (from 1) and the code of the refusal."""

    item: int
    code: str


def refusals_in(text: str) -> tuple[RefusedItem, ...]:
    """The refusals that a message lists; empty for other messages."""
    if not _REFUSED.search(text):
        return ()
    return tuple(RefusedItem(int(number), code.lower()) for number, code in _REFUSAL.findall(text))


def reflector_repair(
    refusals: Sequence[RefusedItem], previous: str, again: Sequence[Item], reflector_state: ReflectorState
) -> list[Item]:
    """Return the items that can be repaired, in the same form.

    previous: the refused reply as it was sent. again: a new answer of the stage, used for what is missing in it.
    """
    items = _items_of(previous)
    if any(one.code in _UNREADABLE for one in refusals):
        return _not_covered(again, items, reflector_state)
    numbered = [(one.code, items[one.item - 1]) for one in refusals if 1 <= one.item <= len(items)]
    repaired = (_repaired(code, item, again, reflector_state) for code, item in numbered)
    return [item for item in repaired if item is not None]


def _items_of(reply: str) -> list[object]:
    try:
        value: object = json.loads(reply)
    except ValueError:
        return []
    found: object = value.get("proposals", value) if isinstance(value, dict) else value
    return list(found) if isinstance(found, list) else [found]


def _repaired(code: str, item: object, again: Sequence[Item], reflector_state: ReflectorState) -> Item | None:
    lesson = _lesson_of(item)
    if not lesson or code not in _REWORDABLE | _WRONG_TARGET:
        return None
    better = shorten_lesson(lesson) if not within_lesson_limits(lesson) else _reworded(lesson, reflector_state)
    if better is None:
        return None
    if isinstance(item, dict) and code not in _WRONG_TARGET and ("rests_on" in item or not _supports(again)):
        return {**item, "lesson": better}
    rests_on = _support(better, again, reflector_state)
    return {"op": "add", "lesson": better, "rests_on": rests_on} if rests_on else {"op": "add", "lesson": better}


def _lesson_of(item: object) -> str:
    lesson = item.get("lesson") if isinstance(item, dict) else item
    return lesson if isinstance(lesson, str) else ""


def _reworded(lesson: str, reflector_state: ReflectorState) -> str | None:
    """The same advice in other words; None if the lesson is about no known trap."""
    trap = _trap_of(lesson, reflector_state)
    return reflector_state.writer.lesson(trap, reflector_state.rng) if trap is not None else None


def _trap_of(lesson: str, reflector_state: ReflectorState) -> Trap | None:
    reader = reflector_state.vocabulary.reader
    stances = reader.read(lesson).stances
    return next((reader.traps[name] for name, stance in stances.items() if stance == "addresses"), None)


def _supports(again: Sequence[Item]) -> bool:
    """Whether the items of this stage list the proposals they rest on."""
    return any("rests_on" in item for item in again)


def _support(lesson: str, again: Sequence[Item], reflector_state: ReflectorState) -> object:
    """The proposals that a new item about the same trap rests on; None if there is none."""
    trap = _trap_of(lesson, reflector_state)
    same = (item for item in again if _trap_of(_lesson_of(item), reflector_state) is trap)
    return next((item["rests_on"] for item in same if "rests_on" in item), None)


def _not_covered(again: Sequence[Item], said: Sequence[object], reflector_state: ReflectorState) -> list[Item]:
    """The items of a new answer about traps that the readable items of the earlier reply do not cover."""
    covered = [trap for one in said if (trap := _trap_of(_lesson_of(one), reflector_state)) is not None]
    return [item for item in again if _trap_of(_lesson_of(item), reflector_state) not in covered]
