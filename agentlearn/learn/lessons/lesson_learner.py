"""Training-free GRPO as a learner: groups become proposals, proposals a plan, a plan the next library version."""

from asyncio import TaskGroup
from collections import Counter
from collections.abc import AsyncIterable, Callable, Iterable, Sequence
from dataclasses import dataclass, field

from agentlearn.errors import EndpointError
from agentlearn.learn.learner import Advanced, Evidence, Held, Outcome, Update
from agentlearn.learn.lessons.compare import compare
from agentlearn.learn.lessons.consolidate import consolidate
from agentlearn.learn.lessons.curate import CheckContext, apply, check
from agentlearn.learn.lessons.stage_context import StageContext, shown
from agentlearn.learn.lessons.summarise import summarise
from agentlearn.log import get_log
from agentlearn.models.call_context import CallContext
from agentlearn.models.endpoint import Endpoint
from agentlearn.store import Store
from agentlearn.types.experience import Library, LibraryLimits
from agentlearn.types.group import Group
from agentlearn.types.ids import RolloutId
from agentlearn.types.operation import Applied, Ended, Proposal, Rejected
from agentlearn.types.summary import Summary
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory
from agentlearn.types.treatment import Treatment

GroupKinds = Counter[str]

_NO_LIMITS = LibraryLimits(max_lessons=10_000, max_tokens=10**9)
"""For a single group: whether the library has room is known only once the batch's deletes and merges are."""


def no_pages(_: Trajectory) -> Iterable[str]:
    """Of a domain whose tools show nothing that others wrote."""
    return ()


@dataclass(frozen=True, slots=True)
class LessonOptions:
    """How lessons are learned."""

    model: str
    """The rollouts' endpoint, as treatments name it."""
    temperature: float | None
    seed: int
    show_gold: bool
    threshold: float
    max_proposals: int = 3
    max_deletes: int = 3
    limits: LibraryLimits = field(default_factory=LibraryLimits)
    reflector_temperature: float | None = None
    pages: Callable[[Trajectory], Iterable[str]] = no_pages
    """Texts that others wrote and a rollout saw; no lesson may copy from them."""


@dataclass(frozen=True, slots=True)
class _Digest:
    """What one group came to."""

    group: Group
    accepted: tuple[Proposal, ...] = ()
    ended: tuple[Ended, ...] = ()
    summarise_faults: Counter[str] = field(default_factory=Counter[str])
    compare_faults: Counter[str] = field(default_factory=Counter[str])


class LessonLearner:
    """Frozen model, changing library. Holds one library version; `update` moves to the next."""

    def __init__(
        self,
        library: Library,
        options: LessonOptions,
        *,
        call_context: CallContext,
        reflector: Endpoint,
        store: Store,
    ) -> None:
        self._library = library
        self._options = options
        self._account = call_context
        self._reflector = reflector
        self._store = store
        self._log = get_log(run=call_context.run)

    @property
    def library(self) -> Library:
        """The library in use."""
        return self._library

    @property
    def done(self) -> int:
        """None: what an interrupted run had learned is learned again from its records, at no cost."""
        return 0

    def assign(self, task: Task, g: int) -> Treatment:
        """Plain learning gives every rollout of a batch the same treatment."""
        return Treatment(
            model=self._options.model, library=self._library.version, temperature=self._options.temperature
        )

    async def update(self, groups: AsyncIterable[Group], *, step: str) -> Update:
        """Summarise and compare each teaching group as it completes; consolidate, check and apply at the end."""
        stage_context = self._lens(step)
        async with TaskGroup() as running:
            tasks = [running.create_task(self._digest(group, stage_context)) async for group in groups]
        digests = sorted((task.result() for task in tasks), key=lambda digest: digest.group.task.id)
        kinds = GroupKinds(digest.group.kind(self._options.threshold) for digest in digests)
        accepted = [proposal for digest in digests for proposal in digest.accepted]
        context = self._context([digest.group for digest in digests], self._options.limits)
        merged = await consolidate(accepted, stage_context, context)
        checked = check(merged.proposals, self._library, context)
        ended = (*(one for digest in digests for one in digest.ended), *merged.ended, *checked.ended)
        before, self._library = self._library, apply(checked.plan, self._library)
        for one in ended:
            if isinstance(one.end, Rejected):
                self._log.info("operation.refused", step=step, code=one.end.code, reason=one.end.reason)
        faults = {
            "summarise": _sum(digest.summarise_faults for digest in digests),
            "compare": _sum(digest.compare_faults for digest in digests),
            "consolidate": dict(Counter(merged.faults)),
        }
        notes = (f"consolidation failed twice in {step}: proposals were checked directly",) if merged.failed else ()
        return Update(
            outcome=self._outcome(before, kinds, ended),
            library=self._library,
            evidence=Evidence(ended=ended, groups=dict(kinds), faults=faults, notes=notes),
        )

    def snapshot(self) -> str:
        """The library as JSON."""
        return self._library.model_dump_json()

    def restore(self, snapshot: str) -> None:
        """Take up a library that `snapshot` gave."""
        self._library = Library.model_validate_json(snapshot)

    def _lens(self, step: str) -> StageContext:
        options = self._options
        return StageContext(
            call_context=self._account,
            endpoint=self._reflector,
            seed=options.seed,
            step=step,
            library=self._library,
            shown=shown(self._library),
            show_gold=options.show_gold,
            max_proposals=options.max_proposals,
            threshold=options.threshold,
            temperature=options.reflector_temperature,
        )

    def _context(self, groups: Sequence[Group], limits: LibraryLimits) -> CheckContext:
        pages = (page for group in groups for one in group.trajectories for page in self._options.pages(one))
        tasks = [group.task for group in groups]
        return CheckContext.of(tasks, pages=pages, limits=limits, max_deletes=self._options.max_deletes)

    async def _digest(self, group: Group, stage_context: StageContext) -> _Digest:
        """Summaries and proposals of one group; a group whose rewards do not differ costs no call."""
        if group.kind(self._options.threshold) != "mixed":
            return _Digest(group)
        async with TaskGroup() as running:
            tasks = [running.create_task(summarise(t, group.task, stage_context)) for t in group.decided]
        results = [task.result() for task in tasks]
        faults = Counter(code for result in results for code in result.faults.elements())
        summaries: dict[RolloutId, Summary] = {
            result.summary.rollout: result.summary for result in results if result.summary is not None
        }
        async with TaskGroup() as saving:
            for summary in summaries.values():
                saving.create_task(self._store.save_summary(summary))
        rewards = {t.reward for t in group.decided if t.id in summaries}
        if len(rewards) < 2:  # what is left after lost summaries no longer differs
            return _Digest(group, summarise_faults=faults, compare_faults=Counter({"summaries_lost": 1}))
        try:
            proposed = await compare(group, summaries, stage_context, self._context([group], _NO_LIMITS))
        except EndpointError as error:
            return _Digest(group, summarise_faults=faults, compare_faults=Counter({error.code: 1}))
        return _Digest(group, proposed.accepted, proposed.ended, faults, Counter(proposed.faults))

    def _outcome(self, before: Library, kinds: GroupKinds, ended: Sequence[Ended]) -> Outcome:
        if self._library.version != before.version:
            return Advanced(version=self._library.version, parent=before.version)
        if not kinds["mixed"]:
            return Held(reason="no group had rewards that differ")
        if not any(isinstance(one.end, Applied) for one in ended):
            return Held(reason="no proposal passed the check")
        return Held(reason="the plan changed nothing")


def _sum(counters: Iterable[Counter[str]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for counter in counters:
        total.update(counter)
    return {code: count for code, count in sorted(total.items()) if count}
