"""Learning without expected answers: the majority answer of a group counts as right, if there is a quorum.

Few votes say little, so three conditions must hold. At least half of the group's rollouts gave an answer that can be
read. At least two of them gave the winning answer. They are more than half of those with an answer that can be read.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from agentlearn.domain.base import Domain
from agentlearn.types.group import Group
from agentlearn.types.ids import RolloutId
from agentlearn.types.trajectory import Trajectory, Verdict

FEWEST_VOTES = 2
"""Smallest number of rollouts that must agree on the winning answer."""


def by_majority(group: Group, domain: Domain, voters: Collection[RolloutId] | None = None) -> Group:
    """Return the group judged by its majority answer. Without a majority all are undecided, and the reason says why.

    So are all of a group of neighbours, whose tasks differ. voters: the rollouts whose answers count; None: all.
    """
    keys = _keys(group.trajectories, domain)
    votes = Counter(key for one, key in keys.items() if key is not None and (voters is None or one in voters))
    why = _no_majority(group, votes, len(group.trajectories if voters is None else voters))
    winner = votes.most_common(1)[0][0] if not why else None
    judged = tuple(_judge(t, keys, winner, why or _majority(votes)) for t in group.trajectories)
    return Group(task=group.task, trajectories=judged, others=group.others)


def typical(trajectories: Sequence[Trajectory], domain: Domain) -> RolloutId | None:
    """Return a rollout with the answer that is more frequent than every other one; None without such an answer."""
    keys = _keys(trajectories, domain)
    ranked = Counter(key for key in keys.values() if key is not None).most_common(2)
    if not ranked or (len(ranked) == 2 and ranked[0][1] == ranked[1][1]):
        return None
    return next(one for one, key in keys.items() if key == ranked[0][0])


def _keys(trajectories: Sequence[Trajectory], domain: Domain) -> dict[RolloutId, str | None]:
    """The answers that are compared, by rollout. A failed rollout has none."""
    return {t.id: domain.answer_key(t.answer) for t in trajectories if t.failure is None and t.answer is not None}


def _no_majority(group: Group, votes: Counter[str], size: int) -> str:
    """Why the votes decide nothing; empty when they do. size: number of rollouts that could vote."""
    readable = votes.total()
    if group.others:
        return "the rollouts are of different tasks"
    if readable == 0 or 2 * readable < size:
        return f"no majority: {readable} of {size} rollouts gave an answer that can be read, and half of them must"
    most = max(votes.values())
    if most < FEWEST_VOTES:
        return f"no majority: no two of {readable} answers agree"
    if 2 * most <= readable:
        return f"no majority: {most} of {readable} answers agree, and more than half must"
    return ""


def _majority(votes: Counter[str]) -> str:
    [(winner, most)] = votes.most_common(1)
    return f"majority of {most} of {votes.total()} answers is {winner}"


def _judge(trajectory: Trajectory, keys: Mapping[RolloutId, str | None], winner: str | None, why: str) -> Trajectory:
    if trajectory.failure is not None:
        return trajectory
    reason = f"labels none: {why}"
    if winner is None:
        verdict = Verdict(status="undecided", reason=reason)
    elif trajectory.answer is None:
        verdict = Verdict(status="no_answer", reward=0.0, reason=reason)
    else:
        right = keys[trajectory.id] == winner
        verdict = Verdict(status="correct" if right else "incorrect", reward=1.0 if right else 0.0, reason=reason)
    return trajectory.model_copy(update={"verdict": verdict})
