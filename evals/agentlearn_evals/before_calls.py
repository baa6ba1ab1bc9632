"""What is known before the first call: whether scores can be trusted and arms told apart, and what it will cost.

A score is not trusted when lessons contain answers, or when tasks were learned from. Only reads; opens no model.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import count

from agentlearn.errors import ConfigError, StoreMissing
from agentlearn.learning.costs import (
    FEWEST_ROLLOUTS,
    RolloutSize,
    StageEstimate,
    assumed_rollouts,
    file_task_shape,
    judged_size,
    latest_run,
)
from agentlearn.learning.open_run import mean_problem_tokens
from agentlearn.library import LibraryStore
from agentlearn.library.curate.answer_search import AnswerSearch, class_answers
from agentlearn.library.curate.similarity import shingles, words_line
from agentlearn.measure.contrasts import estimate_contrasts, with_verdicts
from agentlearn.measure.score_table import Observation, tabulate, text_clusters
from agentlearn.models.endpoint import is_paid
from agentlearn.rollout.learned_from import LearnedFrom
from agentlearn.store import StoreReader, read_store
from agentlearn.types.task import Task
from agentlearn.types.value import Value
from agentlearn_evals.arms import Arm
from agentlearn_evals.comparison import ArmFlag
from agentlearn_evals.eval_tasks import EvalTasks
from agentlearn_evals.plan import ComparePlan

_MOST_NEEDED = 200
"""Largest number of tasks that is tried as enough for a verdict."""


def _lesson_flags(arm: Arm, tasks: Sequence[Task]) -> tuple[ArmFlag, ...]:
    """Return the reasons that are in the text of the arm's lessons.

    That are expected answers too distinctive to be there by chance, and eight consecutive words of a problem.
    """
    shown = [one for one in arm.library.experiences if one.id not in arm.without]
    expected = {task.answer for task in tasks if task.answer is not None}
    answers = AnswerSearch.of(expected - class_answers(tasks))
    problems = frozenset().union(*(shingles(task.problem) for task in tasks))
    found: list[ArmFlag] = []
    leaking = [one for one in shown if answers.found(one.lesson) == "distinctive"]
    copying = [one for one in shown if shingles(one.lesson) & problems]
    for code, what, lessons in (
        ("leaks_answer", "contain an expected answer of the tasks it is measured on", leaking),
        ("copies_problem", "repeat the words of tasks it is measured on", copying),
    ):
        if lessons:
            named = ", ".join(one.id[:8] for one in lessons[:3]) + (", …" if len(lessons) > 3 else "")
            words = f"{len(lessons)} of its lessons ({named}) {what}"
            found.append(ArmFlag(arm=arm.name, code=code, words=words))
    return tuple(found)


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


class Forecast(Value):
    """What a comparison would do and cost, for `--dry-run` and before money is spent."""

    domains: tuple[str, ...]
    tasks: int
    k: int
    arms: tuple[_ArmForecast, ...]
    pairs: tuple[tuple[str, str], ...] = ()
    """Arms that are compared, as (baseline, arm), where these are not every arm with the first."""
    judge: str = ""
    """Endpoint that judges answers; empty when no model judges them."""
    judge_paid: bool = False
    """Whether its calls may cost money."""
    judging: StageEstimate | None = None
    """Cost of its calls in new rollouts; None: nothing is known of them, and the price leaves them out."""
    user: StageEstimate | None = None
    """The same of the calls that play the users of tasks."""
    user_model: str = ""
    """Endpoint that plays the users of tasks; empty when no model does."""
    user_paid: bool = False
    """Whether its calls may cost money."""

    @property
    def rollouts(self) -> int:
        """New rollouts of all arms."""
        return sum(arm.rollouts for arm in self.arms)

    @property
    def cost_usd(self) -> float | None:
        """Estimated cost of the new rollouts; None when a price is unknown."""
        costs = [arm.new.cost_usd for arm in self.arms if arm.rollouts]
        costs += [one.cost_usd for one in (self.judging, self.user) if one is not None and self.rollouts]
        return None if any(cost is None for cost in costs) else sum(cost for cost in costs if cost is not None)

    def paid(self) -> Sequence[str]:
        """Return the labels of the arms that may cost money, and of the judge if it may."""
        judging = [f"{self.judge}, the judge"] if self.judge_paid and self.rollouts else []
        playing = [f"{self.user_model}, the user of tasks"] if self.user_paid and self.rollouts else []
        return [arm.label for arm in self.arms if arm.rollouts and arm.paid] + judging + playing

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
        rest = "; ".join(bases) or "a rough estimate"
        unknown = self.judge_paid and self.judging is None
        judging = f", without the calls to the judge {self.judge}" if unknown else ""
        unknown = self.user_paid and self.user is None
        judging += f", without the calls of {self.user_model}, which plays the users" if unknown else ""
        roles = ((self.judge, self.judging), (self.user_model, self.user))
        others = [(one.stage, f"{model}, {one.words()}") for model, one in roles if one is not None]
        return [
            ("tasks", f"{self.tasks} of {', '.join(self.domains)} · {self.k} rollouts per task and arm"),
            *arms,
            *others,
            *([("compared", pairs)] if pairs else []),
            ("total", f"{self.rollouts:,} rollouts, {price} ({rest}{judging})"),
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
        found = _lesson_flags(arm, tasks)
        if self.reader is None or self._known is None:
            return found
        learned = self._known.tasks(arm.library, arm.without)
        problems = {words_line(one.problem) for one in self.reader.tasks(sorted(learned)).values()}
        count = sum(task.id in learned or words_line(task.problem) in problems for task in tasks)
        if not count:
            return found
        words = f"its library was learned from {count} of the {len(tasks)} tasks that it is measured on"
        return (*found, ArmFlag(arm=arm.name, code="learned_from", words=words))

    def cautions(self) -> tuple[str, ...]:
        """Return cautions about verdicts that cannot be given.

        Raises ConfigError when no arm could get one, whatever it scores, because what was learned from is measured
        again.
        """
        untrusted = self._untrusted()
        reasons = [untrusted.get(baseline) or untrusted.get(arm) for baseline, arm in self.plan.pairs]
        if all(reasons):
            compared = ", ".join(dict.fromkeys(repr(arm) for _, arm in self.plan.pairs))
            raise ConfigError(
                f"Cannot tell anything about {compared}, whatever it scores: {reasons[0]}", code="nothing_to_say"
            )
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
        leave_out = "leave those lessons out (,without=ID+ID), or measure it on other tasks"
        return {
            arm.name: f"{found[-1].words}; {held_out if found[-1].code == 'learned_from' else leave_out}"
            for arm in plan.arms
            if (found := self.flags(arm))
        }

    def forecast(self) -> Forecast:
        """Return what the plan would make, reuse and cost."""
        plan, reader = self.plan, self.reader
        reusable = [{} if reader is None else plan.reusable(reader, one) for one in plan.task_sets]
        arms = tuple(self._arm_forecast(arm, [len(one.get(arm.name, ())) for one in reusable]) for arm in plan.arms)
        new, shapes = sum(arm.rollouts for arm in arms), [one.domain.rollout_shape() for one in plan.task_sets]
        return Forecast(
            domains=tuple(task_set.domain.name for task_set in plan.task_sets),
            tasks=plan.tasks,
            k=plan.settings.k,
            judge=plan.judge,
            judge_paid=bool(plan.judge) and is_paid(plan.judge, plan.given.models.get(plan.judge)),
            pairs=plan.pairs if plan.settings.pairs else (),
            arms=arms,
            judging=self._role_forecast("judge", plan.judge, new, [judged_size(one) for one in shapes]),
            user=self._role_forecast(
                "user", plan.user, new, [None if one.user is None else RolloutSize.of(one.user) for one in shapes]
            ),
            user_model=plan.user,
            user_paid=bool(plan.user) and is_paid(plan.user, plan.given.models.get(plan.user)),
        )

    def _role_forecast(
        self, stage: str, model: str, rollouts: int, sizes: Sequence[RolloutSize | None]
    ) -> StageEstimate | None:
        """Forecast the calls of the model that judges or plays users in new rollouts. sizes: of one, by task set."""
        known = [one for one in sizes if one is not None]
        if not known or len(known) < len(sizes):
            return None
        shares = [len(one.tasks) / self.plan.tasks for one in self.plan.task_sets]
        found = [one.times(rollouts * share, model, stage) for share, one in zip(shares, known, strict=True)]
        return StageEstimate.priced(
            model,
            stage,
            sum(one.calls for one in found),
            sum(one.tokens_in for one in found),
            sum(one.tokens_out for one in found),
        )

    def _arm_forecast(self, arm: Arm, reusable: Sequence[int]) -> _ArmForecast:
        """Forecast one arm. reusable: number of its reusable rollouts in each domain."""
        plan, again, parts, bases = self.plan, 0, list[StageEstimate](), dict[str, None]()
        for task_set, found in zip(plan.task_sets, reusable, strict=True):
            again += len(plan.stored(self.reader, arm, task_set)) - found
            size, basis = self._size(arm, task_set)
            bases[basis] = None
            rollouts = len(task_set.tasks) * plan.settings.k - found
            parts.append(size.times(rollouts, arm.model, "rollout", library=plan.library_tokens(arm)))
        costs = [one.cost_usd for one in parts]
        new = StageEstimate(
            stage="rollout",
            calls=sum(one.calls for one in parts),
            tokens_in=sum(one.tokens_in for one in parts),
            tokens_out=sum(one.tokens_out for one in parts),
            cost_usd=None if None in costs else sum(one for one in costs if one is not None),
        )
        return _ArmForecast(
            arm=arm.name,
            label=arm.label(),
            reused=sum(reusable),
            again=again,
            rollouts=plan.tasks * plan.settings.k - sum(reusable),
            new=new,
            basis="; ".join(bases),
            paid=is_paid(arm.model, plan.given.models.get(arm.model)),
        )

    def _size(self, arm: Arm, task_set: EvalTasks) -> tuple[RolloutSize, str]:
        """Return the size of the arm's rollouts and where it comes from: stored rollouts, a run, or assumptions."""
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
            )
            return size, f"as {len(rows)} stored rollouts had"
        if reader is not None:
            found = latest_run(reader, "learn", task_set.domain.name, arm.model, data=plan.settings.data)
            if found is not None:
                return found[1], "as its last learning run had"
        shape = file_task_shape(plan.settings.tools) if task_set.judged_by else task_set.domain.rollout_shape()
        return assumed_rollouts(shape, arm.model, mean_problem_tokens(task_set.tasks))


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
