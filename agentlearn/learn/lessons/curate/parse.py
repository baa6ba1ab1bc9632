"""One raw item from a model, read strictly by itself: tolerant in form, strict in sense.

Models write `option` for `op`, `update` for `modify`, `[G3]` for `G3`; that costs nothing to understand. But nothing
is guessed: an unknown label is refused and never becomes an add, and a delete needs no text.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from agentlearn.learn.lessons.curate.candidate import Candidate, OperationKind
from agentlearn.learn.lessons.curate.codes import MERGE_IN_GROUP, LessonFlag, RejectionCode, reject
from agentlearn.learn.lessons.curate.lesson_text import wording_of
from agentlearn.learn.lessons.curate.tags import tags_of
from agentlearn.types.ids import ExperienceId
from agentlearn.types.operation import BatchOperation, Rejected

_OP_KEYS = ("op", "option", "operation", "action")
_LESSON_KEYS = ("lesson", "experience", "content", "text")
_TARGET_KEYS = ("target", "id", "modified_from", "delete_id", "experience_id")
_TARGETS_KEYS = ("targets", "merged_from", "ids")
_SUPPORT_KEYS = ("rests_on", "based_on", "proposals")
_TAG_KEYS = ("tags", "tag")
_KINDS: Mapping[str, OperationKind] = {
    "add": "add",
    "create": "add",
    "modify": "modify",
    "update": "modify",
    "merge": "merge",
    "delete": "delete",
    "remove": "delete",
}
_LABEL = re.compile(r"\[?\s*([A-Za-z]+[0-9]+)\s*\]?")
# The longest label that a message repeats.
_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Parsed:
    """What an item means, or why it means nothing."""

    outcome: BatchOperation | Rejected
    rests_on: tuple[str, ...] = ()
    """Labels of the proposals it carries on, as `P1`, each once."""
    flags: tuple[str, ...] = ()

    @property
    def operation(self) -> BatchOperation | None:
        """The operation; None when the item was refused."""
        return None if isinstance(self.outcome, Rejected) else self.outcome

    @property
    def refusal(self) -> Rejected | None:
        """Why the item was refused; None when it was not."""
        return self.outcome if isinstance(self.outcome, Rejected) else None


def parse_item(item: object, *, stage: Literal["compare", "consolidate"], labels: Mapping[str, ExperienceId]) -> Parsed:
    """The operation that one JSON-like item asks for.

    labels: what the labels of the library mean, as rendered for this stage. The lesson is trimmed, else left as it is.
    Raises nothing, whatever the item.
    """
    if not isinstance(item, Mapping):
        return Parsed(reject(RejectionCode.NOT_AN_OBJECT, f"the item is a {type(item).__name__}; it must be an object"))
    fields = _fields(cast("Mapping[object, object]", item))
    rests_on, support_ignored = _rests_on(_first(fields, _SUPPORT_KEYS))
    candidate = _candidate(fields, stage, labels)
    if isinstance(candidate, Rejected):
        return Parsed(candidate, rests_on)
    doubts = {LessonFlag.TAGS_IGNORED: candidate.tags_ignored, LessonFlag.RESTS_ON_IGNORED: support_ignored}
    return Parsed(candidate.operation(), rests_on, tuple(flag.value for flag, raised in doubts.items() if raised))


def _fields(item: Mapping[object, object]) -> dict[str, object]:
    """The item's fields that hold something, by lower-case name."""
    named = ((key.strip().casefold(), value) for key, value in item.items() if isinstance(key, str))
    return {key: value for key, value in named if value is not None}


def _first(fields: Mapping[str, object], keys: Sequence[str]) -> object:
    return next((fields[key] for key in keys if key in fields), None)


def _candidate(
    fields: Mapping[str, object], stage: Literal["compare", "consolidate"], labels: Mapping[str, ExperienceId]
) -> Candidate | Rejected:
    kind = _kind(fields)
    if isinstance(kind, Rejected):
        return kind
    if kind == "merge" and stage == "compare":
        return reject(RejectionCode.WRONG_STAGE, MERGE_IN_GROUP)
    targets = () if kind == "add" else _targets(kind, fields, labels)
    if isinstance(targets, Rejected):
        return targets
    if kind == "delete":
        return Candidate(kind=kind, targets=targets)
    lesson = _first(fields, _LESSON_KEYS)
    wording = wording_of(lesson.strip() if isinstance(lesson, str) else lesson)
    if isinstance(wording, Rejected):
        return wording
    tags = tags_of(_first(fields, _TAG_KEYS))
    return Candidate(kind=kind, targets=targets, wording=wording, tags=tags.kept, tags_ignored=tags.ignored)


def _kind(fields: Mapping[str, object]) -> OperationKind | Rejected:
    named = _first(fields, _OP_KEYS)
    if named is None:
        return reject(RejectionCode.MISSING_FIELD, "the item has no 'op'; it is one of add, modify, merge, delete")
    if not isinstance(named, str):
        return reject(
            RejectionCode.WRONG_TYPE, f"the op is a {type(named).__name__}; it is one of add, modify, merge, delete"
        )
    kind = _KINDS.get(named.strip().casefold())
    return kind or reject(RejectionCode.UNKNOWN_OP, f"{named[:_SHOWN]!r} is none of add, modify, merge, delete")


def _targets(
    kind: OperationKind, fields: Mapping[str, object], labels: Mapping[str, ExperienceId]
) -> tuple[ExperienceId, ...] | Rejected:
    keys = (*_TARGETS_KEYS, *_TARGET_KEYS) if kind == "merge" else (*_TARGET_KEYS, *_TARGETS_KEYS)
    named = _first(fields, keys)
    if named is None:
        return reject(RejectionCode.MISSING_FIELD, f"the {kind} names no experience")
    listed = cast("Sequence[object]", named if isinstance(named, list | tuple) else (named,))
    ids: list[ExperienceId] = []
    known = {label.upper(): experience for label, experience in labels.items()}
    for one in listed:
        if not isinstance(one, str):
            return reject(RejectionCode.WRONG_TYPE, f"a label is a {type(one).__name__}; it must be text, such as 'G3'")
        experience = known.get(_label(one))
        if experience is None:
            return reject(RejectionCode.UNKNOWN_ID, f"{one[:_SHOWN]!r} is no label of this library")
        ids.append(experience)
    if kind == "merge" and len(ids) < 2:
        return reject(RejectionCode.TOO_FEW_TARGETS, f"a merge needs at least two experiences, not {len(ids)}")
    if kind != "merge" and len(ids) != 1:
        return reject(
            RejectionCode.TOO_MANY_TARGETS, f"a {kind} names one experience, not {len(ids)}; write one item for each"
        )
    return tuple(ids)


def _label(text: str) -> str:
    """`G3` for `[G3]`, `g3` and ` G3 `; empty for what is no label."""
    found = _LABEL.fullmatch(text.strip())
    return found[1].upper() if found else ""


def _rests_on(value: object) -> tuple[tuple[str, ...], bool]:
    """The labels it rests on, and whether something there was no label."""
    if value is None:
        return (), False
    listed = cast("Sequence[object]", value if isinstance(value, list | tuple) else (value,))
    labels = [_label(one) if isinstance(one, str) else "" for one in listed]
    return tuple(dict.fromkeys(filter(None, labels))), not all(labels)
