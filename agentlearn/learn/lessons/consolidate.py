"""Stage 3: a batch's proposals become one plan's worth of operations, each naming the proposals it carries on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import assert_never

from agentlearn.errors import EndpointError
from agentlearn.learn.lessons.curate import CheckContext
from agentlearn.learn.lessons.proposing import Proposed, ReplySource, propose
from agentlearn.learn.lessons.stage_agent import StageAgent, stage_agent
from agentlearn.learn.lessons.stage_context import StageContext
from agentlearn.prompts import load_prompt
from agentlearn.types.experience import MAX_LESSON_WORDS
from agentlearn.types.ids import ExperienceId, ProposalId
from agentlearn.types.operation import Add, BatchOperation, Delete, Dropped, End, Ended, Folded, Merge, Modify, Proposal

PROMPT = ("consolidate", 1)
MAX_TRIES = 2


@dataclass(frozen=True, slots=True)
class Consolidated:
    """What goes to the check, and the ends of all that does not."""

    proposals: tuple[Proposal, ...]
    """Of the consolidate stage; the compare stage's own where consolidation failed."""
    ended: tuple[Ended, ...]
    faults: tuple[str, ...]
    failed: bool = False
    """Whether consolidation failed twice, so that the groups' proposals are checked directly."""


@cache
def _agent() -> StageAgent:
    return stage_agent(load_prompt(*PROMPT).fill({"max_words": str(MAX_LESSON_WORDS)}), "proposals")


async def consolidate(
    proposals: Sequence[Proposal], stage_context: StageContext, context: CheckContext
) -> Consolidated:
    """One plan from the compare proposals of a batch, given in order of (task, ordinal)."""
    if not proposals:
        return Consolidated((), (), ())
    labels = {f"P{number}": one for number, one in enumerate(proposals, start=1)}
    question = _question(labels, stage_context)
    faults: list[str] = []
    ended: list[Ended] = []
    for attempt in range(MAX_TRIES):
        source = ReplySource(
            stage="consolidate",
            key=f"try-{attempt}",
            labels=stage_context.shown.labels,
            supports={label: one.id for label, one in labels.items()},
            evidence=tuple(dict.fromkeys(rollout for one in proposals for rollout in one.evidence)),
        )
        try:
            answer = await propose(_agent(), question, source, stage_context, context)
        except EndpointError as error:
            faults.append(error.code)
            continue
        faults.extend(answer.faults)
        ended.extend(answer.ended)
        if answer.usable:
            return Consolidated(_with_evidence(answer, proposals), (*_ends(proposals, answer), *ended), tuple(faults))
    return Consolidated(tuple(proposals), tuple(ended), tuple(faults), failed=True)


def _question(labels: dict[str, Proposal], stage_context: StageContext) -> str:
    label_of = {identity: label for label, identity in stage_context.shown.labels.items()}
    lines = "\n".join(f"[{label}] {_words(one.operation, label_of)}" for label, one in labels.items())
    library = f"{stage_context.shown.text}\n" if stage_context.shown.text else ""
    return f"{library}<proposals>\n{lines}\n</proposals>"


def _words(operation: BatchOperation | None, label_of: Mapping[ExperienceId, str]) -> str:
    match operation:
        case Add():
            return f"add: {operation.lesson}"
        case Modify():
            return f"modify {label_of[operation.target]}: {operation.lesson}"
        case Delete():
            return f"delete {label_of[operation.target]}"
        case Merge():
            return f"merge {', '.join(label_of[one] for one in operation.targets)}: {operation.lesson}"
        case None:
            raise AssertionError("a proposal that could not be parsed never reaches consolidation")
        case _:
            assert_never(operation)


def _with_evidence(answer: Proposed, proposals: Sequence[Proposal]) -> tuple[Proposal, ...]:
    """Each accepted proposal rests on the rollouts of the compare proposals that it carries on, no others."""
    evidence = {one.id: one.evidence for one in proposals}
    return tuple(
        one.model_copy(
            update={"evidence": tuple(dict.fromkeys(r for support in one.rests_on for r in evidence[support]))}
        )
        for one in answer.accepted
    )


def _ends(proposals: Sequence[Proposal], answer: Proposed) -> list[Ended]:
    """Folded where a parsed consolidation rests on it, otherwise dropped."""
    into: dict[ProposalId, list[ProposalId]] = {one.id: [] for one in proposals}
    for carrier in (*answer.accepted, *(one.proposal for one in answer.ended)):
        for support in carrier.rests_on:
            into[support].append(carrier.id)
    return [Ended(proposal=one, end=_end(into[one.id])) for one in proposals]


def _end(into: list[ProposalId]) -> End:
    return Folded(into=tuple(into)) if into else Dropped(reason="not taken up by the consolidation")
