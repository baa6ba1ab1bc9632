"""Compare arms on tasks: make or reuse their rollouts, hold them against each other, keep the result."""

import asyncio
import platform
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import structlog

from agentlearn.rollout.recorded_run import recorded_run, started_event
from agentlearn.store import Store, open_store
from agentlearn.types.experience import Library
from agentlearn.types.ids import LibraryVersion, content_hash
from agentlearn.types.task import Task
from agentlearn.version import version
from agentlearn_evals.analysis import assemble
from agentlearn_evals.arms import Arm
from agentlearn_evals.breakdown import score
from agentlearn_evals.callbacks import CompareCallbacks
from agentlearn_evals.collect import Collector, open_collector
from agentlearn_evals.comparison import (
    ArmFlag,
    Comparison,
    Contrast,
    DriftCheck,
    InterimLook,
    Reproducibility,
    VersionPoint,
)
from agentlearn_evals.contrasts import Rules, drafts_of, judged
from agentlearn_evals.drift_checks import sentinels
from agentlearn_evals.eval_tasks import data_hash
from agentlearn_evals.flags import flags_of, spoiled
from agentlearn_evals.interim_looks import earlier_looks, earlier_reports
from agentlearn_evals.methods import method_lines
from agentlearn_evals.observation import Observation
from agentlearn_evals.plan import ComparePlan, planned
from agentlearn_evals.score_table import ScoreTable, board, comparable
from agentlearn_evals.sequential import Sequel
from agentlearn_evals.settings import CompareSettings

_RUNS = 10_000
"""Earlier runs that are looked through for looks at the same question."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison, and what it rests on."""

    comparison: Comparison
    observations: tuple[Observation, ...]


async def compare(settings: CompareSettings, watcher: CompareCallbacks | None = None) -> Comparison:
    """Which arm is better, and how sure that is.

    Rollouts are stored as they are made. A comparison that was stopped goes on when it is asked for again: what is
    stored is reused, and so it is by a comparison with more rollouts or more arms.

    Raises ConfigError, LibraryError or DataError before anything is spent; BudgetExceeded, EndpointGone or Interrupted
    when it was stopped; StoreError when results can no longer be kept.
    """
    return (await compare_planned(planned(settings), watcher)).comparison


def compare_sync(settings: CompareSettings, watcher: CompareCallbacks | None = None) -> Comparison:
    """`compare` for programs without an event loop."""
    return asyncio.run(compare(settings, watcher))


async def compare_planned(plan: ComparePlan, watcher: CompareCallbacks | None = None) -> Compared:
    """`compare` where arms and tasks are read already, with the rollouts that it rests on."""
    watcher = watcher or CompareCallbacks()
    async with open_store(plan.settings.store) as store, open_collector(plan, store, watcher) as collector:
        return await _Session(plan, store, collector, watcher).run()


class _Session:
    """One comparison with everything open."""

    def __init__(self, plan: ComparePlan, store: Store, collector: Collector, watcher: CompareCallbacks) -> None:
        self.plan, self.store, self.collector, self.watcher = plan, store, collector, watcher
        self.ended_by = ""
        """How a sequential comparison ended."""

    async def run(self) -> Compared:
        """From the run's first event to its last."""
        started, plan, call_context = time.perf_counter(), self.plan, self.collector.call_context
        structlog.contextvars.bind_contextvars(run=call_context.run)
        event = started_event(
            call_context.run,
            "eval",
            domain=",".join(task_set.domain.name for task_set in plan.task_sets),
            model=",".join(dict.fromkeys(arm.model for arm in plan.arms)),
            simulated=self.collector.simulated,
            seed=plan.settings.seed,
            settings=plan.settings.model_dump_json(),
        )
        async with recorded_run(self.store, event, call_context=call_context) as run:
            compared = await run.until_stopped(self._compare(started))
            run.report = compared.comparison
        return compared

    async def _compare(self, started: float) -> Compared:
        plan, collector = self.plan, self.collector
        await collector.prepare()
        names = tuple(arm.name for arm in plan.arms)
        reused = {name: collector.reused(name) for name in names}
        self.watcher.opened(collector.call_context, plan.tasks * plan.settings.k, reused)
        flags = [flag for arm in plan.arms for flag in flags_of(arm, self._tasks(), self.store)]
        rules = self._rules(flags)
        seen, drafts = await self._collect(rules)
        watch = await sentinels(collector)
        side_by_side = board(seen, names)
        looked = self._looked(drafts, side_by_side)
        told = [draft.model_copy(update={"look": len(looks) + 1}) for draft, looks in zip(drafts, looked, strict=True)]
        final = judged(told, side_by_side, rules)
        found = assemble(
            side_by_side,
            final,
            rules,
            title=f"{', '.join(task_set.domain.name for task_set in plan.task_sets)}: {', '.join(names)}",
            k=plan.settings.k,
            told={arm.name: self._told(arm, {one.task for one in seen}) for arm in plan.arms},
            methods=method_lines(side_by_side, plan.methods, rules.level),
            reproducibility=self._reproducibility(side_by_side),
        )
        looks = [look for earlier in looked for look in earlier]
        return Compared(self._completed(found, flags, watch, looks, side_by_side, started), tuple(seen))

    async def _collect(self, rules: Rules) -> tuple[list[Observation], list[Contrast]]:
        """All rollouts; of a sequential comparison those until it knows."""
        if self.plan.settings.sequential:
            return await self._until_known(rules)
        seen: list[Observation] = []
        for task_set in self.plan.task_sets:
            await self.collector.make(self.collector.cells(task_set, task_set.tasks), task_set)
            seen += self.collector.observations(task_set, task_set.tasks)
        return seen, self._keyed(drafts_of(board(seen, [arm.name for arm in self.plan.arms]), rules))

    async def _until_known(self, rules: Rules) -> tuple[list[Observation], list[Contrast]]:
        names, seen = [arm.name for arm in self.plan.arms], list[Observation]()
        sequel = Sequel(self.plan, rules)
        for task_set, tasks in sequel.blocks():
            await self.collector.make(self.collector.cells(task_set, tasks), task_set)
            seen += self.collector.observations(task_set, tasks)
            if comparable(seen, names) and sequel.knows(board(seen, names)):
                break
        side_by_side = board(seen, names)
        self.ended_by = sequel.words(side_by_side, early=len({one.task for one in seen}) < self.plan.tasks)
        return seen, self._keyed(sequel.known(drafts_of(side_by_side, rules), side_by_side))

    def _keyed(self, drafts: Sequence[Contrast]) -> list[Contrast]:
        """With the name of each question."""
        return [draft.model_copy(update={"key": self._key(draft.arm, draft.baseline)}) for draft in drafts]

    def _key(self, arm: str, baseline: str) -> str:
        plan = self.plan
        domains = sorted(task_set.domain.name for task_set in plan.task_sets)
        sides = [[self.collector.phases[name, domain] for domain in domains] for name in (baseline, arm)]
        return content_hash("contrast", sides, plan.settings.seed)[:24]

    def _looked(self, drafts: Sequence[Contrast], side_by_side: ScoreTable) -> list[tuple[InterimLook, ...]]:
        """Earlier looks; a sequential comparison needs no correction for them, as its p holds at any time."""
        if self.plan.settings.sequential:
            return [() for _ in drafts]
        reports, tasks = earlier_reports(self.store.runs(limit=_RUNS)), set(side_by_side.tasks)
        return [earlier_looks(reports, draft, tasks) for draft in drafts]

    def _tasks(self) -> list[Task]:
        return [task for task_set in self.plan.task_sets for task in task_set.tasks]

    def _rules(self, flags: Sequence[ArmFlag]) -> Rules:
        settings = self.plan.settings
        return Rules(
            correction=settings.correction,
            margin=settings.margin,
            planned_looks=settings.planned_looks,
            seed=settings.seed,
            spoiled=spoiled(flags),
        )

    def _told(self, arm: Arm, tried: Collection[str]) -> dict[str, object]:
        return {
            "label": arm.label(),
            "simulated": self.collector.endpoints[arm.model].simulated,
            "library": arm.library.version if len(arm.library) else "",
            "lessons": len(arm.library) - len(arm.without),
            "reused": self.collector.reused(arm.name, tried),
        }

    def _reproducibility(self, side_by_side: ScoreTable) -> Reproducibility:
        plan, shared = self.plan, set(side_by_side.tasks)
        refs = {ref.name: ref for rollouts in self.collector.rollouts.values() for ref in rollouts.prompts}
        reports = {rollouts.isolation for rollouts in self.collector.rollouts.values() if rollouts.isolation}
        return Reproducibility(
            seed=plan.settings.seed,
            data=data_hash([task for task in self._tasks() if task.id in shared]),
            libraries={arm.name: arm.library.version for arm in plan.arms},
            prompts={f"{name}/v{ref.version}": ref.sha256 for name, ref in sorted(refs.items())},
            models={arm.name: arm.model for arm in plan.arms},
            sampling={arm.name: f"temperature {arm.temperature:g}" for arm in plan.arms},
            isolation="; ".join(sorted(reports)),
            versions={"agentlearn-lib": version(), "python": platform.python_version()},
        )

    def _completed(
        self,
        found: Comparison,
        flags: Sequence[ArmFlag],
        watch: Sequence[DriftCheck],
        looks: Sequence[InterimLook],
        side_by_side: ScoreTable,
        started: float,
    ) -> Comparison:
        budget = self.collector.call_context.budget
        drifted = [one.words for one in watch if one.drifted]
        return found.model_copy(
            update={
                "run": self.collector.call_context.run,
                "simulated": self.collector.simulated,
                "flags": tuple(flags),
                "sentinels": tuple(watch),
                "looks": tuple(looks),
                "sequential": self.ended_by,
                "curve": curve(self.plan.arms, side_by_side),
                "notes": (*found.notes, *drifted),
                "cost_usd": None if budget.unpriced_calls else budget.cost_usd,
                "wall_s": time.perf_counter() - started,
            }
        )


def curve(arms: Sequence[Arm], side_by_side: ScoreTable) -> tuple[VersionPoint, ...]:
    """Arms whose libraries descend from one another, from the first version to the last; none for fewer than two."""
    libraries = {arm.library.version: arm for arm in arms if len(arm.library) and not arm.without}
    roots = [arm for arm in libraries.values() if arm.library.parent not in libraries]
    lines = [_descent(root.library, libraries) for root in roots]
    longest = max(lines, key=len, default=[])
    if len(longest) < 2:
        return ()
    points: list[VersionPoint] = []
    for step, arm in enumerate(longest):
        interval = score(side_by_side, arm.name, 0.95)
        points.append(
            VersionPoint(
                arm=arm.name,
                version=arm.library.version,
                step=step,
                lessons=len(arm.library),
                score=interval.mean,
                low=interval.low,
                high=interval.high,
            )
        )
    return tuple(points)


def _descent(library: Library, libraries: Mapping[LibraryVersion, Arm]) -> list[Arm]:
    line = [libraries[library.version]]
    while following := [arm for arm in libraries.values() if arm.library.parent == line[-1].library.version]:
        line.append(following[0])
    return line
