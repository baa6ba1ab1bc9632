"""The library as it would stand after the proposals accepted so far."""

from dataclasses import dataclass, field
from typing import Self

from agentlearn.learn.lessons.curate.candidate import Candidate
from agentlearn.learn.lessons.curate.similarity import LessonWords
from agentlearn.types.experience import Experience, Library, estimated_tokens, experience_id
from agentlearn.types.ids import ExperienceId, ProposalId
from agentlearn.types.operation import PlannedOperation


@dataclass(slots=True)
class Draft:
    """What has been accepted, and the room that is left. Lives for one check only."""

    library: Library
    staying: dict[str, LessonWords]
    """Lessons of the library that no accepted operation touches."""
    tokens: int
    lessons: int
    fresh: list[LessonWords] = field(default_factory=list[LessonWords])
    """Lessons accepted so far."""
    deletes: int = 0
    planned: list[PlannedOperation] = field(default_factory=list[PlannedOperation])

    @classmethod
    def of(cls, library: Library) -> Self:
        staying: dict[str, LessonWords] = {one.id: LessonWords.of(one.lesson) for one in library.experiences}
        return cls(library=library, staying=staying, tokens=library.tokens, lessons=len(library))

    def experience(self, target: str) -> Experience | None:
        """The library's experience of that id."""
        return self.library.by_id.get(ExperienceId(target))

    def growth(self, candidate: Candidate) -> tuple[int, int]:
        """By how many lessons and tokens the candidate would make the library grow."""
        freed = sum(estimated_tokens(self.staying[target].text) for target in candidate.targets)
        made = 0 if candidate.wording is None else 1
        return made - len(candidate.targets), estimated_tokens(candidate.text) - freed

    def accept(self, candidate: Candidate, proposal: ProposalId) -> ExperienceId | None:
        """Take the candidate in; returns the id of the experience it makes."""
        lessons, tokens = self.growth(candidate)
        self.lessons += lessons
        self.tokens += tokens
        for target in candidate.targets:
            del self.staying[target]
        self.deletes += candidate.kind == "delete"
        operation, ordinal = candidate.operation(), len(self.planned)
        makes = None
        if candidate.wording is not None:
            self.fresh.append(candidate.wording)
            makes = experience_id(self.library.version, operation.model_dump(mode="json"), ordinal)
        self.planned.append(PlannedOperation(operation=operation, proposal=proposal, ordinal=ordinal, makes=makes))
        return makes
