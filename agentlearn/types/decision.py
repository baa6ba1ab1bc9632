"""What a person decided about a quarantined lesson."""

from datetime import datetime
from typing import Literal

from agentlearn.types.ids import ExperienceId, LibraryVersion, ProposalId, RunId
from agentlearn.types.value import Value


class LessonDecision(Value):
    """One decision. It is stored once and never changed."""

    run: RunId
    """The run whose proposal was decided on."""
    phase: str
    batch: int
    proposal: ProposalId
    verdict: Literal["approved", "rejected"]
    lesson_key: str
    """Words of the lesson in lower case: the same lesson in other spelling counts as decided too."""
    who: str
    """Name of the person's account on this machine."""
    note: str = ""
    at: datetime
    library: str
    """Name of the library that the run learned."""
    version: LibraryVersion | None = None
    """The version that the approval made; None for a rejection."""
    experience: ExperienceId | None = None
    """The experience that the approval made."""
