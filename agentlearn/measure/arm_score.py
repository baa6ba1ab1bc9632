"""The score of one arm: its mean over tasks with an interval, and pass@k."""

from collections.abc import Sequence

from agentlearn.measure.contrast import Pass
from agentlearn.measure.score_table import ScoreTable
from agentlearn.stats import Interval, clustered_mean, pass_at_k, pass_hat_k

_PASSES = (1, 2, 4, 8, 16, 32, 64)


def arm_score(table: ScoreTable, arm: str, level: float) -> Interval:
    """Return the arm's mean over tasks with its interval, as `clustered_score` computes it."""
    return clustered_score(table.means(arm), table.clusters(), level=level)


def clustered_score(means: Sequence[float], clusters: Sequence[str], *, level: float = 0.95) -> Interval:
    """Return the mean of the tasks' mean scores, with its interval over clusters.

    means, clusters: shape (tasks,). The interval is cut to 0..1 when all scores are in that range.
    """
    found = clustered_mean(means, clusters, level=level)
    if found.low is None or found.high is None or not all(0 <= mean <= 1 for mean in means):
        return found
    return found.model_copy(update={"low": max(0.0, found.low), "high": min(1.0, found.high)})


def passes(table: ScoreTable, arm: str) -> tuple[Pass, ...]:
    """Return pass@k and pass^k for each usual k up to the fewest rollouts of a task; empty unless scores are 0 or 1."""
    rollouts = [table.scores[arm][task] for task in table.tasks]
    if any(value not in {0.0, 1.0} for scores in rollouts for value in scores):
        return ()
    counts = [(len(scores), round(sum(scores))) for scores in rollouts]
    fewest = min(n for n, _ in counts)
    found: list[Pass] = []
    for k in (k for k in _PASSES if k <= fewest):
        once = [pass_at_k(n, right, k) for n, right in counts]
        every = [pass_hat_k(n, right, k) for n, right in counts]
        found.append(Pass(k=k, at_least_one=_mean(once), all_of_them=_mean(every)))
    return tuple(found)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
