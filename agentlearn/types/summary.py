"""A summary: one trajectory told in numbered steps, as the compare stage reads it."""

from agentlearn.types.ids import ExperienceId, LibraryVersion, RolloutId, RunId
from agentlearn.types.value import Value


class SummaryStep(Value):
    """One step: what was done and what came of it."""

    text: str
    used: tuple[ExperienceId, ...] = ()
    """Experiences that the step made use of."""


class Summary(Value):
    """A trajectory's summary."""

    id: str
    """The same for the same trajectory of the same run, so that it is made once."""
    run: RunId
    rollout: RolloutId
    steps: tuple[SummaryStep, ...]
    raw: str = ""
    """What the model wrote."""
    library: LibraryVersion
    """The version that `used` refers to."""
