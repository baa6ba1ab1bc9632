"""Results of the arena, kept as lines of JSON, and the table of them."""

import statistics
from collections.abc import Callable, Sequence
from math import sqrt

from agentlearn.types.value import Value

_T = (0.0, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)
"""Quantiles of Student's t for 95 % intervals, by degrees of freedom."""


class Row(Value):
    """What one learner came to in one ground with one seed."""

    ground: str
    seed: int
    learner: str
    start: float
    end: float
    calls: int
    tokens: int
    calls_to_90: int | None = None
    """Calls before a text was first tried that is worth 90 % of the final gain; None without a gain of 0.05."""
    tokens_to_90: int | None = None
    wall_s: float = 0.0
    """Of the learner itself, without the model's time."""
    cpu_s: float = 0.0
    words: int = 0

    @property
    def gain(self) -> float:
        """End less start."""
        return self.end - self.start

    @property
    def harmed(self) -> bool:
        """Whether it ended below the start."""
        return self.gain < -1e-9


def interval(values: Sequence[float]) -> float:
    """Half the 95 % interval of a mean over seeds."""
    if len(values) < 2:
        return 0.0
    t = _T[len(values) - 1] if len(values) <= len(_T) else 1.96 + 2.6 / (len(values) - 1)
    return t * statistics.stdev(values) / sqrt(len(values))


def as_markdown(rows: Sequence[Row], label: Callable[[str], str]) -> str:
    """One table per ground: means over seeds with 95 % intervals, medians of what 90 % of the gain took."""
    parts = list[str]()
    for ground in dict.fromkeys(row.ground for row in rows):
        here = [row for row in rows if row.ground == ground]
        start = statistics.mean(row.start for row in here)
        parts.append(
            f"**{ground}** (start {start:.2f})\n\n"
            "| learner | seeds | held-out gain | below the start | calls | tokens, k | 90 % of the gain after: calls,"
            " tokens k | own CPU s |\n|---|---|---|---|---|---|---|---|"
        )
        for learner in dict.fromkeys(row.learner for row in here):
            parts.append(_line(label(learner), [row for row in here if row.learner == learner]))
        parts.append("")
    return "\n".join(parts)


def _line(name: str, rows: Sequence[Row]) -> str:
    gains = [row.gain for row in rows]
    reached = [row for row in rows if row.calls_to_90 is not None]
    after = "–"
    if reached:
        calls = statistics.median(row.calls_to_90 or 0 for row in reached)
        after = f"{calls:.0f}, {statistics.median(row.tokens_to_90 or 0 for row in reached) / 1000:.0f}"
    return (
        f"| {name} | {len(rows)} | {statistics.mean(gains):+.2f} ± {interval(gains):.2f} |"
        f" {sum(row.harmed for row in rows)} | {statistics.mean(row.calls for row in rows):.0f} |"
        f" {statistics.mean(row.tokens for row in rows) / 1000:.0f} | {after} |"
        f" {statistics.mean(row.cpu_s for row in rows):.1f} |"
    )
