"""Holding proposals against one library version: which become a plan, and how each ends."""

from collections.abc import Sequence
from typing import NamedTuple

from agentlearn.learn.lessons.curate.candidate import Candidate, candidate_of
from agentlearn.learn.lessons.curate.codes import MERGE_IN_GROUP, LessonFlag, RejectionCode, reject
from agentlearn.learn.lessons.curate.context import CheckContext
from agentlearn.learn.lessons.curate.draft import Draft
from agentlearn.learn.lessons.curate.rules import RULES
from agentlearn.learn.lessons.curate.seal import seal
from agentlearn.types.experience import Library
from agentlearn.types.operation import Applied, Ended, Plan, Proposal, Rejected


class Checked(NamedTuple):
    """The plan, and the end of every proposal in the order they were given."""

    plan: Plan
    ended: tuple[Ended, ...]


def check(proposals: Sequence[Proposal], library: Library, context: CheckContext) -> Checked:
    """The plan for the next version of the library, and exactly one end for each proposal.

    Proposals are judged one after the other, each against the library as those accepted before it would leave it: the
    first of two that clash is kept, and a delete makes room for what comes after it. Takes operations of any content,
    also such as their types refuse, and raises nothing.
    """
    draft = Draft.of(library)
    ended = tuple(_end(proposal, draft, context) for proposal in proposals)
    plan = Plan(library=library.version, operations=tuple(draft.planned))
    return Checked(plan=seal(plan), ended=ended)


def _end(proposal: Proposal, draft: Draft, context: CheckContext) -> Ended:
    candidate = _candidate(proposal)
    if isinstance(candidate, Rejected):
        return Ended(proposal=proposal, end=candidate)
    for rule in RULES:
        if end := rule(candidate, draft, context):
            return Ended(proposal=proposal, end=end)
    made = draft.accept(candidate, proposal.id)
    return Ended(proposal=proposal, end=Applied(experience=made), flags=_flags(candidate, context))


def _candidate(proposal: Proposal) -> Candidate | Rejected:
    if proposal.operation is None:
        return proposal.refusal or reject(RejectionCode.MALFORMED, "the item could not be read as an operation")
    candidate = candidate_of(proposal.operation)
    if isinstance(candidate, Candidate) and candidate.kind == "merge" and proposal.stage == "compare":
        return reject(RejectionCode.WRONG_STAGE, MERGE_IN_GROUP)
    return candidate


def _flags(candidate: Candidate, context: CheckContext) -> tuple[str, ...]:
    doubts = {
        LessonFlag.MENTIONS_ANSWER: context.answer_search.found(candidate.text) is not None,
        LessonFlag.TAGS_IGNORED: candidate.tags_ignored,
    }
    return tuple(flag.value for flag, raised in doubts.items() if raised)
