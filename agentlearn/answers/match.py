"""The result of comparing two answers, and how the results about their parts combine."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

_A = TypeVar("_A")

MatchStatus = Literal["equal", "different", "unclear", "open"]
"""`equal` and `different` are proven, `unclear` is not; `open`: algebra may decide and has not been asked."""


@dataclass(frozen=True, slots=True)
class Match:
    """The result of one comparison and its reason."""

    status: MatchStatus
    reason: str

    @classmethod
    def equal(cls, reason: str) -> "Match":
        """Return a match of two sides that state the same."""
        return cls("equal", reason)

    @classmethod
    def different(cls, reason: str) -> "Match":
        """Return a match of two sides that state different things."""
        return cls("different", reason)

    @classmethod
    def unclear(cls, reason: str) -> "Match":
        """Return a match that cannot be decided."""
        return cls("unclear", reason)

    @classmethod
    def decided(cls, is_equal: bool, reason: str) -> "Match":
        """Return equal or different."""
        return cls("equal" if is_equal else "different", reason)

    @classmethod
    def all_of(cls, matches: Iterable["Match"], reason: str) -> "Match":
        """Return equal when all are equal, different as soon as one is different."""
        return cls._first(matches, "different", "equal") or cls.equal(reason)

    @classmethod
    def any_of(cls, matches: Iterable["Match"], reason: str) -> "Match":
        """Return equal as soon as one is equal, different when all are different."""
        return cls._first(matches, "equal", "different") or cls.different(reason)

    @staticmethod
    def _first(matches: Iterable["Match"], decisive: MatchStatus, other: MatchStatus) -> "Match | None":
        """Return the first decisive match, else an undecided one, an open one before others; None for neither."""
        undecided = None
        for match in matches:
            if match.status == decisive:
                return match
            if match.status != other and (undecided is None or match.status == "open"):
                undecided = match
        return undecided

    @classmethod
    def paired(
        cls, left: Sequence[_A], right: Sequence[_A], compare: Callable[[_A, _A], "Match"], reason: str
    ) -> "Match":
        """Whether each item on the left can be paired with one on the right; both sides have the same length."""
        table = [[compare(one, other) for other in right] for one in left]

        def can_pair(*allowed: MatchStatus) -> bool:
            """Whether a perfect matching exists (augmenting paths)."""
            partner: dict[int, int] = {}

            def place(row: int, tried: set[int]) -> bool:
                for column, match in enumerate(table[row]):
                    if match.status in allowed and column not in tried:
                        tried.add(column)
                        if column not in partner or place(partner[column], tried):
                            partner[column] = row
                            return True
                return False

            return all(place(row, set()) for row in range(len(table)))

        if can_pair("equal"):
            return cls.equal(reason)
        if not can_pair("equal", "open", "unclear"):
            return cls.different(reason)
        undecided = [match for row in table for match in row if match.status in {"open", "unclear"}]
        return next((match for match in undecided if match.status == "open"), undecided[0])


OPEN = Match("open", "needs algebra")
SAME_VALUE = Match("equal", "the same value")
OTHER_VALUE = Match("different", "another value")
SEVERAL_READINGS = Match("unclear", "can be read in several ways")
