"""Results of store queries that are not complete library types: short rows and totals."""

from dataclasses import dataclass
from datetime import datetime

from agentlearn.types.ids import ExperienceId, LibraryVersion, RolloutId, RunId, TaskId
from agentlearn.types.operation import Ended
from agentlearn.types.run_event import RunKind, RunState
from agentlearn.types.trajectory import RolloutOutcome, Trajectory


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run, as of its latest event."""

    run: RunId
    domain: str
    kind: RunKind
    state: RunState
    """State of the latest event. A "running" run that no process runs any more is given as "interrupted"."""
    model: str
    simulated: bool
    seed: int
    settings: str
    package_version: str
    started_at: datetime
    at: datetime
    """Time of the latest event."""
    report: str


@dataclass(frozen=True, slots=True)
class TrajectoryRow:
    """A trajectory without its text."""

    id: RolloutId
    phase: str
    batch: int
    task: TaskId
    g: int
    attempt: int
    outcome: str
    reward: float | None
    tokens_in: int
    tokens_out: int
    cost_usd: float | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Selection:
    """Filter for rollouts of all runs. None for a field accepts any value."""

    run: RunId | None = None
    phase: str | None = None
    domain: str | None = None
    outcome: RolloutOutcome | None = None
    min_reward: float | None = None

    @property
    def parameters(self) -> tuple[str | float | None, ...]:
        """The parameters of `Query.SELECTED`, in order."""
        return (self.run, self.phase, self.domain, self.outcome, self.min_reward)


@dataclass(frozen=True, slots=True)
class RolloutTexts:
    """The messages of the selected rollouts, to be read in order."""

    selection: Selection

    @property
    def parameters(self) -> tuple[str | float | None, ...]:
        """The parameters of `Query.SELECTED`, in order."""
        return self.selection.parameters


@dataclass(frozen=True, slots=True)
class SelectedText:
    """A selected rollout with the agent framework's messages."""

    id: RolloutId
    run: RunId
    phase: str
    batch: int
    task: TaskId
    reward: float | None
    model: str
    library: LibraryVersion
    arm: str
    weights_step: int | None
    answer: str | None
    expected: str | None
    """The expected answer of the task."""
    messages: bytes


@dataclass(frozen=True, slots=True)
class LiveRow:
    """A recorded rollout with a verdict, or an answer that a person wrote for one."""

    id: RolloutId
    phase: str
    task: TaskId
    model: str
    """Model, library and withheld lessons; for a person's answer, those of the rollout that it corrects."""
    library: LibraryVersion
    masked: list[str]
    reward: float
    at: int
    """When it was recorded: microseconds since 1970."""


@dataclass(frozen=True, slots=True)
class SelectedRow:
    """A selected rollout."""

    id: RolloutId
    run: RunId
    phase: str
    task: TaskId
    reward: float | None


@dataclass(frozen=True, slots=True)
class EvaluatedRow:
    """A rollout with the numbers that an evaluation needs."""

    id: RolloutId
    run: RunId
    task: TaskId
    g: int
    attempt: int
    seed: int
    outcome: str
    failure_code: str | None
    failure_boundary: str | None
    verdict: str | None
    """Status of the verdict; None when the rollout failed."""
    reward: float | None
    requests: int
    tokens_in: int
    tokens_out: int
    cost_usd: float | None
    seconds: float
    tool_calls: int


@dataclass(frozen=True, slots=True)
class WholeRollout:
    """A trajectory with the agent framework's messages."""

    trajectory: Trajectory
    format: str
    """Framework and major version that wrote the messages."""
    messages: bytes


@dataclass(frozen=True, slots=True)
class ProposalRow:
    """A proposal with its outcome, and the batch it belongs to."""

    phase: str
    batch: int
    ended: Ended
    run: RunId


@dataclass(frozen=True, slots=True)
class LessonUnit:
    """A call of the summarise or the compare stage: the task whose rollouts it was about, and the batch."""

    stage: str
    phase: str
    batch: int
    task: TaskId


@dataclass(frozen=True, slots=True)
class VersionRow:
    """A library version, and a run that made it or had rollouts with it."""

    version: LibraryVersion
    parent: LibraryVersion | None
    lessons: int
    """Number of lessons."""
    run: RunId | None
    """None for a version that no run made or used."""


@dataclass(frozen=True, slots=True)
class VersionMade:
    """A library version and what it was made from."""

    version: LibraryVersion
    parent: LibraryVersion | None
    joined: LibraryVersion | None
    """The other version that it was made from, for a join."""
    run: RunId | None
    """The run that stored it first: it made the version or started from it."""
    experiences: list[ExperienceId]
    """Ids of its lessons."""


@dataclass(frozen=True, slots=True)
class Exposure:
    """A rollout that had an experience in its context, and its reward (None when failed or undecided)."""

    rollout: RolloutId
    reward: float | None


@dataclass(frozen=True, slots=True)
class ExposedRow:
    """A rollout that could have been shown some lessons, and those that were hidden from it."""

    id: RolloutId
    run: RunId
    phase: str
    batch: int
    task: TaskId
    g: int
    attempt: int
    seed: int
    model: str
    library: LibraryVersion
    masked: list[ExperienceId]
    """Lessons that were hidden from it."""
    offered: list[ExperienceId] | None
    """Lessons that retrieval chose for the task; None: all of the version."""
    arm: str
    reward: float | None
    """None when it is undecided."""
    at: int
    """When it began: microseconds since 1970."""
    run_name: str
    """Name of the recorder; empty for a rollout that a run made."""
    episode: str
    experiences: list[ExperienceId]
    """All lessons that the version shows."""
    family: str
    """Domain and family of the task; empty when it has no family."""


@dataclass(frozen=True, slots=True)
class StageTotals:
    """The model calls of one stage of a run, summed."""

    stage: str
    calls: int
    tokens_in: int
    tokens_cached: int
    tokens_out: int
    cost_usd: float
    """Cost of the calls with a known price."""
    unpriced: int
    """Number of calls without a known price."""
    seconds: float
    retried: int
    """Number of repeated requests: those beyond the first of each call."""


@dataclass(frozen=True, slots=True)
class RunCounts:
    """Number of stored records of a run."""

    rollouts: dict[str, int]
    """Number of rollouts by outcome: ok, failed, undecided."""
    proposals: dict[str, int]
    """Number of proposals by outcome: applied, folded (merged into another one), dropped, rejected, quarantined."""
    summaries: int
    calls: int
    """Number of journal entries: model calls and tool calls."""
