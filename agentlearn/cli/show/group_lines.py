"""One group as text: its rollouts, the summaries, the comparison, and what became of every proposal."""

from collections.abc import Iterator, Sequence

from agentlearn.cli.show.addresses import group_address
from agentlearn.cli.show.drawn import drawn_words
from agentlearn.cli.show.group_record import GroupRecord, reply_text
from agentlearn.cli.show.labelled import indented, labelled, one_line, shortened
from agentlearn.cli.show.outcome_words import treatment_words, verdict_words
from agentlearn.cli.show.proposal_words import proposal_lines
from agentlearn.cli.words import score_words
from agentlearn.library.render import render
from agentlearn.models.journal import CallRecord
from agentlearn.store import ProposalRow
from agentlearn.types.group import differ
from agentlearn.types.ids import ExperienceId
from agentlearn.types.trajectory import Trajectory, measures, prompt_labels

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
