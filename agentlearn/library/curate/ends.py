"""Counting how proposals ended."""

from collections import Counter
from collections.abc import Iterable

from pydantic import Field

from agentlearn.types.operation import Applied, Dropped, Ended, Folded, Quarantined, Rejected
from agentlearn.types.value import Value


class EndCounts(Value):
    """Number of proposals by how they ended."""

    applied: int = 0
    """Operations that changed the library."""
    folded: int = 0
    """Compare proposals that a consolidate proposal replaced."""
    dropped: dict[str, int] = Field(default_factory=dict)
    """Valid proposals that were not used, by reason in alphabetical order."""
    rejected: dict[str, int] = Field(default_factory=dict)
    """Refused proposals, by code in alphabetical order."""
    quarantined: dict[str, int] = Field(default_factory=dict)
    """Proposals that wait for a person, by code in alphabetical order."""


def count_ends(ended: Iterable[Ended]) -> EndCounts:
    """Count each proposal once."""
    ends = [one.end for one in ended]
    return EndCounts(
        applied=sum(isinstance(end, Applied) for end in ends),
        folded=sum(isinstance(end, Folded) for end in ends),
        dropped=_sorted(end.reason for end in ends if isinstance(end, Dropped)),
        rejected=_sorted(end.code for end in ends if isinstance(end, Rejected)),
        quarantined=_sorted(end.code for end in ends if isinstance(end, Quarantined)),
    )


def _sorted(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))
