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
    """One line per learner: its gain in each ground, then what it took over all of them.

    Gains are means over seeds with 95 % intervals; `N below`: runs that ended below the start. Calls, tokens and CPU
    are means over all runs. What 90 % of the gain took is a median over the runs of exact grounds with a gain.
    """
    grounds = list(dict.fromkeys(row.ground for row in rows))
    heads = [f"{ground} ({len({row.seed for row in rows if row.ground == ground})} seeds)" for ground in grounds]
    lines = [f"| learner | {' | '.join(heads)} | calls | tokens, k | 90 % after: calls, tokens k | own CPU s, wall s |"]
    lines.append("|---" * (len(grounds) + 5) + "|")
    for learner in dict.fromkeys(row.learner for row in rows):
        mine = [row for row in rows if row.learner == learner]
        gains = [_gain([row for row in mine if row.ground == ground]) for ground in grounds]
        lines.append(f"| {label(learner)} | {' | '.join([*gains, *_took(mine)])} |")
    return "\n".join(lines)


def _gain(rows: Sequence[Row]) -> str:
    if not rows:
        return "–"
    gains, below = [row.gain for row in rows], sum(row.harmed for row in rows)
    return f"{statistics.mean(gains):+.2f} ± {interval(gains):.2f}{f', {below} below' if below else ''}"


def _took(rows: Sequence[Row]) -> list[str]:
    reached, after = [row for row in rows if row.calls_to_90 is not None], "–"
    if reached:
        calls = statistics.median(row.calls_to_90 or 0 for row in reached)
        after = f"{calls:.0f}, {statistics.median(row.tokens_to_90 or 0 for row in reached) / 1000:.0f}"
    return [
        f"{statistics.mean(row.calls for row in rows):.0f}",
        f"{statistics.mean(row.tokens for row in rows) / 1000:.0f}",
        after,
        f"{statistics.mean(row.cpu_s for row in rows):.1f}, {statistics.mean(row.wall_s for row in rows):.1f}",
    ]
