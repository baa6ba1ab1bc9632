"""An observation: what one rollout of one arm on one task came to, whoever ran it."""

from typing import Literal, Self

from pydantic import Field, model_validator

from agentlearn.types.value import Value

RolloutStatus = Literal["ok", "failed", "timeout", "undecided"]


class Observation(Value):
    """One rollout of one arm on one task. What was not recorded is None, or empty."""

    arm: str = Field(min_length=1)
    task: str = Field(min_length=1)
    """Equal in all arms for the same task."""
    g: int = Field(default=0, ge=0)
    """Which of the arm's rollouts on this task, from 0. Equal indexes of two arms share their seed."""
    score: float | None = Field(allow_inf_nan=False)
    """Usually 0..1; 0 when the rollout failed or ran out of time; None exactly when undecided."""
    status: RolloutStatus = "ok"
    error: str = ""
    """Stable code of what went wrong."""
    cluster: str = ""
    """Source, template or site that tasks have in common; errors are clustered by it. Empty: the task stands alone."""
    domain: str = ""
    tags: tuple[str, ...] = ()
    """By what else the tasks are to be broken down."""
    problem: str = ""
    """The task in words, as a person would recognise it."""
    rollout: str = ""
    """Id under which the whole record can be found: in our store, or in the log it came from."""
    cost_usd: float | None = Field(default=None, ge=0)
    tokens_in: int | None = Field(default=None, ge=0)
    tokens_library: int | None = Field(default=None, ge=0)
    """Of the tokens in, those that lessons took (estimated)."""
    tokens_out: int | None = Field(default=None, ge=0)
    tool_calls: int | None = Field(default=None, ge=0)
    seconds: float | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _none_is_undecided(self) -> Self:
        if (self.score is None) != (self.status == "undecided"):
            raise ValueError("a score is None exactly when the rollout is undecided")
        return self
