"""The next version of a library: check a batch of proposals and apply those that pass, in one step."""

from collections.abc import Sequence
from typing import NamedTuple

from agentlearn.library.curate.codes import ACCEPTABLE, MERGE_IN_GROUP, LessonFlag, RejectionCode, reject
from agentlearn.library.curate.library_draft import CheckContext, LibraryDraft
from agentlearn.library.curate.operations import lesson_of, sound_operation, tags_of
from agentlearn.library.curate.rules import RULES
from agentlearn.types.experience import Library
from agentlearn.types.operation import Applied, Dropped, Ended, Merge, Operation, Proposal, Quarantined, Rejected


class NextVersion(NamedTuple):
    """A library after a batch of proposals."""

    library: Library
    """The next version; the given library itself when no proposal was applied."""
    ended: tuple[Ended, ...]
    """One end per proposal, in the order given."""


def next_version(proposals: Sequence[Proposal], library: Library, context: CheckContext) -> NextVersion:
    """Return the next version of the library, and how each proposal ended.

    Proposals are checked one after the other against the library as the accepted ones before it leave it: the first of
    two conflicting proposals wins, and a delete makes room for what follows. A modified lesson keeps its place, a
    merged one takes the place of its first target, an added one goes to the end. A lesson without tags inherits the
    tags of the lessons it replaces.

    Operations may have any content, also content that their types refuse. Raises nothing.
    """
    draft = LibraryDraft.of(library, by_person=context.by_person, name=context.library, read=context.strangers)
    ended = tuple(_end(proposal, draft, context) for proposal in proposals)
    return NextVersion(draft.finished(), ended)


def why_not(operation: object, library: Library, context: CheckContext) -> Rejected | Dropped | Quarantined | None:
    """Return how an operation would end that breaks a rule; None if it could be applied."""
    sound = sound_operation(operation)
    return sound if isinstance(sound, Rejected) else _broken(sound, LibraryDraft.of(library), context)


def _end(proposal: Proposal, draft: LibraryDraft, context: CheckContext) -> Ended:
    operation = _operation(proposal)
    if isinstance(operation, Rejected):
        return Ended(proposal=proposal, end=operation)
    if end := _broken(operation, draft, context):
        return Ended(proposal=proposal, end=end)
    made = draft.apply(operation)
    return Ended(proposal=proposal, end=Applied(experience=made), flags=_flags(proposal, operation, context))


def _broken(
    operation: Operation, draft: LibraryDraft, context: CheckContext
) -> Rejected | Dropped | Quarantined | None:
    """The first rule that the operation breaks and that nobody set aside."""
    for rule in RULES:
        end = rule(operation, draft, context)
        if end is not None and (isinstance(end, Dropped) or end.code not in context.waived & ACCEPTABLE):
            return end
    return None


def _operation(proposal: Proposal) -> Operation | Rejected:
    if proposal.operation is None:
        return proposal.refusal or reject(RejectionCode.MALFORMED, "the item could not be read as an operation")
    operation = sound_operation(proposal.operation)
    if isinstance(operation, Merge) and proposal.stage == "compare":
        return reject(RejectionCode.WRONG_STAGE, MERGE_IN_GROUP)
    return operation


def _flags(proposal: Proposal, operation: Operation, context: CheckContext) -> tuple[str, ...]:
    doubts = {
        LessonFlag.MENTIONS_ANSWER: context.answer_search.found(lesson_of(operation)) is not None,
        LessonFlag.TAGS_IGNORED: tags_of(getattr(proposal.operation, "tags", None)).ignored,
    }
    return tuple(flag.value for flag, raised in doubts.items() if raised)
