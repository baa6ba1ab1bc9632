"""An observation: the result of one rollout of one arm on one task, whatever program ran it."""

from typing import Self

from pydantic import Field, model_validator

from agentlearn.types.trajectory import RolloutOutcome
from agentlearn.types.value import Value


class Observation(Value):
    """The result of one rollout of one arm on one task. Fields that were not recorded are None or empty."""

    arm: str = Field(min_length=1)
    task: str = Field(min_length=1)
    """Id of the task, the same in all arms."""
    g: int = Field(default=0, ge=0)
    """Index among the arm's rollouts on this task, from 0. The same index has the same seed in all arms."""
    score: float | None = Field(allow_inf_nan=False)
    """Usually 0 to 1. 0 for a rollout that failed; None only for an undecided one."""
    status: RolloutOutcome = "ok"
    error: str = ""
    """Stable code of what made the rollout fail or left it undecided; `no_answer` for one whose reply had no answer."""
    cluster: str = ""
    """Source, template or site shared with other tasks. Standard errors are clustered by it. Empty: its own cluster."""
    domain: str = ""
    """Domain of the task; results are also shown by domain."""
    tags: tuple[str, ...] = ()
    """Further labels of the task; results are also shown by tag."""
    problem: str = ""
    """Text of the task, as a person would recognise it."""
    rollout: str = ""
    """Id of the full record, in the store or in the log it was read from."""
    cost_usd: float | None = Field(default=None, ge=0)
    tokens_in: int | None = Field(default=None, ge=0)
    tokens_library: int | None = Field(default=None, ge=0)
    """Estimated part of `tokens_in` that lessons took."""
    tokens_out: int | None = Field(default=None, ge=0)
    tool_calls: int | None = Field(default=None, ge=0)
    seconds: float | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _none_means_undecided(self) -> Self:
        if (self.score is None) != (self.status == "undecided"):
            raise ValueError("the score must be None exactly when the status is undecided")
        return self
