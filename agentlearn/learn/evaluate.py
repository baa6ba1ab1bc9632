"""Scores on held-out tasks. Tasks, seeds and rollout indexes are the same before and after learning."""

from collections.abc import Sequence
from dataclasses import dataclass

from agentlearn.learn.report import Delta, HeldOut, HeldOutScore
from agentlearn.stats import mean_interval, paired_difference, sign_flip_p
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class Scores:
    """Rewards of one evaluation."""

    k: int
    """Rollouts per task."""
    rewards: dict[str, tuple[float | None, ...]]
    """Rewards by task, in order of the rollout index; None where the verifier could not decide."""

    @classmethod
    def of(cls, trajectories: Sequence[Trajectory], k: int) -> "Scores":
        """Return the rewards of these rollouts; None for an undecided one."""
        rewards: dict[str, list[float | None]] = {}
        for one in sorted(trajectories, key=lambda t: (t.task, t.g)):
            rewards.setdefault(one.task, []).append(one.reward)
        return cls(k, {task: tuple(values) for task, values in rewards.items()})


def held_out(tasks: Sequence[Task], before: Scores, after: Scores, *, seed: int) -> HeldOut:
    """Compare before with after on these tasks. A rollout that is undecided in one is left out of both."""
    means: list[tuple[float, float]] = []
    for task in tasks:
        pairs = [
            (b, a)
            for b, a in zip(before.rewards.get(task.id, ()), after.rewards.get(task.id, ()), strict=True)
            if b is not None and a is not None
        ]
        if pairs:
            means.append((sum(b for b, _ in pairs) / len(pairs), sum(a for _, a in pairs) / len(pairs)))
    firsts, seconds = [b for b, _ in means], [a for _, a in means]
    return HeldOut(
        before=score(firsts, before.k),
        after=score(seconds, after.k),
        delta=_delta(firsts, seconds, seed),
        families=len({task.family for task in tasks}),
    )


def score_of(tasks: Sequence[Task], scores: Scores) -> HeldOutScore:
    """Return the score of one evaluation on these tasks. Undecided rollouts are left out."""
    decided = [[one for one in scores.rewards.get(task.id, ()) if one is not None] for task in tasks]
    return score([sum(rewards) / len(rewards) for rewards in decided if rewards], scores.k)


def score(means: Sequence[float], k: int) -> HeldOutScore:
    """Return the mean of the tasks' mean rewards, with its interval. k: rollouts per task."""
    if not means:
        return HeldOutScore(mean=None, ci=None, n=0, k=k)
    interval = mean_interval(means)
    return HeldOutScore(mean=interval.mean, ci=_ci(interval.low, interval.high), n=len(means), k=k)


def _delta(before: Sequence[float], after: Sequence[float], seed: int) -> Delta:
    if not before:
        return Delta(mean=None, ci=None, p=None, n=0)
    interval = paired_difference(before, after)
    differences = [a - b for b, a in zip(before, after, strict=True)]
    return Delta(
        mean=interval.mean, ci=_ci(interval.low, interval.high), p=sign_flip_p(differences, seed=seed), n=len(before)
    )


def _ci(low: float | None, high: float | None) -> tuple[float, float] | None:
    return None if low is None or high is None else (low, high)
