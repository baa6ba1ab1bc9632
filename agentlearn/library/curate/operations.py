"""Making operations out of fields of any content: an operation whose fields can be relied on, or a refusal."""

from collections.abc import Mapping, Sequence
from typing import Literal, assert_never, cast

from agentlearn.library.curate.codes import RejectionCode, reject
from agentlearn.library.curate.lesson_text import checked_lesson
from agentlearn.library.curate.tags import tags_of
from agentlearn.types.ids import ExperienceId
from agentlearn.types.operation import Add, Delete, Merge, Modify, Operation, Rejected

OperationKind = Literal["add", "modify", "merge", "delete"]
_KINDS: Mapping[type, OperationKind] = {Add: "add", Modify: "modify", Merge: "merge", Delete: "delete"}


def targets_of(operation: Operation) -> tuple[ExperienceId, ...]:
    """The experiences that the operation replaces or deletes."""
    match operation:
        case Add():
            return ()
        case Merge():
            return operation.targets
        case Modify() | Delete():
            return (operation.target,)
        case _:
            assert_never(operation)


def lesson_of(operation: Operation) -> str:
    """The operation's lesson; empty for a delete."""
    return "" if isinstance(operation, Delete) else operation.lesson


def operation_of(kind: OperationKind, targets: Sequence[str], lesson: object, tags: object) -> Operation | Rejected:
    """Return the operation, or a refusal when its lesson cannot be one. Tags of another form are left out.

    targets: one for modify and delete, two or more for merge. They may name no experience of the library; `RULES`
    look them up.
    """
    ids = tuple(map(ExperienceId, targets))
    if kind == "delete":
        return Delete.model_construct(target=ids[0])
    text = checked_lesson(lesson)
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
    targets = _targets(kind, fields)
    if isinstance(targets, Rejected):
        return targets
    return operation_of(kind, targets, fields.get("lesson"), fields.get("tags"))


def _targets(kind: OperationKind, fields: Mapping[str, object]) -> tuple[str, ...] | Rejected:
    if kind == "add":
        return ()
    named = fields.get("targets") if kind == "merge" else (fields.get("target"),)
    if named is None or named == (None,):
        return reject(RejectionCode.MISSING_FIELD, f"the {kind} names no experience")
    if not isinstance(named, list | tuple):
        return reject(RejectionCode.WRONG_TYPE, f"the targets of a merge are a list, not a {type(named).__name__}")
    listed = cast("Sequence[object]", named)
    texts = tuple(one for one in listed if isinstance(one, str))
    if len(texts) < len(listed):
        return reject(RejectionCode.WRONG_TYPE, "a target is the id of an experience, as text")
    if kind == "merge" and len(texts) < 2:
        return reject(RejectionCode.TOO_FEW_TARGETS, f"a merge needs at least two experiences, not {len(texts)}")
    return texts
