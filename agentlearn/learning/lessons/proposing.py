"""Asking for proposals, as the compare and the consolidate stage do: ask, parse, check, one repair round.

Every item that a model wrote becomes a proposal; refused items keep the reason. The repair round lists the reasons once
and asks for corrected items.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from agentlearn.learning.lessons.stage_agent import MAX_RAW_CHARACTERS, Fault, StageAgent, StageContext, StageReply
from agentlearn.library.curate import CheckContext, next_version, parse_item
from agentlearn.text import storable
from agentlearn.types.ids import ExperienceId, ProposalId, RolloutId, TaskId, content_hash
from agentlearn.types.operation import Applied, Ended, Proposal, Rejected
from agentlearn.types.trajectory import PromptRef

ProposingStage = Literal["compare", "consolidate"]

_FAULT_SENTENCES: Mapping[Fault, str] = {
    "prose": "the reply was prose; an object with the key 'proposals' is needed",
    "object_not_array": "the reply held one object; a list of objects under 'proposals' is needed",
    "cut_json": "the reply's JSON ended too early; only its complete items could be read",
    "wrong_key": "the list was not under the key 'proposals'",
    "no_reply": "the reply held nothing that could be read",
}


@dataclass(frozen=True, slots=True)
class ReplySource:
    """Values that all proposals of one reply share."""

    stage: ProposingStage
    key: str
    """Name of the question within its stage; part of every proposal's id."""
    prompt: PromptRef
    """The stage's prompt."""
    labels: Mapping[str, ExperienceId]
    """The library's experiences by the label that the model sees."""
    supports: Mapping[str, ProposalId]
    """The compare proposals that a consolidation may rest on, by label."""
    task: TaskId | None = None
    """The group's task; None for the consolidate stage."""
    evidence: tuple[RolloutId, ...] = ()
    """Rollouts that the question shows."""


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """A reply as proposals."""

    proposals: tuple[Proposal, ...]
    """One per item, then one refused proposal per fault of the reply's shape."""
    faults: tuple[Fault, ...]


def parse_reply(reply: StageReply, source: ReplySource, *, repair: PromptRef | None = None) -> ParsedReply:
    """Return every item of the reply as a proposal. A malformed reply adds one refused proposal per fault.

    repair: the repair prompt, for the reply of the repair round.
    """
    items, faults = reply.salvaged.items, reply.salvaged.faults
    read = [_proposal(item, source, repair, ordinal) for ordinal, item in enumerate(items)]
    lost = [_lost(fault, reply.raw, source, repair, ordinal) for ordinal, fault in enumerate(faults, start=len(items))]
    return ParsedReply((*read, *lost), faults)


def _identity(source: ReplySource, repair: PromptRef | None, ordinal: int, raw: str) -> ProposalId:
    reply_number = 0 if repair is None else 1
    return ProposalId(content_hash("proposal", source.stage, source.key, reply_number, ordinal, raw))


def _prompts(source: ReplySource, repair: PromptRef | None) -> tuple[PromptRef, ...]:
    return (source.prompt,) if repair is None else (source.prompt, repair)


def _proposal(item: object, source: ReplySource, repair: PromptRef | None, ordinal: int) -> Proposal:
    raw = (storable(item) if isinstance(item, str) else json.dumps(item, default=str))[:MAX_RAW_CHARACTERS]
    parsed = parse_item(item, stage=source.stage, labels=source.labels)
    rests_on = tuple(dict.fromkeys(source.supports[label] for label in parsed.rests_on if label in source.supports))
    refusal = parsed.refusal
    if refusal is None and source.stage == "consolidate" and not rests_on:
        refusal = Rejected(
            code="unsupported", reason="the item names no proposal in 'rests_on' that it carries on, such as 'P1'"
        )
    return Proposal(
        id=_identity(source, repair, ordinal, raw),
        stage=source.stage,
        ordinal=ordinal,
        operation=parsed.operation if refusal is None else None,
        refusal=refusal,
        raw=raw,
        task=source.task,
        evidence=source.evidence,
        rests_on=rests_on,
        prompts=_prompts(source, repair),
    )


def _lost(fault: Fault, raw: str, source: ReplySource, repair: PromptRef | None, ordinal: int) -> Proposal:
    """A refused proposal for a fault of the whole reply."""
    return Proposal(
        id=_identity(source, repair, ordinal, fault),
        stage=source.stage,
        ordinal=ordinal,
        refusal=Rejected(code=fault, reason=_FAULT_SENTENCES[fault]),
        raw=raw,
        task=source.task,
        evidence=source.evidence,
        prompts=_prompts(source, repair),
    )


@dataclass(frozen=True, slots=True)
class Proposed:
    """The result of one question."""

    accepted: tuple[Proposal, ...]
    """Proposals that pass every rule as things are now."""
    ended: tuple[Ended, ...]
    """The other proposals, with their ends."""
    faults: tuple[Fault, ...]
    """Faults in the shape of the replies."""
    usable: bool
    """False when no reply had items or was a well-formed empty list."""


async def propose(
    agent: StageAgent,
    question: str,
    source: ReplySource,
    stage_context: StageContext,
    context: CheckContext,
    *,
    limit: int | None = None,
) -> Proposed:
    """Ask, parse, check, and give refused items one repair round. Raises EndpointError.

    limit: largest number of accepted proposals; those past it end as rejected.
    """
    unit = stage_context.unit(source.stage, source.key)
    reply = await agent.ask(question, stage_context.endpoint, unit)
    first = parse_reply(reply, source)
    accepted, ended = _checked((), first.proposals, stage_context, context)
    faults, usable = first.faults, reply.salvaged.usable
    refusals = [one for one in ended if isinstance(one.end, Rejected)]
    if refusals and reply.messages:
        repair = stage_context.prompts.repair.load()
        message = repair.fill({"refusals": _refusals_text(first.proposals, refusals)})
        repaired = await agent.ask(message, stage_context.endpoint, unit, history=reply.messages)
        second = parse_reply(repaired, source, repair=repair.ref)
        accepted_now, ended_now = _checked(accepted, second.proposals, stage_context, context)
        accepted, ended = (*accepted, *accepted_now), (*ended, *ended_now)
        faults, usable = (*faults, *second.faults), usable or repaired.salvaged.usable
    kept, over = accepted[:limit], accepted[limit:] if limit is not None else ()
    return Proposed(kept, (*ended, *(_over_limit(proposal, limit) for proposal in over)), faults, usable)


def _checked(
    before: tuple[Proposal, ...], proposals: tuple[Proposal, ...], stage_context: StageContext, context: CheckContext
) -> tuple[tuple[Proposal, ...], tuple[Ended, ...]]:
    """The proposals that would be applied after `before`, and the others with their ends."""
    ended = next_version((*before, *proposals), stage_context.library, context).ended[len(before) :]
    accepted = tuple(one.proposal for one in ended if isinstance(one.end, Applied))
    return accepted, tuple(one for one in ended if not isinstance(one.end, Applied))


def _refusals_text(proposals: Sequence[Proposal], refusals: Sequence[Ended]) -> str:
    number_of = {one.id: number for number, one in enumerate(proposals, start=1)}
    return "\n".join(
        f"- item {number_of[one.proposal.id]}: {one.end.code}: {one.end.reason}"
        for one in refusals
        if isinstance(one.end, Rejected)
    )


def _over_limit(proposal: Proposal, limit: int | None) -> Ended:
    reason = f"only {limit} proposals are taken from one group"
    return Ended(proposal=proposal, end=Rejected(code="too_many_proposals", reason=reason))
