"""Scores on held-out tasks, computed as `compare` does, on the same tasks, seeds and rollout indexes on both sides."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentlearn.errors import AgentlearnError
from agentlearn.learning.report import Delta, HeldOut, HeldOutScore, WeightsRecord
from agentlearn.measure.contrast import Contrast
from agentlearn.measure.contrasts import Rules, estimate_contrasts, with_verdicts
from agentlearn.measure.observation import Observation
from agentlearn.measure.score_table import ScoreTable, comparable, tabulate
from agentlearn.models.endpoint import Endpoint, HoldsWeights
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory

ArmNames = tuple[str, str]
"""What was measured before and after, as it is called in sentences."""
_LEVEL = 0.95
_ONE_ARM = "held-out"


@dataclass(frozen=True, slots=True)
class Scores:
    """The rollouts of one evaluation, without their text."""

    k: int
    """Rollouts per task."""
    observations: tuple[Observation, ...]

    @classmethod
    def of(cls, trajectories: Sequence[Trajectory], tasks: Sequence[Task], k: int) -> "Scores":
        """Return what counts of these rollouts of held-out tasks."""
        by_id = {task.id: task for task in tasks}
        return cls(k, tuple(_observation(one, by_id[one.task]) for one in trajectories))

    def named(self, arm: str, tasks: Sequence[Task]) -> list[Observation]:
        """Return the rollouts of these tasks under another arm name."""
        wanted = {task.id for task in tasks}
        return [one.model_copy(update={"arm": arm}) for one in self.observations if one.task in wanted]


def _observation(trajectory: Trajectory, task: Task) -> Observation:
    return Observation(
        arm=trajectory.phase,
        task=task.id,
        g=trajectory.g,
        score=trajectory.reward,
        status=trajectory.outcome,
        error=trajectory.code,
        cluster=task.cluster,
        domain=task.domain,
        problem=task.problem,
    )


def held_out(
    tasks: Sequence[Task], before: Scores, after: Scores, *, arms: ArmNames, seed: int, name: str = ""
) -> HeldOut:
    """Compare before with after on these tasks. A rollout that is undecided in one is left out of both.

    before, after: the same object when nothing changed, so that there is nothing to compare. name: of these tasks.
    """
    observations = [*before.named(arms[0], tasks), *after.named(arms[1], tasks)]
    families = len({task.family for task in tasks})
    if not comparable(observations, arms):
        sides = [_no_score(one.named(arm, tasks), one.k) for one, arm in zip((before, after), arms, strict=True)]
        words = "No verdict: no held-out task has a decided rollout both before and after learning."
        delta = Delta(mean=None, ci=None, p=None, n=0, withheld=words, sentence=words)
        return HeldOut(name=name, before=sides[0], after=sides[1], delta=delta, families=families)
    table = tabulate(observations, arms)
    rules = Rules(level=_LEVEL, seed=seed)
    [contrast] = with_verdicts(estimate_contrasts(table, rules), table, rules)
    return HeldOut(
        name=name,
        before=_score(table, arms[0], before.k),
        after=_score(table, arms[1], after.k),
        delta=_unchanged(len(table.tasks)) if before is after else _delta(contrast),
        families=families,
    )


def score_of(tasks: Sequence[Task], scores: Scores) -> HeldOutScore:
    """Return the score of one evaluation on these tasks. Undecided rollouts are left out."""
    observations = scores.named(_ONE_ARM, tasks)
    if not comparable(observations, (_ONE_ARM,)):
        return _no_score(observations, scores.k)
    return _score(tabulate(observations, (_ONE_ARM,)), _ONE_ARM, scores.k)


def _score(table: ScoreTable, arm: str, k: int) -> HeldOutScore:
    interval = table.score(arm, _LEVEL)
    return HeldOutScore(
        mean=interval.mean,
        ci=_ci(interval.low, interval.high),
        n=len(table.tasks),
        k=k,
        passes=table.passes(arm),
        **_counts(table.all[arm]),
    )


def _no_score(rollouts: Sequence[Observation], k: int) -> HeldOutScore:
    return HeldOutScore(mean=None, ci=None, n=0, k=k, **_counts(rollouts))


def _counts(rollouts: Sequence[Observation]) -> Mapping[str, Any]:
    statuses = Counter(one.status for one in rollouts)
    return {
        "rollouts": len(rollouts),
        "failed": statuses["failed"],
        "undecided": statuses["undecided"],
        "errors": dict(Counter(one.error for one in rollouts if one.status != "ok").most_common()),
    }


def _delta(contrast: Contrast) -> Delta:
    return Delta(
        mean=contrast.mean,
        ci=_ci(contrast.low, contrast.high),
        p=contrast.p_adjusted,
        p_mean=contrast.p_mean_adjusted,
        n=contrast.tasks,
        clusters=contrast.clusters,
        only_family=contrast.only_cluster,
        worst=contrast.worst,
        verdict=contrast.verdict,
        withheld=contrast.withheld,
        left_open=contrast.left_open,
        caution=contrast.caution,
        carried=contrast.carried,
        sentence=contrast.sentence,
    )


def _unchanged(tasks: int) -> Delta:
    words = "the library is the one at the start, so the held-out tasks were measured once and nothing was compared"
    return Delta(mean=0.0, ci=None, p=None, n=tasks, sentence=words, compared=False)


def _ci(low: float | None, high: float | None) -> tuple[float, float] | None:
    return None if low is None or high is None else (low, high)


async def weights_sha256(endpoint: Endpoint) -> str | None:
    """Return the hash of an endpoint's weights; None when they are not on this machine."""
    service = endpoint.service
    return await asyncio.to_thread(service.weights_sha256) if isinstance(service, HoldsWeights) else None


async def weights_record(endpoint: Endpoint, before: str | None) -> WeightsRecord:
    """Return which model answered, and the hash of its weights. before: their hash at the start of the run.

    Raises AgentlearnError (`weights_changed`) when the two hashes differ.
    """
    identity = f"{endpoint.name} ({', '.join(sorted(endpoint.endpoint_state.models)) or 'no answer'})"
    after = await weights_sha256(endpoint)
    if before != after:
        raise AgentlearnError(
            f"the weights of {endpoint.name} changed while lessons were learned ({before} before, {after} after); the"
            " scores before and after are not of the same model, so start a new run",
            code="weights_changed",
        )
    if after is not None:
        note = f"unchanged, sha256 {after[:12]} before and after"
    elif endpoint.simulated:
        note = "the simulated model has no weights"
    else:
        note = "weights not checked (remote model); agentlearn never changes them"
    return WeightsRecord(identity=identity, sha256_before=before, sha256_after=after, note=note)
