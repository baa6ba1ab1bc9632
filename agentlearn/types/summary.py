"""A summary of one trajectory in numbered steps, as the compare stage reads it."""

from agentlearn.types.ids import ExperienceId, LibraryVersion, RolloutId, RunId
from agentlearn.types.trajectory import PromptRef
from agentlearn.types.value import Value


class SummaryStep(Value):
    """One step: what was done and what resulted."""

    text: str
    used: tuple[ExperienceId, ...] = ()
    """Experiences that the step used."""


class Summary(Value):
    """A trajectory's summary."""

    id: str
    """Hash of (trajectory, step of the run), so that a resumed run does not make a second one."""
    run: RunId
    rollout: RolloutId
    steps: tuple[SummaryStep, ...]
    raw: str = ""
    """The text that the model wrote."""
    library: LibraryVersion
    """The version that `used` refers to."""
    prompts: tuple[PromptRef, ...] = ()
    """Prompts that asked for it."""
