"""What a comparison would do and may cost, before anything is opened but the store, and that only to read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentlearn.config import SIMULATED_MODEL, default_model
from agentlearn.domain.base import UsesJudge, shape_of
from agentlearn.errors import ConfigError, StoreMissing
from agentlearn.learn.estimate import StageEstimate, refuse_unpriced, rollouts_estimate
from agentlearn.library import LibraryStore
from agentlearn.library.render import render
from agentlearn.models.endpoint import is_paid
from agentlearn.rollout.runner import instructions_ref, sandbox_for
from agentlearn.store import StoreReader, read_store
from agentlearn.types.experience import estimated_tokens
from agentlearn.types.value import Value
from agentlearn.version import version
from agentlearn_evals.arms import Arm, resolve_arms
from agentlearn_evals.eval_tasks import EvalTasks, load_eval_tasks
from agentlearn_evals.methods import methods_of
from agentlearn_evals.rollout_specs import Conditions, Stored, stored, treatment_of
from agentlearn_evals.settings import CompareSettings


@dataclass(frozen=True, slots=True)
class ComparePlan:
    """The settings with everything read that they name."""

    settings: CompareSettings
    arms: tuple[Arm, ...]
    task_sets: tuple[EvalTasks, ...]
    methods: Mapping[str, tuple[str, ...]]
    """By the name of a way of learning, its arms."""

    @property
    def tasks(self) -> int:
        """Tasks of all domains."""
        return sum(len(task_set.tasks) for task_set in self.task_sets)

    def conditions(self, arm: Arm, task_set: EvalTasks) -> Conditions:
        """What determines the arm's rollouts in that domain."""
        settings = self.settings
        return Conditions(
            domain=task_set.domain.name,
            judged_by=task_set.judged_by,
            treatment=treatment_of(arm),
            prompts=(instructions_ref(arm.instructions),) if arm.instructions else task_set.domain.prompts(),
            sandbox=sandbox_for(task_set.domain, settings.sandbox),
            max_turns=settings.max_turns,
            deadline_s=settings.rollout_deadline_s,
            judge=self.judge if isinstance(task_set.domain, UsesJudge) else "",
            package=version(),
        )

    @property
    def judge(self) -> str:
        """The endpoint that judges every arm's answers alike, where that asks a model; else empty."""
        asked = any(isinstance(task_set.domain, UsesJudge) for task_set in self.task_sets)
        return (self.settings.judge or self.arms[0].model) if asked else ""

    @property
    def models(self) -> tuple[str, ...]:
        """Every endpoint that is asked, each once."""
        return tuple(dict.fromkeys(filter(None, (*(arm.model for arm in self.arms), self.judge))))

    def had(self, reader: StoreReader, arm: Arm, task_set: EvalTasks) -> Stored:
        """The arm's rollouts in that domain that can be reused."""
        settings = self.settings
        if settings.fresh:
            return {}
        rows = stored(reader, self.conditions(arm, task_set).phase, task_set.tasks, settings.k, settings.seed)
        if not settings.retry_failed:
            return rows
        return {place: row for place, row in rows.items() if row.outcome != "failed"}


def planned(settings: CompareSettings) -> ComparePlan:
    """Read arms and tasks. Raises ConfigError, LibraryError or DataError."""
    if settings.sequential and settings.margin is not None:
        raise ConfigError(
            "--sequential tells better from worse, and knows no margin; leave out one of --sequential and --margin",
            code="contradiction",
        )
    if settings.sequential and settings.planned_looks > 1:
        raise ConfigError(
            "--sequential may look at any time and needs no planned looks; leave out one of --sequential and --looks",
            code="contradiction",
        )
    library_store = LibraryStore(settings.store / "libraries")
    arms, found = _resolved(settings, library_store)
    methods = methods_of(settings.methods, [arm.name for arm in arms])
    plan = ComparePlan(settings, arms, found, methods)
    if settings.judge is not None and not plan.judge:
        raise ConfigError(
            f"--judge {settings.judge!r} would never be asked: nothing here is judged by a model; leave it out, or"
            " judge tasks of your own with --reward judge",
            code="contradiction",
        )
    refuse_unpriced(plan.models, settings.max_cost_usd)
    return plan


def _resolved(settings: CompareSettings, library_store: LibraryStore) -> tuple[tuple[Arm, ...], tuple[EvalTasks, ...]]:
    """Arms and domains. Where no model is named it is the domains' own, if they have the same, else the simulated."""
    arms = _arms(settings, settings.models or (SIMULATED_MODEL,), library_store)
    found = load_eval_tasks(settings, arms)
    own = {SIMULATED_MODEL if one.judged_by else default_model(one.domain.name) for one in found}
    if not settings.models and len(own) == 1 and SIMULATED_MODEL not in own:
        arms = _arms(settings, tuple(own), library_store)
    return arms, found


def _arms(settings: CompareSettings, models: Sequence[str], library_store: LibraryStore) -> tuple[Arm, ...]:
    return resolve_arms(settings.arms, models=models, temperature=settings.temperature, library_store=library_store)


class ArmForecast(Value):
    """One arm's rollouts."""

    arm: str
    label: str
    reused: int
    new: StageEstimate
    """`calls` are requests to the model, several per rollout."""
    rollouts: int
    """To be made."""


class Forecast(Value):
    """What a comparison would do, for `--dry-run` and before money is spent."""

    domains: tuple[str, ...]
    tasks: int
    k: int
    arms: tuple[ArmForecast, ...]
    judge: str = ""
    """The endpoint that judges answers, where that asks a model; not reckoned with in the price."""

    @property
    def rollouts(self) -> int:
        """To be made, in all."""
        return sum(arm.rollouts for arm in self.arms)

    @property
    def cost_usd(self) -> float | None:
        """None when a price is unknown."""
        costs = [arm.new.cost_usd for arm in self.arms if arm.rollouts]
        return None if any(cost is None for cost in costs) else sum(cost for cost in costs if cost is not None)

    def paid(self) -> Sequence[str]:
        """The labels of arms, and the judge, that may cost money."""
        judging = [f"{self.judge}, the judge"] if self.judge and self.rollouts and is_paid(self.judge) else []
        return [arm.label for arm in self.arms if arm.rollouts and is_paid(arm.label.partition(",")[0])] + judging

    def lines(self) -> list[tuple[str, str]]:
        """In words, line by line with its label."""
        price = "an unknown price" if self.cost_usd is None else f"about ${self.cost_usd:.2f}"
        judging = f", without what {self.judge} takes to judge" if self.judge and is_paid(self.judge) else ""
        arms = [
            (arm.arm, f"{arm.rollouts:,} rollouts to make, {arm.reused:,} reused, {arm.new.words()}")
            for arm in self.arms
        ]
        return [
            ("tasks", f"{self.tasks} of {', '.join(self.domains)} · {self.k} rollouts per task and arm"),
            *arms,
            ("in all", f"{self.rollouts:,} rollouts, {price} (a rough estimate{judging})"),
        ]


def forecast(plan: ComparePlan) -> Forecast:
    """What the plan would make, reuse and cost."""
    settings, wanted = plan.settings, plan.tasks * plan.settings.k
    try:
        with read_store(settings.store) as reader:
            had = {
                arm.name: sum(len(plan.had(reader, arm, task_set)) for task_set in plan.task_sets) for arm in plan.arms
            }
    except StoreMissing:
        had = {arm.name: 0 for arm in plan.arms}
    shapes = (shape_of(task_set.domain) for task_set in plan.task_sets)
    shape = max(shapes, key=lambda one: one.turns * (one.turn_out + one.tool_result))  # of several, the dearest
    return Forecast(
        domains=tuple(task_set.domain.name for task_set in plan.task_sets),
        tasks=plan.tasks,
        k=settings.k,
        judge=plan.judge,
        arms=tuple(
            ArmForecast(
                arm=arm.name,
                label=arm.label(),
                reused=had[arm.name],
                rollouts=wanted - had[arm.name],
                new=rollouts_estimate(arm.model, "rollout", wanted - had[arm.name], library_tokens(arm), shape),
            )
            for arm in plan.arms
        ),
    )


def library_tokens(arm: Arm) -> int:
    """Estimated tokens that the arm's lessons take of one prompt."""
    return estimated_tokens(render(arm.library, masked=arm.without).text)
