"""Settings of `compare` and of `power`."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from agentlearn.config import (
    SIMULATED_MODEL,
    BudgetOptions,
    CallOptions,
    OptionGroup,
    OwnAgentOptions,
    RequestOptions,
    RetrievalOptions,
    SeedOptions,
    StoreOptions,
    TaskFileOptions,
    TaskSource,
    Temperature,
    UserOptions,
    WorkerOptions,
)
from agentlearn.config.endpoint_address import endpoint_name
from agentlearn.config.options import ModelName, as_tuple
from agentlearn.config.solve_options import RolloutKeywords
from agentlearn.errors import ConfigError
from agentlearn.measure.contrast import Correction
from agentlearn.types.value import number_range

Names = Annotated[tuple[str, ...], BeforeValidator(as_tuple)]

_MODEL = "model="


def _pair_texts(given: Any) -> Any:
    """Pairs that a program gives as two names each, as texts; anything else as it is."""
    texts = as_tuple(given)
    if not isinstance(texts, tuple | list):
        return texts
    return tuple(":".join(one) if isinstance(one, tuple | list) and len(one) == 2 else one for one in texts)


Pairs = Annotated[tuple[str, ...], BeforeValidator(_pair_texts)]


_ScoreRange = Annotated[
    tuple[float, float],
    BeforeValidator(lambda given: number_range(given, "the score range", "--score-range -1,1")),
]
"""The lowest and the highest possible score."""


def _without_credentials(arm: str) -> str:
    """The text of an arm with the name of its endpoint without credentials, see `endpoint_name`."""
    parts = [part.partition(_MODEL) for part in arm.split(",")]
    return ",".join(f"{before}{key}{endpoint_name(name) if key else name}" for before, key, name in parts)


class CompareSettings(
    OwnAgentOptions,
    TaskFileOptions,
    CallOptions,
    RequestOptions,
    RetrievalOptions,
    UserOptions,
    WorkerOptions,
    BudgetOptions,
    SeedOptions,
    StoreOptions,
):
    """Settings of `compare`. They are stored with its run."""

    help_group = "Measuring"
    common = (
        "domains",
        "data",
        "held_out_of",
        "limit",
        "k",
        "models",
        "judge",
        "temperature",
        "baseline",
        "pairs",
        "margin",
    )

    arms: tuple[Annotated[str, AfterValidator(_without_credentials)], ...] = Field(min_length=1)
    """Arms as `NAME=LIBRARY,key=value,…`, the baseline first; see `agentlearn_evals.arms`."""
    methods: Names = ()
    """A method as `NAME=ARM+ARM`: arms whose libraries one method learned with different seeds. May be repeated."""
    domains: Names = ()
    """Installed domain, or a task file with `reward`; may be repeated. Default: the domain named like the libraries."""
    data: TaskSource | None = None
    """Tasks in place of the domain's own test tasks; only with one domain."""
    held_out_of: str | None = None
    """Use the tasks that this learn or train run held out: its id, the start of it, or last."""
    limit: int | None = Field(default=None, ge=1)
    """Largest number of tasks per domain."""
    k: int = Field(default=8, ge=1, le=4096)
    """Rollouts per task and arm."""
    models: Annotated[tuple[ModelName, ...], BeforeValidator(as_tuple)] = ()
    """Model of the arms that name none; with several, each such arm runs on each. Default: as in `learn`."""
    judge: ModelName | None = None
    """Model that judges answers, for a reward that asks a model. Default: the baseline's model, for all arms."""
    temperature: Temperature = 0.3
    """Sampling temperature; none: send no temperature."""
    baseline: str | None = None
    """Name of the arm that the others are compared with. Default: the first arm."""
    pairs: Pairs = ()
    """A pair of arms to compare, as ARM:ARM, the one that counts as its baseline first; may be repeated. all: every
    pair. Default: every arm with the baseline."""
    score_range: _ScoreRange | None = None
    """Lowest and highest possible score, LOW,HIGH. Default: 0,1 if all scores are between them, otherwise not known."""
    margin: float | None = Field(default=None, gt=0)
    """Non-inferiority margin: an arm that is worse by less than this counts as not worse."""
    cost_margin: float | None = Field(default=None, ge=0)
    """Share by which an arm may cost more and still be called better, such as 0.1. Default: whatever it costs."""
    correction: Correction = "holm"
    """Correction of p-values for the number of arms."""
    planned_looks: int = Field(default=1, ge=1, le=100)
    """Number of times that the same arms will be compared, on growing or on other data, fixed in advance."""
    controls: bool = False
    """For one library beside none: add both arms again, a placebo of equal length, and the raw attempts as lessons."""
    placebo: str | None = None
    """Library or file whose first lessons are the placebo of `controls`. Default: lessons about a household."""
    judge_labels: str | None = None
    """File of answers that people labelled, see `judge sheet`: each difference is also given without the errors that
    the judge makes on them."""
    min_judge_agreement: float | None = Field(default=None, gt=0, le=1)
    """Refuse to start where the judge agrees with people on a smaller share of these labels."""
    fresh: bool = False
    """Reuse no stored rollouts."""
    retry_failed: bool = False
    """Repeat the stored rollouts that are undecided, in every arm. What the agent failed at is not repeated."""

    @model_validator(mode="after")
    def _without_contradictions(self) -> Self:
        if self.placebo is not None and not self.controls:
            raise ConfigError(f"--placebo {self.placebo!r} is for --controls; add it, or leave --placebo out")
        if self.min_judge_agreement is not None and self.judge_labels is None:
            raise ConfigError("--min-judge-agreement is for --judge-labels FILE; add it")
        refuse_large_margin(self.margin, self.score_range)
        return self


class EvalSettings(CompareSettings):
    """Settings of `eval`: one arm, measured by itself."""

    models: Annotated[tuple[ModelName, ...], BeforeValidator(as_tuple)] = Field(default=(), max_length=1)
    """Model that solves the tasks. Default: your own agent's, else as in `learn`."""
    judge: ModelName | None = None
    """Model that judges answers, for a reward that asks a model. Default: the one that solves the tasks."""

    k: int = Field(default=4, ge=1, le=4096)
    """Rollouts per task."""


def refuse_large_margin(margin: float | None, score_range: tuple[float, float] | None) -> None:
    """Raise ConfigError for a margin that every arm meets, because no difference can be larger."""
    low, high = score_range or (0.0, 1.0)
    if margin is not None and margin >= high - low:
        raise ConfigError(
            f"margin is {margin:g}; it must be below {high - low:g}, the largest possible difference of scores from"
            f" {low:g} to {high:g}; give a smaller --margin, or the range of the scores with --score-range LOW,HIGH"
        )


class PowerSettings(OptionGroup):
    """Settings of `power`."""

    effect: float = Field(default=0.05, ge=0.001, lt=1)
    """Difference to detect."""
    baseline: float = Field(default=0.5, gt=0, lt=1)
    """Share of right rollouts without lessons."""
    task_spread: float = Field(default=0.3, ge=0, lt=1)
    """Standard deviation of that share between tasks; 0: all tasks are equally hard."""
    difference_spread: float = Field(default=0.1, ge=0, lt=1)
    """Standard deviation of the true difference between tasks."""
    tasks: int | None = Field(default=None, ge=2)
    """Number of available tasks."""
    clusters: int | None = Field(default=None, ge=2)
    """Number of sources, templates or sites that the tasks come from; not given: every task is independent."""
    cluster_share: float | None = Field(default=None, ge=0, le=1)
    """With clusters: part of the variance of the true difference that tasks of one cluster have in common. 1, which is
    assumed when nothing is measured: they all gain alike."""
    k: int | None = Field(default=None, ge=1)
    """Rollouts per task and arm."""
    arms: int = Field(default=2, ge=2, le=100)
    """Number of arms with the baseline. The level alpha is divided by the number of pairs."""
    pairs: int | None = Field(default=None, ge=1)
    """Number of pairs of arms that are compared. Default: every arm with the baseline."""
    power: float = Field(default=0.8, gt=0, lt=1)
    """Probability of detecting the difference if it exists."""
    alpha: float = Field(default=0.05, gt=0, lt=1)
    """Probability of reporting a difference if there is none."""
    model: ModelName = SIMULATED_MODEL
    """Model whose price is used."""


class CompareOptions(RolloutKeywords, total=False):
    """Settings of `CompareSettings` that `compare` has no parameter for. `CompareSettings` says what they mean."""

    max_cost_usd: float | None
    max_tokens: int | None
    max_minutes: float | None
    columns: str | None
    max_unreadable: float
    tools: Literal["none", "python"]
    user_model: str | None
    instructions: str | None
    only_instructions: bool
    methods: Sequence[str]
    held_out_of: str | None
    limit: int | None
    baseline: str | None
    pairs: Sequence[str | tuple[str, str]] | str
    score_range: tuple[float, float] | str | None
    margin: float | None
    cost_margin: float | None
    correction: Correction
    planned_looks: int
    controls: bool
    judge_labels: str | None
    min_judge_agreement: float | None
    placebo: str | None
    fresh: bool
    retry_failed: bool
