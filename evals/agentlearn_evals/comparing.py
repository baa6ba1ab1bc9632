"""Compare arms on tasks: make or reuse their rollouts, hold them against each other, keep the result."""

import asyncio
import platform
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from agentlearn.errors import only_stops
from agentlearn.learn.loop import root_cause
from agentlearn.log import get_log
from agentlearn.store import Store, open_store
from agentlearn.types.experience import Library
from agentlearn.types.ids import LibraryVersion, content_hash
from agentlearn.types.run import RunEvent, RunState
from agentlearn.types.task import Task
from agentlearn.version import version
from agentlearn_evals.analysis import assemble
from agentlearn_evals.arms import Arm
from agentlearn_evals.breakdown import arm_score
from agentlearn_evals.collect import Collector, open_collector
from agentlearn_evals.compare_callbacks import CompareCallbacks
from agentlearn_evals.comparison import (
    ArmFlag,
    Comparison,
    Contrast,
    DriftCheck,
    InterimLook,
    Reproducibility,
    VersionPoint,
)
from agentlearn_evals.contrasts import Rules, estimate_contrasts, with_verdicts
from agentlearn_evals.drift_checks import check_drift
from agentlearn_evals.eval_tasks import data_hash
from agentlearn_evals.flags import find_flags, untrusted_arms
from agentlearn_evals.interim_looks import earlier_looks, earlier_reports
from agentlearn_evals.methods import method_lines
from agentlearn_evals.observation import Observation
from agentlearn_evals.plan import ComparePlan, plan_comparison
from agentlearn_evals.score_table import ScoreTable, comparable, tabulate
from agentlearn_evals.sequential import SequentialDesign
from agentlearn_evals.settings import CompareSettings

_RUNS = 10_000
"""Earlier runs that are looked through for looks at the same question."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison, and what it rests on."""

    comparison: Comparison
    observations: tuple[Observation, ...]


async def compare(settings: CompareSettings, callbacks: CompareCallbacks | None = None) -> Comparison:
    """Which arm is better, and how sure that is.

    Rollouts are stored as they are made. A comparison that was stopped goes on when it is asked for again: what is
    stored is reused, and so it is by a comparison with more rollouts or more arms.

    Raises ConfigError, LibraryError or DataError before anything is spent; BudgetExceeded, EndpointGone or Interrupted
    when it was stopped; StoreError when results can no longer be kept.
    """
    return (await compare_planned(plan_comparison(settings), callbacks)).comparison


def compare_sync(settings: CompareSettings, callbacks: CompareCallbacks | None = None) -> Comparison:
    """`compare` for programs without an event loop."""
    return asyncio.run(compare(settings, callbacks))


async def compare_planned(plan: ComparePlan, callbacks: CompareCallbacks | None = None) -> Compared:
    """`compare` where arms and tasks are read already, with the rollouts that it rests on."""
    callbacks = callbacks or CompareCallbacks()
    async with open_store(plan.settings.store) as store, open_collector(plan, store, callbacks) as collector:
        return await _Session(plan, store, collector, callbacks).run()


class _Session:
    """One comparison with everything open."""

    def __init__(self, plan: ComparePlan, store: Store, collector: Collector, callbacks: CompareCallbacks) -> None:
        self.plan, self.store, self.collector, self.callbacks = plan, store, collector, callbacks
        self.ended_by = ""
        """How a sequential comparison ended."""

    async def run(self) -> Compared:
        """From the run's first event to its last."""
        call_context, started = self.collector.call_context, time.perf_counter()
        structlog.contextvars.bind_contextvars(run=call_context.run)
        log = get_log(run=call_context.run)
        await self._event("running")
        log.info("run.started", arms=[arm.name for arm in self.plan.arms])
        try:
            compared = await call_context.until_stopped(self._compare(started))
        except BaseException as error:
            cause = root_cause(error)
            await asyncio.shield(self._event("interrupted" if only_stops(cause) else "failed"))
            raise cause from error
        await self._event("done", compared.comparison.model_dump_json())
        log.info("run.done", wall_s=compared.comparison.wall_s)
        return compared

    async def _compare(self, started: float) -> Compared:
        plan, collector = self.plan, self.collector
        await collector.prepare()
        names = tuple(arm.name for arm in plan.arms)
        reused = {name: collector.reused(name) for name in names}
        self.callbacks.opened(collector.call_context, plan.tasks * plan.settings.k, reused)
        flags = [flag for arm in plan.arms for flag in find_flags(arm, self._tasks(), self.store)]
        rules = self._rules(flags)
        seen, drafts = await self._collect(rules)
        drift = await check_drift(collector)
        table = tabulate(seen, names)
        earlier = self._earlier_looks(drafts, table)
        told = [draft.model_copy(update={"look": len(looks) + 1}) for draft, looks in zip(drafts, earlier, strict=True)]
        final = with_verdicts(told, table, rules)
        found = assemble(
            table,
            final,
            rules,
            title=f"{', '.join(task_set.domain.name for task_set in plan.task_sets)}: {', '.join(names)}",
            k=plan.settings.k,
            arm_facts={arm.name: self._arm_facts(arm, {one.task for one in seen}) for arm in plan.arms},
            methods=method_lines(table, plan.methods, rules.level),
            reproducibility=self._reproducibility(table),
        )
        looks = [look for earlier in earlier for look in earlier]
        return Compared(self._complete(found, flags, drift, looks, table, started), tuple(seen))

    async def _collect(self, rules: Rules) -> tuple[list[Observation], list[Contrast]]:
        """All rollouts; of a sequential comparison those until it knows."""
        if self.plan.settings.sequential:
            return await self._until_known(rules)
        seen: list[Observation] = []
        for task_set in self.plan.task_sets:
            await self.collector.make_rollouts(self.collector.missing_specs(task_set, task_set.tasks), task_set)
            seen += self.collector.observations(task_set, task_set.tasks)
        return seen, self._with_keys(estimate_contrasts(tabulate(seen, [arm.name for arm in self.plan.arms]), rules))

    async def _until_known(self, rules: Rules) -> tuple[list[Observation], list[Contrast]]:
        names, seen = [arm.name for arm in self.plan.arms], list[Observation]()
        design = SequentialDesign(self.plan, rules)
        for task_set, tasks in design.blocks():
            await self.collector.make_rollouts(self.collector.missing_specs(task_set, tasks), task_set)
            seen += self.collector.observations(task_set, tasks)
            if comparable(seen, names) and design.has_verdict(tabulate(seen, names)):
                break
        table = tabulate(seen, names)
        self.ended_by = design.summary(table, early=len({one.task for one in seen}) < self.plan.tasks)
        return seen, self._with_keys(design.anytime_contrasts(estimate_contrasts(table, rules), table))

    def _with_keys(self, drafts: Sequence[Contrast]) -> list[Contrast]:
        """With the name of each question."""
        return [draft.model_copy(update={"key": self._question_key(draft.arm, draft.baseline)}) for draft in drafts]

    def _question_key(self, arm: str, baseline: str) -> str:
        plan = self.plan
        domains = sorted(task_set.domain.name for task_set in plan.task_sets)
        sides = [[self.collector.phases[name, domain] for domain in domains] for name in (baseline, arm)]
        return content_hash("contrast", sides, plan.settings.seed)[:24]

    def _earlier_looks(self, drafts: Sequence[Contrast], table: ScoreTable) -> list[tuple[InterimLook, ...]]:
        """Earlier looks; a sequential comparison needs no correction for them, as its p holds at any time."""
        if self.plan.settings.sequential:
            return [() for _ in drafts]
        reports, tasks = earlier_reports(self.store.runs(limit=_RUNS)), set(table.tasks)
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
            untrusted=untrusted_arms(flags),
        )

    def _arm_facts(self, arm: Arm, tried: Collection[str]) -> dict[str, object]:
        return {
            "label": arm.label(),
            "simulated": self.collector.endpoints[arm.model].simulated,
            "library": arm.library.version if len(arm.library) else "",
            "lessons": len(arm.library) - len(arm.without),
            "reused": self.collector.reused(arm.name, tried),
        }

    def _reproducibility(self, table: ScoreTable) -> Reproducibility:
        plan, shared = self.plan, set(table.tasks)
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

    def _complete(
        self,
        found: Comparison,
        flags: Sequence[ArmFlag],
        drift: Sequence[DriftCheck],
        looks: Sequence[InterimLook],
        table: ScoreTable,
        started: float,
    ) -> Comparison:
        budget = self.collector.call_context.budget
        drifted = [one.words for one in drift if one.drifted]
        return found.model_copy(
            update={
                "run": self.collector.call_context.run,
                "simulated": self.collector.simulated,
                "flags": tuple(flags),
                "sentinels": tuple(drift),
                "looks": tuple(looks),
                "sequential": self.ended_by,
                "curve": curve(self.plan.arms, table),
                "notes": (*found.notes, *drifted),
                "cost_usd": None if budget.unpriced_calls else budget.cost_usd,
                "wall_s": time.perf_counter() - started,
            }
        )

    async def _event(self, state: RunState, report: str = "") -> None:
        plan = self.plan
        await self.store.save_run(
            RunEvent(
                run=self.collector.call_context.run,
                domain=",".join(task_set.domain.name for task_set in plan.task_sets),
                kind="eval",
                state=state,
                model=",".join(dict.fromkeys(arm.model for arm in plan.arms)),
                simulated=self.collector.simulated,
                seed=plan.settings.seed,
                settings=plan.settings.model_dump_json(),
                package_version=version(),
                at=datetime.now(UTC),
                report=report,
            )
        )


def curve(arms: Sequence[Arm], table: ScoreTable) -> tuple[VersionPoint, ...]:
    """Arms whose libraries descend from one another, from the first version to the last; none for fewer than two."""
    libraries = {arm.library.version: arm for arm in arms if len(arm.library) and not arm.without}
    roots = [arm for arm in libraries.values() if arm.library.parent not in libraries]
    lines = [_descent(root.library, libraries) for root in roots]
    longest = max(lines, key=len, default=[])
    if len(longest) < 2:
        return ()
    points: list[VersionPoint] = []
    for step, arm in enumerate(longest):
        interval = arm_score(table, arm.name, 0.95)
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
