"""The files of a library's versions: `NAME/VERSION.json`, each written once and never changed."""

import getpass
import os
import re
from collections.abc import Iterator
from pathlib import Path

from agentlearn.errors import LibraryError
from agentlearn.files import own, write_whole
from agentlearn.library.formats import format_library, parse_library
from agentlearn.types.experience import EMPTY_LIBRARY, Library
from agentlearn.types.ids import LibraryVersion

NO_LIBRARY = "none"
"""The reference to the empty library."""

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_VERSION_PREFIX = re.compile(r"[0-9a-f]{1,32}")
_RULE = "use up to 64 lower-case letters, digits, '.', '_' and '-', a letter or digit first"


def is_library_name(name: str) -> bool:
    """Whether a library can have this name."""
    return bool(_NAME.fullmatch(name)) and not name.endswith(".json") and name != NO_LIBRARY


def checked_library_name(name: str) -> str:
    """Return the name. Raises LibraryError if no library can have it."""
    if not is_library_name(name):
        raise LibraryError(
            f"{name!r} is not a valid library name; {_RULE}, other than {NO_LIBRARY!r} and not ending in '.json'",
            code="bad_library_name",
        )
    return name


def is_version_prefix(text: str) -> bool:
    """Whether a text can be the start of a version."""
    return bool(_VERSION_PREFIX.fullmatch(text))


def checked_label(name: str, noun: str) -> str:
    """Return the name of a branch or a tag. noun: which of the two. Raises LibraryError if it cannot have the name."""
    if is_version_prefix(name):
        raise LibraryError(
            f"{name!r} could be the start of a version; use a name with a letter after 'f' or a '-', such as"
            f" {'v-' + name[:20]!r}",
            code="bad_label",
        )
    if not is_library_name(name):
        raise LibraryError(
            f"{name!r} cannot name a {noun}; {_RULE}, other than {NO_LIBRARY!r} and not ending in '.json'",
            code="bad_label",
        )
    return name


class VersionFiles:
    """The version files of one library. directory: the library store. name: the library."""

    def __init__(self, directory: Path, name: str) -> None:
        self.directory = directory
        self.folder = directory / name

    def file(self, version: LibraryVersion) -> Path:
        """The file of a version."""
        return self.folder / f"{version}.json"

    def listed(self) -> tuple[LibraryVersion, ...]:
        """Every version that has a file, sorted."""
        return tuple(LibraryVersion(file.stem) for file in sorted(self.folder.glob("*.json")))

    def save(self, library: Library) -> Path:
        """Write the version unless it is there, and return its file. Raises OSError."""
        file = self.file(library.version)
        if not file.exists():
            write_whole(file, format_library(library, "agentlearn").encode("utf-8", "backslashreplace"), private=True)
        return file

    def load(self, version: LibraryVersion) -> Library:
        """Return the version. Raises LibraryError when its file is missing, unreadable or holds another version."""
        file = self.file(version)
        library = _read(file, self.directory.parent)
        if library.version != version:
            raise LibraryError(f"{str(file)!r} holds version {library.version[:8]!r}; publish the library again")
        return library

    def found(self, version: LibraryVersion) -> Library | None:
        """Return the version from this library's files or those of any other library of the store; None: nowhere."""
        if version == EMPTY_LIBRARY.version:
            return EMPTY_LIBRARY
        for folder in self.folders():
            if (folder / f"{version}.json").is_file():
                return VersionFiles(self.directory, folder.name).load(version)
        return None

    def all_libraries(self) -> Iterator[Library]:
        """Every version of every library of the store that can be read, those of this library first."""
        for folder in self.folders():
            files = VersionFiles(self.directory, folder.name)
            for version in files.listed():
                try:
                    yield files.load(version)
                except LibraryError:
                    continue

    def folders(self) -> tuple[Path, ...]:
        """The folders of all libraries of the store, this one first."""
        return (self.folder, *self._others())

    def _others(self) -> Iterator[Path]:
        for folder in sorted(self.directory.glob("*")):
            if folder != self.folder and folder.is_dir() and is_library_name(folder.name):
                yield folder


def matching_versions(versions: tuple[LibraryVersion, ...], prefix: str) -> list[LibraryVersion]:
    """Return the versions that start with the prefix; none for a text that cannot be the start of one."""
    return [one for one in versions if one.startswith(prefix)] if is_version_prefix(prefix) else []


def _read(file: Path, store: Path) -> Library:
    try:
        text = own(file, store).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LibraryError(f"library file {str(file)!r} cannot be read: {error}") from error
    return parse_library(text, str(file))


def account_name() -> str:
    """Return the name of this account, or its number when it has none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return f"uid {os.getuid()}" if hasattr(os, "getuid") else "unknown"
