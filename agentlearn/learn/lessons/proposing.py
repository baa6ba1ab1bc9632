"""From a reply to proposals: strict parsing item by item, one check, one repair round.

Both proposing stages work alike: parse, look which items would be refused, say why once, take what comes back. Every
item a model wrote ends as a proposal, the refused ones with their reason.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from agentlearn.learn.lessons.curate import CheckContext, check, parse_item
from agentlearn.learn.lessons.reply_schema import Fault
from agentlearn.learn.lessons.stage_agent import MAX_RAW_CHARACTERS, StageAgent, StageReply
from agentlearn.learn.lessons.stage_context import StageContext
from agentlearn.prompts import load_prompt
from agentlearn.text import storable
from agentlearn.types.ids import ExperienceId, ProposalId, RolloutId, TaskId, content_hash
from agentlearn.types.operation import Applied, Ended, Proposal, Rejected

ProposingStage = Literal["compare", "consolidate"]

_FAULT_SENTENCES: Mapping[Fault, str] = {
    "prose": "the reply was prose; an object with the key 'proposals' is needed",
    "object_not_array": "the reply held one object; a list of objects under 'proposals' is needed",
    "cut_json": "the reply's JSON ended too early; only its complete items could be read",
    "wrong_key": "the list did not stand under the key 'proposals'",
    "no_reply": "the reply held nothing that could be read",
}


@dataclass(frozen=True, slots=True)
class ReplySource:
    """What proposals of one reply have in common."""

    stage: ProposingStage
    key: str
    """Distinguishes this reply from all others of the run; part of every proposal's id."""
    labels: Mapping[str, ExperienceId]
    supports: Mapping[str, ProposalId]
    """Labels of the compare proposals that a consolidation may rest on."""
    task: TaskId | None = None
    evidence: tuple[RolloutId, ...] = ()


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """A reply as proposals, and the faults of its shape."""

    proposals: tuple[Proposal, ...]
    faults: tuple[Fault, ...]


def read(reply: StageReply, source: ReplySource, *, round_number: int) -> ParsedReply:
    """Every item of the reply as a proposal; a misshapen reply adds one refused proposal per fault."""
    proposals = [_proposal(item, source, round_number, ordinal) for ordinal, item in enumerate(reply.salvaged.items)]
    for fault in reply.salvaged.faults:
        refusal = Rejected(code=fault, reason=_FAULT_SENTENCES[fault])
        identity = _identity(source, round_number, len(proposals), fault)
        proposals.append(
            Proposal(
                id=identity,
                stage=source.stage,
                ordinal=len(proposals),
                refusal=refusal,
                raw=reply.raw,
                task=source.task,
                evidence=source.evidence,
            )
        )
    return ParsedReply(tuple(proposals), reply.salvaged.faults)


def _identity(source: ReplySource, round_number: int, ordinal: int, raw: str) -> ProposalId:
    return ProposalId(content_hash("proposal", source.stage, source.key, round_number, ordinal, raw))


def _proposal(item: object, source: ReplySource, round_number: int, ordinal: int) -> Proposal:
    raw = (storable(item) if isinstance(item, str) else json.dumps(item, default=str))[:MAX_RAW_CHARACTERS]
    parsed = parse_item(item, stage=source.stage, labels=source.labels)
    rests_on = tuple(dict.fromkeys(source.supports[one] for one in parsed.rests_on if one in source.supports))
    refusal = parsed.refusal
    if refusal is None and source.stage == "consolidate" and not rests_on:
        refusal = Rejected(
            code="unsupported", reason="the item names no proposal in 'rests_on' that it carries on, such as 'P1'"
        )
    return Proposal(
        id=_identity(source, round_number, ordinal, raw),
        stage=source.stage,
        ordinal=ordinal,
        operation=parsed.operation if refusal is None else None,
        refusal=refusal,
        raw=raw,
        task=source.task,
        evidence=source.evidence,
        rests_on=rests_on,
    )


@dataclass(frozen=True, slots=True)
class Proposed:
    """What one question brought: proposals that would pass the check, and the ends of those that would not."""

    accepted: tuple[Proposal, ...]
    ended: tuple[Ended, ...]
    faults: tuple[Fault, ...]
    usable: bool
    """False when the model gave no answer at all, not even a well-formed empty list."""


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

    limit: proposals accepted at most; those past it end as rejected.
    """
    unit = stage_context.unit(source.stage, source.key)
    reply = await agent.ask(question, stage_context.endpoint, unit, temperature=stage_context.temperature)
    first = read(reply, source, round_number=0)
    accepted, ended = _sort((), first.proposals, stage_context, context)
    faults, usable = first.faults, reply.salvaged.usable
    refusals = [one for one in ended if isinstance(one.end, Rejected)]
    if refusals and reply.messages:
        message = load_prompt("repair", 1).fill({"refusals": _refusals_text(first.proposals, refusals)})
        again = await agent.ask(
            message, stage_context.endpoint, unit, temperature=stage_context.temperature, history=reply.messages
        )
        second = read(again, source, round_number=1)
        mended, refused_again = _sort(accepted, second.proposals, stage_context, context)
        accepted, ended = (*accepted, *mended), (*ended, *refused_again)
        faults, usable = (*faults, *second.faults), usable or again.salvaged.usable
    kept, over = accepted[:limit], accepted[limit:] if limit is not None else ()
    return Proposed(kept, (*ended, *(_over_limit(one, limit) for one in over)), faults, usable)


def _sort(
    before: tuple[Proposal, ...], proposals: tuple[Proposal, ...], stage_context: StageContext, context: CheckContext
) -> tuple[tuple[Proposal, ...], tuple[Ended, ...]]:
    """Which of the proposals would be applied on top of `before`, and how the others end."""
    ends = check((*before, *proposals), stage_context.library, context).ended[len(before) :]
    accepted = tuple(one.proposal for one in ends if isinstance(one.end, Applied))
    return accepted, tuple(one for one in ends if not isinstance(one.end, Applied))


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
