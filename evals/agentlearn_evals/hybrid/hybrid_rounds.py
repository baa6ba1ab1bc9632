"""Runs the stages of a hybrid run in order, keeps what each one made, and goes on after an interruption."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from agentlearn.config import LearnSettings
from agentlearn.learning.report import LearnReport
from agentlearn.library import LibraryStore
from agentlearn.library.curate.library_draft import withhold
from agentlearn.library.history.change_log import ParkLesson
from agentlearn.library.shown import render
from agentlearn.measure.contrast import Contrast
from agentlearn.measure.contrasts import decide
from agentlearn.train.report import TrainReport
from agentlearn.train.settings import TrainSettings
from agentlearn.types.experience import Experience, Library, estimated_tokens
from agentlearn.types.ids import ExperienceId, RunId
from agentlearn_evals.compare_settings import CompareSettings
from agentlearn_evals.comparison import Comparison
from agentlearn_evals.hybrid.hybrid_record import HybridRecord
from agentlearn_evals.hybrid.hybrid_report import (
    ComparedStage,
    HybridArm,
    HybridEnd,
    HybridReport,
    HybridRound,
    LearnedStage,
    LessonRemoval,
    PruningStage,
    RemovalState,
    StageContrast,
    TrainedStage,
    sentences,
)
from agentlearn_evals.hybrid.hybrid_settings import (
    HybridSettings,
    ProposalEvidence,
    compare_stage,
    endpoint_of,
    learn_stage,
    start_folder,
    train_stage,
)

_ALPHA = 0.05


def removal_state(contrast: Contrast, evidence: ProposalEvidence) -> RemovalState:
    """What the contrast of an arm without lessons against the arm with them shows.

    Undecided rollouts are never taken as wrong or right: they withhold the proposal as they withhold a verdict.
    evidence: `margin` also accepts the margin test on fewer tasks than a verdict needs.
    """
    if contrast.verdict in {"no_worse", "better"}:
        return "proposed"
    if contrast.verdict == "worse":
        return "needed"
    return "proposed" if evidence == "margin" and _margin_holds(contrast) else "unclear"


def small_sample(contrast: Contrast) -> str:
    """Why a contrast that the margin test proposes has no verdict; empty when it has one."""
    return "" if contrast.verdict != "cannot_tell" else contrast.caution or contrast.withheld or contrast.left_open


def _margin_holds(contrast: Contrast) -> bool:
    """Whether the corrected margin test holds, and nothing but the number of tasks stands against a verdict."""
    if contrast.margin is None or not contrast.margin.holds:
        return False
    without_caution = decide(contrast.model_copy(update={"caution": ""}), _ALPHA)
    return without_caution["verdict"] == "no_worse" or without_caution["withheld_code"] == "unseen"


def lessons_to_measure(library: Library, most: int) -> tuple[Experience, ...]:
    """The lessons whose removal is measured, in the order of the library; those with the most tokens where there are
    more than `most`."""
    longest = sorted(library.experiences, key=lambda one: (-estimated_tokens(one.lesson), one.id))[:most]
    chosen = {one.id for one in longest}
    return tuple(one for one in library.experiences if one.id in chosen)


def tokens_without(library: Library, lessons: Sequence[ExperienceId]) -> int:
    """The estimated tokens that a prompt saves without these lessons, where all lessons of a library are shown."""
    whole = estimated_tokens(render(library).text)
    return whole - estimated_tokens(render(library, masked=tuple(lessons)).text)


NONE, LESSONS, DISTILLED, BOTH, TOGETHER = "none", "lessons", "distilled", "both", "without-proposed"
_SHORT = 12
"""Characters of versions and lesson ids in the names of libraries and arms."""


class StageRunner(Protocol):
    """Runs one stage each, with its progress shown."""

    def announce(self, number: int, stage: str, words: str) -> None:
        """Say which stage begins. number: of the round."""
        ...

    def learn(self, settings: LearnSettings, resume: RunId | None) -> LearnReport:
        """Learn, or continue the interrupted run."""
        ...

    def train(self, settings: TrainSettings, resume: RunId | None) -> TrainReport:
        """Train, or continue the interrupted run."""
        ...

    def compare(self, settings: CompareSettings) -> tuple[Comparison, tuple[HybridArm, ...]]:
        """Compare, and return the result and the tokens of each arm. Stored rollouts are reused."""
        ...


@dataclass(slots=True)
class HybridRun:
    """A hybrid run with what it has made so far."""

    record: HybridRecord
    stages: StageRunner
    started: float = field(default_factory=time.perf_counter)

    @property
    def settings(self) -> HybridSettings:
        """Settings of the run."""
        return self.record.settings

    @property
    def libraries(self) -> LibraryStore:
        """The libraries of the store."""
        return LibraryStore(self.settings.store / "libraries")

    def to_end(self) -> HybridReport:
        """Run every stage that is not done, and return the report. Raises what a stage raises."""
        self.record.start()
        try:
            while not self.record.report.ended:
                self._go_on()
        except BaseException as error:
            self.record.stop(error)
            raise
        return self.record.report

    def _go_on(self) -> None:
        """Run the next stage, and keep its result."""
        rounds = self.record.report.rounds
        if not rounds:
            self._keep(HybridRound(number=1, model=self.settings.bare_model, start=None))
            return
        now = rounds[-1]
        if now.learned is None:
            learned = self._learn(now)
            self._keep(now.model_copy(update={"learned": learned}), "" if learned.published else "nothing_learned")
        elif now.trained is None:
            trained = self._train(now, now.learned)
            self._keep(now.model_copy(update={"trained": trained}), "" if trained.published else "not_published")
        elif now.compared is None:
            self._keep(now.model_copy(update={"compared": self._compare(now, now.learned, now.trained)}))
        elif now.pruning is None:
            pruning = self._measure_removals(now, now.learned, now.trained)
            self._keep(now.model_copy(update={"pruning": pruning}), "done" if self._is_last(now) else "")
        else:
            self._next_round(now, now.learned, now.trained, now.pruning)

    def _is_last(self, now: HybridRound) -> bool:
        return now.number == self.settings.rounds

    def _keep(self, changed: HybridRound, ended: HybridEnd = "") -> None:
        """Store the round in place of its earlier state."""
        report = self.record.report
        others = tuple(one for one in report.rounds if one.number != changed.number)
        report = report.model_copy(
            update={
                "rounds": (*others, changed),
                "ended": ended,
                "wall_s": time.perf_counter() - self.started,
            }
        )
        self.record.keep(report.model_copy(update={"sentences": sentences(report, self.settings)}))

    def _learn(self, now: HybridRound) -> LearnedStage:
        settings = learn_stage(self.settings, model=now.model, library=now.start)
        self.stages.announce(now.number, "learn", f"lessons from rollouts of {settings.model}")
        found = self.record.stage_run("learn", settings.resolved())
        if found is not None and found.state == "done":
            report = LearnReport.model_validate_json(found.report)
        else:
            report = self.stages.learn(settings, None if found is None else found.run)
        library, selection = report.library, report.selection
        published = library.lessons > 0 and (selection is None or selection.status == "published")
        return LearnedStage(
            run=report.run,
            reference=f"{library.name}@{library.version[:_SHORT]}",
            version=library.version,
            lessons=library.lessons,
            tokens=library.tokens,
            simulated=report.simulated or settings.reflector_name.startswith("sim:"),
            published=published,
            reason="" if selection is None else selection.reason,
        )

    def _train(self, now: HybridRound, learned: LearnedStage) -> TrainedStage:
        settings = train_stage(self.settings, model=now.model, library=learned.reference, number=now.number)
        self.stages.announce(now.number, "train", f"{learned.reference} into the weights of {now.model}")
        found = self.record.stage_run("train", settings.resolved())
        if found is not None and found.state == "done":
            report = TrainReport.model_validate_json(found.report)
        else:
            report = self.stages.train(settings, None if found is None else found.run)
        return TrainedStage(
            run=report.run,
            weights=report.weights.path,
            sha256=report.weights.sha256_after,
            published=report.weights.published,
            worse_on="held-out tasks" if report.delta and report.delta.verdict == "worse" else "the run's own tasks",
            before=None if report.before is None else report.before.mean,
            after=None if report.after is None else report.after.mean,
        )

    def _compare(self, now: HybridRound, learned: LearnedStage, trained: TrainedStage) -> ComparedStage:
        before, after = start_folder(self.settings, now.model), endpoint_of(self.settings, trained.weights)
        lessons = f"{LESSONS}={learned.reference},model={before}"
        distilled = f"{DISTILLED}=none,model={after}"
        arms = (f"{NONE}=none,model={before}", lessons, distilled, f"{BOTH}={learned.reference},model={after}")
        self.stages.announce(now.number, "compare", "no lessons, lessons, weights, and both, on held-out tasks")
        first, lines = self.stages.compare(compare_stage(self.settings, arms))
        second, _ = self.stages.compare(compare_stage(self.settings, (lessons, distilled)))
        by_arm = {one.arm: one for one in first.contrasts}
        gained = by_arm[LESSONS].mean if by_arm[LESSONS].verdict == "better" else None
        reached = by_arm[DISTILLED].mean
        return ComparedStage(
            runs=(RunId(first.run), RunId(second.run)),
            arms=lines,
            contrasts=tuple(_short(one, found) for found in (first, second) for one in found.contrasts),
            kept=reached / gained if gained and reached is not None else None,
        )

    def _measure_removals(self, now: HybridRound, learned: LearnedStage, trained: TrainedStage) -> PruningStage:
        library, model = self.libraries.load(learned.reference), endpoint_of(self.settings, trained.weights)
        lessons = lessons_to_measure(library, self.settings.removals)
        if not lessons:
            return _nothing_measured(library)
        self.stages.announce(now.number, "remove", f"{BOTH} without each of {len(lessons)} lessons, on held-out tasks")
        both, distilled = f"{BOTH}={learned.reference},model={model}", f"{DISTILLED}=none,model={model}"
        names = {f"without-{one.id[:_SHORT]}": one for one in lessons}
        arms = [f"{name}={learned.reference},model={model},without={one.id}" for name, one in names.items()]
        found, _ = self._compare_removals((both, distilled, *arms))
        by_arm = {one.arm: one for one in found.contrasts}
        removals = tuple(self._removal(one, library, by_arm[name], found) for name, one in names.items())
        proposed = [one.lesson for one in removals if one.state == "proposed"]
        together, run = self._together(proposed, library, learned, model, both, found)
        return PruningStage(
            runs=(RunId(found.run), *((run,) if run is not None else ())),
            removals=removals,
            not_measured=len(library) - len(lessons),
            tokens_saved=tokens_without(library, proposed) if proposed else 0,
            together=None if together is None else _short(together, found).model_copy(update={"run": run or found.run}),
            together_shown=together is not None and removal_state(together, self.settings.evidence) == "proposed",
            together_caution="" if together is None else small_sample(together),
        )

    def _removal(self, lesson: Experience, library: Library, contrast: Contrast, found: Comparison) -> LessonRemoval:
        """What the comparison found of a lesson's removal."""
        return LessonRemoval(
            lesson=lesson.id,
            text=lesson.lesson,
            tokens=tokens_without(library, (lesson.id,)),
            state=removal_state(contrast, self.settings.evidence),
            contrast=_short(contrast, found),
            caution=small_sample(contrast),
        )

    def _together(
        self,
        proposed: Sequence[ExperienceId],
        library: Library,
        learned: LearnedStage,
        model: str,
        both: str,
        found: Comparison,
    ) -> tuple[Contrast | None, RunId | None]:
        """The contrast of all proposed lessons removed at once, and the run of its own that it took, if any.

        Where every lesson is proposed, it is the arm without lessons; where one is, it is that lesson's.
        """
        if not proposed:
            return None, None
        if len(proposed) in {1, len(library)}:
            name = f"without-{proposed[0][:_SHORT]}" if len(proposed) == 1 else DISTILLED
            return next(one for one in found.contrasts if one.arm == name), None
        arm = f"{TOGETHER}={learned.reference},model={model},without={'+'.join(proposed)}"
        again, _ = self._compare_removals((both, arm))
        return again.contrasts[0], RunId(again.run)

    def _compare_removals(self, arms: Sequence[str]) -> tuple[Comparison, tuple[HybridArm, ...]]:
        return self.stages.compare(compare_stage(self.settings, arms, k=self.settings.removal_rollouts))

    def _next_round(
        self, now: HybridRound, learned: LearnedStage, trained: TrainedStage, pruning: PruningStage
    ) -> None:
        """Begin the next round with the trained weights, and with the library without the proposed lessons.

        They are parked only when removing all of them at once is shown to be not worse. Those that a person wrote stay.
        """
        library, start = self.libraries.load(learned.reference), learned.reference
        learned_only = [one for one in pruning.proposed if not library.by_id[one.lesson].by_person]
        if learned_only and pruning.together_shown:
            reasons = {one.lesson: f"distilled into {Path(trained.weights).name}" for one in learned_only}
            version = park(self.libraries, learned, library, reasons)
            start = f"{self.settings.result_name}@{version[:_SHORT]}"
            self._keep(now.model_copy(update={"pruning": pruning.model_copy(update={"parked": True})}))
        self._keep(HybridRound(number=now.number + 1, model=trained.weights, start=start))


def _nothing_measured(library: Library) -> PruningStage:
    return PruningStage(
        runs=(), removals=(), not_measured=len(library), tokens_saved=0, together=None, together_shown=False
    )


def park(libraries: LibraryStore, learned: LearnedStage, library: Library, reasons: dict[ExperienceId, str]) -> str:
    """Park lessons of a library, as `library park` does, and return the version without them.

    When it is repeated after an interruption, it changes nothing.
    """
    name = learned.reference.partition("@")[0]
    wanted = withhold(library, reasons)

    def parked(current: Library) -> Library:
        return wanted if current.version == library.version else _without(current, reasons)

    operations = tuple(ParkLesson(target=lesson, reason=why) for lesson, why in reasons.items())
    history = libraries.history(name)
    history.update(parked, kind="park", operations=operations, note="hybrid")
    return history.resolve()


def _without(current: Library, reasons: dict[ExperienceId, str]) -> Library:
    return withhold(current, {lesson: why for lesson, why in reasons.items() if lesson in current.by_id})


def _short(contrast: Contrast, found: Comparison) -> StageContrast:
    return StageContrast(
        arm=contrast.arm,
        baseline=contrast.baseline,
        run=RunId(found.run),
        mean=contrast.mean,
        low=contrast.low,
        high=contrast.high,
        verdict=contrast.verdict,
        sentence=contrast.sentence,
    )
