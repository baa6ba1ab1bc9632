"""Says which arms have rollouts that are undecided, failed or without an answer. These sentences stand before every
verdict."""

from collections import Counter
from collections.abc import Mapping, Sequence

from agentlearn.errors import DataError
from agentlearn.measure.observation import Observation

_CODES = 5
"""Number of codes that are named."""


def lost_rollouts(by_arm: Mapping[str, Sequence[Observation]], lowest: float = 0.0) -> tuple[str, ...]:
    """Return one sentence for each arm with undecided rollouts, then one with failed ones, then one without answers.

    lowest: score of a failed rollout.
    """
    lines: list[str] = []
    for status, words in (("undecided", "are undecided and left out"), ("failed", f"failed and count as {lowest:g}")):
        for arm, rollouts in by_arm.items():
            codes = Counter(one.error or "no code" for one in rollouts if one.status == status)
            if codes:
                lines.append(f"{arm}: {codes.total():,} of {len(rollouts):,} rollouts {words} ({_named(codes)})")
    for arm, rollouts in by_arm.items():
        if count := sum(one.status == "ok" and one.error == "no_answer" for one in rollouts):
            lines.append(f"{arm}: no answer was found in {count:,} of {len(rollouts):,} replies, which count as 0")
    return tuple(lines)


def demand_decided(by_arm: Mapping[str, Sequence[Observation]]) -> None:
    """Raise DataError when all rollouts of an arm are undecided."""
    for arm, rollouts in by_arm.items():
        if rollouts and all(one.score is None for one in rollouts):
            codes = Counter(one.error or "no code" for one in rollouts)
            raise DataError(
                f"none of the {len(rollouts):,} rollouts of {arm!r} is decided ({_named(codes)}), so nothing can be"
                " compared; run them again, or leave the arm out",
                code="no_decided_rollout",
            )


def _named(codes: Counter[str]) -> str:
    named = ", ".join(f"{code} {count:,}" for code, count in codes.most_common(_CODES))
    rest = codes.total() - sum(count for _, count in codes.most_common(_CODES))
    return f"{named}, others {rest:,}" if rest else named
