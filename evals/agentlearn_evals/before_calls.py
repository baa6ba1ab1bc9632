"""What is known before the first call: whether scores can be trusted and arms told apart, and what it will cost.

A score is not trusted when lessons contain answers, or when tasks were learned from. Only reads; opens no model.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import count

from pydantic import computed_field

from agentlearn.domain.base import RolloutShape
from agentlearn.errors import ConfigError, StoreMissing
from agentlearn.learning.costs import (
    FEWEST_ROLLOUTS,
    CostEstimate,
    RolloutSize,
    StageEstimate,
    assumed_shape,
    file_task_shape,
    judged_size,
    measured_run,
    with_replies,
)
from agentlearn.learning.open_run import TaskSize
from agentlearn.library import LibraryStore
from agentlearn.library.curate.lesson_text import words_line
from agentlearn.measure.clustered import text_clusters
from agentlearn.measure.contrasts import estimate_contrasts, with_verdicts
from agentlearn.measure.score_table import Observation, tabulate
from agentlearn.models.endpoint import is_paid
from agentlearn.rollout.learned_from import LearnedFrom
from agentlearn.store import StoreReader, read_store
from agentlearn.types.value import Value
from agentlearn_evals.arms import Arm
from agentlearn_evals.comparison import ArmFlag
from agentlearn_evals.eval_tasks import EvalTasks
from agentlearn_evals.plan import ComparePlan

_MOST_NEEDED = 200
"""Largest number of tasks that is tried as enough for a verdict."""


def untrusted_arms(flags: Sequence[ArmFlag]) -> Mapping[str, str]:
    """Return, by arm, why its score gets no verdict."""
    return {
        one.arm: f"{one.words}; its score does not show what it can do on new tasks. Measure it on other tasks."
        for one in reversed(flags)
    }


class _ArmForecast(Value):
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
    paid: bool = True
    """Whether its model may cost money."""


class _RoleForecast(Value):
    """What the model that judges answers, or that plays the users of tasks, would need."""

    label: str
    """The model, and what it does."""
    paid: bool
    """Whether its calls may cost money."""
    new: StageEstimate | None
    """Cost of its calls in new rollouts; None: nothing is known of them, and the price leaves them out."""


class Forecast(Value):
    """What a comparison would do and cost, for `--dry-run` and before money is spent."""

    domains: tuple[str, ...]
    tasks: int
    k: int
    arms: tuple[_ArmForecast, ...]
    pairs: tuple[tuple[str, str], ...] = ()
    """Arms that are compared, as (baseline, arm), where these are not every arm with the first."""
    roles: tuple[_RoleForecast, ...] = ()
    """Other models that new rollouts call."""
    total: CostEstimate
    """The new rollouts with all calls, and the ends of what can be expected."""

    @property
    def rollouts(self) -> int:
        """New rollouts of all arms."""
        return sum(arm.rollouts for arm in self.arms)

    @property
    def cost_usd(self) -> float | None:
        """Estimated cost of the new rollouts; None when a price is unknown."""
        costs = [one.new.cost_usd for one in self._parts() if one.new is not None]
        return None if any(cost is None for cost in costs) else sum(cost for cost in costs if cost is not None)

    def _parts(self) -> list[_ArmForecast | _RoleForecast]:
        return [*(arm for arm in self.arms if arm.rollouts), *self.roles]

    @computed_field
    @property
    def paid(self) -> Sequence[str]:
        """Return the labels of the arms that may cost money, and of the judge and the user if they may."""
        return [one.label for one in self._parts() if one.paid]

    def lines(self) -> list[tuple[str, str]]:
        """Return the forecast as (label, text) lines."""
        arms: list[tuple[str, str]] = []
        for arm in self.arms:
            again = f", {arm.again:,} stored ones made again" if arm.again else ""
            words = f"{arm.rollouts:,} rollouts to make, {arm.reused:,} reused{again}, {arm.new.words()}"
            arms.append((arm.arm, words))
        pairs = ", ".join(f"{arm} with {baseline}" for baseline, arm in self.pairs)
        price = "an unknown price" if self.cost_usd is None else f"about ${self.cost_usd:.2f}"
        bases = dict.fromkeys(arm.basis for arm in self.arms if arm.rollouts and arm.basis)
        ends = self.total.ends_words() if self.rollouts else ""
        unknown = "".join(f", without the calls of {one.label}" for one in self.roles if one.paid and one.new is None)
        return [
            ("tasks", f"{self.tasks} of {', '.join(self.domains)} · {self.k} rollouts per task and arm"),
            *arms,
            *((one.new.stage, f"{one.label}: {one.new.words()}") for one in self.roles if one.new is not None),
            *([("compared", pairs)] if pairs else []),
            ("total", f"{self.rollouts:,} rollouts, {price}{ends} ({'; '.join(bases) or 'a rough estimate'}{unknown})"),
        ]


@dataclass(frozen=True)
class BeforeCalls:
    """What is known of a planned comparison. Made by `before_calls`."""

    plan: ComparePlan
    reader: StoreReader | None
    """The store; None: there is none yet."""

    @cached_property
    def _known(self) -> LearnedFrom | None:
        """What lessons of the store rest on."""
        return self.reader and LearnedFrom(self.reader, LibraryStore(self.plan.settings.store / "libraries"))

    def flags(self, arm: Arm) -> tuple[ArmFlag, ...]:
        """Return all reasons not to trust the arm's score on the tasks of the plan."""
        tasks = self.plan.all_tasks
        if self.reader is None or self._known is None:
            return ()
        learned = self._known.tasks(arm.library, arm.without)
        problems = {words_line(one.problem) for one in self.reader.tasks(sorted(learned)).values()}
        count = sum(task.id in learned or words_line(task.problem) in problems for task in tasks)
        if not count:
            return ()
        words = f"its library was learned from {count} of the {len(tasks)} tasks that it is measured on"
        return (ArmFlag(arm=arm.name, code="learned_from", words=words),)

    def cautions(self) -> tuple[str, ...]:
        """Return cautions about verdicts that cannot be given.

        Raises ConfigError when no arm could get one, whatever it scores, because what was learned from is measured
        again.
        """
        untrusted = self._untrusted()
        reasons = [untrusted.get(baseline) or untrusted.get(arm) for baseline, arm in self.plan.pairs]
        if all(reasons):
            compared = ", ".join(dict.fromkeys(repr(arm) for _, arm in self.plan.pairs))
            raise ConfigError(f"Cannot tell anything about {compared}, whatever it scores: {reasons[0]}")
        found = [f"{name} will get no verdict: {why}" for name, why in untrusted.items()]
        return (*found, *_too_few(self.plan))

    def _untrusted(self) -> dict[str, str]:
        """Return, by arm, why its score will get no verdict and what to do; the latest run's held-out tasks if it has
        some that no arm learned from."""
        plan, reader, known = self.plan, self.reader, self._known
        if reader is None or known is None:
            return {}
        held_out = "measure it on other tasks"
        learned = frozenset[str]().union(*(known.tasks(arm.library, arm.without) for arm in plan.arms))
        runs = {run for arm in plan.arms for run in known.runs_behind(arm.library)}
        for run in sorted(runs, key=lambda run: reader.run(run).started_at):
            inputs = reader.run_inputs(run)
            if inputs is not None and inputs.test and not learned & set(inputs.test):
                held_out = f"compare on the {len(inputs.test)} tasks that its run held out: --held-out-of {run}"
        return {arm.name: f"{flag.words}; {held_out}" for arm in plan.arms for flag in self.flags(arm)}

    def forecast(self) -> Forecast:
        """Return what the plan would make, reuse and cost."""
        plan, reader = self.plan, self.reader
        reusable = [{} if reader is None else plan.reusable(reader, one) for one in plan.task_sets]
        found = [self._arm_forecast(arm, [len(one.get(arm.name, ())) for one in reusable]) for arm in plan.arms]
        new, shapes = sum(arm.rollouts for arm, _ in found), [self._shape(task_set) for task_set in plan.task_sets]
        roles, stages = list[_RoleForecast](), [one for _, one in found]
        for role, words, model, size_of in (
            ("judge", "the judge", plan.judge, judged_size),
            ("user", "the user of tasks", plan.user, _played_size),
        ):
            sizes = [(len(task_set.tasks), size_of(one)) for task_set, one in zip(plan.task_sets, shapes, strict=True)]
            known = [(new * tasks / plan.tasks, size, 0.0, False) for tasks, size in sizes if size is not None]
            calls = [_ends(role, model, known)] if model and new and len(known) == len(sizes) else []
            stages += calls
            if model and new:
                paid, first = is_paid(model, plan.given.models.get(model)), calls[0][0] if calls else None
                roles.append(_RoleForecast(label=f"{model}, {words}", paid=paid, new=first))
        total, least, most = (CostEstimate(rollouts=new, stages=tuple(one[at] for one in stages)) for at in range(3))
        return Forecast(
            domains=tuple(task_set.domain.name for task_set in plan.task_sets),
            tasks=plan.tasks,
            k=plan.settings.k,
            pairs=plan.pairs if plan.settings.pairs else (),
            arms=tuple(arm for arm, _ in found),
            roles=tuple(roles),
            total=total.model_copy(update={"least": least, "most": most}),
        )

    def _shape(self, task_set: EvalTasks) -> RolloutShape:
        """Return the assumed shape of rollouts on these tasks, with what a judge and users add."""
        shape = file_task_shape(self.plan.settings.tools) if task_set.judged_by else task_set.domain.rollout_shape()
        judged = shape.judged or (bool(task_set.judged_by) and task_set.domain.uses_judge)
        return with_replies(shape.model_copy(update={"judged": judged}), TaskSize.of(task_set.tasks))

    def _arm_forecast(self, arm: Arm, reusable: Sequence[int]) -> tuple[_ArmForecast, Sequence[StageEstimate]]:
        """Forecast one arm, with its cost as `_ends` gives it. reusable: number of its reusable rollouts by domain."""
        plan, again, bases = self.plan, 0, dict[str, None]()
        parts = list[tuple[float, RolloutSize, float, bool]]()
        for task_set, found in zip(plan.task_sets, reusable, strict=True):
            again += len(plan.stored(self.reader, arm, task_set)) - found
            size, basis, measured = self._size(arm, task_set)
            bases[basis] = None
            parts.append((len(task_set.tasks) * plan.settings.k - found, size, plan.library_tokens(arm), measured))
        stages = _ends("rollout", arm.model, parts)
        forecast = _ArmForecast(
            arm=arm.name,
            label=arm.label(),
            reused=sum(reusable),
            again=again,
            rollouts=plan.tasks * plan.settings.k - sum(reusable),
            new=stages[0],
            basis="; ".join(bases),
            paid=is_paid(arm.model, plan.given.models.get(arm.model)),
        )
        return forecast, stages

    def _size(self, arm: Arm, task_set: EvalTasks) -> tuple[RolloutSize, str, bool]:
        """Return the size of the arm's rollouts, where it comes from, and whether it was measured.

        It comes from stored rollouts, a run, or assumptions.
        """
        plan, reader = self.plan, self.reader
        rows = [
            (plan.library_tokens(one), row)
            for one in plan.arms
            if (one.model, one.instructions) == (arm.model, arm.instructions)
            for row in plan.stored(reader, one, task_set).values()
            if row.outcome != "failed"
        ]
        if len(rows) >= FEWEST_ROLLOUTS:
            without = sum(max(0, row.tokens_in - row.requests * tokens) for tokens, row in rows)
            size = RolloutSize(
                calls=sum(row.requests for _, row in rows) / len(rows),
                tokens_in=without / len(rows),
                tokens_out=sum(row.tokens_out for _, row in rows) / len(rows),
                cached=sum(row.tokens_cached for _, row in rows) / max(1, sum(row.tokens_in for _, row in rows)),
            )
            return size, f"as {len(rows)} stored rollouts had", True
        answer = 0.0
        if reader is not None:
            found = measured_run(reader, "learn", task_set.domain.name, arm.model, data=plan.settings.data)
            if found is not None:
                return found[1], "as its last learning run had", True
            other = measured_run(reader, "", "", arm.model)
            answer = other[1].tokens_out / other[1].calls if other else 0.0
        shape, task = self._shape(task_set), TaskSize.of(task_set.tasks)
        shape, basis, _ = assumed_shape(shape, arm.model, task, answer)
        return RolloutSize.of(shape), basis, False


def _played_size(shape: RolloutShape) -> RolloutSize | None:
    return shape.user and RolloutSize.of(shape.user)


def _ends(stage: str, model: str, parts: Sequence[tuple[float, RolloutSize, float, bool]]) -> Sequence[StageEstimate]:
    """Return the estimate of all parts together, and the smallest and the largest that can be expected.

    parts: numbers of rollouts, their size, the tokens of their lessons, and whether the size was measured.
    """
    found = list[StageEstimate]()
    for at in range(3):
        each = [
            (size, *size.ends(measured=measured))[at].times(count, model, stage, library=library)
            for count, size, library, measured in parts
        ]
        sums = {
            of: sum(getattr(one, of) for one in each) for of in ("calls", "tokens_in", "tokens_out", "tokens_cached")
        }
        found.append(StageEstimate.priced(model, stage, **sums))
    return found


@contextmanager
def before_calls(plan: ComparePlan) -> Generator[BeforeCalls]:
    """Yield what is known of a plan, from its store if there is one."""
    with ExitStack() as stack:
        reader = None
        with suppress(StoreMissing):
            reader = stack.enter_context(read_store(plan.settings.store))
        yield BeforeCalls(plan, reader)


def _too_few(plan: ComparePlan) -> tuple[str, ...]:
    """Return a caution when not even an arm that is always right could be told from a baseline that never is."""
    settings, names, rules = plan.settings, [arm.name for arm in plan.arms], plan.rules()

    def can_tell(clusters: Sequence[str]) -> bool:
        """Whether some arm gets a verdict on tasks of these clusters."""
        low, high = settings.score_range or (0.0, 1.0)
        observations = [
            Observation(arm=name, task=str(at), cluster=cluster, score=low if name == plan.pairs[0][0] else high)
            for at, cluster in enumerate(clusters)
            for name in names
        ]
        table = tabulate(observations, names)
        contrasts = with_verdicts(estimate_contrasts(table, rules), table, rules)
        return any(one.verdict != "cannot_tell" for one in contrasts)

    labels = text_clusters((task.id, task.cluster, task.problem) for task in plan.all_tasks)
    clusters = [labels.get(task.id, task.cluster) for task in plan.all_tasks]
    if can_tell(clusters):
        return ()
    kinds = len({cluster or f"task {at}" for at, cluster in enumerate(clusters)})
    needed = next((n for n in count(2) if n > _MOST_NEEDED or can_tell([""] * n)), _MOST_NEEDED)
    of, more = "", "tasks"
    if kinds < len(clusters):
        of, more = f" of {kinds} {'family' if kinds == 1 else 'families'}", "families of tasks"
    words = (
        f"{len(clusters)} {'task' if len(clusters) == 1 else 'tasks'}{of} are too few for any verdict, even if one arm"
        f" were always right and the other never; give at least {needed} {more}"
    )
    return (words,)
