"""One run of training-free GRPO: measure, learn batch by batch, publish the library, report."""

import time
from dataclasses import dataclass

from agentlearn.config import LearnSettings
from agentlearn.learning.batch import Batch
from agentlearn.learning.evaluate import ArmNames
from agentlearn.learning.learn_report import LessonResult, learn_report
from agentlearn.learning.learner import Update
from agentlearn.learning.lessons.lesson_learner import LessonLearner
from agentlearn.learning.lessons.quarantine import refused_lessons
from agentlearn.learning.loop import RunLoop
from agentlearn.learning.report import LearnReport
from agentlearn.learning.task_sets import TaskSets
from agentlearn.learning.weights_check import weights_record, weights_sha256
from agentlearn.library import LibraryStore
from agentlearn.models.endpoint import Endpoint
from agentlearn.types.experience import Library
from agentlearn.types.ids import LibraryVersion
from agentlearn.types.run_event import RunKind


@dataclass(slots=True, kw_only=True)
class LessonRun(RunLoop[LearnSettings]):
    """A run of training-free GRPO."""

    stages: Endpoint
    """Model that writes the lessons."""

    @property
    def kind(self) -> RunKind:
        return "learn"

    @property
    def arms(self) -> ArmNames:
        return "the library at the start", "the learned library"

    @property
    def epochs(self) -> int:
        return self.settings.as_pilot().epochs

    @property
    def reflector(self) -> Endpoint:
        return self.stages

    async def learn(self, sets: TaskSets, whole: TaskSets, start: Library, library_store: LibraryStore) -> LearnReport:
        """Run from the first event to the last and return the report. A pilot publishes no library.

        sets: tasks to use; in a pilot, a sample of `whole`.
        """
        report = await self.recorded(self._learn(sets, whole, start, library_store))
        self.callbacks.done(report)
        return report

    async def _learn(self, sets: TaskSets, whole: TaskSets, start: Library, library_store: LibraryStore) -> LearnReport:
        started = time.perf_counter()
        await self.save_run_inputs(sets, start)
        self.callbacks.opened(self.call_context, self.rollouts.endpoint, self.reflector, sets.train, sets.test)
        endpoint, learner = self.rollouts.endpoint, self._learner(start)
        await learner.save_prompts()
        hash_before = await weights_sha256(endpoint)
        if self.stored_groups is not None:
            self.stats.notes.append(self.stored_groups.note())
        await self.learn_from(sets.train, sets.test, learner)
        unchanged = learner.library.version == start.version
        phases = {"before": start} if unchanged else {"before": start, "after": learner.library}
        scores = await self.evaluate(phases, sets.test)
        before = scores.get("before")
        after = before if unchanged else scores.get("after")
        self._publish(learner.library, start, library_store)
        lessons = LessonResult(
            settings=self.settings,
            whole=whole,
            start=start,
            library=learner.library,
            simulated_model=endpoint.simulated,
            simulated_reflector=self.reflector.simulated,
            weights=await weights_record(endpoint, hash_before),
            current=_current(self.settings.library_name, library_store),
        )
        report = learn_report(self.result(sets, before, after, time.perf_counter() - started), lessons)
        return report.with_learned(learner.library)

    def _publish(self, library: Library, start: Library, library_store: LibraryStore) -> None:
        """Publish what was learned. Lessons that the run only started from are published under a new name."""
        name = self.settings.library_name
        renamed = len(start) > 0 and _current(name, library_store) is None
        if self.settings.pilot is None and (library.version != start.version or renamed):
            library_store.publish(name, library)

    async def keep_update(self, batch: Batch, update: Update) -> None:
        run = self.call_context.run
        await self.store.save_proposals(run, batch.phase, batch.number, update.evidence.ended)
        await self.store.save_version(update.library, run=run)

    def epoch_done(self, batch: Batch, update: Update, seconds: float) -> None:
        self.callbacks.epoch_done(self.stats.epoch_line(batch.epoch, len(update.library), seconds))

    def _learner(self, start: Library) -> LessonLearner:
        return LessonLearner(
            library=start,
            settings=self.settings,
            call_context=self.call_context,
            reflector=self.reflector,
            store=self.store,
            threshold=self.rollouts.domain.threshold,
            pages=self.rollouts.domain.pages_seen,
            explains=self.rollouts.domain.explains,
            refused=refused_lessons(self.store, before=self.store.run(self.call_context.run).started_at),
        )


def _current(name: str, library_store: LibraryStore) -> LibraryVersion | None:
    """The version that the name stands for; None when there is no library of that name."""
    return {one.name: one.version for one in library_store.list()}.get(name)
