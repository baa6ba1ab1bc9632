"""What a person decided about a quarantined lesson, or about a version that a run left pending."""

from datetime import datetime
from typing import Literal

from agentlearn.types.ids import ExperienceId, LibraryVersion, ProposalId, RunId
from agentlearn.types.value import Value

OF_VERSION = "version"
"""Phase of a decision about a whole version. Such a decision has no proposal and no words of a lesson."""


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
    """The version that the approval made, or that was decided on; None for a rejected lesson of no version."""
    experience: ExperienceId | None = None
    """The experience that the approval made, or that it left out of the version."""

    @property
    def of_version(self) -> bool:
        """Whether it is about a whole version, not about a lesson."""
        return self.phase == OF_VERSION
