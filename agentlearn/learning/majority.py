"""Learning without expected answers: the majority answer of a group counts as right."""

from collections import Counter

from agentlearn.domain.base import Domain
from agentlearn.types.group import Group
from agentlearn.types.trajectory import Trajectory, Verdict


def by_majority(group: Group, domain: Domain) -> Group:
    """Return the group judged by its most frequent answer. Where two are equally frequent, all are undecided.

    So are all of a group of neighbours, whose tasks differ.
    """
    voters = () if group.others else group.trajectories
    keys = {t.id: domain.answer_key(t.answer) for t in voters if t.failure is None and t.answer is not None}
    votes = Counter(key for key in keys.values() if key is not None).most_common(2)
    clear = bool(votes) and (len(votes) == 1 or votes[0][1] > votes[1][1])
    winner = votes[0][0] if clear else None
    judged = tuple(_judge(t, keys.get(t.id), winner, len(keys)) for t in group.trajectories)
    return Group(task=group.task, trajectories=judged, others=group.others)


def _judge(trajectory: Trajectory, key: str | None, winner: str | None, voters: int) -> Trajectory:
    if trajectory.failure is not None:
        return trajectory
    if winner is None:
        verdict = Verdict(status="undecided", reason=f"labels none: no single majority among {voters} answers")
    elif trajectory.answer is None:
        verdict = Verdict(status="no_answer", reward=0.0, reason=f"labels none: majority of {voters} is {winner}")
    else:
        right = key == winner
        verdict = Verdict(
            status="correct" if right else "incorrect",
            reward=1.0 if right else 0.0,
            reason=f"labels none: majority of {voters} is {winner}",
        )
    return trajectory.model_copy(update={"verdict": verdict})
