"""Stage 3: turn a batch's proposals into fewer operations, each naming the proposals that it replaces."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from agentlearn.errors import EndpointError
from agentlearn.learning.lessons.consolidate_question import consolidate_question
from agentlearn.learning.lessons.proposing import Proposed, ReplySource, propose
from agentlearn.learning.lessons.stage_agent import StageAgent, stage_agent
from agentlearn.learning.lessons.stage_context import StageContext
from agentlearn.learning.lessons.stage_prompts import StagePrompt
from agentlearn.library.curate import CheckContext
from agentlearn.types.experience import MAX_LESSON_WORDS
from agentlearn.types.group import Group
from agentlearn.types.ids import ProposalId
from agentlearn.types.operation import Dropped, End, Ended, Folded, Proposal, Quarantined

MAX_TRIES = 2


@dataclass(frozen=True, slots=True)
class Consolidated:
    """The result of the consolidate stage."""

    proposals: tuple[Proposal, ...]
    """Proposals to check: the stage's own, or the compare stage's when the consolidation failed."""
    ended: tuple[Ended, ...]
    """Proposals that go no further, with their ends."""
    faults: tuple[str, ...]
    """Codes of malformed replies and of failed calls."""
    failed: bool = False
    """Whether the stage failed twice."""


@cache
def _agent(prompt: StagePrompt) -> StageAgent:
    return stage_agent(prompt.load().fill({"max_words": str(MAX_LESSON_WORDS)}), "proposals")


async def consolidate(
    proposals: Sequence[Proposal], stage_context: StageContext, context: CheckContext, groups: Sequence[Group] = ()
) -> Consolidated:
    """Consolidate the compare proposals of a batch, given in order of (task, ordinal). Tries twice.

    groups: those that the proposals come from, for the evidence that the stage is shown.
    """
    if not proposals:
        return Consolidated((), (), ())
    labels = {f"P{number}": proposal for number, proposal in enumerate(proposals, start=1)}
    question, prompt = consolidate_question(labels, stage_context, groups), stage_context.prompts.consolidate
    faults: list[str] = []
    ended: list[Ended] = []
    for attempt in range(MAX_TRIES):
        source = ReplySource(
            stage="consolidate",
            key=f"try-{attempt}",
            prompt=prompt.load().ref,
            labels=stage_context.shown.labels,
            supports={label: proposal.id for label, proposal in labels.items()},
            evidence=tuple(dict.fromkeys(rollout for proposal in proposals for rollout in proposal.evidence)),
        )
        try:
            answer = await propose(_agent(prompt), question, source, stage_context, context)
        except EndpointError as error:
            faults.append(error.code)
            continue
        faults.extend(answer.faults)
        ended.extend(_held(one, proposals) for one in answer.ended)
        if answer.usable:
            return Consolidated(_with_evidence(answer, proposals), (*_ends(proposals, answer), *ended), tuple(faults))
    return Consolidated(tuple(proposals), tuple(ended), tuple(faults), failed=True)


def _with_evidence(answer: Proposed, proposals: Sequence[Proposal]) -> tuple[Proposal, ...]:
    """The accepted proposals; the evidence of each is that of the compare proposals that it rests on."""
    return tuple(_narrowed(accepted, proposals) for accepted in answer.accepted)


def _narrowed(one: Proposal, proposals: Sequence[Proposal]) -> Proposal:
    evidence = {proposal.id: proposal.evidence for proposal in proposals}
    return one.model_copy(
        update={"evidence": tuple(dict.fromkeys(r for support in one.rests_on for r in evidence[support]))}
    )


def _held(ended: Ended, proposals: Sequence[Proposal]) -> Ended:
    """A quarantined proposal with the evidence that a person needs; any other one as it is."""
    if not isinstance(ended.end, Quarantined):
        return ended
    return ended.model_copy(update={"proposal": _narrowed(ended.proposal, proposals)})


def _ends(proposals: Sequence[Proposal], answer: Proposed) -> list[Ended]:
    """How each compare proposal ended: folded when a consolidate proposal rests on it, else dropped."""
    into: dict[ProposalId, list[ProposalId]] = {proposal.id: [] for proposal in proposals}
    for consolidated in (*answer.accepted, *(one.proposal for one in answer.ended)):
        for support in consolidated.rests_on:
            into[support].append(consolidated.id)
    return [Ended(proposal=proposal, end=_end(into[proposal.id])) for proposal in proposals]


def _end(into: list[ProposalId]) -> End:
    return Folded(into=tuple(into)) if into else Dropped(reason="not taken up by the consolidation")
