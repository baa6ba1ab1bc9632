"""The conditions that one rollout was run under."""

from pydantic import Field

from agentlearn.types.ids import ExperienceId, LibraryVersion, content_hash
from agentlearn.types.value import Value

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
