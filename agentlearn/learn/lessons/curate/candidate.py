"""Operations in sound form, whatever they were made of.

`model_construct` lets any content pass for an operation. Here it becomes a `Candidate`, of which the later rules may
take for granted that its kind is known, its targets are text and its lesson is one, or it is refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, assert_never, cast

from agentlearn.learn.lessons.curate.codes import RejectionCode, reject
from agentlearn.learn.lessons.curate.lesson_text import wording_of
from agentlearn.learn.lessons.curate.similarity import LessonWords
from agentlearn.learn.lessons.curate.tags import tags_of
from agentlearn.types.ids import ExperienceId
from agentlearn.types.operation import Add, BatchOperation, Delete, Merge, Modify, Rejected

OperationKind = Literal["add", "modify", "merge", "delete"]
_KINDS: Mapping[type, OperationKind] = {Add: "add", Modify: "modify", Merge: "merge", Delete: "delete"}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A proposal's operation in sound form: known kind, targets that are text, a lesson that may be one."""

    kind: OperationKind
    targets: tuple[str, ...] = ()
    wording: LessonWords | None = None
    """None for a delete."""
    tags: tuple[str, ...] = ()
    tags_ignored: bool = False

    @property
    def text(self) -> str:
        """The lesson; empty for a delete."""
        return self.wording.text if self.wording else ""

    def operation(self) -> BatchOperation:
        """The operation itself, valid by its own type; call it once the targets are known to exist."""
        ids = tuple(map(ExperienceId, self.targets))
        match self.kind:
            case "add":
                return Add(lesson=self.text, tags=self.tags)
            case "modify":
                return Modify(target=ids[0], lesson=self.text, tags=self.tags)
            case "merge":
                return Merge(targets=ids, lesson=self.text, tags=self.tags)
            case "delete":
                return Delete(target=ids[0])
            case _:
                assert_never(self.kind)


def candidate_of(operation: object) -> Candidate | Rejected:
    """The operation in sound form, or why it has none."""
    kind = _KINDS.get(type(operation))
    if kind is None:
        return reject(RejectionCode.MALFORMED, f"a {type(operation).__name__} is not an operation")
    fields = cast("Mapping[str, object]", vars(operation))
    targets = _targets(kind, fields)
    if isinstance(targets, Rejected):
        return targets
    if kind == "delete":
        return Candidate(kind=kind, targets=targets)
    wording = wording_of(fields.get("lesson"))
    if isinstance(wording, Rejected):
        return wording
    tags = tags_of(fields.get("tags"))
    return Candidate(kind=kind, targets=targets, wording=wording, tags=tags.kept, tags_ignored=tags.ignored)


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
