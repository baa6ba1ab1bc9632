"""One group as text: its rollouts, the summaries, the comparison, and what became of every proposal."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from agentlearn.cli.output import score_words
from agentlearn.cli.show.rollouts import stored_library, treatment_words, verdict_words
from agentlearn.cli.show.words import (
    GroupAddress,
    followers,
    group_address,
    groups_of,
    indented,
    labelled,
    labelled_command,
    one_line,
    proposal_json,
    proposal_lines,
    shortened,
)
from agentlearn.config.command_words import command_words
from agentlearn.learning.batch import Allocation
from agentlearn.library.shown import render
from agentlearn.models.call_context import CallRecord
from agentlearn.store import ProposalRow, RunRow, StoreReader
from agentlearn.types.experience import Library
from agentlearn.types.group import Summary, differ
from agentlearn.types.ids import ExperienceId, RolloutId, content_hash
from agentlearn.types.task import Task
from agentlearn.types.trajectory import PromptRef, Trajectory, measures, prompt_labels


def allocation_of(run: RunRow, phase: str) -> Allocation | None:
    """The rules by which the rollouts of a phase were made; None where none were made to learn lessons from."""
    settings: dict[str, Any] = json.loads(run.settings or "{}")
    size = settings.get("group_size")
    if run.kind != "learn" or measures(phase) or not isinstance(size, int) or settings.get("from_store"):
        return None
    return Allocation(
        group_size=size,
        stop_after=size if settings.get("hidden_rollouts") else settings.get("stop_after", size),
        margin=settings.get("reward_margin", 0.0),
        revisit_every=settings.get("revisit_every", 1),
        end_when_settled=settings.get("end_when_settled", 1.0),
    )


def drawn_words(allocation: Allocation | None, rewards: Sequence[float | None]) -> str:
    """Such as `3 of 5 rollouts: enough to tell`; empty when the group has all its rollouts."""
    if allocation is None or not rewards or len(rewards) >= allocation.group_size:
        return ""
    why = "enough to tell" if allocation.more(rewards) == 0 else "the run ended before the others"
    return f"{len(rewards)} of {allocation.group_size} rollouts: {why}"


def skipped_tasks(run: RunRow) -> dict[str, int]:
    """Per phase of a finished run, the number of tasks that were skipped."""
    epochs: list[dict[str, Any]] = json.loads(run.report or "{}").get("epochs") or []
    return {f"epoch-{one.get('epoch')}": int(one.get("skipped") or 0) for one in epochs}


_PROBLEM = 60
"""Characters of a problem in the list."""


@dataclass(frozen=True, slots=True)
class GroupLine:
    """A group in a list."""

    address: str
    phase: str
    batch: int
    rewards: tuple[float | None, ...]
    """Rewards by rollout; None for a rollout without one. Empty when the run learned from rollouts of other runs."""
    rollouts: tuple[str, ...]
    """Ids of the rollouts."""
    ends: dict[str, int]
    """Proposals of the group by end."""
    problem: str
    planned: int
    """Rollouts that were planned; 0 where none were planned to learn lessons from."""
    drawn: str
    """Why there are fewer; empty when there are not."""


def group_list(reader: StoreReader, run: RunRow) -> list[GroupLine]:
    """All groups of a run, in its order."""
    rollouts = defaultdict[tuple[str, int, str], list[Any]](list)
    for one in reader.trajectories(run.run):
        rollouts[one.phase, one.batch, one.task].append(one)
    ends = defaultdict[tuple[str, int, str], Counter[str]](Counter)
    for row in reader.proposals(run.run):
        if row.ended.proposal.task is not None:
            ends[row.phase, row.batch, row.ended.proposal.task][row.ended.end.end] += 1
    problems: dict[str, str] = {}
    lines: list[GroupLine] = []
    for group in groups_of(reader, run):
        key = (group.phase, group.batch, group.task)
        if group.task not in problems:
            problems[group.task] = reader.task(group.task).problem
        rewards = tuple(one.reward for one in rollouts[key])
        allocation = allocation_of(run, group.phase)
        lines.append(
            GroupLine(
                address=group_address(run.run, group.task, group.phase),
                phase=group.phase,
                batch=group.batch,
                rewards=rewards,
                rollouts=tuple(one.id for one in rollouts[key]),
                ends=dict(ends[key]),
                problem=problems[group.task],
                planned=0 if allocation is None else allocation.group_size,
                drawn=drawn_words(allocation, rewards),
            )
        )
    return lines


def group_list_lines(reader: StoreReader, run: RunRow, *, full: bool) -> Iterator[str]:
    """The groups as text. Without `full`, those of a phase that only measures are counted."""
    groups = group_list(reader, run)
    yield labelled("run", f"{run.run}  {run.kind} {run.domain} with {run.model}, {run.state}")
    counts, skipped = Counter(one.phase for one in groups), skipped_tasks(run)
    for phase in counts:
        members = [one for one in groups if one.phase == phase]
        yield ""
        if measures(phase) and run.kind != "eval" and not full:
            yield f"{phase}: {_measured(reader, run, phase)} (--full lists them)"
            continue
        left_out = f", {skipped[phase]} skipped (all right when last seen)" if skipped.get(phase) else ""
        yield f"{phase}: {len(members)} tasks{left_out}"
        yield from (_line(one) for one in members)
    if not groups:
        yield labelled("", "there are no rollouts")
        return
    shown = next((one for one in groups if one.ends), groups[0])
    yield ""
    yield labelled_command("show one", command_words("trace", shown.address, store=reader.directory))


def _measured(reader: StoreReader, run: RunRow, phase: str) -> str:
    """The tasks of a phase that only measures, by what they were to the run."""
    inputs = reader.run_inputs(run.run)
    train, test = (
        (frozenset(inputs.train), frozenset(inputs.test)) if inputs is not None else (frozenset(), frozenset())
    )
    tasks = {one.task for one in groups_of(reader, run) if one.phase == phase}
    parts = [
        (len(tasks & test), "held-out"),
        (len(tasks & train), "learned from"),
        (len(tasks - test - train), phase.partition(":")[0]),
    ]
    words = {"held-out": "held-out {}", "learned from": "{} learned from"}
    said = [
        f"{count} {words.get(kind, kind + ' {}').format('task' if count == 1 else 'tasks')}"
        for count, kind in parts
        if count
    ]
    return " and ".join(said)


def _line(group: GroupLine) -> str:
    rewards = " ".join("-" if one is None else f"{one:g}" for one in group.rewards) or "rollouts of other runs"
    ends = ", ".join(f"{count} {end}" for end, count in sorted(group.ends.items())) or "none"
    drawn = f" ({group.drawn})" if group.drawn else ""
    return f"  {group.address}   rewards {rewards}{drawn}   proposals {ends}   {one_line(group.problem, _PROBLEM)}"


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """A group with what was learned from it."""

    address: GroupAddress
    task: Task
    trajectories: tuple[Trajectory, ...]
    """Its rollouts; those of a run over stored rollouts belong to other runs, and only summarised ones are known."""
    summaries: dict[RolloutId, Summary]
    comparison: tuple[CallRecord, ...]
    """The replies of the compare stage, in order; the second is that of the repair round."""
    consolidation: tuple[CallRecord, ...]
    """The replies of the consolidate stage for the whole batch."""
    batch_proposals: tuple[ProposalRow, ...]
    """All proposals of the batch, with their ends."""
    library: Library | None
    """The library that the comparison was shown; None when it is not known."""
    prompts: dict[PromptRef, str]
    """Texts of the prompts of both stages, as far as the store has them."""

    @classmethod
    def read(cls, reader: StoreReader, address: GroupAddress) -> "GroupRecord":
        """Read a group."""
        run, step = address.run.run, f"{address.phase}/{address.batch}"
        trajectories = {one.id: one for one in reader.group(run, address.phase, address.task)}
        summaries: dict[RolloutId, Summary] = {}
        for one in reader.summaries(run):
            if one.id == content_hash("summary", one.rollout, step):
                trajectory = trajectories.get(one.rollout) or reader.trajectory(one.rollout)
                if trajectory.task == address.task:
                    trajectories[trajectory.id], summaries[trajectory.id] = trajectory, one
        replies = reader.calls(run, f"{step}/{address.task}")
        tries = [call for number in range(2) for call in reader.calls(run, f"{step}/try-{number}")]
        proposals = [one for one in reader.proposals(run) if (one.phase, one.batch) == (address.phase, address.batch)]
        versions = [one.library for one in summaries.values()]
        versions += [one.treatment.library for one in trajectories.values() if one.run == run]
        return cls(
            address=address,
            task=reader.task(address.task),
            trajectories=tuple(trajectories.values()),
            summaries=summaries,
            comparison=tuple(call for call in replies if call.stage == "compare"),
            consolidation=tuple(call for call in tries if call.stage == "consolidate"),
            batch_proposals=tuple(proposals),
            library=stored_library(reader, versions[0]) if versions else None,
            prompts=_prompts(reader, proposals),
        )

    @property
    def allocation(self) -> Allocation | None:
        """The rules by which its rollouts were made; None where none were made to learn lessons from."""
        return allocation_of(self.address.run, self.address.phase)

    @property
    def proposals(self) -> list[ProposalRow]:
        """The group's proposals."""
        return [one for one in self.batch_proposals if one.ended.proposal.task == self.task.id]

    @property
    def consolidated(self) -> list[ProposalRow]:
        """Proposals of the consolidation that rest on proposals of this group, each once."""
        found = [one for proposal in self.proposals for one in followers(self.batch_proposals, proposal)]
        return list({one.ended.proposal.id: one for one in found}.values())

    @property
    def other_consolidated(self) -> list[ProposalRow]:
        """The other proposals of the batch's consolidation."""
        known = {one.ended.proposal.id for one in self.consolidated}
        return [
            one
            for one in self.batch_proposals
            if one.ended.proposal.stage == "consolidate" and one.ended.proposal.id not in known
        ]

    def as_json(self) -> dict[str, Any]:
        """The record for JSON output."""
        return {
            "run": self.address.run.run,
            "phase": self.address.phase,
            "batch": self.address.batch,
            "task": self.task.model_dump(mode="json"),
            "planned": 0 if self.allocation is None else self.allocation.group_size,
            "rollouts": [one.model_dump(mode="json") for one in self.trajectories],
            "summaries": [one.model_dump(mode="json") for one in self.summaries.values()],
            "comparison": [one.model_dump(mode="json") for one in self.comparison],
            "consolidation": [one.model_dump(mode="json") for one in self.consolidation],
            "proposals": [proposal_json(one) for one in self.proposals],
            "consolidated": [proposal_json(one) for one in self.consolidated],
            "other_consolidated": [proposal_json(one) for one in self.other_consolidated],
            "prompts": {ref.label: text for ref, text in self.prompts.items()},
        }


def _prompts(reader: StoreReader, proposals: list[ProposalRow]) -> dict[PromptRef, str]:
    refs = dict.fromkeys(ref for one in proposals for ref in one.ended.proposal.prompts)
    return {ref: reader.prompt(ref.sha256) for ref in refs if reader.starting("prompt", ref.sha256)}


def reply_text(call: CallRecord) -> str:
    """What the model wrote in a reply: its text, and the arguments of its tool calls as JSON on several lines."""
    try:
        messages: Any = json.loads(call.response)
    except ValueError:
        return call.response
    parts = [part for message in messages if isinstance(message, dict) for part in message.get("parts", ())]
    return "\n".join(filter(None, map(_part_text, parts)))


def _part_text(part: dict[str, Any]) -> str:
    match part:
        case {"part_kind": "tool-call", "tool_name": name, "args": arguments}:
            return f"{name} {_pretty(arguments)}"
        case {"part_kind": "thinking", "content": str(content)} if content:
            return f"(reasoning) {content}"
        case {"content": str(content)}:
            return content
        case _:
            return ""


def _pretty(arguments: object) -> str:
    """Arguments as indented JSON; as they are when they are no JSON."""
    try:
        loaded = json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return str(arguments)
    return json.dumps(loaded, ensure_ascii=False, indent=2)


ROLLOUT_ID = 12
"""Characters of a rollout's id in a list of rollouts."""


def group_lines(record: GroupRecord, *, full: bool) -> Iterator[str]:
    """The record as text, one part after the other. full: every text to its end, the batch's other proposals, and the
    prompts of the stages."""
    address, task = record.address, record.task
    run = address.run
    batch = f", batch {address.batch}" if address.batch else ""
    yield labelled("group", f"{group_address(run.run, task.id, address.phase)} ({run.kind} run{batch})")
    yield labelled("task", shortened(task.problem, full=full))
    expected = "unknown" if task.answer is None else task.answer
    yield labelled("expected", f"{shortened(expected, full=full)}   ({task.family or 'no family'}, {task.source})")
    for treatment in {one.treatment.key: one.treatment for one in record.trajectories}.values():
        known = record.library is not None and record.library.version == treatment.library
        lessons = len(record.library) if record.library is not None and known else None
        yield labelled("treatment", treatment_words(treatment, lessons))
    yield ""
    for one in record.trajectories:
        yield _rollout_line(one, run.run)
    if words := drawn_words(record.allocation, [one.reward for one in record.trajectories]):
        yield labelled("drawn", words)
    if run.kind != "learn" or measures(address.phase):
        yield labelled("learned", "nothing: these rollouts measure, or train weights; they were not compared")
        return
    labels = {} if record.library is None else {one: name for name, one in render(record.library).labels.items()}
    yield from _summary_lines(record, labels)
    yield ""
    yield from _comparison_lines(record, full=full)
    yield from _proposals("proposal", record.proposals, labels)
    if record.proposals:
        yield ""
        yield from _replies("consolidation", record.consolidation if full else (), full=full)
        yield from _proposals("→", record.consolidated, labels)
        yield from _other_lines(record, labels, full=full)
    if full:
        for ref, text in record.prompts.items():
            yield labelled("prompt", f"{ref.label}\n{text}")


def _rollout_line(one: Trajectory, run: str) -> str:
    reward = score_words(one.reward)
    answer = "no answer" if one.answer is None else f"answer {one_line(one.answer, 40)}"
    origin = "" if one.run == run else f" of run {one.run}"
    words = f"{reward}  {one.id[:ROLLOUT_ID]}{origin}  {answer}  {one_line(verdict_words(one))}"
    return labelled(f"rollout {one.g}", words)


def _summary_lines(record: GroupRecord, labels: dict[ExperienceId, str]) -> Iterator[str]:
    for one in record.trajectories:
        if (summary := record.summaries.get(one.id)) is None:
            continue
        yield ""
        yield labelled("summary", f"of rollout {one.g}, {one.id[:ROLLOUT_ID]}")
        for number, step in enumerate(summary.steps, start=1):
            used = f" (used {', '.join(labels.get(lesson, lesson[:8]) for lesson in step.used)})" if step.used else ""
            yield labelled("", f"{number}. {step.text}{used}")


def _comparison_lines(record: GroupRecord, *, full: bool) -> Iterator[str]:
    """The replies of the compare stage, or why there is none."""
    if record.comparison:
        yield from _replies("comparison", record.comparison, full=full)
        if not record.proposals:
            yield labelled("proposal", "the comparison proposed nothing, or its batch did not end")
        return
    rewards = sorted({one.reward for one in record.trajectories if one.reward is not None})
    margin = 0.0 if record.allocation is None else record.allocation.margin
    if not rewards:
        reason = "no rollout has a reward"
    elif len(rewards) == 1:
        reason = f"all rewards are {rewards[0]:g}, so there was nothing to compare"
    elif not differ(rewards, margin):
        reason = f"the rewards differ by no more than {margin:g}, which counts as equal"
    elif not record.summaries:
        reason = "no summary is stored: the run ended before, or the model gave none"
    else:
        reason = "no reply is stored: the run ended before, summaries are missing, or the model did not answer"
    yield labelled("comparison", f"none: {reason}")


def _replies(label: str, calls: Sequence[CallRecord], *, full: bool) -> Iterator[str]:
    for number, call in enumerate(calls):
        yield f"{label}: reply {number + 1} of {len(calls)} by {call.name}"
        yield indented(shortened(reply_text(call), full=full))


def _proposals(label: str, rows: Sequence[ProposalRow], labels: dict[ExperienceId, str]) -> Iterator[str]:
    for row in rows:
        asked, ended = proposal_lines(row.ended, labels)
        yield labelled(label, f"{asked}\n{ended}; asked with {prompt_labels(row.ended.proposal.prompts)}")


def _other_lines(record: GroupRecord, labels: dict[ExperienceId, str], *, full: bool) -> Iterator[str]:
    """The batch's consolidation beyond this group: all of it, or how many proposals there are."""
    others = record.other_consolidated
    if full:
        yield from _proposals("batch", others, labels)
    elif others:
        yield labelled("batch", f"the consolidation made {len(others)} more proposals from other groups (--full)")
