"""The conditions that one rollout was run under."""

import re
from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field, model_validator

from agentlearn.types.ids import ExperienceId, LibraryVersion, content_hash
from agentlearn.types.value import Value

MAIN_ARM = "main"
_STEP = re.compile(r"step-(\d+)")


class Treatment(Value):
    """Model, lessons, temperature, and the arm of an experiment. Advantages are computed within one treatment."""

    model: str
    """Endpoint, as the user names it: `sim:novice`, `openai:gpt-5-mini`, `http://host:port/v1#model`."""
    library: LibraryVersion
    """Library version whose lessons are shown."""
    masked: tuple[ExperienceId, ...] = ()
    """Sorted ids of the lessons of that version that this rollout is not shown."""
    arm: str = MAIN_ARM
    """Arm of an experiment; `compare` in a comparison, `main` in every other run."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """Sampling temperature; None: the service's default."""
    weights_step: int | None = Field(default=None, ge=0, exclude_if=lambda step: step is None)
    """Optimizer steps that had been made when these weights were sampled from; None outside training.

    It is left out of dumps where it is None: `compare` finds stored rollouts by a hash of the dump.
    """

    @model_validator(mode="before")
    @classmethod
    def _read_arm_text(cls, fields: Any) -> Any:
        """Read the arm `step-N`, as it is stored, as weights_step N."""
        if isinstance(fields, Mapping) and (step := _STEP.fullmatch(str(fields.get("arm")))):
            return {**fields, "arm": MAIN_ARM, "weights_step": int(step[1])}
        return fields

    @model_validator(mode="after")
    def _storable(self) -> Self:
        """Check that arm and weights_step fit into the one column in which they are stored."""
        if self.weights_step is not None and self.arm != MAIN_ARM:
            raise ValueError(f"weights_step {self.weights_step} with arm {self.arm!r} cannot be stored; leave out one")
        return self

    @property
    def arm_text(self) -> str:
        """`step-N` for weights in training, else the arm."""
        return self.arm if self.weights_step is None else f"step-{self.weights_step}"

    @property
    def key(self) -> str:
        """Hash of the treatment; two treatments are equal when their keys are."""
        return content_hash("treatment", self.model, self.library, list(self.masked), self.arm_text, self.temperature)
