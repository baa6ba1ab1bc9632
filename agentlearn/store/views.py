"""What a reader of the store gets where no noun fits: light rows and totals."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from agentlearn.types.ids import RolloutId, RunId, TaskId
from agentlearn.types.operation import Ended
from agentlearn.types.run import RunKind, RunState
from agentlearn.types.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run as its latest event tells it."""

    run: RunId
    domain: str
    kind: RunKind
    state: RunState
    """A run that says "running" and that this process is not running has died: it reads as interrupted."""
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
    """A trajectory without its texts."""

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
    """Which rollouts of all runs are meant; what is None does not matter."""

    run: RunId | None = None
    phase: str | None = None
    domain: str | None = None
    outcome: Literal["ok", "failed", "undecided"] | None = None
    min_reward: float | None = None

    @property
    def parameters(self) -> tuple[str | float | None, ...]:
        """As `Query.SELECTED` takes them."""
        return (self.run, self.phase, self.domain, self.outcome, self.min_reward)


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
    """A rollout as an evaluation reads it, whichever run made it."""

    id: RolloutId
    run: RunId
    task: TaskId
    g: int
    attempt: int
    seed: int
    outcome: str
    failure_code: str | None
    failure_boundary: str | None
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
    """A proposal with its end, and the batch it belongs to."""

    phase: str
    batch: int
    ended: Ended


@dataclass(frozen=True, slots=True)
class Exposure:
    """A rollout that was shown an experience, and the reward it got (None when failed or undecided)."""

    rollout: RolloutId
    reward: float | None


@dataclass(frozen=True, slots=True)
class StageTotals:
    """The model calls of one stage of a run, summed."""

    stage: str
    calls: int
    tokens_in: int
    tokens_cached: int
    tokens_out: int
    cost_usd: float
    """Over the calls with a known price."""
    unpriced: int
    """Calls without a known price."""
    seconds: float
    retried: int
    """Requests beyond the first of each call."""
    """Calls answered from the journal of an earlier start of the run."""


@dataclass(frozen=True, slots=True)
class RunCounts:
    """How many of what a run has stored."""

    rollouts: dict[str, int]
    """By outcome: ok, failed, undecided."""
    proposals: dict[str, int]
    """By end: applied, folded, dropped, rejected."""
    summaries: int
    calls: int
    """Journal entries, of models and tools."""
