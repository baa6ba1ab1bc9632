"""The groups of a run, and one group as text: rollouts, summaries, the comparison, and the end of every proposal."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from agentlearn.config.defaults import command_words
from agentlearn.learning.batch import Allocation
from agentlearn.models.call_context import CallRecord
from agentlearn.pages.figure import score_words
from agentlearn.pages.records import (
    GroupAddress,
    GroupRow,
    counted_ends,
    followers,
    group_address,
    proposal_json,
    proposal_lines,
)
from agentlearn.pages.rollouts import (
    stored_library,
    summary_lines,
    task_lines,
    treatment_words,
    verdict_words,
)
from agentlearn.pages.runs import command_of
from agentlearn.pages.terminal import indented, labelled, labelled_command, one_line, shortened
from agentlearn.store import ProposalRow, RunRow, StoreReader
from agentlearn.types.experience import Library
from agentlearn.types.group import Summary, differ
from agentlearn.types.ids import RolloutId, content_hash
from agentlearn.types.task import Task
from agentlearn.types.trajectory import PromptRef, Trajectory, measures


def _allocation(run: RunRow, phase: str) -> Allocation | None:
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


def _drawn_words(allocation: Allocation | None, rewards: Sequence[float | None]) -> str:
    """Such as `3 of 5 rollouts: enough to tell`; empty when the group has all its rollouts."""
    if allocation is None or not rewards or len(rewards) >= allocation.group_size:
        return ""
    why = "enough to tell" if allocation.more(rewards) == 0 else "the run ended before the others"
    return f"{len(rewards)} of {allocation.group_size} rollouts: {why}"


def group_json(run: RunRow, row: GroupRow) -> dict[str, Any]:
    """A group in a list, for JSON output."""
    allocation = _allocation(run, row.phase)
    return {
        "address": group_address(run.run, row.task, row.phase),
        "phase": row.phase,
        "batch": row.batch,
        "rewards": row.rewards,
        "rollouts": row.rollouts,
        "ends": row.ends,
        "problem": row.problem,
        "planned": 0 if allocation is None else allocation.group_size,
        "drawn": _drawn_words(allocation, row.rewards),
    }


def group_list_lines(reader: StoreReader, run: RunRow, groups: Sequence[GroupRow], *, full: bool) -> Iterator[str]:
    """The groups as text. Without `full`, those of a phase that only measures are counted."""
    yield labelled("run", f"{run.run}  {command_of(run)} {run.domain} with {run.model}, {run.state}")
    epochs: list[dict[str, Any]] = json.loads(run.report or "{}").get("epochs") or []
    skipped = {f"epoch-{one.get('epoch')}": int(one.get("skipped") or 0) for one in epochs}
    for phase in dict.fromkeys(one.phase for one in groups):
        members = [one for one in groups if one.phase == phase]
        yield ""
        if measures(phase) and run.kind != "eval" and not full:
            yield f"{phase}: {_measured(reader, run, phase, members)} (--full lists them)"
            continue
        left_out = f", {skipped[phase]} skipped (all right when last seen)" if skipped.get(phase) else ""
        yield f"{phase}: {len(members)} tasks{left_out}"
        for one in members:
            rewards = " ".join("-" if reward is None else f"{reward:g}" for reward in one.rewards)
            drawn = _drawn_words(_allocation(run, phase), one.rewards)
            yield (
                f"  {group_address(run.run, one.task, phase)}   rewards {rewards or 'rollouts of other runs'}"
                f"{f' ({drawn})' if drawn else ''}   proposals {counted_ends(one.ends)}   {one_line(one.problem, 60)}"
            )
    if not groups:
        yield labelled("", "there are no rollouts")
        return
    shown = next((one for one in groups if one.ends), groups[0])
    address = group_address(run.run, shown.task, shown.phase)
    yield ""
    yield labelled_command("show one", command_words("trace", address, store=reader.directory))


def _measured(reader: StoreReader, run: RunRow, phase: str, members: Sequence[GroupRow]) -> str:
    """The tasks of a phase that only measures, by what they were to the run."""
    inputs = reader.run_inputs(run.run)
    train, test = (set[str](), set[str]()) if inputs is None else ({*inputs.train}, {*inputs.test})
    tasks: set[str] = {one.task for one in members}
    parts = [
        (len(tasks & test), "held-out {}"),
        (len(tasks & train), "{} learned from"),
        (len(tasks - test - train), f"{phase.partition(':')[0]} {{}}"),
    ]
    return " and ".join(f"{count} {words.format('task' if count == 1 else 'tasks')}" for count, words in parts if count)


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
    proposals: tuple[ProposalRow, ...]
    """The group's proposals, with their ends."""
    consolidated: tuple[ProposalRow, ...]
    """Proposals of the consolidation that rest on proposals of this group, each once."""
    other_consolidated: tuple[ProposalRow, ...]
    """The other proposals of the batch's consolidation."""
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
        batch = [one for one in reader.proposals(run) if (one.phase, one.batch) == (address.phase, address.batch)]
        own = [one for one in batch if one.ended.proposal.task == address.task]
        later = {one.ended.proposal.id: one for proposal in own for one in followers(batch, proposal)}
        consolidations = [one for one in batch if one.ended.proposal.stage == "consolidate"]
        refs = dict.fromkeys(ref for one in batch for ref in one.ended.proposal.prompts)
        versions = [one.library for one in summaries.values()]
        versions += [one.treatment.library for one in trajectories.values() if one.run == run]
        return cls(
            address=address,
            task=reader.task(address.task),
            trajectories=tuple(trajectories.values()),
            summaries=summaries,
            comparison=tuple(call for call in replies if call.stage == "compare"),
            consolidation=tuple(call for call in tries if call.stage == "consolidate"),
            proposals=tuple(own),
            consolidated=tuple(later.values()),
            other_consolidated=tuple(one for one in consolidations if one.ended.proposal.id not in later),
            library=stored_library(reader, versions[0]) if versions else None,
            prompts={ref: reader.prompt(ref.sha256) for ref in refs if reader.starting("prompt", ref.sha256)},
        )

    @property
    def allocation(self) -> Allocation | None:
        """The rules by which its rollouts were made; None where none were made to learn lessons from."""
        return _allocation(self.address.run, self.address.phase)

    def as_json(self) -> dict[str, Any]:
        """The record for JSON output."""
        models = {
            "rollouts": self.trajectories,
            "summaries": self.summaries.values(),
            "comparison": self.comparison,
            "consolidation": self.consolidation,
        }
        return {
            "run": self.address.run.run,
            "phase": self.address.phase,
            "batch": self.address.batch,
            "task": self.task.model_dump(mode="json"),
            "planned": 0 if self.allocation is None else self.allocation.group_size,
            **{name: [one.model_dump(mode="json") for one in found] for name, found in models.items()},
            "proposals": [proposal_json(one) for one in self.proposals],
            "consolidated": [proposal_json(one) for one in self.consolidated],
            "other_consolidated": [proposal_json(one) for one in self.other_consolidated],
            "prompts": {ref.label: text for ref, text in self.prompts.items()},
        }

    def lines(self, *, full: bool) -> Iterator[str]:
        """The record as text, one part after the other.

        full: every text to its end, the batch's other proposals, and the prompts of the stages.
        """
        address, task, run = self.address, self.task, self.address.run
        batch = f", batch {address.batch}" if address.batch else ""
        yield labelled("group", f"{group_address(run.run, task.id, address.phase)} ({run.kind} run{batch})")
        yield from task_lines(task, full=full)
        for treatment in {one.treatment.key: one.treatment for one in self.trajectories}.values():
            known = self.library is not None and self.library.version == treatment.library
            lessons = len(self.library) if self.library is not None and known else None
            yield labelled("treatment", treatment_words(treatment, lessons))
        yield ""
        for one in self.trajectories:
            answer = "no answer" if one.answer is None else f"answer {one_line(one.answer, 40)}"
            origin = "" if one.run == run.run else f" of run {one.run}"
            words = f"{score_words(one.reward)}  {one.id[:12]}{origin}  {answer}  {one_line(verdict_words(one))}"
            yield labelled(f"rollout {one.g}", words)
        if words := _drawn_words(self.allocation, [one.reward for one in self.trajectories]):
            yield labelled("drawn", words)
        if run.kind != "learn" or measures(address.phase):
            yield labelled("learned", "nothing: these rollouts measure, or train weights; they were not compared")
            return
        labels = {} if self.library is None else {one: name for name, one in self.library.render().labels.items()}
        for one in self.trajectories:
            if (summary := self.summaries.get(one.id)) is not None:
                yield ""
                yield labelled("summary", f"of rollout {one.g}, {one.id[:12]}")
                yield from summary_lines(summary, labels)
        yield ""
        yield from self._comparison_lines(full=full)
        yield from proposal_lines("proposal", self.proposals, labels)
        if self.proposals:
            yield ""
            if full:
                yield from _replies("consolidation", self.consolidation, full=full)
            yield from proposal_lines("→", self.consolidated, labels)
            others = self.other_consolidated
            if full:
                yield from proposal_lines("batch", others, labels)
            elif others:
                yield labelled(
                    "batch", f"the consolidation made {len(others)} more proposals from other groups (--full)"
                )
        if full:
            for ref, text in self.prompts.items():
                yield labelled("prompt", f"{ref.label}\n{text}")

    def _comparison_lines(self, *, full: bool) -> Iterator[str]:
        """The replies of the compare stage, or why there is none."""
        if self.comparison:
            yield from _replies("comparison", self.comparison, full=full)
            if not self.proposals:
                yield labelled("proposal", "the comparison proposed nothing, or its batch did not end")
            return
        rewards = sorted({one.reward for one in self.trajectories if one.reward is not None})
        margin = 0.0 if self.allocation is None else self.allocation.margin
        if not rewards:
            reason = "no rollout has a reward"
        elif len(rewards) == 1 and rewards[0] < 1 and self.address.run.state != "done":
            reason = f"all rewards are {rewards[0]:g}, and the run ended before it looked for what was wanted"
        elif len(rewards) == 1:
            wanted = " and nothing said what was wanted" if rewards[0] < 1 else ""
            reason = f"all rewards are {rewards[0]:g}{wanted}, so there was nothing to compare"
        elif not differ(rewards, margin):
            reason = f"the rewards differ by no more than {margin:g}, which counts as equal"
        elif not self.summaries:
            reason = "no summary is stored: the run ended before, or the model gave none"
        else:
            reason = "no reply is stored: the run ended before, summaries are missing, or the model did not answer"
        yield labelled("comparison", f"none: {reason}")


def _replies(label: str, calls: Sequence[CallRecord], *, full: bool) -> Iterator[str]:
    for number, call in enumerate(calls):
        yield f"{label}: reply {number + 1} of {len(calls)} by {call.name}"
        yield indented(shortened(reply_text(call.response), full=full))


def reply_text(response: str) -> str:
    """What stored messages say: instructions and texts, and the arguments of tool calls as JSON in lines."""
    try:
        messages: Any = json.loads(response)
    except ValueError:
        return response
    known = [message for message in messages if isinstance(message, dict)]
    instructions = next((text for one in known if (text := one.get("instructions"))), "")
    parts = (part for one in known for part in one.get("parts", ()))
    return "\n".join(filter(None, (instructions, *map(_part_text, parts))))


def _part_text(part: dict[str, Any]) -> str:
    match part:
        case {"part_kind": "tool-call", "tool_name": name, "args": arguments}:
            try:
                loaded = json.loads(arguments) if isinstance(arguments, str) else arguments
            except ValueError:
                return f"{name} {arguments}"
            return f"{name} {json.dumps(loaded, ensure_ascii=False, indent=2)}"
        case {"part_kind": "thinking", "content": str(content)} if content:
            return f"(reasoning) {content}"
        case {"content": str(content)}:
            return content
        case {"content": list(pieces)}:
            return "\n".join(piece if isinstance(piece, str) else f"({piece.get('kind', 'file')})" for piece in pieces)
        case _:
            return ""
