"""What every report of a finished run contains."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentlearn.config import LearnSettings, is_lab
from agentlearn.learning.evaluate import ArmNames, Scores, held_out, score_of
from agentlearn.learning.open_run import TaskSets
from agentlearn.learning.pilot import pilot_report
from agentlearn.learning.report import (
    CurvePoint,
    Delta,
    HeldOut,
    HeldOutScore,
    LearnReport,
    LibraryLine,
    Proposals,
    SelectedVersion,
    StageLine,
    VersionLine,
    WeightsRecord,
)
from agentlearn.learning.run_stats import RunStats
from agentlearn.learning.warnings import RunWarning
from agentlearn.library.curate import count_ends
from agentlearn.models.budget import Budget
from agentlearn.models.endpoint_state import EndpointState
from agentlearn.models.service_record import ServiceRecord, service_notes, service_records
from agentlearn.store import StageTotals
from agentlearn.types.experience import Library
from agentlearn.types.group import GROUP_KINDS
from agentlearn.types.ids import LibraryVersion, RunId
from agentlearn.types.task import Task
from agentlearn.types.trajectory import ROLLOUT_OUTCOMES


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
        return _points(self.measured)

    def whole_curve(self, updates: int) -> tuple[CurvePoint, ...]:
        """Return the held-out scores before, during and after learning. updates: number of updates in the run."""
        points = dict(self.measured)
        if self.before is not None:
            points[0] = score_of(self.sets.test, self.before)
        if self.after is not None:
            points[updates] = score_of(self.sets.test, self.after)
        return _points(points)

    @property
    def stages(self) -> dict[str, StageLine]:
        """Cost of each stage, by its name."""
        replayed = self._sum([one.replayed for one in self.endpoint_states])
        return {total.stage: self.stats.stage_line(total, replayed[total.stage]) for total in self.totals}

    @property
    def failed_requests(self) -> dict[str, int]:
        """Requests that got no answer, by kind of failure."""
        return dict(sorted(self._sum([one.failures for one in self.endpoint_states]).items()))

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

    @staticmethod
    def _sum(counts: Sequence[Counter[str]]) -> Counter[str]:
        return sum(counts, Counter[str]())


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


def _points(scores: Mapping[int, HeldOutScore]) -> tuple[CurvePoint, ...]:
    return tuple(CurvePoint(updates=updates, held_out=scores[updates]) for updates in sorted(scores))


@dataclass(frozen=True, slots=True)
class LessonResult:
    """What a run that learned lessons has beyond `RunResult`."""

    settings: LearnSettings
    whole: TaskSets
    """Tasks of the whole run; they are more than the run's own when it was a pilot."""
    start: Library
    """Library that the run started from."""
    library: Library
    """Library that it selected."""
    selection: SelectedVersion | None
    """Which version was selected, and whether it was published; None in a pilot."""
    versions: tuple[VersionLine, ...]
    """Every version, in the order in which they were made."""
    simulated_model: bool
    """Whether the model that solves the tasks is simulated."""
    simulated_reflector: bool
    """Whether the model that writes the lessons is simulated."""
    weights: WeightsRecord
    current: LibraryVersion | None
    """The version that the library's name stands for at the end of the run; None when there is none."""


def learn_report(result: RunResult, lessons: LessonResult) -> LearnReport:
    """Return the report of a finished run."""
    settings, library, held_out = lessons.settings, lessons.library, result.held_out
    epochs = result.stats.epochs.values()
    ends = count_ends([one for epoch in epochs for one in epoch.ended])
    groups = sum((epoch.groups for epoch in epochs), Counter[str]())
    delta = held_out.delta if held_out else None
    pilot = None
    if settings.pilot is not None:
        pilot = pilot_report(
            settings,
            tasks=len(result.sets.train),
            whole=lessons.whole,
            groups=groups,
            drawn=result.stats.allocated(0).drawn,
            stages=result.totals,
            library=lessons.start.tokens,
        )
    return LearnReport(
        run=result.run,
        domain=settings.domain,
        model=settings.model,
        reflector=settings.reflector_name,
        simulated=lessons.simulated_model or lessons.simulated_reflector,
        seed=result.seed,
        tasks=result.tasks,
        before=held_out.before if held_out else None,
        after=held_out.after if held_out else None,
        delta=delta,
        known_families=result.known_families,
        unseen_families=result.unseen_families,
        test_sets=result.test_sets,
        library=LibraryLine(
            name=settings.library_name,
            version=library.version,
            parent=library.parent,
            lessons=len(library),
            tokens=library.tokens,
            current=lessons.current,
        ),
        proposals=Proposals(
            applied=ends.applied,
            folded=ends.folded,
            dropped=dict(ends.dropped),
            rejected=dict(ends.rejected),
            quarantined=dict(ends.quarantined),
        ),
        groups={kind: groups[kind] for kind in GROUP_KINDS},
        rollouts={outcome: result.stats.outcomes[outcome] for outcome in ROLLOUT_OUTCOMES},
        stages=result.stages,
        failed_requests=result.failed_requests,
        services=result.services,
        epochs=tuple(result.stats.lines),
        versions=lessons.versions,
        selection=lessons.selection,
        allocated=result.stats.allocated(_planned(settings, len(result.sets.train))),
        curve=result.curve,
        weights=lessons.weights,
        pilot=pilot,
        cost_usd=result.cost_usd,
        wall_s=result.wall_rounded_s,
        notes=(*_notes(result, lessons, groups, delta), *result.notes()),
    )


def _planned(settings: LearnSettings, tasks: int) -> int:
    """Rollouts to learn from that a run would make if no group stopped early and no task were skipped."""
    return 0 if settings.from_store else tasks * settings.group_size * settings.as_pilot().epochs


def _notes(result: RunResult, lessons: LessonResult, groups: Counter[str], delta: Delta | None) -> list[str]:
    """The notes that only a run with lessons has."""
    settings, notes = lessons.settings, list[str]()
    changed = lessons.library.version != lessons.start.version
    if changed:
        notes.extend(
            verdict_notes(
                delta,
                worse=f"version {lessons.library.version[:8]} is not published",
                unclear="more held-out tasks would narrow it",
            )
        )
    if settings.pilot is not None:
        notes.append("this was a pilot: no library was published; leave out --pilot for the whole run")
    if lessons.simulated_model:
        notes.append(f"{settings.model} is simulated: these numbers show that the program works and nothing more")
    elif is_lab(settings.model):
        wrote = f", and {settings.reflector_name}, which wrote its lessons, is simulated"
        notes.append(
            f"{settings.model} is a real but tiny transformer{wrote if lessons.simulated_reflector else ''}: these"
            " numbers show that the program works and nothing more"
        )
    if settings.group_size == 1:
        notes.append("G = 1 teaches nothing: there is no second rollout to compare with; use --group-size 5")
    elif not any(one.updates for one in lessons.versions) and (groups["mixed"] or not groups.total()):
        held = "; ".join(sorted(set(result.stats.held))) or "no proposal was made"
        notes.append(f"the library did not change: {held}")
    if settings.labels == "none":
        notes.append("labels none: while learning, rollouts were judged by the majority answer of their group")
    return notes
