"""Published libraries as plain files, readable without the database and its lock.

DIR/NAME/VERSION.json    one file per published version, written once
DIR/NAME/HEAD            one line per publication, `VERSION TIME`; the last line is the current version
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from agentlearn.errors import LibraryError
from agentlearn.files import readable, write_whole
from agentlearn.library.form import Form, format_library, parse_library
from agentlearn.types.experience import EMPTY_LIBRARY, Library
from agentlearn.types.ids import LibraryVersion

NO_LIBRARY = "none"
"""The reference to the empty library."""

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_PREFIX = re.compile(r"[0-9a-f]{1,32}")


@dataclass(frozen=True, slots=True)
class StoredLibrary:
    """The current version of a library."""

    name: str
    version: LibraryVersion
    lessons: int
    """Number of lessons."""
    tokens: int
    """Estimated tokens of all lessons."""
    at: datetime
    """When this version became current."""


@dataclass(frozen=True, slots=True)
class Publication:
    """A version that is or was the current one of its library."""

    version: LibraryVersion
    parent: LibraryVersion | None
    """The version that it was made from."""
    lessons: int
    """Number of lessons."""
    tokens: int
    """Estimated tokens of all lessons."""
    added: int
    """Lessons that the previous publication did not hold."""
    removed: int
    """Lessons of the previous publication that this one does not hold."""
    at: datetime
    """When it was published."""


class LibraryStore:
    """The published libraries in a directory. Publishing creates the directory."""

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory)

    def publish(self, name: str, library: Library) -> Path:
        """Make the library the current version under that name and return its file. Raises LibraryError."""
        folder = self._folder(name)
        file = folder / f"{library.version}.json"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if not file.exists():
                _write(file, format_library(library, "agentlearn"))
            history = self._history(name) if (folder / "HEAD").exists() else ()
            if not history or history[-1][0] != library.version:
                history = (*history, (library.version, datetime.now(UTC)))
                _write(folder / "HEAD", "".join(f"{version} {at.isoformat()}\n" for version, at in history))
        except OSError as error:
            raise LibraryError(f"library {name!r} could not be published: {error}") from error
        return file

    def load(self, reference: str) -> Library:
        """Return the library of a reference: `NAME`, `NAME@VERSION`, a JSON file, or `none`. Raises LibraryError.

        VERSION is any prefix of exactly one version. A reference that ends in `.json` or holds a `/` is a file.
        """
        if reference == NO_LIBRARY:
            return EMPTY_LIBRARY
        if reference.endswith(".json") or "/" in reference:
            return read_library(Path(reference))
        name, at, prefix = reference.partition("@")
        self._refuse_unknown(name)
        return self._version(name, self._resolve(name, prefix) if at else self._history(name)[-1][0])

    def head(self, name: str) -> Path:
        """Return the file that a publication under that name replaces. Raises LibraryError for a bad name."""
        return self._folder(name) / "HEAD"

    def names(self) -> tuple[str, ...]:
        """Return the names of all libraries, sorted."""
        return tuple(
            sorted(head.parent.name for head in self.directory.glob("*/HEAD") if _NAME.fullmatch(head.parent.name))
        )

    def versions(self, name: str) -> tuple[LibraryVersion, ...]:
        """Return every published version of a library, sorted; none for an unknown name. Raises LibraryError."""
        return tuple(LibraryVersion(file.stem) for file in sorted(self._folder(name).glob("*.json")))

    def log(self, name: str) -> list[Publication]:
        """Return the publications under that name, newest first. Raises LibraryError."""
        self._refuse_unknown(name)
        publications: list[Publication] = []
        before = EMPTY_LIBRARY
        for version, at in self._history(name):
            library = self._version(name, version)
            publications.append(
                Publication(
                    version=version,
                    parent=library.parent,
                    lessons=len(library),
                    tokens=library.tokens,
                    added=len(library.by_id.keys() - before.by_id.keys()),
                    removed=len(before.by_id.keys() - library.by_id.keys()),
                    at=at,
                )
            )
            before = library
        return publications[::-1]

    def export(self, reference: str, out: Path, format: Form = "agentlearn") -> None:  # noqa: A002 - the name of the option
        """Write a library to a file. Raises LibraryError."""
        write_library(self.load(reference), out, format)

    def list(self) -> list[StoredLibrary]:
        """Return the current version of every library, sorted by name."""
        return [self._current(name) for name in self.names()]

    def _folder(self, name: str) -> Path:
        if not _NAME.fullmatch(name) or name.endswith(".json") or name == NO_LIBRARY:
            raise LibraryError(
                f"{name!r} is not a valid library name; use up to 64 lower-case letters, digits, '.', '_' and '-', a"
                f" letter or digit first, other than {NO_LIBRARY!r} and not ending in '.json'",
                code="bad_library_name",
            )
        return self.directory / name

    def _refuse_unknown(self, name: str) -> None:
        if not (self._folder(name) / "HEAD").is_file():
            found = ", ".join(repr(one) for one in self.names()) or "none"
            raise LibraryError(
                f"library {name!r} is not in the library store {str(self.directory)!r} (found: {found});"
                " learn one, or pass a file",
                code="unknown_library",
            )

    def _history(self, name: str) -> tuple[tuple[LibraryVersion, datetime], ...]:
        """Versions with the times at which they became current, oldest first."""
        head = self._folder(name) / "HEAD"
        try:
            lines = [line.split(" ") for line in head.read_text(encoding="utf-8").splitlines()]
            history = tuple((LibraryVersion(version), datetime.fromisoformat(at)) for version, at in lines)
        except OSError as error:
            raise LibraryError(f"{str(head)!r} cannot be read: {error}") from error
        except ValueError as error:
            raise LibraryError(f"{str(head)!r} is damaged: {error}; publish the library again") from error
        if not history:
            raise LibraryError(f"{str(head)!r} is empty; publish the library again")
        return history

    def _resolve(self, name: str, prefix: str) -> LibraryVersion:
        """The one published version that starts with the prefix."""
        versions = self.versions(name)
        matching = [one for one in versions if one.startswith(prefix)] if _PREFIX.fullmatch(prefix) else []
        if len(matching) != 1:
            wrong = f"{len(matching)} versions" if matching else "no version"
            found = ", ".join(repr(one[:8]) for one in matching or versions)
            raise LibraryError(
                f"library {name!r} has {wrong} starting with {prefix!r} (found: {found})", code="unknown_version"
            )
        return LibraryVersion(matching[0])

    def _version(self, name: str, version: LibraryVersion) -> Library:
        file = self._folder(name) / f"{version}.json"
        library = read_library(file)
        if library.version != version:
            raise LibraryError(f"{str(file)!r} holds version {library.version[:8]!r}; publish the library again")
        return library

    def _current(self, name: str) -> StoredLibrary:
        version, at = self._history(name)[-1]
        library = self._version(name, version)
        return StoredLibrary(name=name, version=version, lessons=len(library), tokens=library.tokens, at=at)


def write_library(library: Library, out: Path, form: Form) -> None:
    """Write a library to a file in that format. Raises LibraryError."""
    text = format_library(library, form)
    try:
        _write(out, text)
    except OSError as error:
        raise LibraryError(f"the library could not be written to {str(out)!r}: {error}") from error


def read_library(file: Path) -> Library:
    """Return the library in a file. Raises LibraryError."""
    try:
        text = readable(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LibraryError(f"library file {str(file)!r} cannot be read: {error}") from error
    return parse_library(text, str(file))


def _write(file: Path, text: str) -> None:
    """Write the file in one step. A lone surrogate becomes JSON's escape for it."""
    write_whole(file, text.encode("utf-8", "backslashreplace"))
