"""A library as a program gives it: an object, a reference, a file, or lessons in words."""

from pathlib import Path

from agentlearn.library.library_source import GivenLibrary
from agentlearn.library.store import LibraryStore
from agentlearn.types.experience import EMPTY_LIBRARY, Library


def library_from(given: GivenLibrary | None, libraries: LibraryStore) -> Library:
    """Return the library that was given; the empty one for None. Raises LibraryError."""
    match given:
        case None:
            return EMPTY_LIBRARY
        case Library():
            return given
        case str():
            return libraries.load(given)
        case Path():
            return libraries.load(str(given.absolute()))
        case _:
            return Library.of(given)
