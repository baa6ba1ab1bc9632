"""One run as text: how it ended, its main numbers, then every value that the store holds about it."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agentlearn.cli.show.labelled import labelled, labelled_command
from agentlearn.cli.show.leaves import leaf_lines, plain
from agentlearn.cli.show.proposal_words import operation_words
from agentlearn.cli.show.run_end import end_reason, next_step
from agentlearn.cli.show.run_report import report_lines
from agentlearn.cli.table import parts_of_table
from agentlearn.cli.words import score_words
from agentlearn.store import ProposalRow, RunRow, StoreReader, TrajectoryRow
from agentlearn.text import Block
from agentlearn.types.trajectory import prompt_labels


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run with its rollouts and its proposals."""

    row: RunRow
    rollouts: Sequence[TrajectoryRow]
    proposals: Sequence[ProposalRow]
    reason: str
    """Why it failed or was interrupted; empty otherwise."""
    next_step: str
    main_lines: tuple[str, ...]
    """The main numbers of the report as text."""
    unmatched_feedback: int = 0
    """Feedback to the recorder of a live run that names a rollout or an episode that the store does not hold."""

    @classmethod
    def read(cls, reader: StoreReader, run: str) -> "RunRecord":
        """Read the run whose id starts with `run`."""
        row = reader.run(run)
        return cls(
            row=row,
            rollouts=reader.trajectories(row.run),
            proposals=reader.proposals(row.run),
            reason=end_reason(reader, row),
            next_step=next_step(reader, row),
            main_lines=tuple(report_lines(reader, row)),
            unmatched_feedback=reader.unmatched_feedback(row.domain) if row.kind == "live" else 0,
        )

    def as_json(self) -> dict[str, Any]:
        """The record for JSON output."""
        return {
            "run": run_json(self.row),
            "reason": self.reason or None,
            "next": self.next_step,
            "rollouts": [asdict(one) for one in self.rollouts],
            "unmatched_feedback": self.unmatched_feedback,
        }


def run_json(row: RunRow) -> dict[str, Any]:
    """A run with times as ISO texts, and with settings and report parsed."""
    fields = asdict(row).items()
    texts = {key: value.isoformat() if hasattr(value, "isoformat") else value for key, value in fields}
    for key in ("settings", "report"):
        texts[key] = json.loads(texts[key]) if texts.get(key) else None
    return texts


def run_lines(record: RunRecord, *, short: bool, columns: int | None = None) -> Iterator[str]:
    """The record as text. short: without the values of the settings and of the report, and without the rollouts.

    columns: of the terminal, for the table of rollouts.
    """
    row = record.row
    simulated = " (simulated)" if row.simulated else ""
    yield labelled("run", f"{row.run}  {row.kind} {row.domain} with {row.model}{simulated}")
    times = f"started {row.started_at:%Y-%m-%d %H:%M:%S}, latest event {row.at:%Y-%m-%d %H:%M:%S}"
    yield labelled("state", f"{row.state}, {times}, agentlearn-lib {row.package_version}")
    if record.reason:
        yield labelled("why", record.reason)
    yield labelled_command("next", record.next_step)
    yield from record.main_lines
    yield from _phase_lines(record.rollouts)
    if record.unmatched_feedback:
        count = record.unmatched_feedback
        yield labelled("feedback", f"{count} more to {row.domain!r}, about rollouts that the store does not hold")
    yield from _applied_lines(record.proposals)
    if short:
        return
    whole = run_json(row)
    for part in ("settings", "report"):
        if whole[part]:
            yield ""
            yield part
            yield from leaf_lines(whole.pop(part))
    yield ""
    yield "run"
    yield from leaf_lines({name: value for name, value in whole.items() if value is not None})
    if record.rollouts:
        yield ""
        yield "rollouts"
        rows = [[plain(value) for value in asdict(one).values()] for one in record.rollouts]
        table = [list(asdict(record.rollouts[0])), *rows]
        for part in parts_of_table(table, columns=None if columns is None else columns - 2):
            yield from (Block(f"  {line}") for line in part)


def _phase_lines(rollouts: Sequence[TrajectoryRow]) -> Iterator[str]:
    for phase in dict.fromkeys(one.phase for one in rollouts):
        members = [one for one in rollouts if one.phase == phase]
        rewards = [one.reward for one in members if one.reward is not None]
        mean = score_words(sum(rewards) / len(rewards) if rewards else None)
        outcomes = Counter(one.outcome for one in members)
        counts = f"failed {outcomes['failed']}, undecided {outcomes['undecided']}"
        words = f"{len(members)} rollouts, mean of {len(rewards)} rewards {mean}, {counts}; first: {members[0].id}"
        yield labelled(phase, f" {words}" if len(phase) > 10 else words)


def _applied_lines(proposals: Sequence[ProposalRow]) -> Iterator[str]:
    for one in proposals:
        proposal, operation = one.ended.proposal, one.ended.proposal.operation
        if one.ended.end.end == "applied" and operation is not None:
            source = f"{len(proposal.evidence)} rollouts, {prompt_labels(proposal.prompts)}"
            flags = f"  [{', '.join(one.ended.flags)}]" if one.ended.flags else ""
            words = operation_words(operation, proposal.raw, {})
            yield labelled("applied", f"{one.phase}/{one.batch} {words}  ({source}){flags}")
