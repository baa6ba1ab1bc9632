"""The groups that a run learned from: one row each, folded by epoch."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from agentlearn.cli.pages.learn_record import EPOCH, LearnRecord, PageGroup, Rewards
from agentlearn.cli.show.addresses import TASK_ID, group_address
from agentlearn.cli.show.labelled import one_line
from agentlearn.cli.words import count_words
from agentlearn.config.command_words import command_words
from agentlearn.html import Column, Details, PagePart, Paragraph, Section, Table, TableCell
from agentlearn.html.markup import clipped, shown
from agentlearn.html.number_format import decimal
from agentlearn.learning.allocation import differ

MOST = 4_000
"""Largest number of groups on the page."""
PROBLEM = 80
"""Characters of a problem that are shown."""
_OTHER_RUNS = "rollouts of other runs"


def groups_section(record: LearnRecord) -> Section:
    """One row per group: its task, the rewards, what kind of group it is, and the ends of its proposals."""
    shown_groups, parts = record.groups[:MOST], list[PagePart]()
    phases = dict.fromkeys(group.phase for group in shown_groups)
    for phase in phases:
        members = [group for group in shown_groups if group.phase == phase]
        kinds = Counter(group_kind(group, record.settings) for group in members)
        parts.append(
            Details(
                summary=f"Epoch {phase.removeprefix(EPOCH)}",
                aside=f"{count_words(len(members), 'group')}, {kinds['mixed']:,} mixed",
                parts=(_table(phase, members, record),),
                unfolded=len(phases) == 1 and len(members) <= 30,
            )
        )
    if len(record.groups) > MOST:
        more = len(record.groups) - MOST
        trace = command_words("trace", record.row.run, store=record.store)
        parts.append(Paragraph(text=f"{more:,} more groups are not on this page; {trace} lists all of them."))
    if not parts:
        parts.append(Paragraph(text="The run had no group to learn from."))
    lede = "Only groups whose rewards differ (mixed) teach. Each row is one task in one epoch."
    return Section(title="Groups", lede=lede, parts=tuple(parts))


def group_kind(group: PageGroup, settings: Mapping[str, Any]) -> str:
    """What kind of group it is: `mixed`, `all right`, `all wrong`, `all equal`, `failed` or `undecided`."""
    if not group.rewards:
        return _OTHER_RUNS
    decided = [reward for reward in group.rewards if reward is not None]
    if not decided:
        return "undecided"
    if differ(decided, float(settings.get("reward_margin") or 0.0)):
        return "mixed"
    if group.failed:
        return "failed"
    return "all right" if min(decided) >= 1 else "all wrong" if max(decided) <= 0 else "all equal"


def _table(phase: str, members: Sequence[PageGroup], record: LearnRecord) -> Table:
    address = group_address(record.row.run, members[0].task, phase)
    return Table(
        caption=f"Groups of epoch {phase.removeprefix(EPOCH)}",
        columns=(
            Column(name="Task"),
            Column(name="Batch", kind="number"),
            Column(name="Rewards"),
            Column(name="Mean", kind="number"),
            Column(name="Kind", choices=True),
            Column(name="Proposals"),
        ),
        rows=tuple(_row(group, record.settings) for group in members),
        note=f"One group in full: {command_words('trace', address, store=record.store)}",
    )


def _row(group: PageGroup, settings: Mapping[str, Any]) -> tuple[TableCell, ...]:
    decided = [reward for reward in group.rewards if reward is not None]
    mean = sum(decided) / len(decided) if decided else None
    planned, kind = settings.get("group_size"), group_kind(group, settings)
    drawn = f"{len(group.rewards)} of {planned} planned" if group.rewards and planned != len(group.rewards) else ""
    ends = ", ".join(f"{number} {end}" for end, number in sorted(group.ends.items()))
    problem = clipped(shown(one_line(group.problem, PROBLEM)), PROBLEM) or "this store does not hold the task"
    return (
        TableCell(text=problem, sub=group.task[:TASK_ID]),
        TableCell(text=f"{group.batch}", value=group.batch),
        TableCell(text=_rewards(group.rewards), sub=drawn),
        TableCell(text=decimal(mean), value=mean),
        TableCell(text=kind),
        TableCell(text=ends or "none"),
    )


def _rewards(rewards: Rewards) -> str:
    """Rewards one by one, or counted when there are many."""
    words = ["undecided" if one is None else f"{one:.3g}" for one in rewards]
    if len(words) <= 12:
        return "\u00a0".join(words) or "-"
    return ", ".join(f"{number} x {word}" for word, number in sorted(Counter(words).items()))
