"""Scores on held-out tasks, computed as `compare` does, on the same tasks, seeds and rollout indexes on both sides."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from agentlearn.errors import AgentlearnError
from agentlearn.learning.report import Delta, HeldOut, HeldOutScore, WeightsRecord
from agentlearn.measure.contrasts import Rules, estimate_contrasts, with_verdicts
from agentlearn.measure.observation import Observation
from agentlearn.measure.score_table import ScoreTable, arm_score, comparable, passes, tabulate
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
        observations = (
            Observation(
                arm=one.phase,
                task=one.task,
                g=one.g,
                score=one.reward,
                status=one.outcome,
                error=one.code,
                cluster=by_id[one.task].cluster,
                domain=by_id[one.task].domain,
                problem=by_id[one.task].problem,
            )
            for one in trajectories
        )
        return cls(k, tuple(observations))

    def named(self, arm: str, tasks: Sequence[Task]) -> list[Observation]:
        """Return the rollouts of these tasks under another arm name."""
        wanted = {task.id for task in tasks}
        return [one.model_copy(update={"arm": arm}) for one in self.observations if one.task in wanted]


def held_out(
    tasks: Sequence[Task], before: Scores, after: Scores, *, arms: ArmNames, seed: int, name: str = ""
) -> HeldOut:
    """Compare before with after on these tasks. A rollout that is undecided in one is left out of both.

    before, after: the same object when nothing changed, so that there is nothing to compare. name: of these tasks.
    """
    sides = [one.named(arm, tasks) for one, arm in zip((before, after), arms, strict=True)]
    observations = [*sides[0], *sides[1]]
    table = tabulate(observations, arms) if comparable(observations, arms) else None
    scores = [_score(table, arms[at], sides[at], one.k) for at, one in enumerate((before, after))]
    if table is None:
        words = "No verdict: no held-out task has a decided rollout both before and after learning."
        delta = Delta(mean=None, ci=None, p=None, n=0, withheld=words, sentence=words)
    elif before is after:
        words = "the library is the one at the start, so the held-out tasks were measured once and nothing was compared"
        delta = Delta(mean=0.0, ci=None, p=None, n=len(table.tasks), sentence=words, compared=False)
    else:
        rules = Rules(level=_LEVEL, seed=seed)
        [contrast] = with_verdicts(estimate_contrasts(table, rules), table, rules)
        delta = Delta(
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
    families = len({task.family for task in tasks})
    return HeldOut(name=name, before=scores[0], after=scores[1], delta=delta, families=families)


def score_of(tasks: Sequence[Task], scores: Scores) -> HeldOutScore:
    """Return the score of one evaluation on these tasks. Undecided rollouts are left out."""
    observations = scores.named(_ONE_ARM, tasks)
    known = comparable(observations, (_ONE_ARM,))
    return _score(tabulate(observations, (_ONE_ARM,)) if known else None, _ONE_ARM, observations, scores.k)


def _score(table: ScoreTable | None, arm: str, rollouts: Sequence[Observation], k: int) -> HeldOutScore:
    """The score of an arm. table: None when no task is counted."""
    interval = None if table is None else arm_score(table, arm, _LEVEL)
    rollouts = rollouts if table is None else table.all[arm]
    statuses = Counter(one.status for one in rollouts)
    return HeldOutScore(
        mean=None if interval is None else interval.mean,
        ci=None if interval is None else _ci(interval.low, interval.high),
        n=0 if table is None else len(table.tasks),
        k=k,
        passes=() if table is None else passes(table, arm),
        rollouts=len(rollouts),
        failed=statuses["failed"],
        undecided=statuses["undecided"],
        errors=dict(Counter(one.error for one in rollouts if one.status != "ok").most_common()),
    )


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
