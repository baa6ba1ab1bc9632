"""Earlier looks at the arms of logs. Every comparison of logs is stored as a run with fingerprints of its data."""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

from agentlearn.errors import StoreError, StoreLocked
from agentlearn.measure.contrast import Contrast, Correction
from agentlearn.measure.observation import Observation
from agentlearn.rollout.recorded_run import recorded_run, started_event
from agentlearn.store import RunRow, open_store, read_store
from agentlearn.types.ids import content_hash, new_run_id
from agentlearn.types.value import Value
from agentlearn_evals.comparison import Comparison, InterimLook

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


_RUNS = 10_000
"""Number of earlier runs that are searched."""
_MARK = '"fingerprints":'
"""Text that the stored settings of a comparison of logs contain, and those of other runs do not."""


class LogSettings(Value):
    """Settings of a comparison of logs, and fingerprints of its data. They are stored with its run."""

    logs: tuple[str, ...]
    """Log files as the user named them."""
    margin: float | None = None
    correction: Correction = "holm"
    planned_looks: int = 1
    seed: int = 0
    allow_missing: bool = False
    fingerprints: tuple[ArmFingerprint, ...] = ()
    """Of every arm, the baseline first."""
    pairs: tuple[tuple[str, str], ...] = ()
    """Arms that were compared, as (baseline, arm); empty in an older store: every other arm with the first."""

    def compared(self) -> Iterator[tuple[ArmFingerprint, ArmFingerprint]]:
        """Yield the fingerprints of each baseline and of the arm compared with it."""
        by_arm = {one.arm: one for one in self.fingerprints}
        first, *others = by_arm
        for baseline, arm in self.pairs or [(first, other) for other in others]:
            yield by_arm[baseline], by_arm[arm]


class EarlierLogs:
    """Finished comparisons of logs in a store."""

    def __init__(self, runs: Sequence[RunRow]) -> None:
        found = (row for row in runs if row.kind == "eval" and row.report and _MARK in row.settings)
        self._runs = [
            (row, settings)
            for row in sorted(found, key=lambda one: (one.started_at, one.run))
            if (settings := _settings(row)) is not None
        ]

    def looks(self, contrast: Contrast, settings: LogSettings) -> tuple[Contrast, tuple[InterimLook, ...]]:
        """Return the contrast with its key and look, and the earlier looks at its question, oldest first.

        That are comparisons of two arms with the same names, or with more or less of the same rollouts. Data that were
        already looked at keep the look that they had then.
        """
        asked = (contrast.baseline, contrast.arm)
        now = next(sides for sides in settings.compared() if tuple(one.arm for one in sides) == asked)
        seen: dict[str, InterimLook] = {}
        key = ""
        for row, sides in self._pairs():
            again = same_data(now, sides)
            if again or _same_names(now, sides) or same_question(now, sides):
                earlier = _contrast(row, sides)
                key = key or earlier.key
                if again:
                    break
                look = InterimLook(
                    arm=contrast.arm,
                    baseline=contrast.baseline,
                    run=row.run,
                    at=row.started_at.isoformat(),
                    pairs=earlier.pairs,
                    p=earlier.p,
                )
                seen.setdefault(_digests(sides), look)
        key = key or content_hash("logs", _digests(now))[:24]
        return contrast.model_copy(update={"key": key, "look": len(seen) + 1}), tuple(seen.values())

    def _pairs(self) -> Iterator[tuple[RunRow, tuple[ArmFingerprint, ArmFingerprint]]]:
        """Yield every earlier run with the fingerprints of two arms that it compared."""
        for row, settings in self._runs:
            for sides in settings.compared():
                yield row, sides


def _settings(row: RunRow) -> LogSettings | None:
    try:
        return LogSettings.model_validate_json(row.settings)
    except ValueError:  # of another version
        return None


def _contrast(row: RunRow, sides: tuple[ArmFingerprint, ArmFingerprint]) -> Contrast:
    found = Comparison.model_validate_json(row.report)
    return next(one for one in found.contrasts if (one.baseline, one.arm) == (sides[0].arm, sides[1].arm))


async def compare_and_record(
    store: Path, settings: LogSettings, model: str, compare: Callable[[EarlierLogs], Comparison]
) -> Comparison:
    """Return the comparison and store it as a run. When the store cannot be used, the result says so.

    compare: makes the comparison, given the earlier ones.
    """
    try:
        async with open_store(store) as opened:
            earlier = EarlierLogs(opened.runs(limit=_RUNS))
            event = started_event(
                new_run_id(),
                "eval",
                domain="logs",
                model=model,
                simulated=False,
                seed=settings.seed,
                settings=settings.model_dump_json(),
            )
            async with recorded_run(opened, event) as run:
                found = compare(earlier).model_copy(update={"run": event.run})
                run.report = found
            return found
    except StoreLocked:
        return _without_record(store, compare)
    except (StoreError, OSError) as error:
        return without_store(compare, f"the store {str(store)!r} cannot be used ({_first_sentence(error)})")


def _without_record(store: Path, compare: Callable[[EarlierLogs], Comparison]) -> Comparison:
    """Return the comparison with the earlier looks that the process which has the store open tells."""
    try:
        with read_store(store) as reader:
            earlier = EarlierLogs(reader.runs(limit=_RUNS))
    except StoreError as error:
        return without_store(compare, f"the store {str(store)!r} cannot be used ({_first_sentence(error)})")
    why = f"another process has the store {str(store)!r} open, so this look is not recorded for later ones"
    return compare(earlier).model_copy(update={"looks_note": why})


def without_store(compare: Callable[[EarlierLogs], Comparison], why: str) -> Comparison:
    """Return the comparison as a first look, and say that earlier looks were not counted. why: the reason."""
    note = f"looks cannot be counted, so p is not corrected for earlier ones: {why}"
    return compare(EarlierLogs(())).model_copy(update={"looks_note": note})


def _same_names(now: Sequence[ArmFingerprint], sides: Sequence[ArmFingerprint]) -> bool:
    return {one.arm for one in now} == {one.arm for one in sides}


def _digests(sides: Sequence[ArmFingerprint]) -> str:
    return " ".join(sorted(one.digest for one in sides))


def _first_sentence(error: Exception) -> str:
    return " ".join(str(error).split()).partition(";")[0]
