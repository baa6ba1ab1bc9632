"""Compares arms on tasks: makes or reuses their rollouts, computes the result and stores it."""

import json
import platform
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import structlog

from agentlearn.domain.reward_trial import try_reward
from agentlearn.installed import version
from agentlearn.learning.without_loop import without_loop
from agentlearn.library import LibraryStore
from agentlearn.measure.contrast import Contrast
from agentlearn.measure.contrasts import Rules, estimate_contrasts, with_verdicts
from agentlearn.measure.observation import Observation
from agentlearn.measure.score_table import ScoreTable, comparable, in_score_range, tabulate
from agentlearn.models.service_record import reply_notes, service_notes, service_records
from agentlearn.rollout.learned_from import LearnedFrom
from agentlearn.rollout.recorded_run import recorded_run, started_event
from agentlearn.store import RunRow, Store, open_store
from agentlearn.types.experience import Library
from agentlearn.types.ids import LibraryVersion, content_hash
from agentlearn.types.task import Task
from agentlearn_evals.analysis import assemble
from agentlearn_evals.arms import Arm, method_lines
from agentlearn_evals.before_calls import check_models, check_verdicts
from agentlearn_evals.breakdown import arm_score
from agentlearn_evals.collect import Collector, open_collector
from agentlearn_evals.compare_settings import CompareSettings
from agentlearn_evals.comparison import ArmFlag, Comparison, InterimLook, Reproducibility, VersionPoint
from agentlearn_evals.eval_tasks import EvalTasks, data_hash
from agentlearn_evals.flags import find_flags, untrusted_arms
from agentlearn_evals.plan import ComparePlan, forecast_with, plan_comparison
from agentlearn_evals.progress import CompareCallbacks
from agentlearn_evals.sequential import SequentialDesign

EvalReport = tuple[RunRow, Mapping[str, Any]]
"""A finished comparison: its run and its stored report."""


def earlier_reports(runs: Sequence[RunRow]) -> list[EvalReport]:
    """Return the finished comparisons among the runs, oldest first."""
    finished = [row for row in runs if row.kind == "eval" and row.report]
    return [(row, json.loads(row.report)) for row in sorted(finished, key=lambda one: one.started_at)]


def earlier_looks(reports: Sequence[EvalReport], contrast: Contrast) -> tuple[InterimLook, ...]:
    """Return the earlier looks at the contrast's two arms, oldest first, whatever tasks and seeds they had.

    Two looks at the same scores count as one, and scores that were looked at before keep the look that they had then.
    """
    found: dict[str, InterimLook] = {}
    for row, report in reports:
        for one in report["contrasts"]:
            if not {*one["key"].split()} & {*contrast.key.split()}:
                continue
            if one["data"] == contrast.data:
                return tuple(found.values())
            look = InterimLook(
                arm=contrast.arm,
                baseline=contrast.baseline,
                run=row.run,
                at=row.started_at.isoformat(),
                pairs=one["pairs"],
                p=one["p"],
            )
            found.setdefault(one["data"], look)
    return tuple(found.values())


_LEVEL = 0.95


def learning_curve(arms: Sequence[Arm], table: ScoreTable) -> tuple[VersionPoint, ...]:
    """Return the longest line of arms whose libraries descend from one another; empty for fewer than two."""
    libraries = {arm.library.version: arm for arm in arms if len(arm.library) and not arm.without}
    roots = [arm for arm in libraries.values() if arm.library.parent not in libraries]
    longest = max((_descendants(root.library, libraries) for root in roots), key=len, default=[])
    if len(longest) < 2:
        return ()
    points: list[VersionPoint] = []
    for step, arm in enumerate(longest):
        interval = arm_score(table, arm.name, _LEVEL)
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


def _descendants(library: Library, libraries: Mapping[LibraryVersion, Arm]) -> list[Arm]:
    line = [libraries[library.version]]
    while following := [arm for arm in libraries.values() if arm.library.parent == line[-1].library.version]:
        line.append(following[0])
    return line


_RUNS = 10_000
"""Number of earlier runs that are searched for interim looks."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison and the rollouts that it is computed from."""

    comparison: Comparison
    observations: tuple[Observation, ...]


async def run_comparison(settings: CompareSettings, callbacks: CompareCallbacks | None = None) -> Comparison:
    """Compare the arms that the settings name, and return the result. `compare` takes objects.

    Every rollout is stored when it is done. Call again with the same settings to continue a stopped comparison: stored
    rollouts are reused, also with more rollouts per task or more arms.

    Raises ConfigError, LibraryError or DataError before anything is spent; BudgetExceeded, EndpointGone or Interrupted
    when the comparison was stopped; StoreError when results cannot be stored.
    """
    plan = plan_comparison(settings)
    check_models(plan)
    return (await compare_planned(plan, callbacks, refuse=True)).comparison


run_comparison_sync = without_loop(run_comparison)


async def compare_planned(
    plan: ComparePlan, callbacks: CompareCallbacks | None = None, *, refuse: bool = False
) -> Compared:
    """Run a planned comparison and return the result with its rollouts.

    refuse: raise ConfigError before the first call when no arm could get a verdict, whatever it scores.
    """
    callbacks = callbacks or CompareCallbacks()
    notes: list[str] = []
    for task_set in plan.task_sets:
        notes += await try_reward(task_set.domain, task_set.tasks)
    async with AsyncExitStack() as stack:
        store = plan.given.store or await stack.enter_async_context(open_store(plan.settings.store))
        if refuse and forecast_with(plan, store).rollouts:
            notes += check_verdicts(plan, store)
        collector = await stack.enter_async_context(open_collector(plan, store, callbacks))
        return await _Session(plan, store, collector, callbacks, notes).run()


class _Session:
    """One running comparison, with the store and all models open."""

    def __init__(
        self, plan: ComparePlan, store: Store, collector: Collector, callbacks: CompareCallbacks, notes: Sequence[str]
    ) -> None:
        self.plan, self.store, self.collector, self.callbacks, self.notes = plan, store, collector, callbacks, notes
        self.ended_by = ""
        """How a sequential comparison ended, in words."""

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
        self.callbacks.opened(collector.call_context, plan.tasks * plan.settings.k, reused)
        known = LearnedFrom(self.store, LibraryStore(plan.settings.store / "libraries"))
        flags = [flag for arm in plan.arms for flag in find_flags(arm, self._tasks(), self.store, known)]
        rules = self._rules(flags)
        observations, drafts = await self._collect(rules)
        table = tabulate(observations, names)
        looks = self._earlier_looks(drafts)
        drafts = [draft.model_copy(update={"look": len(own) + 1}) for draft, own in zip(drafts, looks, strict=True)]
        comparison = assemble(
            table,
            with_verdicts(drafts, table, rules),
            rules,
            title=f"{', '.join(task_set.domain.name for task_set in plan.task_sets)}: {', '.join(names)}",
            k=plan.settings.k,
            arm_facts={arm.name: self._arm_facts(arm, {one.task for one in observations}) for arm in plan.arms},
            methods=method_lines(table, plan.methods, rules.level),
            reproducibility=self._reproducibility(table),
            notes=(
                *self.notes,
                *self._made_again(),
                *self._function_notes(),
                *(task_set.note for task_set in plan.task_sets if task_set.note),
            ),
        )
        all_looks = [look for own in looks for look in own]
        return Compared(
            self._complete(comparison, flags, all_looks, table, started),
            tuple(observations),
        )

    async def _collect(self, rules: Rules) -> tuple[list[Observation], list[Contrast]]:
        """Make or reuse the rollouts, and estimate the contrasts. A sequential comparison may stop early."""
        if self.plan.settings.sequential:
            return await self._collect_sequentially(rules)
        observations: list[Observation] = []
        for task_set in self.plan.task_sets:
            await self.collector.make_rollouts(self.collector.missing_specs(task_set, task_set.tasks), task_set)
            observations += self._observed(task_set, task_set.tasks)
        table = tabulate(observations, [arm.name for arm in self.plan.arms])
        return observations, self._with_keys(estimate_contrasts(table, rules), table)

    async def _collect_sequentially(self, rules: Rules) -> tuple[list[Observation], list[Contrast]]:
        names, observations = [arm.name for arm in self.plan.arms], list[Observation]()
        pairs = self.plan.pairs
        asked = [Contrast(arm=arm, baseline=baseline, mean=None) for baseline, arm in pairs]
        looks = self._earlier_looks([one.model_copy(update={"key": self._key(one)}) for one in asked])
        design = SequentialDesign(
            self.plan, rules, {pair: len(own) + 1 for pair, own in zip(pairs, looks, strict=True)}
        )
        for task_set, tasks in design.blocks():
            await self.collector.make_rollouts(self.collector.missing_specs(task_set, tasks), task_set)
            observations += self._observed(task_set, tasks)
            if comparable(observations, names) and design.has_verdict(tabulate(observations, names)):
                break
        table = tabulate(observations, names)
        self.ended_by = design.summary(table, early=len({one.task for one in observations}) < self.plan.tasks)
        drafts = design.anytime_contrasts(estimate_contrasts(table, rules), table)
        return observations, self._with_keys(drafts, table)

    def _observed(self, task_set: EvalTasks, tasks: Sequence[Task]) -> Sequence[Observation]:
        """Return the rollouts of these tasks, with scores in the stated range."""
        found, stated = self.collector.observations(task_set, tasks), self.plan.settings.score_range
        return found if stated is None else in_score_range(found, stated)

    def _with_keys(self, drafts: Sequence[Contrast], table: ScoreTable) -> list[Contrast]:
        """Return the contrasts with the hashes by which a later comparison knows their arms and their data."""
        return [
            draft.model_copy(
                update={
                    "key": self._key(draft),
                    "data": _data_hash(table, draft.arm, draft.baseline),
                }
            )
            for draft in drafts
        ]

    def _key(self, contrast: Contrast) -> str:
        return self.plan.question_key(contrast.arm, contrast.baseline)

    def _earlier_looks(self, drafts: Sequence[Contrast]) -> list[tuple[InterimLook, ...]]:
        """Return the earlier looks of each contrast.

        A sequential comparison goes on with an earlier sequential one if it can use all that the earlier one made. As
        its p is valid at any time, that is no further look.
        """
        reports = earlier_reports(self.store.runs(limit=_RUNS))
        if self.plan.settings.sequential:
            used = {row.id for rows in self.collector.reusable.values() for row in rows.values()}
            made = [row for phase in set(self.collector.phases.values()) for row in self.store.evaluated(phase)]
            left = {row.run for row in made if row.id not in used}
            reports = [(row, report) for row, report in reports if not report["sequential"] or row.run in left]
        return [earlier_looks(reports, draft) for draft in drafts]

    def _made_again(self) -> list[str]:
        """Say which stored rollouts were not reused, unless the user asked for that."""
        settings = self.plan.settings
        if settings.fresh or settings.retry_failed:
            return []
        return [
            f"{count:,} stored rollouts of {arm} were made again, because no run made them together with those of the"
            " other arms: a service that changed meanwhile would look like a difference between the arms"
            for arm, count in self.collector.apart.items()
        ]

    def _function_notes(self) -> list[str]:
        return [note for one in self.collector.endpoints.values() if (note := one.function_note)]

    def _tasks(self) -> list[Task]:
        return [task for task_set in self.plan.task_sets for task in task_set.tasks]

    def _rules(self, flags: Sequence[ArmFlag]) -> Rules:
        settings = self.plan.settings
        return Rules(
            correction=settings.correction,
            margin=settings.margin,
            planned_looks=settings.planned_looks,
            seed=settings.seed,
            score_range=settings.score_range,
            untrusted=untrusted_arms(flags),
            pairs=self.plan.pairs,
            undecided_hint="repeat them with --retry-failed",
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
            sampling={arm.name: plan.sampling_words(arm) for arm in plan.arms},
            isolation="; ".join(sorted(reports)),
            versions={"agentlearn-lib": version(), "python": platform.python_version()},
        )

    def _complete(
        self,
        comparison: Comparison,
        flags: Sequence[ArmFlag],
        looks: Sequence[InterimLook],
        table: ScoreTable,
        started: float,
    ) -> Comparison:
        budget = self.collector.call_context.budget
        services = service_records([one.endpoint_state for one in self.collector.endpoints.values()])
        beside = reply_notes(services)
        return comparison.model_copy(
            update={
                "run": self.collector.call_context.run,
                "simulated": self.collector.simulated,
                "flags": tuple(flags),
                "looks": tuple(looks),
                "sequential": self.ended_by,
                "curve": learning_curve(self.plan.arms, table),
                "warnings": (*comparison.warnings, *beside),
                "notes": (*comparison.notes, *service_notes(services)[len(beside) :]),
                "services": services,
                "cost_usd": None if budget.unpriced_calls else budget.cost_usd,
                "wall_s": time.perf_counter() - started,
            }
        )


def _data_hash(table: ScoreTable, arm: str, baseline: str) -> str:
    """Return a hash of the scores of two arms, in any order."""
    sides = (sorted((task, table.scores[name][task]) for task in table.tasks) for name in (arm, baseline))
    return content_hash("scores", sorted(content_hash("side", side) for side in sides))[:24]
