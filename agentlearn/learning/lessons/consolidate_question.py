"""The user message of the consolidate stage: the library, the proposals of a batch, and the evidence behind them.

One line under each proposal says how the attempts at its task ended. A task is shown as a short number. Reasons are by
unknown authors: each is cut short, on one line, without brackets and between quotation marks.
"""

from collections.abc import Mapping, Sequence
from typing import assert_never

from agentlearn.learning.lessons.shown_reason import quoted_reason
from agentlearn.learning.lessons.stage_context import StageContext
from agentlearn.types.group import Group
from agentlearn.types.ids import ExperienceId, TaskId
from agentlearn.types.operation import Add, Delete, Merge, Modify, Operation, Proposal
from agentlearn.types.trajectory import Trajectory

MOST_REWARDS = 8
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
    said = next(filter(None, map(stage_context.reason_of, _worst(group))), "")
    return f"{_outcomes(group.rewards_G)}{f'; reason: {quoted_reason(said)}' if said else ''}"


def _worst(group: Group) -> Sequence[Trajectory]:
    return [one for one in group.decided if one.reward == min(group.rewards_G)]


def _outcomes(rewards_G: Sequence[float]) -> str:
    if set(rewards_G) <= {0.0, 1.0}:
        right = sum(reward == 1 for reward in rewards_G)
        return f"{right} right, {len(rewards_G) - right} wrong"
    falling = sorted(rewards_G, reverse=True)
    if len(falling) <= MOST_REWARDS:
        return f"rewards {', '.join(f'{reward:.2f}' for reward in falling)}"
    mean = sum(falling) / len(falling)
    return f"{len(falling)} rewards from {falling[-1]:.2f} to {falling[0]:.2f}, mean {mean:.2f}"
