"""One run of training-free GRPO: learn batch by batch, choose a version, measure it, publish it, report."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agentlearn.config import LearnSettings, is_lab
from agentlearn.errors import AgentlearnError
from agentlearn.learning.batch import Allocation, Batch
from agentlearn.learning.batch_runner import HiddenLessons, hiding_note
from agentlearn.learning.callbacks import Update
from agentlearn.learning.evaluate import ArmNames, RunResult, verdict_notes, weights_sha256
from agentlearn.learning.lessons.lesson_learner import LessonLearner, own_rules
from agentlearn.learning.lessons.selection import Choice, Validation, arms_of
from agentlearn.learning.lessons.stage_agent import StagePrompts
from agentlearn.learning.lessons.trust import (
    acceptance,
    pending_lessons,
    pending_versions,
    refusal_reasons,
    refused_authors,
    refused_lessons,
    unapproved,
    waiting_lessons,
)
from agentlearn.learning.loop import RunLoop
from agentlearn.learning.open_run import TaskSets
from agentlearn.learning.plan import PilotReport
from agentlearn.learning.report import (
    Delta,
    HeldOut,
    LearnedLesson,
    LearnReport,
    LessonWorth,
    LibraryLine,
    SelectedVersion,
    Taught,
    WeightsRecord,
)
from agentlearn.learning.run_stats import unprotected
from agentlearn.library import LibraryStore
from agentlearn.library.audit import leaks
from agentlearn.library.curate import EndCounts
from agentlearn.library.curate.answer_search import class_answers
from agentlearn.models.endpoint import Endpoint
from agentlearn.types.experience import Library, counted_lessons
from agentlearn.types.group import GROUP_KINDS
from agentlearn.types.ids import ExperienceId, LibraryVersion
from agentlearn.types.run_event import RunKind
from agentlearn.types.task import Task
from agentlearn.types.trajectory import ROLLOUT_OUTCOMES, TRIAL, Trajectory
from agentlearn.types.value import Author, strangers

_SHARE_ALONE = 10
"""Lessons that strangers could have shaped are measured by themselves with at most one rollout for ten of the run."""


@dataclass(slots=True, kw_only=True)
class LessonRun(RunLoop[LearnSettings]):
    """A run of training-free GRPO."""

    stages: Endpoint
    """Model that writes the lessons."""
    _learner: LessonLearner = field(init=False)
    _updates: int = field(init=False, default=0)
    _made_at: dict[LibraryVersion, int] = field(init=False, default_factory=dict[LibraryVersion, int])
    """Number of updates before each version."""

    @property
    def kind(self) -> RunKind:
        return "learn"

    @property
    def arms(self) -> ArmNames:
        return "the library at the start", "the selected library"

    @property
    def epochs(self) -> int:
        return self.settings.as_pilot().epochs

    @property
    def allocation(self) -> Allocation:
        return Allocation.of(self.settings)

    @property
    def reflector(self) -> Endpoint:
        return self.stages

    async def learn(self, sets: TaskSets, whole: TaskSets, start: Library, library_store: LibraryStore) -> LearnReport:
        """Run from the first event to the last and return the report. A pilot publishes no library.

        sets: tasks to use; in a pilot, a sample of `whole`.
        """
        report = await self.recorded(self._learn(sets, whole, start, library_store))
        waiting = (*pending_versions(self.store, library_store), *pending_lessons(self.store))
        library_store.note_waiting(len(waiting))
        self.callbacks.done(report)
        return report

    async def _learn(self, sets: TaskSets, whole: TaskSets, start: Library, library_store: LibraryStore) -> LearnReport:
        started = time.perf_counter()
        await self.save_run_inputs(sets, start)
        self.callbacks.opened(self.call_context, self.rollouts.endpoint, self.reflector, sets.train, sets.test)
        self.notice_chat_template()
        self.callbacks.starts_from(start)
        endpoint, learner = self.rollouts.endpoint, self._new_learner(start, sets.train)
        self._learner = learner
        await learner.save_prompts()
        if self.settings.select == "last" and self.settings.pilot is None:
            self.monitor.notice(unprotected(one_update=len(sets.train) <= self.settings.batch_size))
        hash_before = await weights_sha256(endpoint)
        if self.stored_groups is not None:
            self.stats.notes.append(self.stored_groups.note())
        if self.settings.hidden_rollouts:
            self.batches.hidden_lessons = HiddenLessons(start, self.settings.hidden_rollouts, self.settings.seed)
        await self.learn_from(sets.train, sets.test, learner)
        self._note_hidden(start)
        choice, alone = await self._choose(sets, learner)
        phases = {"before": start, "after": choice.selected} if choice.changed else {"before": start}
        sets = sets.counted(leaks((*start.experiences, *choice.selected.experiences), sets.test))
        scores = await self.evaluate(phases, sets.test)
        before = scores.get("before")
        after = scores.get("after") if choice.changed else before
        result = self.result(sets, before, after, time.perf_counter() - started)
        selection, library = await self._published(choice, result.held_out, library_store, alone)
        weights = await _weights_record(endpoint, hash_before)
        current = _current(self.settings.library_name, library_store)
        result = replace(result, wall_s=time.perf_counter() - started)
        pilot = None if self.settings.pilot is None else self._pilot_report(result, whole, choice.start.tokens)
        line = LibraryLine(
            name=self.settings.library_name,
            version=library.version,
            parent=library.parent,
            lessons=len(library),
            tokens=library.tokens,
            current=current,
            document=library.document,
        )
        report = self._report(result, choice, line, library, selection=selection, weights=weights, pilot=pilot)
        return report.with_learned(library)

    def _pilot_report(self, result: RunResult, whole: TaskSets, library: int) -> PilotReport:
        """Return what the pilot measured. library: tokens of the lessons in its prompts."""
        taught = Taught.of(result.stats.total("taught"))
        return PilotReport.of(
            self.settings,
            tasks=len(result.sets.train),
            whole=whole,
            groups=result.stats.total("groups"),
            taught_wrong=taught.all_wrong + taught.single,
            drawn=result.stats.allocated(0).drawn,
            stages=result.totals,
            library=library,
        )

    def _report(
        self,
        result: RunResult,
        choice: Choice,
        line: LibraryLine,
        library: Library,
        *,
        selection: SelectedVersion | None,
        weights: WeightsRecord,
        pilot: PilotReport | None,
    ) -> LearnReport:
        """Return the report of the finished run.

        library: the selected version; line: what came of it. selection: None in a pilot. pilot: None in a whole run.
        """
        settings, stats, held_out = self.settings, result.stats, result.held_out
        groups, taught = stats.total("groups"), Taught.of(stats.total("taught"))
        delta = held_out.delta if held_out else None
        ended = [one for epoch in stats.epochs.values() for one in epoch.ended]
        visits = 0 if settings.from_store else len(result.sets.train) * self.epochs
        return LearnReport(
            run=result.run,
            domain=settings.domain,
            model=settings.model,
            reflector=settings.reflector_name,
            simulated=self.rollouts.endpoint.simulated or self.reflector.simulated,
            seed=result.seed,
            tasks=result.tasks,
            before=held_out.before if held_out else None,
            after=held_out.after if held_out else None,
            delta=delta,
            known_families=result.known_families,
            unseen_families=result.unseen_families,
            test_sets=result.test_sets,
            library=line,
            lessons=LearnedLesson.of(library, ended),
            proposals=EndCounts.of(ended),
            groups={kind: groups[kind] for kind in GROUP_KINDS},
            taught=taught,
            rollouts={outcome: stats.outcomes[outcome] for outcome in ROLLOUT_OUTCOMES},
            stages=result.stages,
            failed_requests=result.failed_requests,
            services=result.services,
            epochs=tuple(stats.lines),
            versions=choice.version_lines(self._made_at),
            selection=selection,
            allocated=stats.allocated(visits * settings.group_size),
            curve=result.curve,
            weights=weights,
            pilot=pilot,
            cost_usd=result.cost_usd,
            wall_s=result.wall_rounded_s,
            notes=(*self._notes(choice, library.version, delta, taught), *result.notes()),
        )

    def _notes(self, choice: Choice, version: LibraryVersion, delta: Delta | None, taught: Taught) -> Iterator[str]:
        """The notes that only a run with lessons has."""
        settings, shows = self.settings, "these numbers show that the program works and nothing more"
        if version != choice.start.version:
            worse = f"version {version[:8]} is not published"
            yield from verdict_notes(delta, worse=worse, unclear="more held-out tasks would narrow it")
        if settings.pilot is not None:
            yield "this was a pilot: no library was published; leave out --pilot for the whole run"
        if self.rollouts.endpoint.simulated:
            yield f"{settings.model} is simulated: {shows}"
        elif is_lab(settings.model):
            wrote = f", and {settings.reflector_name}, which wrote its lessons, is simulated"
            yield f"{settings.model} is a real but tiny transformer{wrote if self.reflector.simulated else ''}: {shows}"
        if settings.group_size == 1 and not taught.groups:
            yield "G = 1 teaches nothing: there is no second rollout to compare with; use --group-size 5"
        elif not self._made_at and (taught.groups or not taught.skipped):
            held = "; ".join(sorted(set(self.stats.held))) or "no proposal was made"
            yield f"the library did not change: {held}"
        if settings.labels == "none":
            yield "labels none: while learning, rollouts were judged by the majority answer of their group"

    def _note_hidden(self, start: Library) -> None:
        """Report what hiding lessons cost."""
        if self.settings.hidden_rollouts and not len(start):
            self.stats.notes.append("no lesson was hidden: the run started without lessons")
        elif self.settings.hidden_rollouts:
            rows = self.store.exposed(list(start.by_id))
            note = hiding_note(rows, self.call_context.run, self.rollouts.domain.threshold)
            self.stats.notes.extend([note] if note else [])

    async def _choose(self, sets: TaskSets, learner: LessonLearner) -> tuple[Choice, tuple[LessonWorth, ...]]:
        """Choose a version, after comparing the finalists on validation tasks where there are some.

        Returns also what those of its lessons are worth by themselves that strangers could have shaped.
        """
        settings, candidates, last = self.settings, learner.candidates, learner.last
        learned = candidates.standings()
        if settings.pilot is not None:
            return Choice(candidates.start, last, last, "last", len(learned), "is a pilot's", learned, learned), ()
        arms, validation, validated = arms_of(candidates, settings.finalists), None, None
        if sets.validation and len(arms) > 1 and self._made_at:
            await self.store.save_tasks(sets.validation)
            validation = Validation(
                seed=settings.seed,
                rollouts=settings.validation_rollouts,
                labelled=settings.labels == "gold",
                batches=self.batches,
                candidates=candidates,
                tasks=sets.validation,
            )
            validated = await validation.run(arms)
        choice = Choice.of(
            candidates,
            last,
            select=settings.select,
            seed=settings.seed,
            learned=learned,
            validated=validated,
            learned_from=sets.validates_on_train,
        )
        waiting = waiting_lessons(choice.selected, learner.accepted, trust=settings.trust)
        if validation is None or validated is None or not validated.judged or not waiting:
            return choice, ()
        most = (self.stats.allocated(0).drawn + validated.rollouts) // _SHARE_ALONE
        return choice, await validation.alone(choice.selected, waiting, most=most)

    async def _published(
        self, choice: Choice, held_out: HeldOut | None, library_store: LibraryStore, alone: tuple[LessonWorth, ...]
    ) -> tuple[SelectedVersion | None, Library]:
        """Publish the selected version unless something speaks against it.

        Returns the decision, None in a pilot, and the version that came of it: the selected one, with what persons
        changed while the run went on. Lessons that the run only started from are published under a new name.
        """
        if self.settings.pilot is not None:
            return None, choice.selected
        name, store = self.settings.library_name, library_store.directory.parent
        waits = _why_it_waits(waiting_lessons(choice.selected, self._learner.accepted, trust=self.settings.trust))
        if not self.settings.publish and choice.changed:
            waits = waits or "--no-publish leaves the decision to a person"
        at_stake = held_out is not None and not len(choice.start) and bool(held_out.before.mean)
        delta = held_out.delta if held_out is not None else None
        selection = choice.decided(delta, name=name, store=store, at_stake=at_stake, waits=waits, alone=alone)
        renamed = self.settings.publish and len(choice.start) > 0 and _current(name, library_store) is None
        if selection.status != "published" and not (selection.status == "unchanged" and renamed):
            return selection, choice.selected
        run = self.call_context.run
        published = library_store.history(name).publish_learned(
            choice.selected,
            start=choice.start,
            since=self.store.run(run).started_at,
            versions=self._learner.candidates.libraries.values(),
            run=run,
            who="",
        )
        if published.version != choice.selected.version:
            await self.store.save_version(published, run=run)
            self.stats.notes.append(
                f"a person changed the library {name} while the run went on; version {published.version[:8]} joins"
                f" these changes with the selected version {choice.selected.version[:8]}, and was not measured itself"
            )
        return selection, published

    async def keep_update(self, batch: Batch, update: Update) -> None:
        run, candidates = self.call_context.run, self._learner.candidates
        self._updates += 1
        await self.store.save_proposals(run, batch.phase, batch.number, update.evidence.ended)
        for made in candidates.libraries.values():
            if made.version not in {*self._made_at, candidates.bare.version, candidates.start.version}:
                await self.store.save_version(made, run=run)
                self._made_at[made.version] = self._updates

    def epoch_done(self, batch: Batch, update: Update, seconds: float) -> None:
        self.callbacks.epoch_done(self.stats.epoch_line(batch.epoch, len(update.library), seconds))
        self.monitor.epoch_done(batch.epoch, self._best())

    def _best(self) -> str:
        """The version with the best evidence so far, in words."""
        best = self._learner.candidates.best()
        updates = self._made_at.get(best.version, 0)
        if not updates:
            return "the library without these lessons is the best by the rollouts so far"
        after = "1 update" if updates == 1 else f"{updates} updates"
        return f"version {best.version[:8]}, made after {after}, is the best by the rollouts so far"

    def _new_learner(self, start: Library, train: Sequence[Task]) -> LessonLearner:
        began = self.store.run(self.call_context.run).started_at
        libraries = LibraryStore(self.settings.store / "libraries")
        history = libraries.history(self.settings.library_name)
        return LessonLearner(
            library=start,
            settings=self.settings,
            call_context=self.call_context,
            reflector=self.reflector,
            store=self.store,
            threshold=self.rollouts.domain.threshold,
            margin=self.allocation.margin,
            pages=self.rollouts.domain.pages_seen,
            read_as=self.rollouts.domain.for_lessons,
            explains=self.rollouts.domain.explains,
            classes=class_answers(train),
            reasons_by=self.rollouts.domain.reasons_by,
            prompts=StagePrompts.of(self.settings.prompt, document=bool(start.document)),
            updates=math.ceil(len(train) / self.settings.batch_size) * self.epochs,
            rules=own_rules(self.settings),
            accepted=frozenset(libraries.shown_lessons()) if unapproved(start, ()) else frozenset(),
            refused_authors=refused_authors(self.store, libraries, before=began),
            refused=refused_lessons(self.store, before=began) | history.refused_words(before=began),
            reasons=refusal_reasons(self.store, history, before=began),
            acceptance={one.source: one for one in acceptance(self.store, libraries, before=began)},
            trial=self._trial if self.settings.tries_updates else None,
        )

    async def _trial(self, made: Library, work: Sequence[tuple[Task, int]], step: str) -> Sequence[Trajectory]:
        """Make rollouts of a library as those that an update was made from. work: task and number of each."""
        phase = f"{TRIAL}:{step.partition('/')[0]}"
        await self.store.save_version(made, run=self.call_context.run)
        found = await self.batches.measure({phase: made}, work, seeds=phase, temperature=self.settings.temperature)
        return found[phase]


async def _weights_record(endpoint: Endpoint, before: str | None) -> WeightsRecord:
    """Return which model answered, and the hash of its weights. before: their hash at the start of the run.

    Raises AgentlearnError (`weights_differ`) when the two hashes differ.
    """
    identity = f"{endpoint.name} ({', '.join(sorted(endpoint.endpoint_state.models)) or 'no answer'})"
    after = await weights_sha256(endpoint)
    if before != after:
        raise AgentlearnError(
            f"the weights of {endpoint.name} changed while lessons were learned ({before} before, {after} after); the"
            " scores before and after are not of the same model, so start a new run",
            code="weights_differ",
        )
    if after is not None:
        note = f"unchanged, sha256 {after[:12]} before and after"
    elif endpoint.simulated:
        note = "the simulated model has no weights"
    else:
        note = "weights not checked (remote model); agentlearn never changes them"
    return WeightsRecord(identity=identity, sha256_before=before, sha256_after=after, note=note)


_MOST_NAMED = 4


def _why_it_waits(waiting: Mapping[ExperienceId, Sequence[Author]]) -> str:
    """Return why a version with these `waiting_lessons` waits for a person; empty when there are none."""
    if not waiting:
        return ""
    authors = strangers(author for found in waiting.values() for author in found)
    named = ", ".join(one.words for one in authors[:_MOST_NAMED])
    more = f" and {len(authors) - _MOST_NAMED} more" if len(authors) > _MOST_NAMED else ""
    could = f"text that others wrote could have shaped {counted_lessons(len(waiting))} of it: {named}{more}"
    kinds = list(dict.fromkeys(one.kind for one in authors if one.kind != "library"))
    if not kinds:
        return f"{could}; a person decides"
    options = " ".join(f"--trust {kind}" for kind in kinds)
    return f"{could}; {options} (in Python trust={kinds}) publishes such lessons without asking"


def _current(name: str, library_store: LibraryStore) -> LibraryVersion | None:
    """The version that the name stands for; None when there is no library of that name."""
    return {one.name: one.version for one in library_store.list()}.get(name)
