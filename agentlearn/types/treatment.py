"""A treatment: what one rollout was run under."""

from pydantic import Field

from agentlearn.types.ids import ExperienceId, LibraryVersion, content_hash
from agentlearn.types.value import Value


class Treatment(Value):
    """Model, library version, lesson mask and arm. Advantages are normalised within one treatment."""

    model: str
    """Endpoint, as the user names it: `sim:novice`, `openai:gpt-5-mini`, `http://host:port/v1#model`."""
    library: LibraryVersion
    masked: tuple[ExperienceId, ...] = ()
    """Lessons of that version withheld from this rollout, sorted; empty: all are shown."""
    arm: str = "main"
    temperature: float | None = Field(default=None, ge=0, le=2)

    @property
    def key(self) -> str:
        """Hash that tells treatments apart."""
        return content_hash("treatment", self.model, self.library, list(self.masked), self.arm, self.temperature)
