"""What a comparison finds: equal, different, or not decided for a reason; and how findings about parts combine."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

_A = TypeVar("_A")

MatchStatus = Literal["equal", "different", "unsure", "open"]
"""unsure: nobody can tell; open: algebra may tell, and has not been asked."""


@dataclass(frozen=True, slots=True)
class Match:
    """The outcome of one comparison and why."""

    status: MatchStatus
    reason: str


OPEN = Match("open", "needs algebra")


def equal(reason: str) -> Match:
    """Both sides state the same."""
    return Match("equal", reason)


def different(reason: str) -> Match:
    """They do not."""
    return Match("different", reason)


def unsure(reason: str) -> Match:
    """It cannot be told."""
    return Match("unsure", reason)


def decided(is_equal: bool, reason: str) -> Match:
    """Equal or different."""
    return Match("equal" if is_equal else "different", reason)


def all_of(findings: Iterable[Match], reason: str) -> Match:
    """Equal when all are; different as soon as one is."""
    doubt = None
    for finding in findings:
        if finding.status == "different":
            return finding
        if finding.status != "equal" and (doubt is None or finding.status == "open"):
            doubt = finding
    return doubt or equal(reason)


def any_of(findings: Iterable[Match], reason: str) -> Match:
    """Equal as soon as one is; different when all are."""
    doubt = None
    for finding in findings:
        if finding.status == "equal":
            return finding
        if finding.status != "different" and (doubt is None or finding.status == "open"):
            doubt = finding
    return doubt or different(reason)


def matched(left: Sequence[_A], right: Sequence[_A], compare: Callable[[_A, _A], Match], reason: str) -> Match:
    """Whether each of the left can be paired with one of the right; both have the same length."""
    table = [[compare(one, other) for other in right] for one in left]
    if _can_pair(table, {"equal"}):
        return equal(reason)
    if not _can_pair(table, {"equal", "open", "unsure"}):
        return different(reason)
    doubts = [finding for row in table for finding in row if finding.status in {"open", "unsure"}]
    return next((finding for finding in doubts if finding.status == "open"), doubts[0])


def _can_pair(table: list[list[Match]], allowed: set[MatchStatus]) -> bool:
    """Whether a perfect matching exists (augmenting paths)."""
    partner: dict[int, int] = {}

    def place(row: int, tried: set[int]) -> bool:
        for column, finding in enumerate(table[row]):
            if finding.status in allowed and column not in tried:
                tried.add(column)
                if column not in partner or place(partner[column], tried):
                    partner[column] = row
                    return True
        return False

    return all(place(row, set()) for row in range(len(table)))
