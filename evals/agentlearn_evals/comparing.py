"""Compares arms on tasks: reuses stored rollouts, makes the others interleaved, computes the result and stores it."""

import json
import platform
import time
from asyncio import TaskGroup
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import structlog

from agentlearn.domain.reward_trial import try_reward
from agentlearn.learning.without_loop import without_loop
from agentlearn.library.capability import Experiences
from agentlearn.library.retrieval import Retriever
from agentlearn.measure.contrast import Contrast
from agentlearn.measure.contrasts import Rules, estimate_contrasts, with_verdicts
from agentlearn.measure.difference import two_way_mean
from agentlearn.measure.score_table import Observation, ScoreTable, in_score_range, tabulate
from agentlearn.models.budget import Budget
from agentlearn.models.call_context import CallContext, open_tracing
from agentlearn.models.endpoint import Endpoint, open_endpoint
from agentlearn.models.service_record import reply_notes, service_notes, service_records
from agentlearn.plugins import version
from agentlearn.rollout.executor import lost_workers_note, open_executor
from agentlearn.rollout.recorded_run import FirstRollouts, recorded_run, started_event
from agentlearn.rollout.runner import Finished, Rollouts, RolloutSlot
from agentlearn.store import EvaluatedRow, RunRow, Store, open_store
from agentlearn.types.experience import Library
from agentlearn.types.ids import ExperienceId, LibraryVersion, content_hash, derive_seed, new_run_id
from agentlearn.types.task import Task
from agentlearn_evals.analysis import assemble
from agentlearn_evals.arms import Arm
from agentlearn_evals.before_calls import BeforeCalls, untrusted_arms
from agentlearn_evals.compare_settings import CompareSettings
from agentlearn_evals.comparison import Comparison, InterimLook, MethodLine, Reproducibility, VersionPoint
from agentlearn_evals.controls import blocks, judged_controls
from agentlearn_evals.eval_tasks import EvalTasks
from agentlearn_evals.judging import corrected
from agentlearn_evals.plan import ComparePlan, StoredRollouts, plan_comparison, rollout_seed
from agentlearn_evals.terminal import CompareCallbacks


@dataclass(frozen=True, slots=True)
class _RolloutSpec:
    """One rollout that a comparison needs."""

    arm: Arm
    task: Task
    g: int
    """Index among the arm's rollouts on this task, from 0."""
    seed: int


def schedule(
    tasks: Sequence[Task], arms: Sequence[Arm], k: int, seed: int, seed_of: Callable[[Arm], int] | None = None
) -> Iterator[_RolloutSpec]:
    """Yield all rollouts, interleaved so that drift of a service affects all arms alike.

    The order is by index, then by task in a random order per index, then by arm; every arm goes first equally often.
    seed_of: the seed of an arm's rollouts; None: the same for all.
    """
    turn = 0
    for g in range(k):
        order = list(tasks)
        Random(derive_seed(seed, "interleave", g)).shuffle(order)
        for task in order:
            first = turn % len(arms)
            turn += 1
            for arm in (*arms[first:], *arms[:first]):
                yield _RolloutSpec(arm, task, g, rollout_seed(seed if seed_of is None else seed_of(arm), task, g))


_Key = tuple[str, str]
"""Arm name and domain name."""
_GO_ON = "compare again with --retry-failed (retry_failed=True)"


@dataclass(slots=True)
class Collector:
    """Makes and reuses the rollouts of one comparison, with all models open."""

    plan: ComparePlan
    call_context: CallContext
    store: Store
    endpoints: dict[str, Endpoint]
    rollouts: dict[_Key, Rollouts]
    callbacks: CompareCallbacks
    retriever: Retriever = field(init=False)
    experiences: dict[tuple[str, tuple[ExperienceId, ...]], Experiences] = field(default_factory=dict, init=False)
    """What agents read, by arm and the lessons that are left out."""
    phases: dict[_Key, str] = field(init=False)
    reusable: dict[_Key, StoredRollouts] = field(default_factory=dict[_Key, StoredRollouts])
    """Stored rollouts that can be reused."""
    apart: dict[str, int] = field(default_factory=dict[str, int])
    """Number of stored rollouts that are made again, by arm."""
    first: FirstRollouts = field(init=False)
    """The first rollouts of the comparison."""
    first_of: dict[_Key, FirstRollouts] = field(init=False)
    """The first rollouts of each arm in each domain."""

    def __post_init__(self) -> None:
        plan = self.plan
        self.retriever = Retriever.in_store(plan.settings.retrieval, plan.settings.store)
        holds_back = not any(one.endpoint_state.takes_all for one in self.endpoints.values())
        self.first = FirstRollouts(_GO_ON, holds_back=holds_back)
        self.first_of, self.phases = {}, {}
        for arm in plan.arms:
            for task_set in plan.task_sets:
                key = (arm.name, task_set.domain.name)
                self.first_of[key] = FirstRollouts(_GO_ON, f"the arm {arm.name!r}", holds_back=holds_back)
                self.phases[key] = plan.conditions(arm, task_set).phase

    @property
    def simulated(self) -> bool:
        """Whether any arm uses a simulated model."""
        return any(endpoint.simulated for endpoint in self.endpoints.values())

    async def prepare(self) -> None:
        """Store the tasks and libraries, and look up reusable rollouts."""
        plan = self.plan
        await self.store.save_tasks(plan.all_tasks)
        for arm in plan.arms:
            await self.store.save_version(arm.library, run=None)
        for task_set in plan.task_sets:
            reusable = plan.reusable(self.store, task_set)
            for arm in plan.arms:
                self.reusable[arm.name, task_set.domain.name] = reusable[arm.name]
                if apart := len(plan.stored(self.store, arm, task_set)) - len(reusable[arm.name]):
                    self.apart[arm.name] = self.apart.get(arm.name, 0) + apart

    def reused(self, arm: str) -> int:
        """Return the number of the arm's reused rollouts."""
        return sum(len(reusable) for (name, _), reusable in self.reusable.items() if name == arm)

    async def make_missing(self, task_set: EvalTasks) -> None:
        """Make the rollouts of a domain that are not reused, interleaved, and store them."""
        plan, settings, domain = self.plan, self.plan.settings, task_set.domain.name
        every = (
            spec
            for arms in blocks(plan.arms)
            for spec in schedule(task_set.tasks, arms, settings.k, settings.seed, plan.seed_of)
        )
        missing = (one for one in every if (one.task.id, one.g) not in self.reusable[one.arm.name, domain])

        async def work() -> None:
            for spec in missing:  # shared: each worker takes the next spec
                await self._make_one(spec, task_set)

        async with TaskGroup() as workers:
            # More than calls: some rollouts run a tool or wait for a retry.
            for _ in range(settings.concurrency + settings.concurrency // 2):
                workers.create_task(work())
        for endpoint in self.endpoints.values():
            endpoint.endpoint_state.refuse_silence(self.call_context.budget)

    async def _make_one(self, spec: _RolloutSpec, task_set: EvalTasks) -> None:
        key = (spec.arm.name, task_set.domain.name)
        rollouts, first_of_arm = self.rollouts[key], self.first_of[key]
        slot = RolloutSlot(self.phases[key], spec.g, spec.seed)

        async def one() -> Finished:
            treatment = self.plan.treatment(spec.arm, spec.task, spec.g)
            read = (spec.arm.name, treatment.masked)
            if read not in self.experiences:
                lessons = Experiences(spec.arm.library, masked=treatment.masked, retrieval=self.retriever)
                self.experiences[read] = lessons
            return await rollouts.one(spec.task, slot, treatment, self.experiences[read])

        finished = await self.first.make(lambda: first_of_arm.make(one))
        await finished.save(self.store)
        self.callbacks.rollout_done(spec.arm.name, finished.trajectory)
        self.first.refuse(finished, spec.task)
        first_of_arm.refuse(finished, spec.task)

    def observations(self, task_set: EvalTasks) -> list[Observation]:
        """Return the rollouts of a domain in all arms: the reused ones, and those that this run made."""
        observations, by_id = list[Observation](), {task.id: task for task in task_set.tasks}
        for arm in self.plan.arms:
            tokens = self.plan.library_tokens(arm)
            made = self.plan.stored(self.store, arm, task_set, run=self.call_context.run)
            rows = {**self.reusable[arm.name, task_set.domain.name], **made}
            found = [(by_id[key[0]], row) for key, row in sorted(rows.items()) if key[0] in by_id]
            observations += [_observation(row, arm, task, tokens) for task, row in found]
        return observations


@asynccontextmanager
async def _open_collector(plan: ComparePlan, store: Store, callbacks: CompareCallbacks) -> AsyncGenerator[Collector]:
    """Open every endpoint once, and the rollouts of each arm in each domain. Raises ConfigError."""
    settings = plan.settings
    async with AsyncExitStack() as stack:
        tracing = await stack.enter_async_context(open_tracing(wanted=settings.otel))
        call_context = CallContext(new_run_id(), store, Budget(settings), tracing=tracing)
        endpoints: dict[str, Endpoint] = {}
        for name in plan.models:
            opened = open_endpoint(
                name,
                settings,
                seed=settings.seed,
                call_settings=plan.call_settings(name),
                model=plan.given.models.get(name),
            )
            endpoints[name] = await stack.enter_async_context(opened)
            endpoints[name].endpoint_state.outage.tell = callbacks.service_changed
        domains = [task_set.domain for task_set in plan.task_sets]
        executor = await stack.enter_async_context(open_executor(settings, domains, call_context, otel=settings.otel))
        by_arm: dict[_Key, Rollouts] = {}
        for task_set in plan.task_sets:
            for model in dict.fromkeys(arm.model for arm in plan.arms):
                rollouts = await stack.enter_async_context(
                    executor.open(
                        task_set.domain,
                        endpoints[model],
                        judge=endpoints.get(plan.judge),
                        user=endpoints.get(plan.user),
                    )
                )
                for arm in plan.arms:  # an arm with other instructions gets another agent
                    if arm.model == model:
                        own = rollouts.with_instructions(arm.instructions) if arm.instructions else rollouts
                        by_arm[arm.name, task_set.domain.name] = own
        yield Collector(plan, call_context, store, endpoints, by_arm, callbacks)


_CODES = {"undecided": "verifier", "no_answer": "no_answer"}
"""Codes of rollouts by the status of their verdict."""


def _observation(row: EvaluatedRow, arm: Arm, task: Task, library_tokens: int) -> Observation:
    """Return a stored rollout as an observation.

    library_tokens: estimated tokens of the arm's lessons in one prompt.
    """
    return Observation.model_validate(
        {
            "arm": arm.name,
            "task": task.id,
            "g": row.g,
            "score": row.reward,
            "status": row.outcome,
            "error": row.failure_code or _CODES.get(row.verdict or "", ""),
            "tokens_library": library_tokens * row.requests,
            "rollout": row.id,
            **{name: getattr(task, name) for name in ("cluster", "tags", "domain", "problem")},
            **{name: getattr(row, name) for name in _COPIED},
        }
    )


_COPIED = ("cost_usd", "tokens_in", "tokens_cached", "tokens_out", "tool_calls", "seconds")
"""Numbers of a stored rollout that an observation has too."""
_EvalReport = tuple[RunRow, Mapping[str, Any]]
"""A finished comparison: its run and its stored report."""
_RUNS = 10_000
"""Number of earlier runs that are searched for interim looks."""


def _earlier_looks(reports: Sequence[_EvalReport], contrast: Contrast) -> tuple[InterimLook, ...]:
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
            found.setdefault(one["data"], InterimLook.of(contrast, row, one["pairs"], one["p"]))
    return tuple(found.values())


def learning_curve(arms: Sequence[Arm], table: ScoreTable, rules: Rules) -> tuple[VersionPoint, ...]:
    """Return the longest line of arms whose libraries descend from one another; empty for fewer than two."""
    libraries = {arm.library.version: arm for arm in arms if len(arm.library) and not arm.without}
    roots = [arm for arm in libraries.values() if arm.library.parent not in libraries]
    longest = max((_descendants(root.library, libraries) for root in roots), key=len, default=[])
    if len(longest) < 2:
        return ()
    return tuple(
        VersionPoint(
            arm=arm.name,
            version=arm.library.version,
            step=step,
            lessons=len(arm.library),
            score=found.mean,
            **found.model_dump(include={"low", "high"}),
        )
        for step, arm in enumerate(longest)
        for found in (table.score(arm.name, rules.level, rules.score_range),)
    )


def _descendants(library: Library, libraries: Mapping[LibraryVersion, Arm]) -> list[Arm]:
    line = [libraries[library.version]]
    while following := [arm for arm in libraries.values() if arm.library.parent == line[-1].library.version]:
        line.append(following[0])
    return line


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
    plan.check_models()
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
        before = BeforeCalls(plan, store)
        if refuse and before.forecast().rollouts:
            notes += before.cautions()
        collector = await stack.enter_async_context(_open_collector(plan, store, callbacks))
        return await _Session(plan, store, collector, callbacks, notes).run()


class _Session:
    """One running comparison, with the store and all models open."""

    def __init__(
        self, plan: ComparePlan, store: Store, collector: Collector, callbacks: CompareCallbacks, notes: Sequence[str]
    ) -> None:
        self.plan, self.store, self.collector, self.callbacks, self.notes = plan, store, collector, callbacks, notes

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
        plan, collector, store = self.plan, self.collector, self.store
        await collector.prepare()
        names = tuple(arm.name for arm in plan.compared)
        reused = {arm.name: collector.reused(arm.name) for arm in plan.arms}
        self.callbacks.opened(collector.call_context, plan.tasks * plan.settings.k, reused)
        before = BeforeCalls(plan, store)
        flags = [flag for arm in plan.compared for flag in before.flags(arm)]
        rules = plan.rules(untrusted_arms(flags))
        observations: list[Observation] = []
        for task_set in plan.task_sets:
            observations += await self._observe(task_set)
        table = tabulate([one for one in observations if one.arm in names], names)
        controls = ()
        if len(names) < len(plan.arms):
            controls = judged_controls(plan.arms, tabulate(observations, [arm.name for arm in plan.arms]), rules)
        keyed = [
            one.model_copy(update={"key": self._key(one), "data": _data_hash(table, one.arm, one.baseline)})
            for one in estimate_contrasts(table, rules)
        ]
        looks = self._earlier_looks(keyed)
        keyed = [one.model_copy(update={"look": len(own) + 1}) for one, own in zip(keyed, looks, strict=True)]
        endpoints = collector.endpoints
        services = service_records([one.endpoint_state for one in endpoints.values()])
        beside, budget = reply_notes(services), collector.call_context.budget
        contrasts, corrections = with_verdicts(keyed, table, rules), tuple[str, ...]()
        if plan.settings.judge_labels is not None:
            found = corrected(contrasts, plan.judge_labels)
            contrasts = [
                one.model_copy(update={"judge": found.get(f"{one.arm} - {one.baseline}")}) for one in contrasts
            ]
            corrections = tuple(f"{pair}: {one.words}" for pair, one in found.items())
        comparison = assemble(
            table,
            contrasts,
            rules,
            arm_facts={
                arm.name: {
                    "label": arm.label(),
                    "simulated": endpoints[arm.model].simulated,
                    "library": arm.library.version if len(arm.library) else "",
                    "lessons": len(arm.library) - len(arm.without),
                    "reused": reused[arm.name],
                }
                for arm in plan.compared
            },
            warnings=beside,
            controls=controls,
            notes=(
                *corrections,
                *self.notes,
                *self._made_again(),
                *lost_workers_note(self.collector.call_context.lost_workers),
                *(note for one in endpoints.values() if (note := one.function_note)),
                *(task_set.note for task_set in plan.task_sets if task_set.note),
                *service_notes(services)[len(beside) :],
            ),
            title=f"{', '.join(task_set.domain.name for task_set in plan.task_sets)}: {', '.join(names)}",
            k=plan.settings.k,
            methods=_method_lines(table, plan.methods, rules.level),
            reproducibility=self._reproducibility(table),
            run=collector.call_context.run,
            simulated=collector.simulated,
            flags=tuple(flags),
            looks=tuple(look for own in looks for look in own),
            curve=learning_curve(plan.compared, table, rules),
            services=services,
            cost_usd=None if budget.unpriced_calls else budget.cost_usd,
            wall_s=time.perf_counter() - started,
        )
        return Compared(comparison, tuple(observations))

    async def _observe(self, task_set: EvalTasks) -> Sequence[Observation]:
        """Make the missing rollouts of these tasks, and return all, with scores in the stated range."""
        await self.collector.make_missing(task_set)
        found, stated = self.collector.observations(task_set), self.plan.settings.score_range
        return found if stated is None else in_score_range(found, stated)

    def _key(self, contrast: Contrast) -> str:
        return self.plan.question_key(contrast.arm, contrast.baseline)

    def _earlier_looks(self, drafts: Sequence[Contrast]) -> list[tuple[InterimLook, ...]]:
        """Return the earlier looks of each contrast."""
        finished = [row for row in self.store.runs(limit=_RUNS) if row.kind == "eval" and row.report]
        reports = [(row, json.loads(row.report)) for row in sorted(finished, key=lambda one: one.started_at)]
        return [_earlier_looks(reports, draft) for draft in drafts]

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

    def _reproducibility(self, table: ScoreTable) -> Reproducibility:
        plan, all_rollouts = self.plan, self.collector.rollouts.values()
        refs = {ref.name: ref for rollouts in all_rollouts for ref in rollouts.prompts}
        return Reproducibility(
            seed=plan.settings.seed,
            data=content_hash("data", sorted({task.id for task in plan.all_tasks} & {*table.tasks})),
            libraries={arm.name: arm.library.version for arm in plan.arms},
            prompts={f"{name}/v{ref.version}": ref.sha256 for name, ref in sorted(refs.items())},
            models={arm.name: arm.model for arm in plan.arms},
            sampling={arm.name: plan.sampling_words(arm) for arm in plan.arms},
            isolation="; ".join(sorted({rollouts.isolation for rollouts in all_rollouts if rollouts.isolation})),
            versions={"agentlearn-lib": version(), "python": platform.python_version()},
        )


def _method_lines(table: ScoreTable, methods: Mapping[str, Sequence[str]], level: float) -> tuple[MethodLine, ...]:
    """Return the difference of each method from the baseline.

    The interval allows for chance in the choice of tasks and in the seeds of learning.
    """
    lines: list[MethodLine] = []
    for name, arms in methods.items():
        differences = [value for arm in arms for value in table.differences(arm, table.arms[0])]
        tasks = [cluster for _ in arms for cluster in table.clusters()]
        estimate = two_way_mean(differences, tasks, [arm for arm in arms for _ in table.tasks], level=level)
        found = estimate.model_dump(include={"mean", "low", "high", "standard_error", "degrees"})
        note = estimate.unsafe or f"{len(arms)} learning seeds: the interval covers other seeds and other tasks"
        lines.append(MethodLine(method=name, arms=tuple(arms), tasks=len(table.tasks), note=note, **found))
    return tuple(lines)


def _data_hash(table: ScoreTable, arm: str, baseline: str) -> str:
    """Return a hash of the scores of two arms, in any order."""
    sides = (sorted((task, table.scores[name][task]) for task in table.tasks) for name in (arm, baseline))
    return content_hash("scores", sorted(content_hash("side", side) for side in sides))[:24]
