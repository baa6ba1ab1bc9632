"""The result of a comparison. `compare --json` prints it and the page shows it; field names are a stable contract."""

from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field

from agentlearn.config import is_lab
from agentlearn.measure.contrast import Contrast, Correction, Missing, Pass
from agentlearn.models.service_record import ServiceRecord
from agentlearn.types.value import Value

if TYPE_CHECKING:
    from agentlearn.store import RunRow


class ArmLine(Value):
    """The results of one arm."""

    arm: str
    label: str
    """The arm in words: model, library, temperature."""
    simulated: bool = False
    """Whether the arm's model is simulated."""
    library: str = ""
    """Version of the arm's library; empty without lessons."""
    lessons: int | None = None
    """Number of lessons; None when unknown."""
    tasks: int
    rollouts: int
    """All rollouts, those that are left out included."""
    counted: int
    """Rollouts that the score rests on."""
    reused: int = 0
    """Number of rollouts that were already stored by earlier comparisons."""
    score: float | None
    """Mean over tasks of each task's mean score; failed rollouts count as 0, undecided ones are left out."""
    low: float | None = None
    """Lower end of the clustered 95 % interval over tasks."""
    high: float | None = None
    """Upper end of the clustered 95 % interval over tasks."""
    passes: tuple[Pass, ...] = ()
    failed: int = 0
    """Rollouts in which the agent gave no usable answer; they count as 0."""
    undecided: int = 0
    """Rollouts that could not be judged, or in which something around the agent broke; they are left out."""
    errors: dict[str, int] = Field(default_factory=dict[str, int])
    """Number of failed and undecided rollouts by error code."""
    cost_usd: float | None = None
    """Cost of all rollouts, including reused ones; None when a price is unknown."""
    tokens_in: int | None = None
    tokens_cached: int | None = None
    """Part of `tokens_in` that the service had cached."""
    tokens_library: int | None = None
    """Estimated part of `tokens_in` that lessons took."""
    tokens_out: int | None = None
    tool_calls: float | None = None
    """Mean number of tool calls per rollout."""
    seconds_p50: float | None = None
    """Median duration of a rollout."""
    seconds_p95: float | None = None
    """Duration that 95 % of the rollouts did not exceed."""


class MethodLine(Value):
    """A way of learning compared with the baseline, over libraries that it learned with different seeds."""

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
    """One arm's results on part of the tasks. Exploratory: it gets no verdict."""

    by: Literal["domain", "cluster", "tag"]
    name: str
    arm: str
    score: float | None
    """The arm's mean score."""
    mean: float | None
    """Arm minus baseline; None for the baseline itself."""
    low: float | None = None
    high: float | None = None
    tasks: int = 0


class TaskLine(Value):
    """The scores of one task in all arms, in the order of `Comparison.arms`."""

    task: str
    domain: str = ""
    cluster: str = ""
    problem: str = ""
    scores: tuple[float | None, ...]
    """Mean score per arm; None when all rollouts were undecided or left out."""
    rollouts: tuple[int, ...]
    """Number of counted rollouts per arm."""


class Flip(Value):
    """A task on which an arm and the baseline have different scores."""

    task: str
    problem: str
    arm: str
    baseline: str
    score: float
    """The arm's mean score."""
    baseline_score: float
    """The baseline's mean score."""
    rollout: str = ""
    """Id of a rollout of the arm that shows the difference; empty when there is no record."""
    baseline_rollout: str = ""
    """Id of the baseline's rollout to compare it with, if possible with the same index."""
    place: str = ""
    """Where the arm's rollout is in a log of another program: `runs.csv line 7`; empty for a stored rollout."""
    baseline_place: str = ""
    """Where the baseline's rollout is in a log of another program."""

    @property
    def won(self) -> bool:
        """Whether the arm scores higher than the baseline."""
        return self.score > self.baseline_score


class VersionPoint(Value):
    """The score of one version of a library, a point of the learning curve."""

    arm: str
    version: str
    step: int
    """Number of versions since the first, along the parents."""
    lessons: int
    score: float | None
    low: float | None = None
    high: float | None = None


class InterimLook(Value):
    """An earlier comparison of the same two arms on other data."""

    arm: str = ""
    baseline: str = ""
    run: str
    at: str
    """Start of the run, UTC, ISO 8601."""
    pairs: int
    p: float | None

    @classmethod
    def of(cls, contrast: Contrast, row: "RunRow", pairs: int, p: float | None) -> Self:
        """Return a run's look at the two arms of a contrast."""
        run, at = row.run, row.started_at.isoformat()
        return cls(arm=contrast.arm, baseline=contrast.baseline, run=run, at=at, pairs=pairs, p=p)


class Control(Value):
    """What one control shows; see `agentlearn_evals.controls`. It changes no verdict."""

    arm: str
    baseline: str
    expected: Literal["same", "better", "open"]
    """What the arm should show against its baseline if the library helps by what its lessons say."""
    holds: bool
    """Whether it does; True where nothing is expected."""
    changed: int
    """Number of tasks with another mean score."""
    score: float | None
    baseline_score: float | None
    contrast: Contrast
    words: str
    """The finding in a sentence."""


class ArmFlag(Value):
    """A reason not to trust an arm's score, such as a lesson that contains an expected answer."""

    arm: str
    code: str
    """Stable code of the reason."""
    words: str
    """The reason in words."""


class Reproducibility(Value):
    """What another person needs to repeat the comparison."""

    command: str = ""
    seed: int | None = None
    data: str = ""
    """Hash of the tasks with their answers, in any order."""
    libraries: dict[str, str] = Field(default_factory=dict[str, str])
    """Library version by arm."""
    prompts: dict[str, str] = Field(default_factory=dict[str, str])
    """sha256 of each prompt, by name and version."""
    models: dict[str, str] = Field(default_factory=dict[str, str])
    """Endpoint by arm."""
    sampling: dict[str, str] = Field(default_factory=dict[str, str])
    """Sampling parameters by arm."""
    isolation: str = ""
    """How code of the model was isolated."""
    versions: dict[str, str] = Field(default_factory=dict[str, str])
    """Versions of agentlearn and Python."""
    sources: dict[str, str] = Field(default_factory=dict[str, str])
    """sha256 by log file, for logs of other programs."""


class Comparison(Value):
    """Arms compared over the same tasks."""

    run: str = ""
    """Id of the run; empty for a comparison of logs that could not be stored."""
    title: str
    """Such as `math: none, math@7f3c91aa`."""
    simulated: bool = False
    """Whether any model is simulated."""
    level: float = 0.95
    """Confidence level of the intervals."""
    warnings: tuple[str, ...] = ()
    """What a reader has to know before any verdict: undecided and failed rollouts by arm, logs that did not finish."""
    k: int
    """Requested rollouts per task and arm."""
    baseline: str
    arms: tuple[ArmLine, ...]
    """The baseline first."""
    contrasts: tuple[Contrast, ...]
    """Every other arm compared with the baseline, or the pairs that were asked for."""
    correction: Correction = "holm"
    """How p-values are corrected for the number of arms."""
    looks: tuple[InterimLook, ...] = ()
    """Earlier looks at the same arms with other data."""
    planned_looks: int = 1
    """Number of looks that were planned beforehand."""
    looks_note: str = ""
    """Which looks at logs are not counted or not recorded, and why, as a sentence; empty when all are."""
    controls: tuple[Control, ...] = Field(default=(), exclude_if=lambda controls: not controls)
    """What `--controls` added."""
    methods: tuple[MethodLine, ...] = ()
    slices: tuple[Slice, ...] = ()
    tasks: tuple[TaskLine, ...] = ()
    flips: tuple[Flip, ...] = ()
    curve: tuple[VersionPoint, ...] = ()
    flags: tuple[ArmFlag, ...] = ()
    missing: tuple[Missing, ...] = ()
    notes: tuple[str, ...] = ()
    reproducibility: Reproducibility = Reproducibility()
    services: tuple[ServiceRecord, ...] = ()
    """How each model service behaved: outages, cut-off replies, models that answered."""
    cost_usd: float | None = 0.0
    """Cost of this comparison without reused rollouts; None when a price is unknown."""
    wall_s: float = 0.0

    @property
    def of_lab_models(self) -> bool:
        """Whether any arm uses a lab model, which is real but too small for results."""
        return any(map(is_lab, self.reproducibility.models.values()))

    @property
    def look(self) -> int:
        """Largest number of looks of any contrast."""
        return max((one.look for one in self.contrasts), default=1)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the arms, the baseline first."""
        return tuple(arm.arm for arm in self.arms)

    @property
    def pairwise(self) -> bool:
        """Whether arms are compared with others than the baseline."""
        return any(one.baseline != self.baseline for one in self.contrasts)

    def label(self, contrast: Contrast) -> str:
        """Return the name of a contrast: its arm, with that compared to where this is not always the baseline."""
        return f"{contrast.arm} - {contrast.baseline}" if self.pairwise else contrast.arm

    def __str__(self) -> str:
        from agentlearn_evals.terminal import comparison_text

        return comparison_text(self)

    def __repr__(self) -> str:
        verdicts = ", ".join(f"{self.label(one)}: {one.verdict}" for one in self.contrasts)
        return f"Comparison(run={self.run!r}, title={self.title!r}, k={self.k}, verdicts={verdicts!r})"

    def _repr_html_(self) -> str:
        from agentlearn_evals.terminal import comparison_html

        return comparison_html(self)
