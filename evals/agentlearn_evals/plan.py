"""Plans a comparison and forecasts its cost. Only reads; opens no model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agentlearn.config import SIMULATED_MODEL, RequestOptions, SiteOptions, default_model
from agentlearn.config.model_folders import contents_sha256
from agentlearn.errors import ConfigError, StoreMissing
from agentlearn.installed import version
from agentlearn.learning.costs import (
    FEWEST_ROLLOUTS,
    RolloutSize,
    StageEstimate,
    assumed_rollouts,
    file_task_shape,
    mean_problem_tokens,
    measured_rollouts,
    refuse_unpriced,
    sized_rollouts,
)
from agentlearn.library import LibraryStore
from agentlearn.library.render import render
from agentlearn.models.call_settings import CallSettings, call_settings, local_answer_limit
from agentlearn.models.endpoint import is_paid
from agentlearn.rollout.runner import instructions_ref, sandbox_for
from agentlearn.store import Store, StoreReader, read_store
from agentlearn.types.experience import estimated_tokens
from agentlearn.types.ids import TaskId, content_hash
from agentlearn.types.ranking import Retrieval, shown_tokens
from agentlearn.types.value import Value
from agentlearn_evals.arms import Arm, baseline_first, named_pairs, parse_methods, resolve_arms, temperature_words
from agentlearn_evals.compare_settings import CompareSettings, refuse_large_margin
from agentlearn_evals.eval_tasks import EvalTasks, load_eval_tasks, with_held_out
from agentlearn_evals.rollout_specs import Conditions, StoredRollouts, made_together, stored_rollouts, treatment_of

if TYPE_CHECKING:
    from pydantic_ai.models import Model


ONE_RUN = "run:"
"""How the version of an agent or program starts to which its program gave none: it is another one in each run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareGiven:
    """Objects that a program gives to a comparison, in place of the names in its settings."""

    models: "Mapping[str, Model]" = field(default_factory=dict[str, "Model"])
    """Models by the name under which they are recorded."""
    store: Store | None = None
    """An open store. It stays open when the comparison ends."""
    version: str = ""
    """Version of the agent or program that is compared; empty for what has a version of its own."""


NOTHING_GIVEN = CompareGiven()


@dataclass(frozen=True, slots=True)
class ComparePlan:
    """The settings of a comparison, with the arms and tasks that they name."""

    settings: CompareSettings
    arms: tuple[Arm, ...]
    task_sets: tuple[EvalTasks, ...]
    methods: Mapping[str, tuple[str, ...]]
    """Arms by method name."""
    pairs: tuple[tuple[str, str], ...]
    """The arms that are compared, as (baseline, arm)."""
    given: CompareGiven = NOTHING_GIVEN

    @property
    def tasks(self) -> int:
        """Number of tasks in all domains."""
        return sum(len(task_set.tasks) for task_set in self.task_sets)

    def conditions(self, arm: Arm, task_set: EvalTasks) -> Conditions:
        """Return what determines the arm's rollouts in that domain."""
        settings = self.settings
        judge = self.judge if task_set.domain.uses_judge else ""
        return Conditions(
            domain=task_set.domain.name,
            judged_by=task_set.judged_by,
            treatment=treatment_of(arm),
            prompts=(instructions_ref(arm.instructions),) if arm.instructions else task_set.domain.prompts(),
            sandbox=sandbox_for(task_set.domain, settings.sandbox),
            max_turns=settings.max_turns,
            deadline_s=settings.rollout_deadline_s,
            judge=judge,
            package=version(),
            request=self._request(arm.model),
            retrieval=self._retrieval(arm),
            history_tokens=settings.history_tokens,
            sites=None if settings.sites == SiteOptions() else settings.sites,
            weights="" if arm.model in self.given.models else contents_sha256(arm.model),
            judge_weights="" if judge in self.given.models else contents_sha256(judge),
            version=self.given.version,
        )

    def _request(self, model: str) -> RequestOptions | None:
        """Return what is sent with each request; None for the defaults.

        So a new option leaves the rollouts usable that were stored without it.
        """
        request = self._options(model)
        return None if request == RequestOptions() else request

    def _retrieval(self, arm: Arm) -> Retrieval | None:
        """Return how lessons of the arm are chosen; None where all are shown, whatever the settings."""
        retrieval = self.settings.retrieval
        everything = shown_tokens(arm.library.experiences, retrieval) == arm.library.tokens
        return None if everything else retrieval

    def _options(self, model: str) -> RequestOptions:
        """Return what is sent with each request to a model. A model on this machine has a default limit of answers."""
        request = RequestOptions(**{name: getattr(self.settings, name) for name in RequestOptions.model_fields})
        if request.max_output_tokens is not None or model in self.given.models:
            return request
        usual = max((one.domain.rollout_shape(self.settings.data).turn_out for one in self.task_sets), default=0)
        limit = local_answer_limit(model, usual)
        return request if limit is None else request.model_copy(update={"max_output_tokens": limit.tokens})

    @property
    def judge(self) -> str:
        """Endpoint that judges the answers of every arm; empty when no model judges them."""
        asked = any(task_set.domain.uses_judge for task_set in self.task_sets)
        return (self.settings.judge or self.arms[0].model) if asked else ""

    @property
    def models(self) -> tuple[str, ...]:
        """All endpoints, each once."""
        return tuple(dict.fromkeys(filter(None, (*(arm.model for arm in self.arms), self.judge))))

    def call_settings(self, model: str) -> CallSettings:
        """Return what every request to a model contains; no temperature where none of its arms sends one."""
        temperatures = [arm.temperature for arm in self.arms if arm.model == model] or [self.settings.temperature]
        return call_settings(self._options(model), temperature=any(one is not None for one in temperatures))

    def sampling_words(self, arm: Arm) -> str:
        """Return in words what is sent with each request of an arm's rollouts."""
        sent = self._options(arm.model).model_dump()
        given = {name.replace("_", " "): value for name, value in sent.items() if value}
        others = [name if value is True else f"{name} {value}" for name, value in given.items()]
        return ", ".join([temperature_words(arm.temperature), *others])

    def question_key(self, arm: str, baseline: str) -> str:
        """Return hashes that name two arms in any order, one per domain, whatever tasks and seeds they have.

        Files of tasks that are judged alike share a hash, because they may hold parts of the same tasks. So do all runs
        of a program's own agent that has no version.
        """
        same = {"domain": "", "version": "" if self.given.version.startswith(ONE_RUN) else self.given.version}
        sides = {one.name: one for one in self.arms if one.name in (arm, baseline)}
        pairs = (
            [self.conditions(side, one).model_copy(update=same).phase for side in sides.values()]
            for one in self.task_sets
        )
        return " ".join(sorted({content_hash("contrast", sorted(pair))[:24] for pair in pairs}))

    def phases(self, task_set: EvalTasks) -> dict[str, str]:
        """Return the names under which each arm's rollouts in that domain are stored, by arm name."""
        return {arm.name: self.conditions(arm, task_set).phase for arm in self.arms}

    def reusable(self, reader: StoreReader, task_set: EvalTasks) -> Mapping[str, StoredRollouts]:
        """Return the stored rollouts in that domain that can be reused, by arm name; see `made_together`.

        All arms have the same tasks and indexes. With `retry_failed`, those that are undecided in an arm are left out.
        """
        settings = self.settings
        if settings.fresh:
            return {arm.name: {} for arm in self.arms}
        rows = made_together(reader, self.phases(task_set), task_set.tasks, settings.k, settings.seed)
        undecided = {key for found in rows.values() for key, row in found.items() if row.outcome == "undecided"}
        left_out = undecided if settings.retry_failed else set[tuple[TaskId, int]]()
        return {name: {key: row for key, row in found.items() if key not in left_out} for name, found in rows.items()}

    def stored(self, reader: StoreReader | None, arm: Arm, task_set: EvalTasks) -> StoredRollouts:
        """Return the arm's stored rollouts in that domain, whether they can be reused or not. reader: as `reusable`."""
        phase, settings = self.conditions(arm, task_set).phase, self.settings
        return {} if reader is None else stored_rollouts(reader, phase, task_set.tasks, settings.k, settings.seed)


def plan_comparison(settings: CompareSettings, *, imports_reward: bool = True) -> ComparePlan:
    """Read the arms and tasks. Raises ConfigError, LibraryError or DataError.

    imports_reward: False to show the plan only: the module of a reward `module:function` does not run.
    """
    refuse_contradictory_looks(settings)
    library_store = LibraryStore(settings.store / "libraries")
    if settings.held_out_of is not None:
        with read_store(settings.store) as reader:
            settings, task_set = with_held_out(settings, reader, imports_reward=imports_reward)
        return checked_plan(settings, _arms(settings, settings.models, library_store), (task_set,))
    arms, found = _resolved(settings, library_store, imports_reward=imports_reward)
    return checked_plan(settings, arms, found)


def refuse_contradictory_looks(settings: CompareSettings) -> None:
    """Raise ConfigError for a sequential comparison with a margin or with planned looks, and for a useless margin."""
    refuse_large_margin(settings.margin, settings.score_range)
    if settings.sequential and settings.margin is not None:
        raise ConfigError(
            "--sequential cannot be combined with --margin; leave one of them out",
            code="contradiction",
        )
    if settings.sequential and settings.planned_looks > 1:
        raise ConfigError(
            "--sequential may look at any time and needs no planned looks; leave out --sequential or --looks",
            code="contradiction",
        )


def checked_plan(
    settings: CompareSettings,
    arms: tuple[Arm, ...],
    task_sets: tuple[EvalTasks, ...],
    given: CompareGiven = NOTHING_GIVEN,
) -> ComparePlan:
    """Return the plan for these arms and tasks. Raises ConfigError."""
    by_name = {arm.name: arm for arm in arms}
    arms = tuple(by_name[name] for name in baseline_first(list(by_name), settings.baseline))
    names = [arm.name for arm in arms]
    methods, pairs = parse_methods(settings.methods, names), named_pairs(settings.pairs, names)
    plan = ComparePlan(settings, arms, task_sets, methods, pairs, given)
    if settings.judge is not None and not plan.judge:
        raise ConfigError(
            f"--judge {settings.judge!r} is not needed, because no model judges these answers; leave it out, or use"
            " --reward judge with tasks from a file",
            code="contradiction",
        )
    refuse_unpriced(plan.models, settings.max_cost_usd)
    return plan


def _resolved(
    settings: CompareSettings, library_store: LibraryStore, *, imports_reward: bool
) -> tuple[tuple[Arm, ...], tuple[EvalTasks, ...]]:
    """Return arms and task sets. Without --model, the domains' common default model is used, else the simulated one."""
    arms = _arms(settings, settings.models or (SIMULATED_MODEL,), library_store)
    found = load_eval_tasks(settings, arms, imports_reward=imports_reward)
    defaults = {SIMULATED_MODEL if one.judged_by else default_model(one.domain.name) for one in found}
    if not settings.models and len(defaults) == 1 and SIMULATED_MODEL not in defaults:
        arms = _arms(settings, tuple(defaults), library_store)
    return arms, found


def _arms(settings: CompareSettings, models: Sequence[str], library_store: LibraryStore) -> tuple[Arm, ...]:
    return resolve_arms(settings.arms, models=models, temperature=settings.temperature, library_store=library_store)


def require_model(plan: ComparePlan) -> None:
    """Raise ConfigError for arms without a model on tasks from a source, which the simulated model cannot solve."""
    settings = plan.settings
    own = [one for one in plan.task_sets if one.judged_by or settings.data is not None]
    if settings.models or not own or all(",model=" in arm for arm in settings.arms):
        return
    if SIMULATED_MODEL in {arm.model for arm in plan.arms}:
        source = settings.data or own[0].tasks[0].source.rpartition(":")[0]
        raise ConfigError(
            f"no model is named for the tasks in {source!r}, and {SIMULATED_MODEL} can only solve the bundled problems;"
            " add --model, such as --model http://localhost:8000/v1#MODEL",
            code="no_model",
        )


class ArmForecast(Value):
    """What one arm would need."""

    arm: str
    label: str
    reused: int
    """Stored rollouts that are reused."""
    again: int = 0
    """Stored rollouts that are made again, because the other arms' were not made at the same time, or to retry."""
    new: StageEstimate
    """Cost of the new rollouts. `calls` counts requests to the model, several per rollout."""
    rollouts: int
    """New rollouts to make."""
    basis: str = ""
    """What the sizes of the new rollouts rest on."""


class Forecast(Value):
    """What a comparison would do and cost, for `--dry-run` and before money is spent."""

    domains: tuple[str, ...]
    tasks: int
    k: int
    arms: tuple[ArmForecast, ...]
    pairs: tuple[tuple[str, str], ...] = ()
    """Arms that are compared, as (baseline, arm), where these are not every arm with the first."""
    judge: str = ""
    """Endpoint that judges answers; empty when no model judges them. The price does not include its calls."""

    @property
    def rollouts(self) -> int:
        """New rollouts of all arms."""
        return sum(arm.rollouts for arm in self.arms)

    @property
    def cost_usd(self) -> float | None:
        """Estimated cost of the new rollouts; None when a price is unknown."""
        costs = [arm.new.cost_usd for arm in self.arms if arm.rollouts]
        return None if any(cost is None for cost in costs) else sum(cost for cost in costs if cost is not None)

    def paid(self) -> Sequence[str]:
        """Return the labels of the arms that may cost money, and of the judge if it may."""
        judging = [f"{self.judge}, the judge"] if self.judge and self.rollouts and is_paid(self.judge) else []
        return [arm.label for arm in self.arms if arm.rollouts and is_paid(arm.label.partition(",")[0])] + judging

    def lines(self) -> list[tuple[str, str]]:
        """Return the forecast as (label, text) lines."""
        price = "an unknown price" if self.cost_usd is None else f"about ${self.cost_usd:.2f}"
        judging = f", without the calls to the judge {self.judge}" if self.judge and is_paid(self.judge) else ""
        arms = [
            (arm.arm, f"{arm.rollouts:,} rollouts to make, {arm.reused:,} reused{_again(arm)}, {arm.new.words()}")
            for arm in self.arms
        ]
        bases = dict.fromkeys(arm.basis for arm in self.arms if arm.rollouts and arm.basis)
        rest = "; ".join(bases) or "a rough estimate"
        return [
            ("tasks", f"{self.tasks} of {', '.join(self.domains)} · {self.k} rollouts per task and arm"),
            *arms,
            *(
                [("compared", ", ".join(f"{arm} with {baseline}" for baseline, arm in self.pairs))]
                if self.pairs
                else []
            ),
            ("total", f"{self.rollouts:,} rollouts, {price} ({rest}{judging})"),
        ]


def _again(arm: ArmForecast) -> str:
    return f", {arm.again:,} stored ones made again" if arm.again else ""


def forecast(plan: ComparePlan) -> Forecast:
    """Return what the plan would make, reuse and cost."""
    try:
        with read_store(plan.settings.store) as reader:
            return forecast_with(plan, reader)
    except StoreMissing:
        return forecast_with(plan, None)


def forecast_with(plan: ComparePlan, reader: StoreReader | None) -> Forecast:
    """Return what the plan would make, reuse and cost. reader: the store; None: there is none yet."""
    return Forecast(
        domains=tuple(task_set.domain.name for task_set in plan.task_sets),
        tasks=plan.tasks,
        k=plan.settings.k,
        judge=plan.judge,
        pairs=plan.pairs if plan.settings.pairs else (),
        arms=_arm_forecasts(plan, reader),
    )


def _arm_forecasts(plan: ComparePlan, reader: StoreReader | None) -> tuple[ArmForecast, ...]:
    reusable: dict[tuple[str, str], StoredRollouts] = {}
    if reader is not None:
        for task_set in plan.task_sets:
            for name, rows in plan.reusable(reader, task_set).items():
                reusable[name, task_set.domain.name] = rows
    return tuple(_arm_forecast(plan, arm, reusable, reader) for arm in plan.arms)


def _arm_forecast(
    plan: ComparePlan, arm: Arm, reusable: Mapping[tuple[str, str], StoredRollouts], reader: StoreReader | None
) -> ArmForecast:
    """Forecast one arm. reusable: reusable rollouts by arm and domain."""
    parts, reused, again, bases = list[StageEstimate](), 0, 0, list[str]()
    for task_set in plan.task_sets:
        domain = task_set.domain.name
        found = len(reusable.get((arm.name, domain), ()))
        reused += found
        again += len(plan.stored(reader, arm, task_set)) - found
        alike = [one for one in plan.arms if (one.model, one.instructions) == (arm.model, arm.instructions)]
        size, basis = _size(
            plan, arm.model, task_set, [(one, plan.stored(reader, one, task_set)) for one in alike], reader
        )
        rollouts = len(task_set.tasks) * plan.settings.k - found
        parts.append(
            sized_rollouts(arm.model, "rollout", rollouts, arm_library_tokens(arm, plan.settings.retrieval), size)
        )
        bases.append(basis)
    costs = [one.cost_usd for one in parts]
    new = StageEstimate(
        stage="rollout",
        calls=sum(one.calls for one in parts),
        tokens_in=sum(one.tokens_in for one in parts),
        tokens_out=sum(one.tokens_out for one in parts),
        cost_usd=None if None in costs else sum(one for one in costs if one is not None),
    )
    wanted = plan.tasks * plan.settings.k
    return ArmForecast(
        arm=arm.name,
        label=arm.label(),
        reused=reused,
        again=again,
        rollouts=wanted - reused,
        new=new,
        basis="; ".join(dict.fromkeys(bases)),
    )


def _size(
    plan: ComparePlan,
    model: str,
    task_set: EvalTasks,
    stored: Sequence[tuple[Arm, StoredRollouts]],
    reader: StoreReader | None,
) -> tuple[RolloutSize, str]:
    """Return the size of the model's rollouts and where it comes from: stored rollouts, a run, or assumptions."""
    retrieval = plan.settings.retrieval
    rows = [
        (arm_library_tokens(arm, retrieval), row)
        for arm, rows in stored
        for row in rows.values()
        if row.outcome != "failed"
    ]
    if len(rows) >= FEWEST_ROLLOUTS:
        without = sum(max(0, row.tokens_in - row.requests * tokens) for tokens, row in rows)
        size = RolloutSize(
            calls=sum(row.requests for _, row in rows) / len(rows),
            tokens_in=without / len(rows),
            tokens_out=sum(row.tokens_out for _, row in rows) / len(rows),
        )
        return size, f"as {len(rows)} stored rollouts had"
    found = None
    if reader is not None:
        found = measured_rollouts(reader, task_set.domain.name, model, plan.settings.data)
    if found is not None:
        return found, "as its last learning run had"
    shape = file_task_shape(plan.settings.tools) if task_set.judged_by else task_set.domain.rollout_shape()
    return assumed_rollouts(shape, model, mean_problem_tokens(task_set.tasks))


def arm_library_tokens(arm: Arm, retrieval: Retrieval) -> int:
    """Return the estimated number of tokens that the arm's lessons take in one prompt.

    Where lessons are chosen, the number is that of as many lessons of average length.
    """
    tokens = estimated_tokens(render(arm.library, masked=arm.without).text)
    shown = shown_tokens(arm.library.experiences, retrieval)
    return tokens if shown == arm.library.tokens else tokens * shown // arm.library.tokens
