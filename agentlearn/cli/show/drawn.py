"""How many of its planned rollouts a group has, and why the others were not made."""

import json
from collections.abc import Sequence
from typing import Any

from agentlearn.learning.allocation import Allocation
from agentlearn.store import RunRow
from agentlearn.types.trajectory import measures


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
