"""A comparison: what was found out about the arms. The JSON contract of `compare --json`, and of every page."""

from typing import Literal

from pydantic import Field

from agentlearn.config import is_lab
from agentlearn.types.value import Value

ContrastVerdict = Literal["better", "worse", "no_worse", "cannot_tell"]


class Pass(Value):
    """One of pass@k and pass^k, averaged over tasks."""

    k: int
    at_least_one: float | None
    """pass@k: the chance that at least one of k rollouts is right; None where a task has fewer than k."""
    all_of_them: float | None
    """pass^k: the chance that all of k rollouts are right."""


class ArmLine(Value):
    """One arm by itself."""

    arm: str
    label: str
    """What the arm is, in words: model, library, temperature."""
    simulated: bool = False
    library: str = ""
    """Version of its library; empty for none."""
    lessons: int | None = None
    tasks: int
    rollouts: int
    reused: int = 0
    """Of the rollouts, those that earlier comparisons had paid for."""
    score: float | None
    """Mean over tasks of each task's mean score; failures count as 0, undecided rollouts are left out."""
    low: float | None = None
    high: float | None = None
    """95 % interval over tasks, clustered."""
    passes: tuple[Pass, ...] = ()
    failed: int = 0
    timeouts: int = 0
    undecided: int = 0
    errors: dict[str, int] = Field(default_factory=dict[str, int])
    """Failures and timeouts by code."""
    cost_usd: float | None = None
    """Of all its rollouts, also those that earlier comparisons paid for; None when a price is unknown."""
    tokens_in: int | None = None
    tokens_library: int | None = None
    tokens_out: int | None = None
    tool_calls: float | None = None
    """Per rollout."""
    seconds_p50: float | None = None
    seconds_p95: float | None = None


class Worst(Value):
    """Between what the difference must lie, whatever undecided rollouts really were."""

    low: float
    high: float


class Margin(Value):
    """Whether an arm is no worse than the baseline by more than a margin stated beforehand."""

    margin: float
    p: float | None
    bound: float | None
    """One-sided 95 % lower bound of the difference."""
    holds: bool


class Contrast(Value):
    """One arm against another, over the same tasks, seeds and rollout indexes."""

    arm: str
    baseline: str
    mean: float | None
    """Arm minus baseline, mean over tasks."""
    low: float | None = None
    high: float | None = None
    standard_error: float | None = None
    degrees: float | None = None
    method: str = ""
    """How the interval was made: `t`, `cr2`, `score`; of a sequential comparison `bets`."""
    tasks: int = 0
    """Tasks with at least one decided pair."""
    clusters: int = 0
    pairs: int = 0
    """Pairs of rollouts in which both arms are decided."""
    key: str = ""
    """Names both arms under their conditions, and the seed: equal for the same question asked again on other data."""
    look: int = 1
    """How often the question has been asked on growing data, this time included."""
    p: float | None = None
    """Two-sided sign-flip p, uncorrected; of a sequential comparison anytime-valid."""
    p_adjusted: float | None = None
    """Corrected for the number of arms and for earlier looks at growing data; what the verdict goes by."""
    mcnemar_p: float | None = None
    """Exact McNemar; only where every task has one rollout per arm and every score is 0 or 1."""
    worst: Worst | None = None
    """Where undecided rollouts left pairs out."""
    margin: Margin | None = None
    wins: int = 0
    losses: int = 0
    ties: int = 0
    """Tasks on which the arm scores higher, lower, the same."""
    detectable: float | None = None
    """Smallest true difference that this many tasks and rollouts would show with 80 % power."""
    rollouts_needed: int | None = None
    """Rollouts per task and arm that would show the difference seen; None when no number would, or none is needed."""
    tasks_needed: int | None = None
    """Tasks, with as many rollouts as now, that would show the difference seen."""
    unsafe: str = ""
    """Why nothing measured here can be believed; then the verdict is `cannot_tell`."""
    caution: str = ""
    """Why the interval may be too narrow. The p-value holds all the same, and better or worse go by it; a verdict that
    rests on the interval alone, that the arm is no worse, is then not given."""
    verdict: ContrastVerdict = "cannot_tell"
    sentence: str = ""


class MethodLine(Value):
    """A way of learning against the baseline, over several libraries that it learned with different seeds."""

    method: str
    arms: tuple[str, ...]
    mean: float | None
    low: float | None = None
    high: float | None = None
    standard_error: float | None = None
    degrees: float | None = None
    p: float | None = None
    tasks: int = 0
    note: str = ""


class Slice(Value):
    """A contrast within one part of the tasks. Exploratory: no verdict is drawn from it."""

    by: Literal["domain", "cluster", "tag"]
    name: str
    arm: str
    score: float | None
    """Of the arm."""
    mean: float | None
    """Arm minus baseline; None for the baseline itself."""
    low: float | None = None
    high: float | None = None
    tasks: int = 0


class TaskLine(Value):
    """One task in all arms, in the order of `Comparison.arms`."""

    task: str
    domain: str = ""
    cluster: str = ""
    problem: str = ""
    scores: tuple[float | None, ...]
    """Mean over the rollouts; None where every one was undecided or left out."""
    rollouts: tuple[int, ...]


class Flip(Value):
    """A task that the arm and the baseline answer differently."""

    task: str
    problem: str
    arm: str
    baseline: str
    score: float
    """The arm's mean."""
    baseline_score: float
    rollout: str = ""
    baseline_rollout: str = ""
    """Two rollouts of the same index that show the difference; empty where there is no record."""

    @property
    def won(self) -> bool:
        """Whether the arm does better here."""
        return self.score > self.baseline_score


class VersionPoint(Value):
    """A version of a library on the way from its first to its last."""

    arm: str
    version: str
    step: int
    """Versions since the first, along the parents."""
    lessons: int
    score: float | None
    low: float | None = None
    high: float | None = None


class DriftCheck(Value):
    """Rollouts of reused ones made anew, to see whether the service still answers as it did."""

    arm: str
    rollouts: int
    then: float
    """Mean score of the reused rollouts."""
    now: float
    """Mean score of the same tasks, seeds and indexes, run anew."""
    p: float | None
    drifted: bool
    words: str


class InterimLook(Value):
    """An earlier comparison of the same arms on the same tasks, with fewer data."""

    arm: str = ""
    run: str
    at: str
    """UTC, ISO 8601."""
    pairs: int
    p: float | None


class Missing(Value):
    """Pairs that are not there."""

    arm: str
    task: str
    reason: str


class ArmFlag(Value):
    """Something that makes an arm's score suspect, such as a lesson that holds an expected answer."""

    arm: str
    code: str
    words: str


class Reproducibility(Value):
    """What another person needs to see the same."""

    command: str = ""
    seed: int | None = None
    data: str = ""
    """Hash over the tasks with their answers, sorted."""
    libraries: dict[str, str] = Field(default_factory=dict[str, str])
    """Version hash by arm."""
    prompts: dict[str, str] = Field(default_factory=dict[str, str])
    """sha256 by name and version."""
    models: dict[str, str] = Field(default_factory=dict[str, str])
    """Endpoint by arm, with the model names that its answers carried."""
    sampling: dict[str, str] = Field(default_factory=dict[str, str])
    isolation: str = ""
    versions: dict[str, str] = Field(default_factory=dict[str, str])
    sources: dict[str, str] = Field(default_factory=dict[str, str])
    """sha256 by log file, for foreign logs."""


class Comparison(Value):
    """Arms compared over the same tasks."""

    run: str = ""
    title: str
    """Such as `math: none, math@7f3c91aa`."""
    simulated: bool = False
    level: float = 0.95
    k: int
    """Rollouts per task and arm that were asked for."""
    baseline: str
    arms: tuple[ArmLine, ...]
    """The baseline first."""
    contrasts: tuple[Contrast, ...]
    """Every other arm against the baseline."""
    correction: Literal["holm", "bh", "none"] = "holm"
    looks: tuple[InterimLook, ...] = ()
    """Earlier looks at the same questions on fewer data."""
    sequential: str = ""
    """How a sequential comparison ended; empty for one of fixed size."""
    methods: tuple[MethodLine, ...] = ()
    slices: tuple[Slice, ...] = ()
    tasks: tuple[TaskLine, ...] = ()
    flips: tuple[Flip, ...] = ()
    curve: tuple[VersionPoint, ...] = ()
    sentinels: tuple[DriftCheck, ...] = ()
    flags: tuple[ArmFlag, ...] = ()
    missing: tuple[Missing, ...] = ()
    notes: tuple[str, ...] = ()
    reproducibility: Reproducibility = Reproducibility()
    cost_usd: float | None = 0.0
    """Spent by this comparison, without what was reused."""
    wall_s: float = 0.0

    @property
    def of_lab_models(self) -> bool:
        """Whether a lab model made some of it: real, but too small for results."""
        return any(map(is_lab, self.reproducibility.models.values()))

    @property
    def look(self) -> int:
        """How often the question has been asked on growing data, at the most of all contrasts."""
        return max((one.look for one in self.contrasts), default=1)

    @property
    def names(self) -> tuple[str, ...]:
        """The arms, the baseline first."""
        return tuple(arm.arm for arm in self.arms)
