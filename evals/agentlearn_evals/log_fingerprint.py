"""Fingerprints of logs: hashes of scores by task and rollout, which show that one log is a part of another."""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from functools import cached_property
from hashlib import blake2b

from agentlearn.measure.observation import Observation
from agentlearn.types.value import Value

SAMPLE = 4096
"""Largest number of rollouts of an arm in its fingerprint. Of more, the ones with the smallest keys are kept."""
FEW = 10
"""Shared rollouts of an arm from which equal scores are no chance. Below, arms must also have the same name."""
_KEY_BYTES, _SCORE_BYTES = 6, 4


class ArmFingerprint(Value):
    """What an arm's decided rollouts are known by, without their contents."""

    arm: str
    rollouts: int
    """Number of decided rollouts."""
    digest: str
    """Hash of all decided rollouts with their scores, in any order."""
    sample: str
    """Hashes of task and index, each with a hash of the score, in order; base64."""

    @cached_property
    def scores(self) -> Mapping[bytes, bytes]:
        """Hash of the score by hash of task and index, for the sampled rollouts in order."""
        packed, size = b64decode(self.sample), _KEY_BYTES + _SCORE_BYTES
        pieces = (packed[at : at + size] for at in range(0, len(packed), size))
        return {piece[:_KEY_BYTES]: piece[_KEY_BYTES:] for piece in pieces}

    @property
    def is_whole(self) -> bool:
        """Whether the sample holds all decided rollouts."""
        return len(self.scores) == self.rollouts


def fingerprint(arm: str, observations: Sequence[Observation]) -> ArmFingerprint:
    """Return the fingerprint of one arm. Undecided rollouts are left out, because a later log may decide them."""
    pairs = sorted(
        (_hash(json.dumps([one.task, one.g]), _KEY_BYTES), _hash(f"{one.score:.9g}", _SCORE_BYTES))
        for one in observations
        if one.arm == arm and one.score is not None
    )
    packed = b"".join(key + score for key, score in pairs)
    return ArmFingerprint(
        arm=arm,
        rollouts=len(pairs),
        digest=blake2b(packed, digest_size=16).hexdigest(),
        sample=b64encode(packed[: SAMPLE * (_KEY_BYTES + _SCORE_BYTES)]).decode(),
    )


def same_question(now: Sequence[ArmFingerprint], earlier: Sequence[ArmFingerprint]) -> bool:
    """Return whether two comparisons of an arm with a baseline use growing data of the same two arms.

    now, earlier: the baseline's and the arm's fingerprint. The two sides may be exchanged, and names may differ.
    """
    return any(all(map(_grows, now, sides)) for sides in (earlier, earlier[::-1]))


def same_data(now: Sequence[ArmFingerprint], earlier: Sequence[ArmFingerprint]) -> bool:
    """Return whether two comparisons use exactly the same data of an arm and a baseline, in any order."""
    return sorted(one.digest for one in now) == sorted(one.digest for one in earlier)


def _grows(one: ArmFingerprint, other: ArmFingerprint) -> bool:
    """Return whether one arm's data are more of the other's.

    Most rollouts of the smaller must be in both, and every rollout in both must have the same score.
    """
    mine, theirs = _below_shared_limit(one, other)
    shared = mine.keys() & theirs.keys()
    if not shared or 2 * len(shared) < min(len(mine), len(theirs)):
        return False
    if one.arm != other.arm and len(shared) < FEW:
        return False
    return all(mine[key] == theirs[key] for key in shared)


def _below_shared_limit(
    one: ArmFingerprint, other: ArmFingerprint
) -> tuple[Mapping[bytes, bytes], Mapping[bytes, bytes]]:
    """Return both samples, cut to the keys that each would hold if the rollout is in its log."""
    limits = [max(each.scores) for each in (one, other) if not each.is_whole]
    if not limits:
        return one.scores, other.scores
    mine, theirs = ({key: score for key, score in each.scores.items() if key <= min(limits)} for each in (one, other))
    return mine, theirs


def _hash(text: str, size: int) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).digest()
