"""Builds the report of a run that learned lessons."""

from collections import Counter
from dataclasses import dataclass

from agentlearn.config import LearnSettings, is_lab
from agentlearn.learning.pilot import pilot_report
from agentlearn.learning.report import (
    Delta,
    LearnReport,
    LibraryLine,
    Proposals,
    SelectedVersion,
    VersionLine,
    WeightsRecord,
)
from agentlearn.learning.run_result import RunResult, verdict_notes
from agentlearn.learning.task_sets import TaskSets
from agentlearn.library.curate import count_ends
from agentlearn.types.experience import Library
from agentlearn.types.group import GROUP_KINDS
from agentlearn.types.ids import LibraryVersion
from agentlearn.types.trajectory import ROLLOUT_OUTCOMES


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
