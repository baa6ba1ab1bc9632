"""A library as a program gives it: an object, a reference, a file, or lessons in words."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from agentlearn.errors import LibraryError
from agentlearn.library.store import LibraryStore
from agentlearn.types.experience import EMPTY_LIBRARY, Library, library_of

LibraryGiven = Library | str | Path | Sequence[str]
"""A library, a reference to one such as `math@7f3c`, a file, or lessons in words."""


def library_from(given: LibraryGiven | None, libraries: LibraryStore) -> Library:
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
            return _of_words(given)


def _of_words(lessons: Sequence[str]) -> Library:
    try:
        return library_of(lessons)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise LibraryError(
            f"the lesson {first['input']!r} cannot be used: {first['msg'].removeprefix('Value error, ')}; correct it",
            code="bad_lesson",
        ) from error
