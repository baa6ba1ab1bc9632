"""How many proposals ended in which way."""

from collections import Counter
from collections.abc import Iterable

from pydantic import Field

from agentlearn.types.operation import Applied, Dropped, Ended, Folded, Rejected
from agentlearn.types.value import Value


class EndCounts(Value):
    """Proposals by end, the refused ones by code; reasons and codes in alphabetical order."""

    applied: int = 0
    folded: int = 0
    dropped: dict[str, int] = Field(default_factory=dict)
    rejected: dict[str, int] = Field(default_factory=dict)


def count_ends(ended: Iterable[Ended]) -> EndCounts:
    """Every proposal counted once."""
    ends = [one.end for one in ended]
    return EndCounts(
        applied=sum(isinstance(end, Applied) for end in ends),
        folded=sum(isinstance(end, Folded) for end in ends),
        dropped=_sorted(end.reason for end in ends if isinstance(end, Dropped)),
        rejected=_sorted(end.code for end in ends if isinstance(end, Rejected)),
    )


def _sorted(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))
