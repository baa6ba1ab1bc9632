"""One run that learns lessons, with everything open: its course, and what is kept and reported of it."""

import time
from dataclasses import dataclass

from agentlearn.calls.endpoint import Endpoint
from agentlearn.config import LearnSettings
from agentlearn.domain import ShowsPages
from agentlearn.experience import Library, LibraryLimits
from agentlearn.learn.batch import Batch
from agentlearn.learn.course import Course
from agentlearn.learn.frozen import frozen, weights_sha256
from agentlearn.learn.learner import Update
from agentlearn.learn.report import CurvePoint, LearnReport
from agentlearn.learn.semantic import SemanticLearner, SemanticOptions, no_pages
from agentlearn.learn.tasks import TaskSets
from agentlearn.library import Shelf
from agentlearn.prompts import load_prompt
from agentlearn.run import RunKind

STAGE_PROMPTS = (("summarise", 1), ("compare", 1), ("consolidate", 1), ("repair", 1))


@dataclass(slots=True, kw_only=True)
class LearnSession(Course[LearnSettings]):
    """A run of training-free GRPO."""

    stages: Endpoint
    """Whom the semantic stages ask."""

    @property
    def kind(self) -> RunKind:
        return "learn"

    @property
    def epochs(self) -> int:
        return self.settings.as_pilot().epochs

    @property
    def reflector(self) -> Endpoint:
        return self.stages

    async def learn(self, sets: TaskSets, whole: TaskSets, start: Library, shelf: Shelf) -> LearnReport:
        """The run from its first event to its last. sets: of a pilot, those drawn from the whole run's; else the same.

        A pilot publishes no library.
        """
        report = await self.told(self._learn(sets, whole, start, shelf))
        self.observer.done(report)
        return report

    async def _learn(self, sets: TaskSets, whole: TaskSets, start: Library, shelf: Shelf) -> LearnReport:
        started = time.perf_counter()
        await self.save_ground(sets, start)
        for name, number in STAGE_PROMPTS:
            prompt = load_prompt(name, number)
            await self.store.save_prompt(prompt.ref, prompt.text)
        self.observer.opened(self.account, self.rollouts.endpoint, self.reflector, sets.train, sets.test)
        endpoint, learner = self.rollouts.endpoint, self._learner(start)
        hash_before = await weights_sha256(endpoint)
        if self.logs is not None:
            self.tally.notes.append(self.logs.note())
        before = await self.evaluate("before", sets.test, start) if sets.test else None
        await self.learn_from(sets.train, sets.test, learner)
        unchanged = learner.library.version == start.version
        after = before if unchanged else await self.evaluate("after", sets.test, learner.library) if sets.test else None
        published = self.settings.pilot is None
        if published and (not unchanged or self.settings.library_name not in {one.name for one in shelf.list()}):
            shelf.publish(self.settings.library_name, learner.library)
        return self.tally.report(
            settings=self.settings,
            account=self.account,
            endpoint=endpoint,
            reflector=self.reflector,
            gates=self.gates(),
            sets=sets,
            whole=whole,
            start=start,
            library=learner.library,
            before=before,
            after=after,
            stages=self.store.stage_totals(self.account.run),
            curve=[CurvePoint(updates=at, held_out=score) for at, score in sorted(self.measured.items())],
            weights=await frozen(endpoint, hash_before),
            wall_s=time.perf_counter() - started,
        )

    async def keep_update(self, batch: Batch, update: Update) -> None:
        run = self.account.run
        await self.store.save_proposals(run, batch.phase, batch.number, update.evidence.ended)
        await self.store.save_version(update.library, run=run)

    def epoch_done(self, batch: Batch, update: Update, seconds: float) -> None:
        self.observer.epoch_done(self.tally.epoch_line(batch.epoch, len(update.library), seconds))

    def _learner(self, start: Library) -> SemanticLearner:
        settings = self.settings
        options = SemanticOptions(
            model=settings.model,
            temperature=settings.temperature,
            seed=settings.seed,
            show_gold=settings.labels == "gold",
            threshold=self.rollouts.domain.threshold,
            max_proposals=settings.max_proposals,
            max_deletes=settings.max_deletes,
            limits=LibraryLimits(max_lessons=settings.max_lessons, max_tokens=settings.max_library_tokens),
            pages=domain.pages if isinstance(domain := self.rollouts.domain, ShowsPages) else no_pages,
        )
        return SemanticLearner(start, options, account=self.account, reflector=self.reflector, store=self.store)
