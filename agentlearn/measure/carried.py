"""Says when a few tasks or clusters carry a difference."""

import math
from collections.abc import Hashable, Sequence

from agentlearn.stats.clustered import grouped

_FEW = 2
_LEAST_MOVED = 3


def carried_by(differences: Sequence[float], clusters: Sequence[Hashable]) -> str:
    """Return the caution that two tasks or clusters outweigh all others together; empty if they do not."""
    units = [math.fsum(unit) for unit in grouped(differences, clusters)]
    sizes = sorted((abs(unit) for unit in units if abs(unit) > 1e-12), reverse=True)
    if len(sizes) < _LEAST_MOVED or sum(sizes[:_FEW]) <= sum(sizes[_FEW:]):
        return ""
    what = "tasks" if len(units) == len(differences) else "clusters"
    return f"{_FEW} of {len(units)} {what} differ by more than all others together, so the result hangs on them"
