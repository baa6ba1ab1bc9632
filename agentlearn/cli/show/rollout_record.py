"""Everything that the store holds about one rollout."""

import json
from dataclasses import dataclass
from typing import Any

from agentlearn.cli.show.proposal_words import followers, proposal_json
from agentlearn.cli.show.sent_texts import SentTexts
from agentlearn.errors import ConfigError
from agentlearn.library.render import Rendered, render
from agentlearn.store import ProposalRow, StoreReader
from agentlearn.types.experience import Library
from agentlearn.types.feedback import Feedback
from agentlearn.types.ids import LibraryVersion, RolloutId
from agentlearn.types.summary import Summary
from agentlearn.types.task import Task
from agentlearn.types.trajectory import TOOLS, Trajectory


@dataclass(frozen=True, slots=True)
class RolloutRecord:
    """A rollout with what its agent was sent, and what was learned from it."""

    trajectory: Trajectory
    task: Task
    sent: SentTexts
    tools: tuple[dict[str, Any], ...] | None
    """The tools that the model was offered, with their schemas; None when they were not recorded."""
    library: Library | None
    """The library of its treatment; None when the store does not have that version."""
    summaries: tuple[Summary, ...]
    """Summaries of it, made by this run or by runs that learned from it later."""
    proposals: tuple[ProposalRow, ...]
    """Proposals that were made from it, with their ends."""
    episode: str = ""
    """The episode that it was recorded in; empty for none."""
    feedback: tuple[Feedback, ...] = ()
    """All that was said about it or its episode, in order."""

    @classmethod
    def read(cls, reader: StoreReader, rollout: RolloutId) -> "RolloutRecord":
        """Read a rollout by its complete id."""
        (whole,) = reader.whole([rollout])
        trajectory = whole.trajectory
        return cls(
            trajectory=trajectory,
            task=reader.task(trajectory.task),
            sent=SentTexts.of(whole.messages),
            tools=_tools(reader, trajectory),
            library=stored_library(reader, trajectory.treatment.library),
            summaries=tuple(reader.summaries_of(rollout)),
            proposals=tuple(reader.proposals_from(rollout)),
            episode=reader.episode(rollout) or "",
            feedback=tuple(reader.feedback(rollout)),
        )

    @property
    def shown(self) -> Rendered:
        """The lessons as the agent was shown them."""
        if self.library is None:
            return Rendered(text="", labels={})
        return render(self.library, self.trajectory.treatment.masked)

    @property
    def made(self) -> list[ProposalRow]:
        """Proposals of the compare stage, whose question showed this rollout."""
        return [one for one in self.proposals if one.ended.proposal.stage == "compare"]

    def consolidated(self, proposal: ProposalRow) -> list[ProposalRow]:
        """Proposals of the consolidate stage that replace a proposal."""
        return followers(self.proposals, proposal)

    def as_json(self) -> dict[str, Any]:
        """The record for JSON output."""
        withheld = self.trajectory.treatment.masked
        known = self.library.experiences if self.library is not None else ()
        return {
            "trajectory": self.trajectory.model_dump(mode="json"),
            "task": self.task.model_dump(mode="json"),
            "sent": self.sent.as_json,
            "tools": None if self.tools is None else list(self.tools),
            "lessons": [one.lesson for one in known if one.id not in withheld],
            "lessons_block": self.shown.text,
            "lessons_sent": bool(self.shown.text) and self.sent.hold(self.shown.text),
            "withheld": [one.lesson for one in known if one.id in withheld],
            "library_known": self.library is not None,
            "summaries": [one.model_dump(mode="json") for one in self.summaries],
            "proposals": [proposal_json(one) for one in self.proposals],
            "episode": self.episode,
            "feedback": [one.model_dump(mode="json") for one in self.feedback],
        }


def stored_library(reader: StoreReader, version: LibraryVersion) -> Library | None:
    """The library with that version; None when the store does not have it."""
    try:
        return reader.library(version)
    except ConfigError:
        return None


def _tools(reader: StoreReader, trajectory: Trajectory) -> tuple[dict[str, Any], ...] | None:
    """The tools under the reference of that name; None for a rollout without one."""
    hashes = [one.sha256 for one in trajectory.prompts if one.name == TOOLS]
    try:
        return tuple(tool for sha256 in hashes for tool in json.loads(reader.prompt(sha256))) if hashes else None
    except ConfigError:
        return None
