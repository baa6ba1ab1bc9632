"""What a run will do and roughly cost, before anything is opened or spent."""

import math
from collections.abc import Sequence
from pathlib import Path

from agentlearn.config import ONLINE, LearnSettings
from agentlearn.data.gym import GYM, parse_gym
from agentlearn.data.hub import HUB, published
from agentlearn.domain.base import Domain, RolloutShape, installed_domains, load_domain
from agentlearn.domain.custom.judge_reward import JUDGE
from agentlearn.errors import ConfigError
from agentlearn.learn.task_sets import task_sets
from agentlearn.models.endpoint import is_paid
from agentlearn.models.price import price_per_million
from agentlearn.types.value import Value

# arXiv:2510.08191 reports the total tokens of one run of training-free GRPO: 38M in and 6.6M out for 1,500 rollouts of
# learning, including all stages. It does not say how they are divided. The turns and lengths in `RolloutShape` and
# below are assumptions that add up to that total.
_USUAL = RolloutShape()
_LIBRARY = 1_000
"""Average tokens of lessons in a prompt, over a run that fills its library. The library's limit caps it."""
MIXED = 0.5
"""Assumed share of groups whose rewards differ. Only those are summarised and compared."""
_STAGE_PROMPT, _SUMMARY, _COMPARISON, _PROPOSAL = 450, 700, 700, 45
"""Assumed tokens of a stage's instructions, of a summary, of a comparison and of a proposal."""
_SHOWN_RESULT = 1_000
"""Largest number of tokens of a tool's result in a transcript to summarise; longer results are cut."""
_JUDGE_QUESTION, _JUDGEMENT = 900, 90
"""Assumed tokens of one question to a judge (rubric, task, expected answer, answer) and of its verdict."""

_DEFAULT_TRAIN, _DEFAULT_TEST = 60, 60
"""Usual number of tasks to learn from and of held-out tasks of a domain."""
HELD_OUT = "held out"
"""Suffix of the names of stages that measure and do not learn."""


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
        tokens = f"{self.tokens_in / 1e6:.2f}M tokens in, {self.tokens_out / 1e6:.2f}M out"
        return f"{self.calls:,} calls, {tokens}, {price}"


class CostEstimate(Value):
    """A rough estimate of the rollouts, calls, tokens and cost of a run."""

    rollouts: int
    stages: tuple[StageEstimate, ...]
    """`rollout`, `summarise`, `compare` and `consolidate` are learning; `held out` is measuring before and after.

    With the reward `judge` there are also `judge` and `judge held out`, with one question per rollout.
    """

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

    def sentence(self) -> str:
        """Return the estimate as one sentence."""
        price = "an unknown price" if self.cost_usd is None else f"about ${self.cost_usd:.2f}"
        return (
            f"about {self.rollouts:,} rollouts, {self.tokens_in / 1e6:.1f}M tokens in and"
            f" {self.tokens_out / 1e6:.1f}M out, {price} (a rough estimate)"
        )


def estimate(settings: LearnSettings, *, train: int | None = None, test: int | None = None) -> CostEstimate:
    """Return the estimate for a run. train, test: numbers of tasks; None: the settings' limit, else a usual number."""
    learned_from = train if train is not None else settings.limit or _DEFAULT_TRAIN
    held_out = 0 if not settings.evaluate else test if test is not None else _DEFAULT_TEST
    if settings.pilot is not None:
        settings, learned_from, held_out = settings.as_pilot(), min(settings.pilot, learned_from), 0
    library = library_tokens(settings)
    learning = 0 if settings.from_store else learned_from * settings.group_size * settings.epochs
    measuring = held_out * settings.eval_rollouts
    batches = math.ceil(learned_from / settings.batch_size) * settings.epochs
    # Rewards of a group of one cannot differ.
    mixed = round(learned_from * settings.epochs * MIXED) if settings.group_size > 1 else 0
    proposals = mixed * settings.max_proposals
    question = _STAGE_PROMPT + library
    shape = _shape(settings)
    transcript = shape.turns * (shape.turn_out + min(shape.tool_result, _SHOWN_RESULT))
    before, after = (
        rollouts_estimate(settings.model, HELD_OUT, measuring, 0, shape),
        rollouts_estimate("", "", measuring, library, shape),
    )
    stages = (
        rollouts_estimate(settings.model, "rollout", learning, library, shape),
        _stage(settings, "summarise", mixed * settings.group_size, question + transcript, _SUMMARY),
        _stage(settings, "compare", mixed, question + settings.group_size * _SUMMARY, _COMPARISON),
        _stage(
            settings,
            "consolidate",
            batches if mixed else 0,
            question + _PROPOSAL * proposals // max(1, batches),
            _PROPOSAL * proposals // max(1, batches),
        ),
        _priced(
            settings.model,
            HELD_OUT,
            before.calls + after.calls,
            before.tokens_in + after.tokens_in,
            before.tokens_out + after.tokens_out,
        ),
        *(_judging(settings, learning, 2 * measuring) if shape.judged else ()),
    )
    return CostEstimate(rollouts=learning + 2 * measuring, stages=stages)


def library_tokens(settings: LearnSettings) -> int:
    """Return the assumed average tokens of lessons in a prompt."""
    return min(_LIBRARY, settings.max_library_tokens)


def rollouts_estimate(
    model: str, stage: str, rollouts: int, library: int, shape: RolloutShape = _USUAL
) -> StageEstimate:
    """Return the estimate for that many rollouts. Each turn reads the prompt, the lessons and all earlier turns.

    library: tokens of lessons in the prompt.
    """
    turns = shape.turns
    earlier_turns = (shape.turn_out + shape.tool_result) * turns * (turns - 1) // 2
    tokens_in = turns * (shape.prompt + library) + earlier_turns
    return _priced(model, stage, rollouts * turns, rollouts * tokens_in, rollouts * turns * shape.turn_out)


def _shape(settings: LearnSettings) -> RolloutShape:
    """Return turns and lengths of rollouts: those of the installed domain, else the usual ones."""
    if settings.reward == JUDGE.name:
        return RolloutShape(judged=True)
    if settings.domain not in installed_domains():
        return _USUAL
    return load_domain(settings.domain).rollout_shape(settings.data)


def _judging(settings: LearnSettings, learning: int, measuring: int) -> tuple[StageEstimate, ...]:
    """Return the estimate for judging answers with a model, which is the reflector."""
    questions = (("judge", learning), (f"judge {HELD_OUT}", measuring))
    return tuple(_stage(settings, name, calls, _JUDGE_QUESTION, _JUDGEMENT) for name, calls in questions)


def _stage(settings: LearnSettings, stage: str, calls: int, tokens_in: int, tokens_out: int) -> StageEstimate:
    return _priced(settings.reflector_name, stage, calls, calls * tokens_in, calls * tokens_out)


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
    if model.startswith("http"):
        return None
    if not is_paid(model):
        return 0.0, 0.0
    provider, _, name = model.partition(":")
    return price_per_million(name, provider)


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
    batches: int
    eval_rollouts: int
    estimate: CostEstimate

    def lines(self) -> tuple[tuple[str, str], ...]:
        """Return the plan as pairs of label and text."""
        by = "" if self.reflector == self.model else f", reflector {self.reflector}"
        held = f"{self.test:,} held out x {self.eval_rollouts} before and after" if self.test else "none held out"
        tests = f", held out from {' and '.join(self.test_data)}" if self.test_data else ""
        size = "" if self.counted else " (not downloaded; published or usual sizes)"
        learning = self.estimate.learning
        tokens_in, tokens_out = sum(one.tokens_in for one in learning), sum(one.tokens_out for one in learning)
        return (
            ("model", f"{self.model}{by}"),
            ("data", f"{self.data}{tests}"),
            ("tasks", f"{self.train:,} to learn from, {held}{size}"),
            ("rounds", f"{self.group_size} rollouts each, {self.epochs} epochs, {self.batches} batches"),
            *((one.stage, one.words()) for one in self.estimate.stages),
            ("learning", f"{tokens_in / 1e6:.1f}M tokens in and {tokens_out / 1e6:.1f}M out, without measuring"),
            ("total", self.estimate.sentence()),
        )


def plan(settings: LearnSettings, domain: Domain) -> RunPlan:
    """Return what a run with these settings will do. Local tasks are read; online tasks are not downloaded.

    Raises DataError or ConfigError, as the run would.
    """
    refuse_unpriced_budget(settings)
    sources = [one for one in (settings.data, *settings.test_data) if one is not None]
    counted = not any(source.startswith(ONLINE) for source in sources)
    if counted:
        sets = task_sets(settings, domain)
        train, test = len(sets.train), len(sets.test)
    else:
        train, test = _sizes(settings, domain)
    if settings.pilot is not None:
        settings, train, test = settings.as_pilot(), min(settings.pilot, train), 0
    return RunPlan(
        domain=settings.domain,
        model=settings.model,
        reflector=settings.reflector_name,
        data=settings.data or f"{settings.domain}'s own tasks",
        test_data=settings.test_data,
        train=train,
        test=test,
        counted=counted,
        epochs=settings.epochs,
        group_size=settings.group_size,
        batches=math.ceil(train / settings.batch_size) * settings.epochs,
        eval_rollouts=settings.eval_rollouts,
        estimate=estimate(settings, train=train, test=test),
    )


def _sizes(settings: LearnSettings, domain: Domain) -> tuple[int, int]:
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
