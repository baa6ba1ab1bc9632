"""What every report of a finished run contains."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentlearn.learning.evaluate import ArmNames, Scores, held_out, score_of
from agentlearn.learning.open_run import TaskSets
from agentlearn.learning.report import CurvePoint, Delta, HeldOut, HeldOutScore, StageLine
from agentlearn.learning.run_stats import RunStats
from agentlearn.learning.warnings import RunWarning
from agentlearn.models.budget import Budget
from agentlearn.models.endpoint_state import EndpointState
from agentlearn.models.service_record import ServiceRecord, service_notes, service_records
from agentlearn.store import StageTotals
from agentlearn.types.ids import RunId
from agentlearn.types.task import Task


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
        return held_out(tasks, self.before, self.after, arms=self.arms, seed=self.seed, name=name)


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
