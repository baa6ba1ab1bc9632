"""What a learn run came to: the JSON contract of `learn --json`, and the source of what is printed."""

from pydantic import Field

from agentlearn.learn.pilot import PilotReport
from agentlearn.types.ids import LibraryVersion, RunId
from agentlearn.types.value import Value


class HeldOutScore(Value):
    """Mean reward over held-out tasks."""

    mean: float | None
    ci: tuple[float, float] | None
    """95 % interval over tasks; None with fewer than two."""
    n: int
    """Held-out tasks."""
    k: int
    """Rollouts each."""


class CurvePoint(Value):
    """One measurement along the way."""

    updates: int
    """Updates before it; 0: before all."""
    held_out: HeldOutScore


class Delta(Value):
    """Paired difference, after minus before, over the same tasks and seeds."""

    mean: float | None
    ci: tuple[float, float] | None
    p: float | None
    """Two-sided sign-flip permutation p-value."""
    n: int


class HeldOut(Value):
    """Before against after on one set of held-out tasks."""

    before: HeldOutScore
    after: HeldOutScore
    delta: Delta
    families: int
    """Distinct families among the tasks."""


class LibraryLine(Value):
    """The library that came out."""

    name: str
    version: LibraryVersion
    parent: LibraryVersion | None
    lessons: int
    tokens: int


class Proposals(Value):
    """How proposals ended."""

    applied: int = 0
    folded: int = 0
    dropped: dict[str, int] = Field(default_factory=dict[str, int])
    rejected: dict[str, int] = Field(default_factory=dict[str, int])


class StageLine(Value):
    """What one stage cost."""

    calls: int = 0
    tokens_in: int = 0
    tokens_cached: int = 0
    """Of the tokens in, those that the service had cached."""
    tokens_out: int = 0
    cost_usd: float | None = 0.0
    """None when the model's price is unknown."""
    seconds: float = 0.0
    retried: int = 0
    replayed: int = 0
    """Calls that a resumed run took from the journal."""
    malformed: dict[str, int] = Field(default_factory=dict[str, int])
    """Misshapen replies and lost units, by code."""


class EpochLine(Value):
    """One pass over the tasks."""

    epoch: int
    reward: float | None
    groups: dict[str, int]
    lessons: int
    applied: int
    folded: int
    dropped: int
    rejected: int
    seconds: float


class WeightsRecord(Value):
    """The record that weights did not change."""

    identity: str
    """Who answered: the endpoint, and the model names that its answers carried."""
    sha256_before: str | None = None
    sha256_after: str | None = None
    note: str = ""


class LearnReport(Value):
    """A finished learn run."""

    run: RunId
    domain: str
    model: str
    reflector: str
    simulated: bool
    seed: int
    tasks: dict[str, int]
    before: HeldOutScore | None
    after: HeldOutScore | None
    delta: Delta | None
    known_families: HeldOut | None
    """New tasks of families that were learned from."""
    unseen_families: HeldOut | None
    """Tasks of families that were not."""
    library: LibraryLine
    proposals: Proposals
    groups: dict[str, int]
    rollouts: dict[str, int]
    stages: dict[str, StageLine]
    failed_requests: dict[str, int]
    """Requests that got no answer, by kind; most were mended by a retry."""
    epochs: tuple[EpochLine, ...]
    curve: tuple[CurvePoint, ...] = ()
    """Held-out scores in the midst of learning, where they were asked for."""
    weights: WeightsRecord
    pilot: PilotReport | None = None
    """Of a pilot: what it measured, and what follows for the whole run."""
    cost_usd: float | None
    wall_s: float
    notes: tuple[str, ...]
