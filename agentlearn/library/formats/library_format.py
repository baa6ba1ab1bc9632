"""What every library format offers: a name, whether a text is in it, reading, and writing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from agentlearn.library.formats.source_files import SourceFiles
from agentlearn.types.experience import Library

Form = Literal["agentlearn", "lines", "training-free-grpo", "youtu", "ace", "markdown", "skill"]
"""Name of a library format."""


@dataclass(frozen=True, slots=True)
class FoundLesson:
    """A lesson as a file has it, before any check."""

    place: str
    """Where it is in the file: a line, a label or an id."""
    text: object
    """The lesson; a file may hold anything there."""
    tags: object = ()
    """The tags; a file may hold anything there."""
    note: str = ""
    """What else the file says about it, in a sentence."""
    withheld: bool = False
    """Whether the file keeps it without showing it."""


@dataclass(frozen=True, slots=True)
class ReadLessons:
    """The lessons of a file or folder, in order."""

    lessons: tuple[FoundLesson, ...]
    library: Library | None = None
    """The whole library with its ids and versions, from a format of ours that was not changed."""
    exported: str = ""
    """The version that the file says it was exported from; empty for none. It can only add caution."""


class LibraryFormat(Protocol):
    """One format of libraries."""

    @property
    def name(self) -> Form:
        """Its name."""
        ...

    def sniff(self, source: SourceFiles) -> bool:
        """Whether the source is in this format, by its names and first characters."""
        ...

    def read(self, source: SourceFiles) -> ReadLessons:
        """Return the lessons of the source. Raises LibraryError when it is not in this format."""
        ...

    def write(self, library: Library, name: str) -> Mapping[str, str]:
        """Return the texts by file name; under the empty name, the text of the one file.

        name: of the library, for titles. Raises LibraryError for a library that the format cannot hold.
        """
        ...

    def losses(self, library: Library) -> tuple[str, ...]:
        """What of this library the format does not keep, each as a noun: `ids`, `tags`."""
        ...


def usual_losses(library: Library, *, tags: bool) -> tuple[str, ...]:
    """What a format of lessons in words does not keep. tags: whether it loses tags."""
    if not library.experiences and not library.withheld:
        return ()
    lost = ["ids and versions", "origins"]
    if tags and any(one.tags for one in library.experiences):
        lost.append("tags")
    if library.withheld:
        lost.append(f"the {len(library.withheld)} lessons that are withheld")
    return tuple(lost)
