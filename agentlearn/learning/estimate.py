"""What a run will do and roughly cost, before anything is opened or spent."""

import math
from collections.abc import Sequence
from pathlib import Path

from agentlearn.config import ONLINE, LearnSettings, RunSettings
from agentlearn.data.gym import GYM, parse_gym
from agentlearn.data.hub import HUB, published
from agentlearn.domain.base import Domain
from agentlearn.errors import ConfigError
from agentlearn.learning.batch import Allocation
from agentlearn.learning.open_run import task_sets
from agentlearn.learning.run_size import (
    LONG_ANSWER,
    SHORT_ANSWER,
    CallSize,
    RolloutSize,
    RunSize,
    assumed_size,
    average_library,
    batches_of,
    measured_size,
    most_validation_rollouts,
    visits_of,
)
from agentlearn.models.endpoint import is_paid
from agentlearn.models.price import price_of
from agentlearn.models.services import address_of
from agentlearn.types.experience import estimated_tokens
from agentlearn.types.task import Task
from agentlearn.types.value import Value

_JUDGE_QUESTION, _JUDGEMENT = 900, 90
"""Assumed tokens of one question to a judge (rubric, task, expected answer, answer) and of its verdict."""

_DEFAULT_TRAIN, _DEFAULT_TEST = 60, 60
"""Usual number of tasks to learn from and of held-out tasks of a domain."""
HELD_OUT = "held out"
"""Suffix of the names of stages that measure and do not learn."""
VALIDATION = "validation"
"""The stage that compares versions of the library on validation tasks. Versions that are behind drop out of it."""


class StageEstimate(Value):
    """Calls, tokens and cost of one stage."""

    stage: str
    calls: int
    tokens_in: int
    tokens_out: int
    cost_usd: float | None
    """None when the price is unknown."""

    def words(self) -> str:
        """Return the estimate as text."""
        price = "an unknown price" if self.cost_usd is None else f"${self.cost_usd:.2f}"
        tokens = f"{_short(self.tokens_in)} tokens in, {_short(self.tokens_out)} out"
        return f"{self.calls:,} calls, {tokens}, {price}"


def _short(tokens: int) -> str:
    """Return a number of tokens in millions, or in thousands when it is small."""
    return f"{tokens / 1e6:.1f}M" if tokens >= 950_000 else f"{tokens / 1e3:.0f}k"


class CostEstimate(Value):
    """A rough estimate of the rollouts, calls, tokens and cost of a run."""

    rollouts: int
    stages: tuple[StageEstimate, ...]
    """`rollout`, `summarise`, `compare` and `consolidate` are learning, and so is `validation`, which chooses among
    versions; `held out` is measuring before and after.

    With the reward `judge` there are also `judge` and `judge held out`, with one question per rollout.
    """
    basis: str = "a rough estimate"
    """What the estimate rests on."""
    most: tuple[int, int] | None = None
    """Rollouts, and tokens in and out together, if no version drops out of the comparison on validation tasks.

    None where nothing is compared.
    """
    tokens_range: tuple[int, int] | None = None
    """Tokens in and out together, with short and with long answers; None when the sizes were measured."""

    @property
    def learning(self) -> tuple[StageEstimate, ...]:
        """The stages without measuring, as papers report costs."""
        return tuple(one for one in self.stages if not one.stage.endswith(HELD_OUT))

    @property
    def tokens_in(self) -> int:
        """Input tokens of all stages."""
        return sum(one.tokens_in for one in self.stages)

    @property
    def tokens_out(self) -> int:
        """Output tokens of all stages."""
        return sum(one.tokens_out for one in self.stages)

    @property
    def cost_usd(self) -> float | None:
        """Cost of all stages, without discounts for cached input; None when a price is unknown."""
        costs = [one.cost_usd for one in self.stages]
        return None if any(cost is None for cost in costs) else sum(cost for cost in costs if cost is not None)

    def short(self) -> str:
        """Return the estimate as a few words, without what it rests on."""
        price = "an unknown price" if self.cost_usd is None else f"about ${self.cost_usd:.2f}"
        return (
            f"about {self.rollouts:,} rollouts, {_short(self.tokens_in)} tokens in and"
            f" {_short(self.tokens_out)} out, {price}"
        )

    def sentence(self) -> str:
        """Return the estimate as one sentence, with what it rests on."""
        return f"{self.short()}{self._most()} ({self.basis}{self._range()})"

    def _most(self) -> str:
        if self.most is None:
            return ""
        rollouts, tokens = self.most
        return f", at most {rollouts:,} rollouts and {_short(tokens)} tokens"

    def _range(self) -> str:
        if self.tokens_range is None:
            return ""
        low, high = map(_short, self.tokens_range)
        return (
            f"; answers of {SHORT_ANSWER} to {LONG_ANSWER:,} tokens make it {low} to {high} tokens,"
            " and --pilot 10 measures it"
        )


def estimate(
    settings: LearnSettings, *, train: int | None = None, test: int | None = None, size: RunSize | None = None
) -> CostEstimate:
    """Return the estimate for a run.

    train, test: numbers of tasks; None: the settings' limit, else a usual number. size: what rollouts and stages take;
    None: as assumed for that model.
    """
    learned_from = train if train is not None else settings.limit or _DEFAULT_TRAIN
    held_out = 0 if not settings.evaluate else test if test is not None else _DEFAULT_TEST
    if settings.pilot is not None:
        settings, learned_from, held_out = settings.as_pilot(), min(settings.pilot, learned_from), 0
    size = size or assumed_size(settings, tasks=learned_from)
    found = _of_size(settings, learned_from, held_out, size)
    whole = _of_size(settings, learned_from, held_out, size.model_copy(update={"validated": 1.0}))
    if whole.rollouts > found.rollouts:
        found = found.model_copy(update={"most": (whole.rollouts, whole.tokens_in + whole.tokens_out)})
    if size.measured:
        return found
    ends = (
        _of_size(
            settings,
            learned_from,
            held_out,
            assumed_size(settings, tasks=learned_from, problem_tokens=size.problem_tokens, answer=answer),
        )
        for answer in (SHORT_ANSWER, LONG_ANSWER)
    )
    low, high = (one.tokens_in + one.tokens_out for one in ends)
    usual = found.tokens_in + found.tokens_out
    return found.model_copy(update={"tokens_range": (min(low, usual), max(high, usual))})


def _of_size(settings: LearnSettings, train: int, test: int, size: RunSize) -> CostEstimate:
    allocation = Allocation.of(settings)
    visits = train * settings.epochs if settings.from_store else visits_of(settings, train, size.right)
    learning = 0 if settings.from_store else round(visits * allocation.expected_size(1 - size.mixed - size.right))
    measuring = test * settings.eval_rollouts
    batches = batches_of(settings, train, size.right)
    # Rewards of a group of one cannot differ.
    mixed = round(visits * size.mixed) if settings.group_size > 1 else 0
    lessons = average_library(settings, train, size.library)
    validating = round(most_validation_rollouts(settings, train, batches) * size.validated)
    before = sized_rollouts(settings.model, HELD_OUT, measuring, 0, size.rollout)
    after = sized_rollouts("", "", measuring, size.library, size.rollout)
    stages = (
        sized_rollouts(settings.model, "rollout", learning, lessons, size.rollout),
        _stage(settings, "summarise", mixed * allocation.first_wave, size.summarise),
        _stage(settings, "compare", mixed, size.compare),
        _stage(settings, "consolidate", batches if mixed else 0, size.consolidate),
        *([sized_rollouts(settings.model, VALIDATION, validating, lessons, size.rollout)] if validating else []),
        _priced(
            settings.model,
            HELD_OUT,
            before.calls + after.calls,
            before.tokens_in + after.tokens_in,
            before.tokens_out + after.tokens_out,
        ),
        *(_judging(settings, learning + validating, 2 * measuring) if size.judged else ()),
    )
    return CostEstimate(rollouts=learning + validating + 2 * measuring, stages=stages, basis=size.basis)


def sized_rollouts(model: str, stage: str, rollouts: int, library: float, size: RolloutSize) -> StageEstimate:
    """Return the estimate for that many rollouts of a size. library: tokens of lessons in each prompt."""
    tokens_in = size.tokens_in + size.calls * library
    return _priced(
        model, stage, round(rollouts * size.calls), round(rollouts * tokens_in), round(rollouts * size.tokens_out)
    )


def _judging(settings: LearnSettings, learning: int, measuring: int) -> tuple[StageEstimate, ...]:
    """Return the estimate for judging answers with a model, which is the reflector."""
    questions = (("judge", learning), (f"judge {HELD_OUT}", measuring))
    size = CallSize(tokens_in=_JUDGE_QUESTION, tokens_out=_JUDGEMENT)
    return tuple(_stage(settings, name, calls, size) for name, calls in questions)


def _stage(settings: LearnSettings, stage: str, calls: int, size: CallSize) -> StageEstimate:
    return _priced(settings.reflector_name, stage, calls, round(calls * size.tokens_in), round(calls * size.tokens_out))


def refuse_unpriced_budget(settings: LearnSettings) -> None:
    """Raise ConfigError when there is a limit in dollars and the price of a model of the run is unknown."""
    refuse_unpriced((settings.model, settings.reflector_name), settings.max_cost_usd)


def refuse_unpriced(models: Sequence[str], max_cost_usd: float | None) -> None:
    """Raise ConfigError when there is a limit in dollars and the price of one of the models is unknown."""
    for model in dict.fromkeys(models) if max_cost_usd is not None else ():
        if known_price(model) is None:
            raise ConfigError(
                f"--max-cost-usd {max_cost_usd:g} cannot be kept: the price of {model!r} is not known;"
                " limit the run with --max-tokens or --max-minutes",
                code="unknown_price",
            )


def _priced(model: str, stage: str, calls: int, tokens_in: int, tokens_out: int) -> StageEstimate:
    price = known_price(model)
    cost = None if price is None else (tokens_in * price[0] + tokens_out * price[1]) / 1e6
    return StageEstimate(stage=stage, calls=calls, tokens_in=tokens_in, tokens_out=tokens_out, cost_usd=cost)


def known_price(model: str) -> tuple[float, float] | None:
    """Return dollars per million input and output tokens; 0 for models on this machine, None when unknown."""
    provider, _, name = model.partition(":")
    if provider.casefold() in {"http", "https"}:
        base_url, _, name = model.partition("#")
        return price_of(name, None, base_url)
    if not is_paid(model):
        return 0.0, 0.0
    return price_of(name, provider.removeprefix("gateway/"), address_of(provider))


class RunPlan(Value):
    """What a run will do, for `--dry-run`. It is made without opening an endpoint, a store or the network."""

    domain: str
    model: str
    reflector: str
    data: str
    """Source of the tasks to learn from."""
    test_data: tuple[str, ...]
    train: int
    test: int
    counted: bool
    """Whether the tasks were read and counted. Otherwise the sizes are published or usual ones."""
    epochs: int
    group_size: int
    first_wave: int
    """Rollouts after which a group stops when their rewards agree; `group_size`: never."""
    batches: int
    """Most batches of the run."""
    eval_rollouts: int
    saved: str = ""
    """What the estimate assumes of groups that stop early and of tasks that are skipped; empty without such."""
    estimate: CostEstimate

    def _rollouts(self) -> str:
        return str(self.group_size) if self.first_wave == self.group_size else f"{self.first_wave} to {self.group_size}"

    def _batches(self) -> str:
        return f"up to {self.batches}" if "skipped" in self.saved else str(self.batches)

    def lines(self) -> tuple[tuple[str, str], ...]:
        """Return the plan as pairs of label and text."""
        by = "" if self.reflector == self.model else f", reflector {self.reflector}"
        tests = f", held out from {' and '.join(self.test_data)}" if self.test_data else ""
        tasks = TaskCounts(train=self.train, test=self.test, counted=self.counted)
        learning = self.estimate.learning
        tokens_in, tokens_out = sum(one.tokens_in for one in learning), sum(one.tokens_out for one in learning)
        return (
            ("model", f"{self.model}{by}"),
            ("data", f"{self.data}{tests}"),
            ("tasks", tasks.words(self.eval_rollouts)),
            ("rounds", f"{self._rollouts()} rollouts each, {self.epochs} epochs, {self._batches()} batches"),
            *((("saved", self.saved),) if self.saved else ()),
            *((one.stage, one.words()) for one in self.estimate.stages),
            ("learning", f"{_short(tokens_in)} tokens in and {_short(tokens_out)} out, without measuring"),
            ("total", self.estimate.sentence()),
        )


def plan(settings: LearnSettings, domain: Domain) -> RunPlan:
    """Return what a run with these settings will do. Local tasks are read; online tasks are not downloaded.

    Raises DataError or ConfigError, as the run would.
    """
    refuse_unpriced_budget(settings)
    counts = task_counts(settings, domain)
    train, test = counts.train, counts.test
    if settings.pilot is not None:
        settings, train, test = settings.as_pilot(), min(settings.pilot, train), 0
    size = run_size(settings, train, counts.problem_tokens)
    return RunPlan(
        domain=settings.domain,
        model=settings.model,
        reflector=settings.reflector_name,
        data=settings.data or f"{settings.domain}'s own tasks",
        test_data=settings.test_data,
        train=train,
        test=test,
        counted=counts.counted,
        epochs=settings.epochs,
        group_size=settings.group_size,
        first_wave=Allocation.of(settings).first_wave,
        batches=math.ceil(train / settings.batch_size) * settings.epochs,
        eval_rollouts=settings.eval_rollouts,
        saved=_saved_words(settings, size),
        estimate=estimate(settings, train=train, test=test, size=size),
    )


class TaskCounts(Value):
    """How many tasks a run has."""

    train: int
    test: int
    counted: bool
    """Whether the tasks were read and counted. Otherwise the sizes are published or usual ones."""
    problem_tokens: int = 0
    """Mean length of a problem; 0 when it is not known."""

    def words(self, eval_rollouts: int) -> str:
        """Return the numbers in words. eval_rollouts: rollouts per held-out task."""
        held = f"{self.test:,} held out x {eval_rollouts} before and after" if self.test else "none held out"
        size = "" if self.counted else " (not downloaded; published or usual sizes)"
        return f"{self.train:,} to learn from, {held}{size}"


def task_counts(settings: RunSettings, domain: Domain) -> TaskCounts:
    """Return how many tasks a run has. Local tasks are read; online tasks are not downloaded.

    Raises DataError or ConfigError, as the run would.
    """
    sources = [one for one in (settings.data, *settings.test_data) if one is not None]
    if any(source.startswith(ONLINE) for source in sources):
        train, test = _sizes(settings, domain)
        return TaskCounts(train=train, test=test, counted=False)
    sets = task_sets(settings, domain)
    return TaskCounts(
        train=len(sets.train), test=len(sets.test), counted=True, problem_tokens=mean_problem_tokens(sets.train)
    )


def source_words(settings: RunSettings) -> str:
    """Return where a run's tasks come from."""
    tests = f", held out from {' and '.join(settings.test_data)}" if settings.test_data else ""
    own = f"{settings.domain}'s own tasks"
    return f"{settings.data or own}{tests}"


def _saved_words(settings: LearnSettings, size: RunSize) -> str:
    """Return what the estimate assumes of groups that stop early and of tasks that are skipped."""
    allocation = Allocation.of(settings)
    stopped, skipped = allocation.first_wave < allocation.group_size, settings.epochs > 1 < allocation.revisit_every
    agree = (
        f"{size.mixed + size.right:.0%} of groups stop after {allocation.first_wave} rollouts, which are enough to tell"
    )
    every = f"{allocation.revisit_every - 1} of {allocation.revisit_every} epochs"
    settled = f"{size.right:.0%} are all right, and their tasks are skipped in {every}"
    return "; ".join(one for one, said in ((agree, stopped), (settled, skipped)) if said)


def run_size(settings: LearnSettings, tasks: int, problem_tokens: int = 0) -> RunSize:
    """Return the sizes that an earlier run in the store had, else the assumed ones. Reads the store.

    problem_tokens: mean length of a problem.
    """
    return measured_size(settings, tasks=tasks) or assumed_size(settings, tasks=tasks, problem_tokens=problem_tokens)


def mean_problem_tokens(tasks: Sequence[Task]) -> int:
    """Return the mean length of the problems in tokens, estimated."""
    return round(sum(estimated_tokens(one.problem) for one in tasks) / max(1, len(tasks)))


def _sizes(settings: RunSettings, domain: Domain) -> tuple[int, int]:
    train = _size(settings.data, domain, _DEFAULT_TRAIN)
    if settings.limit is not None:
        train = min(train, settings.limit) if settings.data is not None else settings.limit
    if not settings.evaluate:
        return train, 0
    if settings.test_data:
        return train, sum(_size(source, domain, _DEFAULT_TEST) for source in settings.test_data)
    held = round(train * settings.test_share)
    return train - held, held


def _size(source: str | None, domain: Domain, usual: int) -> int:
    """Return the number of tasks of a source, without using the network."""
    if source is None:
        return usual
    if source.startswith(HUB):
        return published(source)[1].rows or usual
    if source.startswith(GYM):
        return int(dict(parse_gym(source).options)["size"])
    return len(domain.read(Path(source)))
