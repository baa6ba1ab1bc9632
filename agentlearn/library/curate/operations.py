"""Making operations out of fields of any content: an operation whose fields can be relied on, or a refusal.

Models write `option` for `op`, `update` for `modify`, `[G3]` for `G3`; all of these are understood. Nothing is guessed:
an unknown label is refused and never becomes an add, and a delete needs no text.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, assert_never, cast

from agentlearn.library.curate.codes import MERGE_IN_GROUP, LessonFlag, RejectionCode, reject
from agentlearn.library.curate.lesson_text import checked_lesson
from agentlearn.types.ids import ExperienceId
from agentlearn.types.operation import Add, Delete, Edit, Merge, Modify, Operation, Rejected
from agentlearn.types.rendering import TAG, is_section

MAX_TAGS = 5


class _Tags(NamedTuple):
    """The valid tags, and whether some were left out."""

    kept: tuple[str, ...]
    ignored: bool


def tags_of(value: object) -> _Tags:
    """Return up to five different tags of the form [a-z0-9-]{1,24}. None means no tags."""
    if value is None:
        return _Tags((), ignored=False)
    if not isinstance(value, list | tuple):
        return _Tags((), ignored=True)
    asked = cast("Sequence[object]", value)
    sound = dict.fromkeys(tag for tag in asked if isinstance(tag, str) and TAG.fullmatch(tag))
    kept = tuple(sound)[:MAX_TAGS]
    return _Tags(kept, ignored=len(kept) < len(asked))


OperationKind = Literal["add", "modify", "merge", "delete", "edit"]
_KINDS: Mapping[type, OperationKind] = {Add: "add", Modify: "modify", Merge: "merge", Delete: "delete", Edit: "edit"}


def targets_of(operation: Operation) -> tuple[ExperienceId, ...]:
    """The experiences that the operation replaces or deletes."""
    match operation:
        case Add():
            return ()
        case Merge():
            return operation.targets
        case Modify() | Delete() | Edit():
            return (operation.target,)
        case _:
            assert_never(operation)


def lesson_of(operation: Operation) -> str:
    """The words that the operation brings: its lesson, or an edit's new passage; empty for a delete."""
    match operation:
        case Delete():
            return ""
        case Edit():
            return operation.new
        case _:
            return operation.lesson


def _operation_of(
    kind: OperationKind, targets: Sequence[str], lesson: object, tags: object, *, old: object = None
) -> Operation | Rejected:
    """Return the operation, or a refusal when its lesson cannot be one. Tags of another form are left out.

    targets: one for modify, delete and edit, two or more for merge. They may name no experience of the library; `RULES`
    look them up. old: the passage that an edit replaces.
    """
    ids = tuple(map(ExperienceId, targets))
    if kind == "delete":
        return Delete.model_construct(target=ids[0])
    if kind == "edit":
        passage, new = old or "", lesson or ""
        if not isinstance(passage, str) or not isinstance(new, str):
            return reject(RejectionCode.WRONG_TYPE, "the passage of an edit and its new words are text")
        if not passage.strip() and not new.strip():
            return reject(RejectionCode.MISSING_FIELD, "the edit has neither a passage nor new words")
        return Edit.model_construct(target=ids[0], old=passage, new=new)
    text = checked_lesson(lesson, sections=True)
    if isinstance(text, Rejected):
        return text
    kept = tags_of(tags).kept
    match kind:
        case "add":
            return Add.model_construct(lesson=text, tags=kept)
        case "modify":
            return Modify.model_construct(target=ids[0], lesson=text, tags=kept)
        case "merge":
            return Merge.model_construct(targets=ids, lesson=text, tags=kept)
        case _:
            assert_never(kind)


def sound_operation(operation: object) -> Operation | Rejected:
    """Return the operation with every field of its declared type, or a refusal.

    `model_construct` skips validation, so an operation can hold anything.
    """
    kind = _KINDS.get(type(operation))
    if kind is None:
        return reject(RejectionCode.MALFORMED, f"a {type(operation).__name__} is not an operation")
    fields = cast("Mapping[str, object]", vars(operation))
    named = () if kind == "add" else fields.get("targets") if kind == "merge" else (fields.get("target"),)
    if named is None or named == (None,):
        return reject(RejectionCode.MISSING_FIELD, f"the {kind} names no experience")
    if not isinstance(named, list | tuple):
        return reject(RejectionCode.WRONG_TYPE, f"the targets of a merge are a list, not a {type(named).__name__}")
    listed = cast("Sequence[object]", named)
    targets = tuple(one for one in listed if isinstance(one, str))
    if len(targets) < len(listed):
        return reject(RejectionCode.WRONG_TYPE, "a target is the id of an experience, as text")
    if kind == "merge" and len(targets) < 2:
        return reject(RejectionCode.TOO_FEW_TARGETS, f"a merge needs at least two experiences, not {len(targets)}")
    words = fields.get("new" if kind == "edit" else "lesson")
    return _operation_of(kind, targets, words, fields.get("tags"), old=fields.get("old"))


_OP_KEYS = ("op", "option", "operation", "action")
_LESSON_KEYS = ("lesson", "new", "experience", "content", "text")
_PASSAGE_KEYS = ("old", "passage", "find")
_TARGET_KEYS = ("target", "id", "modified_from", "delete_id", "experience_id")
_TARGETS_KEYS = ("targets", "merged_from", "ids")
_SUPPORT_KEYS = ("rests_on", "based_on", "proposals")
_TAG_KEYS = ("tags", "tag")
_PARSE_KINDS: Mapping[str, OperationKind] = {
    "add": "add",
    "create": "add",
    "modify": "modify",
    "update": "modify",
    "merge": "merge",
    "delete": "delete",
    "remove": "delete",
}
_LABEL = re.compile(r"\[?\s*([A-Za-z]+[0-9]+)\s*\]?")
_SHOWN = 40
"""Largest number of characters of a label that a message repeats."""


@dataclass(frozen=True, slots=True)
class ParsedItem:
    """An item read as an operation, or the reason why it cannot be."""

    outcome: Operation | Rejected
    rests_on: tuple[str, ...] = ()
    """Labels of the proposals that it replaces, such as `P1`, each once."""
    flags: tuple[str, ...] = ()
    """Codes of what was left out."""

    @property
    def operation(self) -> Operation | None:
        """The operation; None when the item was refused."""
        return None if isinstance(self.outcome, Rejected) else self.outcome

    @property
    def refusal(self) -> Rejected | None:
        """Why the item was refused; None when it was not."""
        return self.outcome if isinstance(self.outcome, Rejected) else None


@dataclass(frozen=True, slots=True)
class _Item:
    """The fields of an item by lower-case name, without those that are None."""

    fields: Mapping[str, object]
    stage: Literal["compare", "consolidate"]
    labels: Mapping[str, ExperienceId]
    document: bool

    def first(self, keys: Sequence[str]) -> object:
        """The value of the first of these fields that is there."""
        return next((self.fields[key] for key in keys if key in self.fields), None)

    def operation(self) -> Operation | Rejected:
        """The operation that the item asks for."""
        named = self.first(_OP_KEYS)
        if named is None:
            return reject(RejectionCode.MISSING_FIELD, "the item has no 'op'; it is one of add, modify, merge, delete")
        if not isinstance(named, str):
            return reject(
                RejectionCode.WRONG_TYPE, f"the op is a {type(named).__name__}; it is one of add, modify, merge, delete"
            )
        asked = named.strip().casefold()
        kind = "modify" if self.document and asked in {"edit", "replace"} else _PARSE_KINDS.get(asked)
        if kind is None:
            return reject(RejectionCode.UNKNOWN_OP, f"{named[:_SHOWN]!r} is none of add, modify, merge, delete")
        if kind == "merge" and self.stage == "compare":
            return reject(RejectionCode.WRONG_STAGE, MERGE_IN_GROUP)
        lesson, old = self.first(_LESSON_KEYS), self.first(_PASSAGE_KEYS)
        into = self.document and kind == "add" and self.first(_TARGET_KEYS) is not None
        targets = () if kind == "add" and not into else self.targets(kind)
        if isinstance(targets, Rejected):
            return targets
        stripped = lesson.strip() if isinstance(lesson, str) else lesson
        if self.document and (into or (kind in {"modify", "delete"} and old)):
            return _operation_of("edit", targets, "" if kind == "delete" else stripped, None, old=old)
        if self.document and isinstance(stripped, str) and kind in {"add", "modify"}:  # a section of its own
            return _operation_of(kind, targets, f"{stripped}\n", None)
        if isinstance(stripped, str) and is_section(stripped):
            return reject(RejectionCode.MULTI_LINE, "the lesson has several lines; write it as one")
        return _operation_of(kind, targets, stripped, self.first(_TAG_KEYS))

    def targets(self, kind: OperationKind) -> tuple[ExperienceId, ...] | Rejected:
        """The experiences that the item names."""
        named = self.first((*_TARGETS_KEYS, *_TARGET_KEYS) if kind == "merge" else (*_TARGET_KEYS, *_TARGETS_KEYS))
        if named is None:
            return reject(RejectionCode.MISSING_FIELD, f"the {kind} names no experience")
        ids: list[ExperienceId] = []
        known = {label.upper(): experience for label, experience in self.labels.items()}
        for one in cast("Sequence[object]", named if isinstance(named, list | tuple) else (named,)):
            if not isinstance(one, str):
                return reject(
                    RejectionCode.WRONG_TYPE, f"a label is a {type(one).__name__}; it must be text, such as 'G3'"
                )
            experience = known.get(_label(one))
            if experience is None:
                return reject(RejectionCode.UNKNOWN_ID, f"{one[:_SHOWN]!r} is not a label of this library")
            ids.append(experience)
        if kind == "merge" and len(ids) < 2:
            return reject(RejectionCode.TOO_FEW_TARGETS, f"a merge needs at least two experiences, not {len(ids)}")
        if kind != "merge" and len(ids) != 1:
            return reject(
                RejectionCode.TOO_MANY_TARGETS,
                f"a {kind} names one experience, not {len(ids)}; write one item for each",
            )
        return tuple(ids)


def parse_item(
    item: object,
    *,
    stage: Literal["compare", "consolidate"],
    labels: Mapping[str, ExperienceId],
    document: bool = False,
) -> ParsedItem:
    """Return the operation that one JSON-like item asks for. Raises nothing, whatever the item.

    labels: the library's experiences by label, as rendered for this stage. The lesson is stripped of white space at
    both ends and otherwise not changed. document: whether they are sections of a document, so that an item may name a
    passage of one.
    """
    if not isinstance(item, Mapping):
        refusal = reject(RejectionCode.NOT_AN_OBJECT, f"the item is a {type(item).__name__}; it must be an object")
        return ParsedItem(refusal)
    given = cast("Mapping[object, object]", item).items()
    named = {key.strip().casefold(): value for key, value in given if isinstance(key, str) and value is not None}
    asked = _Item(named, stage, labels, document)
    support = asked.first(_SUPPORT_KEYS)
    listed = support if isinstance(support, list | tuple) else () if support is None else (support,)
    marks = [_label(one) if isinstance(one, str) else "" for one in cast("Sequence[object]", listed)]
    rests_on, outcome = tuple(dict.fromkeys(filter(None, marks))), asked.operation()
    if isinstance(outcome, Rejected):
        return ParsedItem(outcome, rests_on)
    tags_ignored = not isinstance(outcome, Delete) and tags_of(asked.first(_TAG_KEYS)).ignored
    doubts = {LessonFlag.TAGS_IGNORED: tags_ignored, LessonFlag.RESTS_ON_IGNORED: not all(marks)}
    return ParsedItem(outcome, rests_on, tuple(flag.value for flag, raised in doubts.items() if raised))


def _label(text: str) -> str:
    """Return `G3` for `[G3]`, `g3` and ` G3 `; an empty text when the text is not a label."""
    found = _LABEL.fullmatch(text.strip())
    return found[1].upper() if found else ""
