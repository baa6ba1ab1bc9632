"""Experiences and the library that holds them.

An experience id always names the same text: a modified or merged lesson is a new experience whose `parents` name the
old ones (docs/decisions/0003). A library is an immutable version; a change makes a new version.
"""

import re
from collections.abc import Iterable
from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, model_validator

from agentlearn.types.ids import ExperienceId, LibraryVersion, content_hash
from agentlearn.types.value import Value

MAX_LESSON_WORDS = 32
MAX_LESSON_CHARACTERS = 400

_TOKEN = re.compile(r"\w{1,6}|[^\w\s]")


def word_count(text: str) -> int:
    """Number of white-space separated words."""
    return len(text.split())


def estimated_tokens(text: str) -> int:
    """Estimated tokens of a text: one per six letters of a word, rounded up, and one per other sign."""
    return len(_TOKEN.findall(text))


def _lesson(text: str) -> str:
    if not text.strip():
        raise ValueError("a lesson must not be empty")
    if text != text.strip() or not text.isprintable():
        raise ValueError("a lesson is one line of printable characters without surrounding white space")
    if word_count(text) > MAX_LESSON_WORDS or len(text) > MAX_LESSON_CHARACTERS:
        raise ValueError(f"a lesson has at most {MAX_LESSON_WORDS} words and {MAX_LESSON_CHARACTERS} characters")
    return text


Lesson = Annotated[str, AfterValidator(_lesson)]
"""One printable line of 1 to 32 words, at most 400 characters."""

OriginKind = Literal["add", "modify", "merge", "person", "import"]
"""How an experience was made: by an operation of a run, by a person, or by another program."""


class Origin(Value):
    """How an experience was made."""

    kind: OriginKind
    parents: tuple[ExperienceId, ...] = ()
    """The experiences it replaces: one for modify, two or more for merge, else none."""
    library: LibraryVersion | None = None
    """The version that the operation changed; None for a lesson from a person or a file."""


class Experience(Value):
    """A lesson with a permanent id."""

    id: ExperienceId
    lesson: Lesson
    tags: tuple[str, ...] = ()
    origin: Origin


class Library(Value):
    """An immutable version of an experience library. Lessons are shown in the order of `experiences`."""

    parent: LibraryVersion | None = None
    """The version that it was made from."""
    experiences: tuple[Experience, ...] = ()

    @model_validator(mode="after")
    def _ids_are_unique(self) -> Self:
        if len(self.by_id) != len(self.experiences):
            raise ValueError("a library holds each experience once")
        return self

    @cached_property
    def by_id(self) -> dict[ExperienceId, Experience]:
        """The experiences by id, in order."""
        return {experience.id: experience for experience in self.experiences}

    @cached_property
    def version(self) -> LibraryVersion:
        """Hash of the parent and of the ordered (id, lesson) pairs. Times, runs and rollouts are not part of it."""
        lessons = [[experience.id, experience.lesson] for experience in self.experiences]
        return LibraryVersion(content_hash("library", self.parent, lessons))

    @cached_property
    def tokens(self) -> int:
        """Estimated tokens of all lessons."""
        return sum(estimated_tokens(experience.lesson) for experience in self.experiences)

    def __len__(self) -> int:
        return len(self.experiences)


EMPTY_LIBRARY = Library()


def experience_id(parent: LibraryVersion, operation: object, ordinal: int) -> ExperienceId:
    """Id of the experience that an operation makes.

    parent: the version it changes. operation: its JSON form. ordinal: its place among the applied operations.
    """
    return ExperienceId(content_hash("experience", parent, operation, ordinal))


def library_of(lessons: Iterable[str], *, kind: OriginKind = "person", tags: tuple[str, ...] = ()) -> Library:
    """Return a library of these lessons. Raises pydantic.ValidationError for an invalid lesson."""
    experiences = tuple(
        Experience(
            id=experience_id(EMPTY_LIBRARY.version, [kind, lesson], ordinal),
            lesson=lesson,
            tags=tags,
            origin=Origin(kind=kind),
        )
        for ordinal, lesson in enumerate(lessons)
    )
    return Library(experiences=experiences)
