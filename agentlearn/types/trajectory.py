"""A trajectory: the record of one rollout, step by step, with its verdict and its treatment.

The store also keeps pydantic-ai's own message JSON, for replay.
"""

from datetime import datetime
from typing import Annotated, Literal, get_args

from pydantic import Field

from agentlearn.types.ids import CallId, ExperienceId, LibraryVersion, RolloutId, RunId, TaskId, content_hash
from agentlearn.types.value import Author, Value

MAIN_ARM = "main"


class Treatment(Value):
    """Model, lessons, temperature, and the arm of an experiment. Advantages are computed within one treatment."""

    model: str
    """Endpoint, as the user names it: `sim:novice`, `openai:gpt-5-mini`, `http://host:port/v1#model`."""
    library: LibraryVersion
    """Library version whose lessons are shown."""
    masked: tuple[ExperienceId, ...] = ()
    """Sorted ids of the lessons of that version that this rollout is not shown."""
    arm: str = MAIN_ARM
    """Arm of an experiment; `compare` in a comparison, `foreign` for imported rollouts, `main` otherwise."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """Sampling temperature; None: the service's default."""
    weights_step: int | None = Field(default=None, ge=0)
    """Optimizer steps that had been made when these weights were sampled from; None outside training."""

    @property
    def key(self) -> str:
        """Hash of the treatment; two treatments are equal when their keys are."""
        return content_hash("treatment", self.model_dump(mode="json"))


RolloutOutcome = Literal["ok", "failed", "undecided"]
"""The only definition of how a rollout counts, in every estimate.

ok: judged, it counts with its reward. failed: the agent gave no usable answer within its turns, it counts as 0.
undecided: nothing is known about the answer, because the verifier could not decide or because something that is not the
agent broke (endpoint, sandbox, browser, judge, time limit). It never counts as wrong: it is left out of every arm, and
bounds show what it could have been.
"""
ROLLOUT_OUTCOMES: tuple[RolloutOutcome, ...] = get_args(RolloutOutcome)
STATUS = "status"
"""Key of a tool's status in `ToolReturn.metadata`. Any value except `ok` marks the result as failed."""
PLACE = "place"
"""Key of the place that a tool's result is about, such as a page's address, in `ToolReturn.metadata`. It stands in the
note that takes the place of the result in a history that has become too long."""
VERIFY_RAISED = "verify_raised"
"""First word of the reason of a verdict whose verifier raised an unexpected exception."""
TOOLS = "tools"
"""Name of the reference under which the store keeps the tools that a rollout's model was offered, as JSON."""
LIVE = "live"
"""Phase of the rollouts that a recorder took from live traffic."""
DEMONSTRATION = "demonstration"
"""Phase of the right answers that persons wrote for rollouts of live traffic."""
IMPORTED = "import"
"""Phase of the rollouts of other programs' logs."""
TRIAL = "trial"
"""Phase of the rollouts in which the changes of an update are tried; `:` and the epoch follow."""
_MEASURING = ("before", "during", "after", "validation", TRIAL, "compare")


def measures(phase: str) -> bool:
    """Whether rollouts of that phase only measure. Nothing may be learned from them."""
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
    """A tool call that the model requested."""

    id: str
    tool: str
    arguments: str
    """JSON exactly as the model wrote it."""


class SampledTokens(Value):
    """One answer of the model in the sampler's tokens."""

    prompt: tuple[int, ...]
    """Token ids of the sampler's input."""
    ids: tuple[int, ...]
    """Sampled token ids, including the one that ends the answer."""
    logprobs: tuple[float, ...]
    """Log-probability of each token in `ids`, at the sampling temperature."""
    instructions: str = Field(default="", exclude_if=lambda text: not text)
    """Text of the agent's instructions in the prompt, lessons included; empty: the same as in the answer before."""


class ModelTurn(Value):
    """One answer of the model."""

    kind: Literal["model"] = "model"
    call: CallId | None = None
    """The journal entry of the model call."""
    text: str = ""
    thinking: str = ""
    """Text of the model's reasoning, when the service returns it."""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    seconds: float = 0.0
    finish: str = ""
    """Why the model stopped, as the service reports it."""
    tokens: SampledTokens | None = None
    """Sampled tokens, when a gradient run requested them and the service returned them."""
    strangers: tuple[Author, ...] = Field(default=(), exclude_if=lambda authors: not authors)
    """Strangers whose text it can repeat; in the last turn of a rollout, all who wrote into the rollout's requests."""


class ToolResult(Value):
    """The result of a tool call."""

    kind: Literal["tool"] = "tool"
    call: str
    """Id of the tool call it answers."""
    tool: str
    content: str
    ok: bool
    error: str = ""
    """Stable code of the error; empty when ok."""
    seconds: float = 0.0
    diverged: bool = False
    """Whether a resumed run got a different result from the tool. This is the recorded result."""
    author: Author | None = Field(default=None, exclude_if=lambda author: author is None)
    """Who wrote the result; None: those whom the tool asks."""

    @property
    def written_by(self) -> Author:
        """Who wrote the result: a stranger, unless the domain says otherwise."""
        return self.author or Author(kind="tools", name=self.tool)


class UserTurn(Value):
    """What the user said in a dialogue after the task, and before it where the task came later."""

    kind: Literal["user"] = "user"
    text: str
    author: Author | None = Field(default=None, exclude_if=lambda author: author is None)
    """Who wrote it; None: not known."""


Step = Annotated[ModelTurn | ToolResult | UserTurn, Field(discriminator="kind")]


FailureBoundary = Literal["endpoint", "tool", "verifier", "budget", "output", "deadline"]
AGENT_BOUNDARY: FailureBoundary = "output"
"""The boundary of failures that the agent caused. All others are failures of something around it."""


class Failure(Value):
    """Why a rollout has no answer to judge."""

    code: str
    message: str
    boundary: FailureBoundary
    """The part that failed. `output`: the agent itself; `deadline`: the time limit of the rollout, which depends on the
    speed of the service and the machine."""

    @property
    def of_agent(self) -> bool:
        """Whether the agent caused it, so that the rollout counts as 0."""
        return self.boundary == AGENT_BOUNDARY


class Verdict(Value):
    """The decision of the domain's verifier."""

    status: Literal["correct", "incorrect", "no_answer", "undecided", "partial"]
    reward: float | None = Field(default=None)
    """From 0 to 1; None exactly when undecided."""
    reason: str = ""
    """What explains the decision, in words that the stages that learn read; empty when it only repeats the status."""

    @classmethod
    def of(cls, reward: float, reason: str = "") -> "Verdict":
        """Return the verdict for a reward from 0 to 1: `correct` at 1 only, `incorrect` at 0, else `partial`."""
        status = "correct" if reward == 1 else "incorrect" if reward == 0 else "partial"
        return cls(status=status, reward=reward, reason=reason)


class PromptRef(Value):
    """A prompt text by name, version and hash. The store keeps the text under the hash."""

    name: str
    """Package and file name, such as `agentlearn.prompts:compare`."""
    version: int
    sha256: str
    """Hash of the file's bytes, 64 hex digits."""

    @property
    def label(self) -> str:
        """Name and version, such as `agentlearn.prompts:compare/v1`."""
        return f"{self.name}/v{self.version}"


def prompt_labels(prompts: tuple[PromptRef, ...]) -> str:
    """The prompts as text, separated by commas; `unknown` when there are none."""
    return ", ".join(one.label for one in prompts) or "unknown"


class Trajectory(Value):
    """One rollout with all its steps."""

    id: RolloutId
    run: RunId
    phase: str
    """Part of the run: `before`, `epoch-1`, …, `after`, `solve`; in comparisons `compare:CONDITIONS`."""
    batch: int = 0
    """Number of the batch in its phase."""
    task: TaskId
    g: int = Field(ge=0)
    """Number of the rollout in its group."""
    attempt: int = Field(default=0, ge=0)
    """Number of earlier attempts at the same rollout."""
    seed: int
    """The rollout's seed, derived from (run seed, phase, task, g)."""
    treatment: Treatment
    offered: tuple[ExperienceId, ...] | None = Field(default=None, exclude_if=lambda lessons: lessons is None)
    """Lessons that retrieval chose for the task, masked ones included; None: all lessons of the version."""
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
    """The domain's prompts, and the tools that the model was offered, named `tools`."""
    isolation: str = ""
    """Name of the code isolation that the tools ran under."""

    @property
    def outcome(self) -> RolloutOutcome:
        """How the rollout counts; see `RolloutOutcome`."""
        if self.failure is not None:
            return "failed" if self.failure.of_agent else "undecided"
        return "undecided" if self.verdict is None or self.verdict.reward is None else "ok"

    @property
    def reward(self) -> float | None:
        """The verdict's reward; 0 when the agent failed to answer; None when undecided."""
        if self.failure is not None:
            return 0.0 if self.failure.of_agent else None
        return None if self.verdict is None else self.verdict.reward

    @property
    def code(self) -> str:
        """Stable code of why it failed, was undecided or had no answer; empty for any other rollout."""
        if self.failure is not None:
            return self.failure.code
        no_answer = self.verdict is not None and self.verdict.status == "no_answer"
        return "no_answer" if no_answer else self.undecided_because

    @property
    def undecided_because(self) -> str:
        """Stable code of what left the rollout undecided; empty when it is decided."""
        if self.outcome != "undecided":
            return ""
        if self.failure is not None:
            return self.failure.code
        raised = self.verdict is not None and self.verdict.reason.startswith(VERIFY_RAISED)
        return VERIFY_RAISED if raised else "verifier"
