"""A trajectory: the record of one rollout, step by step, with its verdict and its treatment.

The schema is ours and versioned (`TRAJECTORY_SCHEMA`); pydantic-ai's own message JSON is stored beside it for replay.
"""

from datetime import datetime
from typing import Annotated, Literal, get_args

from pydantic import Field

from agentlearn.types.ids import CallId, RolloutId, RunId, TaskId
from agentlearn.types.treatment import Treatment
from agentlearn.types.value import Value

TRAJECTORY_SCHEMA = 1
RolloutOutcome = Literal["ok", "failed", "undecided"]
"""ok: judged with a reward; undecided: the verifier could not decide; failed: there was nothing to judge."""
ROLLOUT_OUTCOMES: tuple[RolloutOutcome, ...] = get_args(RolloutOutcome)
STATUS = "status"
"""Key of a tool's status in `ToolReturn.metadata`; any value other than `ok` marks the result as failed."""
_MEASURING = ("before", "during", "after", "compare", "sentinel")


def measures(phase: str) -> bool:
    """Whether rollouts of that phase only measure, on tasks that are held out, and so must not teach."""
    return phase.partition(":")[0] in _MEASURING


class Usage(Value):
    """Tokens and requests, summed over model calls."""

    requests: int = 0
    tokens_in: int = 0
    tokens_cached: int = 0
    tokens_out: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            requests=self.requests + other.requests,
            tokens_in=self.tokens_in + other.tokens_in,
            tokens_cached=self.tokens_cached + other.tokens_cached,
            tokens_out=self.tokens_out + other.tokens_out,
        )


class ToolCall(Value):
    """A tool call that the model asked for."""

    id: str
    tool: str
    arguments: str
    """JSON as the model wrote it."""


class SampledTokens(Value):
    """One answer as the sampler's own tokens."""

    prompt: tuple[int, ...]
    """What the sampler was given."""
    ids: tuple[int, ...]
    """What it drew, the token that ends the answer included."""
    logprobs: tuple[float, ...]
    """Of each drawn token, at the sampling temperature; as many as ids."""


class ModelTurn(Value):
    """One answer of the model."""

    kind: Literal["model"] = "model"
    call: CallId | None = None
    text: str = ""
    thinking: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    seconds: float = 0.0
    finish: str = ""
    tokens: SampledTokens | None = None
    """Where they were asked for, to train weights on, and the service gave them."""


class ToolResult(Value):
    """What a tool gave back."""

    kind: Literal["tool"] = "tool"
    call: str
    """Id of the tool call it answers."""
    tool: str
    content: str
    ok: bool
    error: str = ""
    """Stable code of what went wrong; empty when ok."""
    seconds: float = 0.0
    diverged: bool = False
    """Whether the tool, run again in a resumed run, gave another result than the one on record, which stands here."""


Step = Annotated[ModelTurn | ToolResult, Field(discriminator="kind")]


class Failure(Value):
    """Why a rollout has no answer to judge."""

    code: str
    message: str
    boundary: Literal["endpoint", "tool", "verifier", "budget", "output", "deadline"]


class Verdict(Value):
    """What the domain's verifier decided."""

    status: Literal["correct", "incorrect", "no_answer", "undecided", "partial"]
    reward: float | None = Field(default=None)
    """Usually 0..1; None exactly when undecided."""
    reason: str = ""


class PromptRef(Value):
    """Which words were used."""

    name: str
    version: int
    sha256: str


class Trajectory(Value):
    """One rollout, whole."""

    id: RolloutId
    run: RunId
    phase: str
    """Where in the run: `before`, `epoch-1`, …, `after`, `solve`; in comparisons `compare:CONDITIONS`."""
    batch: int = 0
    task: TaskId
    g: int = Field(ge=0)
    attempt: int = Field(default=0, ge=0)
    seed: int
    """The rollout's own seed, derived from (run seed, phase, task, g)."""
    treatment: Treatment
    steps: tuple[Step, ...] = ()
    answer: str | None = None
    failure: Failure | None = None
    verdict: Verdict | None = None
    """None when the rollout failed."""
    usage: Usage = Usage()
    cost_usd: float | None = None
    """None when the model's price is unknown."""
    started_at: datetime
    seconds: float = 0.0
    prompts: tuple[PromptRef, ...] = ()
    isolation: str = ""
    """Under which code isolation the tools ran."""

    @property
    def outcome(self) -> RolloutOutcome:
        """Outcome of the rollout."""
        if self.failure is not None or self.verdict is None:
            return "failed"
        return "undecided" if self.verdict.reward is None else "ok"

    @property
    def reward(self) -> float | None:
        """The verdict's reward; None when failed or undecided."""
        return None if self.verdict is None else self.verdict.reward
