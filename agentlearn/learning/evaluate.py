"""Scores on held-out tasks, and what every report of a finished run contains.

The scores are computed as `compare` does, on the same tasks, seeds and rollout indexes on both sides.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentlearn.learning.callbacks import RunWarning
from agentlearn.learning.open_run import TaskSets
from agentlearn.learning.report import CurvePoint, Delta, HeldOut, HeldOutScore, StageLine
from agentlearn.learning.run_stats import RunStats
from agentlearn.measure.contrasts import Rules, estimate_contrasts, with_verdicts
from agentlearn.measure.score_table import Observation, ScoreTable, comparable, tabulate
from agentlearn.models.budget import Budget
from agentlearn.models.endpoint import Endpoint, HoldsWeights
from agentlearn.models.endpoint_state import EndpointState
from agentlearn.models.service_record import ServiceRecord, service_notes, service_records
from agentlearn.store import StageTotals
from agentlearn.types.ids import RunId
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
    tasks: Sequence[Task],
    before: Scores,
    after: Scores,
    *,
    arms: ArmNames,
    seed: int,
    name: str = "",
    margin: float | None = None,
) -> HeldOut:
    """Compare before with after on these tasks. A rollout that is undecided in one is left out of both.

    before, after: the same object when nothing changed, so that there is nothing to compare. name: of these tasks.
    margin: when the difference is shown to be above -margin, the verdict is `no_worse`, unless it is `better`.
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
        rules = Rules(level=_LEVEL, seed=seed, margin=margin)
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
    interval = None if table is None else table.score(arm, _LEVEL)
    rollouts = rollouts if table is None else table.all[arm]
    statuses = Counter(one.status for one in rollouts)
    return HeldOutScore(
        mean=None if interval is None else interval.mean,
        ci=None if interval is None else _ci(interval.low, interval.high),
        n=0 if table is None else len(table.tasks),
        k=k,
        passes=() if table is None else table.passes(arm),
        rollouts=len(rollouts),
        failed=statuses["failed"],
        undecided=statuses["undecided"],
        errors=dict(Counter(one.error for one in rollouts if one.status != "ok").most_common()),
    )


def _ci(low: float | None, high: float | None) -> tuple[float, float] | None:
    return None if low is None or high is None else (low, high)


@dataclass(frozen=True, slots=True)
class RunResult:
    """Scores, counts and costs of a finished run."""

    run: RunId
    seed: int
    sets: TaskSets
    arms: ArmNames
    """What was measured before and after."""
    before: Scores | None
    """Held-out scores before learning; None when they were not measured."""
    after: Scores | None
    """Held-out scores after learning; None when they were not measured."""
    measured: Mapping[int, HeldOutScore]
    """Held-out scores during learning, by the number of updates before them."""
    stats: RunStats
    budget: Budget
    endpoint_states: Sequence[EndpointState]
    """State of every endpoint in use, each once."""
    totals: Sequence[StageTotals]
    """Calls, tokens and costs by stage."""
    warnings: Sequence[RunWarning]
    """Warnings that hold at the end."""
    wall_s: float
    margin: float | None = None
    """By how much less than this held-out tasks may get worse, for the verdict `no_worse`; None: not tested."""

    @property
    def tasks(self) -> dict[str, int]:
        """Number of tasks to learn from (`train`) and held out (`test`)."""
        return {"train": len(self.sets.train), "test": len(self.sets.test)}

    @property
    def held_out(self) -> HeldOut | None:
        """Before against after on all held-out tasks; None when they were not measured twice."""
        return self._held_out(self.sets.test)

    @property
    def known_families(self) -> HeldOut | None:
        """Before against after on held-out tasks of families that were learned from; None when all are."""
        return self._held_out(self.sets.test_known, "known families") if self.sets.test_unseen else None

    @property
    def unseen_families(self) -> HeldOut | None:
        """Before against after on held-out tasks of other families; None when all are of other families."""
        return self._held_out(self.sets.test_unseen, "unseen families") if self.sets.test_known else None

    @property
    def test_sets(self) -> tuple[HeldOut, ...]:
        """Before against after on each test set; empty when there is only one."""
        if len(self.sets.test_sets) < 2:
            return ()
        found = (self._held_out(tasks, name) for name, tasks in self.sets.test_sets)
        return tuple(one for one in found if one is not None)

    @property
    def curve(self) -> tuple[CurvePoint, ...]:
        """Held-out scores during learning."""
        return tuple(CurvePoint(updates=one, held_out=self.measured[one]) for one in sorted(self.measured))

    def whole_curve(self, updates: int) -> tuple[CurvePoint, ...]:
        """Return the held-out scores before, during and after learning. updates: number of updates in the run."""
        points = dict(self.measured)
        if self.before is not None:
            points[0] = score_of(self.sets.test, self.before)
        if self.after is not None:
            points[updates] = score_of(self.sets.test, self.after)
        return tuple(CurvePoint(updates=one, held_out=points[one]) for one in sorted(points))

    @property
    def stages(self) -> dict[str, StageLine]:
        """Cost of each stage, by its name."""
        replayed = sum((one.replayed for one in self.endpoint_states), Counter[str]())
        return {total.stage: self.stats.stage_line(total, replayed[total.stage]) for total in self.totals}

    @property
    def failed_requests(self) -> dict[str, int]:
        """Requests that got no answer, by kind of failure."""
        return dict(sorted(sum((one.failures for one in self.endpoint_states), Counter[str]()).items()))

    @property
    def services(self) -> tuple[ServiceRecord, ...]:
        """How each model service behaved."""
        return service_records(self.endpoint_states)

    @property
    def cost_usd(self) -> float | None:
        """Cost of the run; None when the price of a call is unknown."""
        return None if self.budget.unpriced_calls else self.budget.cost_usd

    @property
    def wall_rounded_s(self) -> float:
        """Wall time in seconds, to the millisecond."""
        return round(self.wall_s, 3)

    def notes(self) -> tuple[str, ...]:
        """Return the notes of every run: failed rollouts, services, warnings, what was resumed, the learner's own."""
        replayed = sum(one.replayed.total() for one in self.endpoint_states)
        return (
            *self.sets.notes,
            *self.stats.failure_notes(),
            *service_notes(self.services),
            *(warning.words for warning in self.warnings),
            *self.stats.resumption_notes(replayed),
            *self.stats.notes,
        )

    def _held_out(self, tasks: Sequence[Task], name: str = "") -> HeldOut | None:
        if not tasks or self.before is None or self.after is None:
            return None
        how: dict[str, Any] = {"arms": self.arms, "seed": self.seed, "name": name, "margin": self.margin}
        return held_out(tasks, self.before, self.after, **how)


def verdict_notes(delta: Delta | None, *, worse: str, unclear: str) -> tuple[str, ...]:
    """Return the note on a result that is worse, or that shows no change. It is the first note of a report.

    worse, unclear: what to do in either case. A result that undecided rollouts leave open says so in its sentence.
    """
    if delta is None or delta.ci is None or delta.withheld or delta.left_open:
        return ()
    if delta.verdict == "worse":
        return (f"held-out tasks got worse; {worse}",)
    if delta.verdict == "cannot_tell":
        low, high = delta.ci
        shown = "show a change that is not certain" if delta.uncertain else "show no detectable change"
        why = ", but not both tests of it are below 0.05" if delta.uncertain else ""
        return (
            (
                f"held-out tasks {shown}: the interval of the difference is"
                f" [{low:+.2f}, {high:+.2f}] over {delta.n} tasks{why}; {unclear}"
            ),
        )
    return ()


async def weights_sha256(endpoint: Endpoint) -> str | None:
    """Return the hash of an endpoint's weights; None when they are not on this machine."""
    service = endpoint.service
    return await asyncio.to_thread(service.weights_sha256) if isinstance(service, HoldsWeights) else None
