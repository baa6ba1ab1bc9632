"""Sets of rules for training-free GRPO that the benchmark compares, as values."""

from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules of one run. The defaults are those of this library."""

    epochs: int = 3
    batch: int = 5
    group: int = 5
    stop_after: int = 3
    revisit_every: int = 4
    end_when_settled: float = 0.8
    margin: float = 0.05
    select: Literal["best", "last"] = "best"
    goes_back: bool = True
    """Whether learning goes on from an earlier version that is clearly better."""
    finalists: int = 3
    validation_rollouts: int = 3
    """0: the rollouts to learn from alone decide."""
    held_out_rollouts: int = 0
    """Rollouts per held-out task of the start and of the selected version, which is published unless it is shown to be
    worse there or on the validation tasks. 0: whatever is selected is published."""
    shown: bool = True
    """Whether a version is published only if it is shown to be better than no lessons."""
    all_wrong: bool = True
    """Whether groups in which every attempt is wrong teach too, by a stage of their own."""
    evidence: bool = True
    """Whether consolidation sees the tasks and rewards behind each proposal (version 2 of its prompt)."""


NEW = Rules()
"""The rules of this library."""
GATED = replace(NEW, held_out_rollouts=4)
"""The same with the last gate of real runs: a held-out test of what is to be published."""
LENIENT = replace(GATED, shown=False)
"""The same with a gate that lets pass what is not shown to be worse."""
SKIPPING = replace(NEW, all_wrong=False)
"""The same with `--all-wrong skip`."""
EARLIER = Rules(
    batch=20,
    stop_after=5,
    revisit_every=1,
    end_when_settled=1.0,
    margin=0.0,
    select="last",
    goes_back=False,
    validation_rollouts=0,
    evidence=False,
    all_wrong=False,
)
"""The rules of this library before versions were selected and rollouts allocated."""
