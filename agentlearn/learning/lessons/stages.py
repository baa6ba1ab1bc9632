"""The three stages: a trajectory becomes a summary, a group's summaries become proposals, a batch's proposals fewer.

A group whose attempts are all wrong has a question of its own: not what tells good attempts from bad ones, but which
rule none of them knew.

Summarise: numbered steps. Compare and consolidate ask for proposals: every item that a model wrote becomes a proposal,
and refused items keep the reason. The repair round lists the reasons once and asks for corrected items.

Consolidate names the proposals that each operation replaces. One line under each proposal says how the attempts at its
task ended. A task is shown as a short number. Reasons are by unknown authors: each is cut short, on one line, without
brackets and between quotation marks.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, assert_never

from agentlearn.errors import EndpointError
from agentlearn.learning.batch import differ
from agentlearn.learning.lessons.stage_agent import (
    MAX_RAW_CHARACTERS,
    Fault,
    StageAgent,
    StageContext,
    StagePrompt,
    StageReply,
    quoted_reason,
    reason_block,
    stage_agent,
    verdict_words,
)
from agentlearn.library.curate import CheckContext, next_version, parse_item
from agentlearn.rollout.transcript import transcript
from agentlearn.text import storable
from agentlearn.types.group import Group, Summary, SummaryStep
from agentlearn.types.ids import ExperienceId, ProposalId, RolloutId, TaskId, content_hash
from agentlearn.types.operation import (
    Add,
    Applied,
    Delete,
    Dropped,
    Ended,
    Folded,
    Merge,
    Modify,
    Operation,
    Proposal,
    Quarantined,
    Rejected,
)
from agentlearn.types.task import Task
from agentlearn.types.trajectory import PromptRef, Trajectory

_MAX_STEP_CHARACTERS = 800
_MAX_STEPS = 40


@dataclass(frozen=True, slots=True)
class Summarised:
    """The result of summarising one trajectory."""

    summary: Summary | None
    """None when no reply was usable."""
    faults: Counter[str]
    """Number of malformed replies, items and labels, and of failed calls, by code."""


@cache
def _summarise_agent(prompt: StagePrompt) -> StageAgent:
    return stage_agent(prompt.load().text, "steps")


async def summarise(trajectory: Trajectory, task: Task, stage_context: StageContext) -> Summarised:
    """Ask for a summary, and once more after a malformed reply. Prose is then used as a summary of one step."""
    faults: Counter[str] = Counter()
    raw = ""
    unit = stage_context.unit("summarise", f"{task.id}/{trajectory.g}")
    question, agent = _question(trajectory, task, stage_context), _summarise_agent(stage_context.prompts.summarise)
    for _ in range(2):
        try:
            reply = await agent.ask(question, stage_context.endpoint, unit)
        except EndpointError as error:
            faults[error.code] += 1
            return Summarised(None, faults)
        steps = tuple(step for item in reply.salvaged.items if (step := _step(item, stage_context, faults)) is not None)
        faults.update(reply.salvaged.faults)
        if steps:
            return Summarised(_summary(trajectory, stage_context, steps[:_MAX_STEPS], reply.raw), faults)
        if "prose" in reply.salvaged.faults:
            raw = reply.raw
    # Prose still says what happened; it only does not name the experiences used.
    if text := _one_line(raw):
        return Summarised(_summary(trajectory, stage_context, (SummaryStep(text=text),), raw), faults)
    faults["no_summary"] += 1
    return Summarised(None, faults)


def _question(trajectory: Trajectory, task: Task, stage_context: StageContext) -> str:
    verdict, reward = verdict_words(trajectory.reward, stage_context.threshold)
    gold = f"<gold>\n{task.answer}\n</gold>\n" if stage_context.show_gold and task.answer is not None else ""
    reason = reason_block(stage_context.reason_of(trajectory))
    library = f"{stage_context.shown.text}\n" if stage_context.shown.text else ""
    return (
        f"<problem>\n{task.problem}\n</problem>\n<verdict>{verdict} (reward {reward})</verdict>\n"
        f"{reason}{gold}{library}<trajectory>\n{transcript(trajectory.steps)}\n</trajectory>"
    )


def _step(item: object, stage_context: StageContext, faults: Counter[str]) -> SummaryStep | None:
    if isinstance(item, str) and _one_line(item):
        faults["string_item"] += 1
        return SummaryStep(text=_one_line(item))
    text = item.get("text") if isinstance(item, dict) else None
    if not isinstance(text, str) or not _one_line(text):
        faults["bad_item"] += 1
        return None
    assert isinstance(item, dict)
    used: object = item.get("used")
    named = tuple(str(label).strip("[] ").upper() for label in used) if isinstance(used, list) else ()
    known = tuple(stage_context.shown.labels[label] for label in named if label in stage_context.shown.labels)
    faults["unknown_id"] += len(named) - len(known)
    return SummaryStep(text=_one_line(text), used=tuple(dict.fromkeys(known)))


def _one_line(text: str) -> str:
    """The text as one line, at most 800 characters, without control characters, lone surrogates and angle brackets."""
    words = "".join(c if c.isprintable() else " " for c in text).replace("<", "‹").replace(">", "›").split()
    return " ".join(words)[:_MAX_STEP_CHARACTERS]


def _summary(trajectory: Trajectory, stage_context: StageContext, steps: tuple[SummaryStep, ...], raw: str) -> Summary:
    return Summary(
        id=content_hash("summary", trajectory.id, stage_context.step),
        run=stage_context.call_context.run,
        rollout=trajectory.id,
        steps=steps,
        raw=raw,
        library=stage_context.library.version,
        prompts=(stage_context.prompts.summarise.load().ref,),
    )


def _used_labels(used: tuple[ExperienceId, ...], stage_context: StageContext) -> str:
    """Labels of the experiences that a step used, such as ` (used G1, G4)`; empty for none."""
    by_id = {identity: label for label, identity in stage_context.shown.labels.items()}
    return f" (used {', '.join(by_id[one] for one in used if one in by_id)})" if used else ""


_ProposingStage = Literal["compare", "consolidate"]

_FAULT_SENTENCES: Mapping[Fault, str] = {
    "prose": "the reply was prose; an object with the key 'proposals' is needed",
    "object_not_array": "the reply held one object; a list of objects under 'proposals' is needed",
    "cut_json": "the reply's JSON ended too early; only its complete items could be read",
    "wrong_key": "the list was not under the key 'proposals'",
    "no_reply": "the reply held nothing that could be read",
}


@dataclass(frozen=True, slots=True)
class _ReplySource:
    """Values that all proposals of one reply share."""

    stage: _ProposingStage
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


def _parse_reply(reply: StageReply, source: _ReplySource, *, repair: PromptRef | None = None) -> tuple[Proposal, ...]:
    """Return every item of the reply as a proposal. A malformed reply adds one refused proposal per fault.

    repair: the repair prompt, for the reply of the repair round.
    """
    found = list[Proposal]()

    def add(raw: str, shown: str, refusal: Rejected | None, operation: Operation | None, *rests_on: ProposalId) -> None:
        key = (source.stage, source.key, 0 if repair is None else 1, len(found), raw)
        found.append(
            Proposal(
                id=ProposalId(content_hash("proposal", *key)),
                stage=source.stage,
                ordinal=len(found),
                operation=operation if refusal is None else None,
                refusal=refusal,
                raw=shown,
                task=source.task,
                evidence=source.evidence,
                rests_on=rests_on,
                prompts=(source.prompt,) if repair is None else (source.prompt, repair),
            )
        )

    for item in reply.salvaged.items:
        raw = (storable(item) if isinstance(item, str) else json.dumps(item, default=str))[:MAX_RAW_CHARACTERS]
        parsed = parse_item(item, stage=source.stage, labels=source.labels)
        rests_on = dict.fromkeys(source.supports[label] for label in parsed.rests_on if label in source.supports)
        refusal = parsed.refusal
        if refusal is None and source.stage == "consolidate" and not rests_on:
            words = "the item names no proposal in 'rests_on' that it carries on, such as 'P1'"
            refusal = Rejected(code="unsupported", reason=words)
        add(raw, raw, refusal, parsed.operation, *rests_on)
    for fault in reply.salvaged.faults:
        add(fault, reply.raw, Rejected(code=fault, reason=_FAULT_SENTENCES[fault]), None)
    return tuple(found)


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


async def _propose(
    agent: StageAgent,
    question: str,
    source: _ReplySource,
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
    first = _parse_reply(reply, source)
    accepted, ended = _checked((), first, stage_context, context)
    faults, usable = reply.salvaged.faults, reply.salvaged.usable
    number_of = {one.id: number for number, one in enumerate(first, start=1)}
    refusals = [
        f"- item {number_of[one.proposal.id]}: {one.end.code}: {one.end.reason}"
        for one in ended
        if isinstance(one.end, Rejected)
    ]
    if refusals and reply.messages:
        repair = stage_context.prompts.repair.load()
        message = repair.fill({"refusals": "\n".join(refusals)})
        repaired = await agent.ask(message, stage_context.endpoint, unit, history=reply.messages)
        second = _parse_reply(repaired, source, repair=repair.ref)
        accepted_now, ended_now = _checked(accepted, second, stage_context, context)
        accepted, ended = (*accepted, *accepted_now), (*ended, *ended_now)
        faults, usable = (*faults, *repaired.salvaged.faults), usable or repaired.salvaged.usable
    kept, over = accepted[:limit], accepted[limit:] if limit is not None else ()
    too_many = Rejected(code="too_many_proposals", reason=f"only {limit} proposals are taken from one group")
    return Proposed(kept, (*ended, *(Ended(proposal=one, end=too_many) for one in over)), faults, usable)


def _checked(
    before: tuple[Proposal, ...], proposals: tuple[Proposal, ...], stage_context: StageContext, context: CheckContext
) -> tuple[tuple[Proposal, ...], tuple[Ended, ...]]:
    """The proposals that would be applied after `before`, and the others with their ends."""
    ended = next_version((*before, *proposals), stage_context.library, context).ended[len(before) :]
    accepted = tuple(one.proposal for one in ended if isinstance(one.end, Applied))
    return accepted, tuple(one for one in ended if not isinstance(one.end, Applied))


_MOST_FROM_WRONG = 2
"""Largest number of proposals from a group that is all wrong: no attempt in it shows that a proposal is right."""


def _is_mixed(group: Group, summaries: dict[RolloutId, Summary], stage_context: StageContext) -> bool:
    """Whether the rewards of the summarised trajectories differ."""
    return differ([t.reward for t in group.decided if t.id in summaries and t.reward is not None], stage_context.margin)


@cache
def _compare_agent(prompt: StagePrompt, max_proposals: int, max_words: int) -> StageAgent:
    values = {"max_proposals": str(max_proposals), "max_words": str(max_words)}
    return stage_agent(prompt.load().fill(values), "proposals")


async def compare(
    group: Group, summaries: dict[RolloutId, Summary], stage_context: StageContext, context: CheckContext
) -> Proposed:
    """Return the proposals of a group that teaches. Raises EndpointError.

    Of a group whose rewards differ, the model compares the attempts; of one that is all wrong, it looks for the rule
    behind what was wanted, and at most two proposals are taken.

    summaries: of the group's decided trajectories, by rollout.
    """
    prompt, limit = stage_context.prompts.compare, stage_context.options.max_proposals
    if not _is_mixed(group, summaries, stage_context):
        prompt, limit = stage_context.prompts.compare_wrong, min(limit, _MOST_FROM_WRONG)
    source = _ReplySource(
        stage="compare",
        key=group.task.id,
        prompt=prompt.load().ref,
        labels=stage_context.shown.labels,
        supports={},
        task=group.task.id,
        evidence=tuple(t.id for t in group.decided if t.id in summaries),
    )
    question = question_of(group, summaries, stage_context)
    agent = _compare_agent(prompt, limit, stage_context.options.lesson_words)
    return await _propose(agent, question, source, stage_context, context, limit=limit)


def question_of(group: Group, summaries: dict[RolloutId, Summary], stage_context: StageContext) -> str:
    """Return the user message of the stage."""
    attempts: list[str] = []
    compared, mixed = [t for t in group.decided if t.id in summaries], _is_mixed(group, summaries, stage_context)
    for number, trajectory in enumerate(compared, start=1):
        verdict, reward = verdict_words(trajectory.reward, stage_context.threshold)
        if mixed:
            verdict = _verdict(trajectory, compared, verdict, stage_context.margin)
        steps = "\n".join(
            f"{place}. {step.text}{_used_labels(step.used, stage_context)}"
            for place, step in enumerate(summaries[trajectory.id].steps, start=1)
        )
        reason = reason_block(stage_context.reason_of(trajectory))
        own = _problem(group.task_of(trajectory), stage_context) if group.others else ""
        attempts.append(
            f'<attempt n="{number}" verdict="{verdict}" reward="{reward}">\n{own}{reason}{steps}\n</attempt>'
        )
    library = f"\n{stage_context.shown.text}" if stage_context.shown.text else ""
    listed = "\n".join(attempts)
    # Of near neighbours each attempt names its own problem, and only there is an expected answer shown.
    head = f"<problem>\n{group.task.problem}\n</problem>\n" if group.others else _problem(group.task, stage_context)
    return f"{head}<attempts>\n{listed}\n</attempts>{library}"


def _verdict(trajectory: Trajectory, compared: Sequence[Trajectory], verdict: str, margin: float) -> str:
    """The verdict of an attempt among others whose rewards differ.

    Attempts with partial rewards are better or worse: better are those whose reward lies within the margin of the best
    one.
    """
    rewards = [one.reward for one in compared if one.reward is not None]
    if set(rewards) <= {0.0, 1.0}:
        return verdict
    return "worse" if differ((trajectory.reward or 0.0, max(rewards)), margin) else "better"


def _problem(task: Task, stage_context: StageContext) -> str:
    """Return a task's problem and its expected answer, where the stages may see it, between tags."""
    gold = f"<gold>\n{task.answer}\n</gold>\n" if stage_context.show_gold and task.answer is not None else ""
    return f"<problem>\n{task.problem}\n</problem>\n{gold}"


_MOST_REWARDS = 8
"""Of a larger group with partial rewards, the line gives only the number, the range and the mean."""


def consolidate_question(
    labels: Mapping[str, Proposal], stage_context: StageContext, groups: Sequence[Group] = ()
) -> str:
    """Return the user message for labelled proposals. groups: those that the proposals come from."""
    label_of = {identity: label for label, identity in stage_context.shown.labels.items()}
    details = _details(labels, stage_context, groups)
    lines = "\n".join(
        f"[{label}] {_line(proposal.operation, label_of)}{details.get(label, '')}" for label, proposal in labels.items()
    )
    library = f"{stage_context.shown.text}\n" if stage_context.shown.text else ""
    return f"{library}<proposals>\n{lines}\n</proposals>"


def _line(operation: Operation | None, label_of: Mapping[ExperienceId, str]) -> str:
    match operation:
        case Add():
            return f"add: {operation.lesson}"
        case Modify():
            return f"modify {label_of[operation.target]}: {operation.lesson}"
        case Delete():
            return f"delete {label_of[operation.target]}"
        case Merge():
            return f"merge {', '.join(label_of[target] for target in operation.targets)}: {operation.lesson}"
        case None:
            raise AssertionError("a proposal that could not be parsed never reaches consolidation")
        case _:
            assert_never(operation)


def _details(labels: Mapping[str, Proposal], stage_context: StageContext, groups: Sequence[Group]) -> Mapping[str, str]:
    """The line of evidence under each proposal whose group is known. Tasks are numbered in order of the proposals."""
    by_task = {group.task.id: group for group in groups}
    numbers: dict[TaskId, int] = {}
    found: dict[str, str] = {}
    for label, proposal in labels.items():
        if proposal.task is not None and proposal.task in by_task:
            number = numbers.setdefault(proposal.task, len(numbers) + 1)
            found[label] = f"\n  task {number}: {_evidence(by_task[proposal.task], stage_context)}"
    return found


def _evidence(group: Group, stage_context: StageContext) -> str:
    """How a group's attempts ended, and what was said about one that ended worst."""
    worst = (one for one in group.decided if one.reward == min(group.rewards_G))
    said = next(filter(None, map(stage_context.reason_of, worst)), "")
    return f"{_outcomes(group.rewards_G)}{f'; reason: {quoted_reason(said)}' if said else ''}"


def _outcomes(rewards_G: Sequence[float]) -> str:
    if set(rewards_G) <= {0.0, 1.0}:
        right = sum(reward == 1 for reward in rewards_G)
        return f"{right} right, {len(rewards_G) - right} wrong"
    falling = sorted(rewards_G, reverse=True)
    if len(falling) <= _MOST_REWARDS:
        return f"rewards {', '.join(f'{reward:.2f}' for reward in falling)}"
    mean = sum(falling) / len(falling)
    return f"{len(falling)} rewards from {falling[-1]:.2f} to {falling[0]:.2f}, mean {mean:.2f}"


_MAX_TRIES = 2


@dataclass(frozen=True, slots=True)
class _Consolidated:
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
def _agent(prompt: StagePrompt, max_words: int) -> StageAgent:
    return stage_agent(prompt.load().fill({"max_words": str(max_words)}), "proposals")


async def consolidate(
    proposals: Sequence[Proposal], stage_context: StageContext, context: CheckContext, groups: Sequence[Group] = ()
) -> _Consolidated:
    """Consolidate the compare proposals of a batch, given in order of (task, ordinal). Tries twice.

    groups: those that the proposals come from, for the evidence that the stage is shown.
    """
    if not proposals:
        return _Consolidated((), (), ())
    labels = {f"P{number}": proposal for number, proposal in enumerate(proposals, start=1)}
    question, prompt = consolidate_question(labels, stage_context, groups), stage_context.prompts.consolidate
    faults: list[str] = []
    ended: list[Ended] = []
    for attempt in range(_MAX_TRIES):
        source = _ReplySource(
            stage="consolidate",
            key=f"try-{attempt}",
            prompt=prompt.load().ref,
            labels=stage_context.shown.labels,
            supports={label: proposal.id for label, proposal in labels.items()},
            evidence=tuple(dict.fromkeys(rollout for proposal in proposals for rollout in proposal.evidence)),
        )
        try:
            agent = _agent(prompt, stage_context.options.lesson_words)
            answer = await _propose(agent, question, source, stage_context, context)
        except EndpointError as error:
            faults.append(error.code)
            continue
        faults.extend(answer.faults)
        for one in answer.ended:  # a person who decides on a quarantined proposal needs its evidence
            held = isinstance(one.end, Quarantined)
            proposal = _narrowed(one.proposal, proposals) if held else one.proposal
            ended.append(one.model_copy(update={"proposal": proposal}))
        if answer.usable:
            narrowed = tuple(_narrowed(accepted, proposals) for accepted in answer.accepted)
            return _Consolidated(narrowed, (*_ends(proposals, answer), *ended), tuple(faults))
    return _Consolidated(tuple(proposals), tuple(ended), tuple(faults), failed=True)


def _narrowed(one: Proposal, proposals: Sequence[Proposal]) -> Proposal:
    evidence = {proposal.id: proposal.evidence for proposal in proposals}
    return one.model_copy(
        update={"evidence": tuple(dict.fromkeys(r for support in one.rests_on for r in evidence[support]))}
    )


def _ends(proposals: Sequence[Proposal], answer: Proposed) -> list[Ended]:
    """How each compare proposal ended: folded when a consolidate proposal rests on it, else dropped."""
    into: dict[ProposalId, list[ProposalId]] = {proposal.id: [] for proposal in proposals}
    for consolidated in (*answer.accepted, *(one.proposal for one in answer.ended)):
        for support in consolidated.rests_on:
            into[support].append(consolidated.id)
    unused = Dropped(reason="not taken up by the consolidation")
    return [Ended(proposal=one, end=Folded(into=tuple(into[one.id])) if into[one.id] else unused) for one in proposals]
