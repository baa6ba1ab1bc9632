"""Everything that the store holds about one group: its rollouts, their summaries, the comparison and its proposals."""

import json
from dataclasses import dataclass
from typing import Any

from agentlearn.cli.show.addresses import GroupAddress
from agentlearn.cli.show.drawn import allocation_of
from agentlearn.cli.show.proposal_words import followers, proposal_json
from agentlearn.cli.show.rollout_record import stored_library
from agentlearn.learning.allocation import Allocation
from agentlearn.models.journal import CallRecord
from agentlearn.store import ProposalRow, StoreReader
from agentlearn.types.experience import Library
from agentlearn.types.ids import RolloutId, content_hash
from agentlearn.types.summary import Summary
from agentlearn.types.task import Task
from agentlearn.types.trajectory import PromptRef, Trajectory


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
