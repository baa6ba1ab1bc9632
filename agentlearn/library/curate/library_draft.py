"""A library under construction: the lessons that stay, and the changes accepted so far."""

from dataclasses import dataclass, field
from typing import Self

from agentlearn.library.curate.operations import lesson_of, targets_of
from agentlearn.library.curate.similarity import LessonWords
from agentlearn.library.curate.tags import MAX_TAGS
from agentlearn.types.author import Author, strangers
from agentlearn.types.experience import Experience, Library, Origin, estimated_tokens, experience_id
from agentlearn.types.ids import ExperienceId
from agentlearn.types.operation import Add, Delete, Merge, Modify, Operation


@dataclass(slots=True)
class LibraryDraft:
    """The working state of one `next_version` call."""

    library: Library
    """The version that the changes are made to; never changed itself."""
    experiences: dict[ExperienceId, Experience]
    """The next version's experiences in order. A replaced experience's key keeps its place."""
    unchanged: dict[ExperienceId, LessonWords]
    """Lessons of the library that no accepted operation touches."""
    tokens: int
    """Estimated tokens of the next version."""
    parked: tuple[LessonWords, ...] = ()
    """Lessons of the library that are parked."""
    by_person: bool = False
    """Whether a person makes the changes."""
    name: str = ""
    """Name of the library."""
    read: tuple[Author, ...] = ()
    """The strangers whose text was read for the changes."""
    added: list[LessonWords] = field(default_factory=list[LessonWords])
    """Lessons of the accepted operations."""
    deletes: int = 0
    """Delete operations accepted."""
    accepted: int = 0
    """Operations accepted, of any kind."""

    @classmethod
    def of(cls, library: Library, *, by_person: bool = False, name: str = "", read: tuple[Author, ...] = ()) -> Self:
        """A draft without changes."""
        return cls(
            library=library,
            experiences=dict(library.by_id),
            unchanged={one.id: LessonWords.of(one.lesson) for one in library.experiences},
            tokens=library.tokens,
            parked=tuple(LessonWords.of(one.experience.lesson) for one in library.withheld if one.status == "parked"),
            by_person=by_person,
            name=name,
            read=read,
        )

    def growth(self, operation: Operation) -> tuple[int, int]:
        """The number of lessons and of tokens by which the operation changes the library."""
        targets, lesson = targets_of(operation), lesson_of(operation)
        removed = sum(estimated_tokens(self.unchanged[target].text) for target in targets)
        return bool(lesson) - len(targets), estimated_tokens(lesson) - removed

    def apply(self, operation: Operation) -> ExperienceId | None:
        """Apply an operation that passed every rule. Returns the id of the experience it makes; None for a delete."""
        targets = targets_of(operation)
        self.tokens += self.growth(operation)[1]
        for target in targets:
            del self.unchanged[target]
        made = None if isinstance(operation, Delete) else self._made(operation, targets)
        if made is not None:
            self.experiences[targets[0] if targets else made.id] = made
            self.added.append(LessonWords.of(made.lesson))
        for target in targets if made is None else targets[1:]:
            del self.experiences[target]
        self.deletes += made is None
        self.accepted += 1
        return made and made.id

    def finished(self) -> Library:
        """The next version; the library itself when nothing was applied."""
        if not self.accepted:
            return self.library
        kept, withheld = tuple(self.experiences.values()), self.library.withheld
        return Library(parent=self.library.version, experiences=kept, withheld=withheld)

    def _made(self, operation: Add | Modify | Merge, parents: tuple[ExperienceId, ...]) -> Experience:
        inherited = dict.fromkeys(tag for parent in parents for tag in self.library.by_id[parent].tags)
        asked, kind = operation.model_dump(mode="json"), operation.op
        authors = (*self.read, *(one for parent in parents for one in self.library.by_id[parent].origin.strangers))
        made = ["person", asked] if self.by_person else asked
        return Experience(
            id=experience_id(self.library.version, made, self.accepted, library=self.name),
            lesson=operation.lesson,
            tags=operation.tags or tuple(inherited)[:MAX_TAGS],
            origin=Origin(
                kind="person" if self.by_person else kind,
                parents=parents,
                library=self.library.version,
                strangers=() if self.by_person else strangers(authors),
            ),
        )
