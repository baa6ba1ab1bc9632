"""Counts of a run as it goes on, and the report they end in."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from agentlearn.config import LearnSettings, RunSettings, is_lab
from agentlearn.learn.evaluate import Scores, measured
from agentlearn.learn.learner import Held, Update
from agentlearn.learn.lessons.curate import count_ends
from agentlearn.learn.lessons.reply_schema import FAULTS
from agentlearn.learn.pilot import pilot_report
from agentlearn.learn.report import (
    CurvePoint,
    Delta,
    EpochLine,
    LearnReport,
    LibraryLine,
    Proposals,
    StageLine,
    WeightsRecord,
)
from agentlearn.learn.task_sets import TaskSets
from agentlearn.learn.warnings import RunSnapshot, run_warnings
from agentlearn.models.call_context import CallContext
from agentlearn.models.endpoint import Endpoint
from agentlearn.models.endpoint_state import EndpointState
from agentlearn.store import StageTotals
from agentlearn.types.experience import Library
from agentlearn.types.group import GroupKind
from agentlearn.types.operation import Ended
from agentlearn.types.trajectory import ToolResult, Trajectory


@dataclass(slots=True)
class EpochStats:
    """What one epoch has seen."""

    rewards: list[float] = field(default_factory=list[float])
    groups: Counter[str] = field(default_factory=Counter[str])
    ended: list[Ended] = field(default_factory=list[Ended])


@dataclass(slots=True)
class RunStats:
    """What a run has seen."""

    epochs: dict[int, EpochStats] = field(default_factory=dict[int, EpochStats])
    outcomes: Counter[str] = field(default_factory=Counter[str])
    failures: Counter[str] = field(default_factory=Counter[str])
    groups: Counter[str] = field(default_factory=Counter[str])
    """Groups by kind, from the moment in which their last rollout is judged."""
    faults: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    notes: list[str] = field(default_factory=list[str])
    held: list[str] = field(default_factory=list[str])
    advanced: int = 0
    restarted: int = 0
    """Attempts at rollouts that came to nothing, since their tools were lost or could not be taken up again."""
    diverged: int = 0
    """Tool results that came out differently when they were repeated."""
    lines: list[EpochLine] = field(default_factory=list[EpochLine])

    def add_rollout(self, trajectory: Trajectory) -> None:
        """One more stored rollout."""
        self.outcomes[trajectory.outcome] += 1
        if trajectory.failure is not None:
            self.failures[trajectory.failure.code] += 1
        self.restarted += trajectory.attempt
        self.diverged += sum(isinstance(step, ToolResult) and step.diverged for step in trajectory.steps)
        if trajectory.phase.startswith("epoch-") and trajectory.reward is not None:
            self._epoch(int(trajectory.phase.removeprefix("epoch-"))).rewards.append(trajectory.reward)

    def add_logged(self, epoch: int, trajectory: Trajectory) -> None:
        """One rollout that another run had made."""
        if trajectory.reward is not None:
            self._epoch(epoch).rewards.append(trajectory.reward)

    def add_group(self, kind: GroupKind) -> None:
        """One more complete group."""
        self.groups[kind] += 1

    def seen(
        self, settings: RunSettings, call_context: CallContext, endpoint_states: Sequence[EndpointState]
    ) -> RunSnapshot:
        """What cautions go by. Misshapen are replies without their form as a whole, not single bad items in them.

        How many calls a simulated service takes says something of this machine only: its limiter is left out.
        """
        return RunSnapshot(
            groups=self.groups if settings.group_size > 1 else {},
            rollouts=self.outcomes.total(),
            undecided=self.outcomes["undecided"],
            failures=self.failures,
            replies=sum((endpoint_state.answered for endpoint_state in endpoint_states), Counter[str]()),
            misshapen={stage: sum(codes[code] for code in FAULTS) for stage, codes in self.faults.items()},
            limiters=tuple(endpoint_state.limiter for endpoint_state in endpoint_states if not endpoint_state.free),
            max_cost_usd=settings.max_cost_usd,
            unpriced_calls=call_context.budget.unpriced_calls,
        )

    def add_update(self, epoch: int, update: Update) -> None:
        """One more batch."""
        evidence, current = update.evidence, self._epoch(epoch)
        current.groups.update(evidence.groups)
        current.ended.extend(evidence.ended)
        for stage, codes in evidence.faults.items():
            self.faults.setdefault(stage, Counter()).update(codes)
        self.notes.extend(evidence.notes)
        if isinstance(update.outcome, Held):
            self.held.append(update.outcome.reason)
        else:
            self.advanced += 1

    def epoch_line(self, epoch: int, lessons: int, seconds: float) -> EpochLine:
        """The epoch's line, kept for the report."""
        current = self._epoch(epoch)
        ends = count_ends(current.ended)
        line = EpochLine(
            epoch=epoch,
            reward=sum(current.rewards) / len(current.rewards) if current.rewards else None,
            groups=dict(sorted(current.groups.items())),
            lessons=lessons,
            applied=ends.applied,
            folded=ends.folded,
            dropped=sum(ends.dropped.values()),
            rejected=sum(ends.rejected.values()),
            seconds=seconds,
        )
        self.lines.append(line)
        return line

    def report(
        self,
        *,
        settings: LearnSettings,
        call_context: CallContext,
        endpoint: Endpoint,
        reflector: Endpoint,
        endpoint_states: Sequence[EndpointState],
        sets: TaskSets,
        whole: TaskSets,
        start: Library,
        library: Library,
        before: Scores | None,
        after: Scores | None,
        stages: Sequence[StageTotals],
        curve: Sequence[CurvePoint],
        weights: WeightsRecord,
        wall_s: float,
    ) -> LearnReport:
        """The report of the finished run."""
        ends = count_ends([one for epoch in self.epochs.values() for one in epoch.ended])
        groups = sum((epoch.groups for epoch in self.epochs.values()), Counter[str]())
        scores = measured(sets.test, before, after, settings.seed)
        failures = sum((endpoint_state.failures for endpoint_state in endpoint_states), Counter[str]())
        replayed = sum((endpoint_state.replayed for endpoint_state in endpoint_states), Counter[str]())
        budget = call_context.budget
        return LearnReport(
            run=call_context.run,
            domain=settings.domain,
            model=settings.model,
            reflector=settings.reflector_name,
            simulated=endpoint.simulated or reflector.simulated,
            seed=settings.seed,
            tasks={"train": len(sets.train), "test": len(sets.test)},
            before=scores.before if scores else None,
            after=scores.after if scores else None,
            delta=scores.delta if scores else None,
            known_families=measured(sets.test_known, before, after, settings.seed),
            unseen_families=measured(sets.test_unseen, before, after, settings.seed),
            library=LibraryLine(
                name=settings.library_name,
                version=library.version,
                parent=library.parent,
                lessons=len(library),
                tokens=library.tokens,
            ),
            proposals=Proposals(
                applied=ends.applied, folded=ends.folded, dropped=dict(ends.dropped), rejected=dict(ends.rejected)
            ),
            groups={kind: groups[kind] for kind in ("mixed", "all_right", "all_wrong", "undecided", "failed")},
            rollouts={kind: self.outcomes[kind] for kind in ("ok", "failed", "undecided")},
            stages=self.stage_lines(stages, endpoint_states),
            failed_requests=dict(sorted(failures.items())),
            epochs=tuple(self.lines),
            curve=tuple(curve),
            weights=weights,
            pilot=pilot_report(
                settings, tasks=len(sets.train), whole=whole, groups=groups, stages=stages, library=start.tokens
            )
            if settings.pilot is not None
            else None,
            cost_usd=None if budget.unpriced_calls else budget.cost_usd,
            wall_s=round(wall_s, 3),
            notes=(
                *self._notes(settings, endpoint, reflector, groups, library, start, scores.delta if scores else None),
                *(one.words for one in run_warnings(self.seen(settings, call_context, endpoint_states), ended=True)),
                *resumption_notes(sum(replayed.values()), self.diverged, self.restarted),
                *self.notes,
            ),
        )

    def _epoch(self, epoch: int) -> EpochStats:
        return self.epochs.setdefault(epoch, EpochStats())

    def stage_lines(
        self, stages: Sequence[StageTotals], endpoint_states: Sequence[EndpointState]
    ) -> dict[str, StageLine]:
        """What each stage cost, by its name."""
        replayed = sum((endpoint_state.replayed for endpoint_state in endpoint_states), Counter[str]())
        return {total.stage: self._stage(total, replayed[total.stage]) for total in stages}

    def _stage(self, total: StageTotals, replayed: int) -> StageLine:
        return StageLine(
            calls=total.calls,
            tokens_in=total.tokens_in,
            tokens_cached=total.tokens_cached,
            tokens_out=total.tokens_out,
            cost_usd=None if total.unpriced else total.cost_usd,
            seconds=round(total.seconds, 3),
            retried=total.retried,
            replayed=replayed,
            malformed={code: count for code, count in sorted(self.faults.get(total.stage, Counter()).items()) if count},
        )

    def _notes(
        self,
        settings: LearnSettings,
        endpoint: Endpoint,
        reflector: Endpoint,
        groups: Counter[str],
        library: Library,
        start: Library,
        delta: Delta | None,
    ) -> list[str]:
        notes: list[str] = []
        total = sum(groups.values())
        if settings.pilot is not None:
            notes.append("a pilot: no library was published; leave out --pilot for the whole run")
        if endpoint.simulated:
            notes.append(f"{settings.model} is simulated: these figures show the mechanics, they are no result")
        elif is_lab(settings.model):
            by = (
                f", and {settings.reflector_name}, which wrote its lessons, is simulated" if reflector.simulated else ""
            )
            notes.append(
                f"{settings.model} is a real but tiny transformer{by}: these figures show the machinery, they are no"
                " result"
            )
        if settings.group_size == 1:
            notes.append("G = 1 teaches nothing: a single rollout has nothing to be compared with; use --group-size 5")
        elif library.version == start.version and (groups["mixed"] or not total):
            notes.append(f"the library did not change: {'; '.join(sorted(set(self.held))) or 'no proposal was made'}")
        if (
            delta is not None
            and delta.ci is not None
            and delta.ci[0] <= 0 <= delta.ci[1]
            and library.version != start.version
        ):
            notes.append(
                f"the held-out change cannot be told from none: its interval [{delta.ci[0]:+.2f}, {delta.ci[1]:+.2f}]"
                f" over {delta.n} tasks holds zero; more held-out tasks would narrow it"
            )
        if settings.labels == "none":
            notes.append("labels none: rollouts were judged by their group's majority answer while learning")
        return [*notes, *self.failure_notes()]

    def failure_notes(self) -> list[str]:
        """How many rollouts failed, and of what."""
        if not self.failures:
            return []
        codes = ", ".join(f"{code} {count}" for code, count in self.failures.most_common())
        return [f"{sum(self.failures.values())} rollouts failed: {codes}"]


def resumption_notes(replayed: int, diverged: int, restarted: int) -> list[str]:
    """What a run says of what it did not do again, and of what it had to begin anew."""
    notes: list[str] = []
    if replayed:
        notes.append(f"resumed: {replayed:,} calls were on record and were not made again")
    if diverged:
        notes.append(f"{diverged} tool results came out differently when repeated: those on record were used")
    if restarted:
        notes.append(f"{restarted} attempts came to nothing and were begun anew: a browser was lost, or the run was")
    return notes
