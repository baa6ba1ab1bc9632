"""Where an application's lessons come from: a library that never changes, or one that is followed as it is published.

A followed library is looked at once per run with one `stat` of a small file. It is read again only when that file was
replaced. What cannot be read never replaces what was read before.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from agentlearn.errors import LibraryError
from agentlearn.library.store import NO_LIBRARY, LibraryStore
from agentlearn.types.experience import EMPTY_LIBRARY, Library

GivenLibrary = Library | str | Path | Sequence[str]
"""A library, a reference to one (`NAME`, `NAME@VERSION`, `none`, a file), a file, or lessons in words."""

WhenMissing = Literal["error", "empty"]
"""What a library means that does not exist: an error, or no lessons."""

RETRY_S = 1.0
"""Seconds between two attempts to read a followed library that could not be read."""

_log = logging.getLogger("agentlearn")


class LibrarySource(Protocol):
    """A library by its origin."""

    @property
    def name(self) -> str | None:
        """The reference that was given; None for a `Library` or lessons in words."""
        ...

    @property
    def follows(self) -> bool:
        """Whether the library may change."""
        ...

    @property
    def identity(self) -> object:
        """Equal for two sources that give the same library."""
        ...

    def current(self) -> Library:
        """The library to use now."""
        ...


@dataclass(frozen=True, slots=True)
class FixedLibrary:
    """A library that never changes."""

    library: Library
    name: str | None = None
    follows: bool = False

    @property
    def identity(self) -> object:
        """The version."""
        return self.library.version

    def current(self) -> Library:
        """The library."""
        return self.library


_Mark = tuple[int, ...] | None
"""Times, size and inode of a file, which change when it is replaced; None where the file does not exist."""


@dataclass(frozen=True, slots=True)
class _Held:
    """The last library that could be read, and what happened since."""

    library: Library
    mark: _Mark
    """State of the watched file when the library was read."""
    refused: _Mark = ()
    """State of the watched file that could not be read last; empty when there is none."""
    retry_at: float = 0.0


class _FollowedLibrary:
    """A library that is read again when a new version is published. Works from threads and several event loops.

    name: what was given. watched: the file that a publication replaces. load: reads the library; raises LibraryError.
    """

    follows = True

    def __init__(self, name: str, watched: Path, load: Callable[[], Library], *, missing: WhenMissing) -> None:
        self.name = name
        self.watched = watched
        self._load = load
        self._lock = threading.Lock()
        mark = _mark_of(watched)
        try:
            self._held = _Held(load(), mark)
        except LibraryError as error:
            if missing == "error":
                raise
            self._held = _Held(EMPTY_LIBRARY, None)
            if mark is not None:
                self._refuse(mark, error)

    @property
    def identity(self) -> object:
        """The watched file."""
        return str(self.watched)

    def current(self) -> Library:
        """The newest published version that can be read."""
        held = self._held
        if _mark_of(self.watched) == held.mark:
            return held.library
        with self._lock:
            return self._read()

    def _read(self) -> Library:
        mark, held = _mark_of(self.watched), self._held
        if mark == held.mark or (mark == held.refused and time.monotonic() < held.retry_at):
            return held.library
        try:
            self._held = _Held(self._load(), mark)
        except LibraryError as error:
            self._refuse(mark, error)
        return self._held.library

    def _refuse(self, mark: _Mark, error: LibraryError) -> None:
        """Keep the library that is held, and warn once about each state of the file that cannot be read."""
        held = self._held
        if mark != held.refused:
            _log.warning(
                "library.kept name=%r version=%r code=%s reason=%s",
                self.name,
                held.library.version[:8],
                error.code,
                error.message,
            )
        self._held = _Held(held.library, held.mark, mark, time.monotonic() + RETRY_S)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())


@dataclass(frozen=True, slots=True)
class _LoadName:
    store: LibraryStore
    name: str

    def __call__(self) -> Library:
        return self.store.load(self.name)


@dataclass(frozen=True, slots=True)
class _LoadFile:
    store: LibraryStore
    file: Path

    def __call__(self) -> Library:
        return self.store.read_file(self.file)


def open_source(
    given: GivenLibrary, *, store: Path | str | None = None, follow: bool = False, missing: WhenMissing = "error"
) -> LibrarySource:
    """Return the source of what an application gave. Raises LibraryError.

    store: the directory that `agentlearn learn --store` wrote to; None: `AGENTLEARN_STORE`, else `.agentlearn`. It is
    made absolute here. follow: read the library again when a new version is published. missing: what to do where the
    library does not exist; an unknown version of a library that exists is always an error.
    """
    if missing not in get_args(WhenMissing):
        raise LibraryError(f"missing is {missing!r}; use 'error' or 'empty'", code="bad_missing")
    match given:
        case Library():
            return _fixed(given, None, follow, "a Library object never changes")
        case str():
            return _by_reference(given, _libraries(store), follow=follow, missing=missing)
        case PathLike():
            return _in_file(Path(given), _libraries(store), follow=follow, missing=missing)
        case list() | tuple():
            return _fixed(Library.of(given), None, follow, "lessons in words never change")
        case _:
            raise LibraryError(
                f"a library is given as a name, a file, a Library or a list of lessons, not as {given!r:.80}"
            )


def _by_reference(reference: str, store: LibraryStore, *, follow: bool, missing: WhenMissing) -> LibrarySource:
    if reference.endswith(".json") or "/" in reference:
        return _in_file(Path(reference), store, follow=follow, missing=missing, name=reference)
    if any(sign.isspace() for sign in reference.strip()):
        raise LibraryError(f"{reference!r:.80} is not the name of a library; give lessons in words as a list")
    if reference == NO_LIBRARY or "@" in reference:
        if follow and reference != NO_LIBRARY and (log := store.watched(reference)) is not None:
            return _FollowedLibrary(reference, log, _LoadName(store, reference), missing=missing)
        because = f"{reference!r} always means the same lessons"
        return _fixed(_loaded(lambda: store.load(reference), missing), reference, follow, because)
    head = store.head(reference)
    if follow:
        return _FollowedLibrary(reference, head, _LoadName(store, reference), missing=missing)
    return FixedLibrary(_loaded(lambda: store.load(reference), missing), reference)


def _in_file(
    file: Path, store: LibraryStore, *, follow: bool, missing: WhenMissing, name: str | None = None
) -> LibrarySource:
    file = file.absolute()
    shown = name or str(file)
    if follow:
        return _FollowedLibrary(shown, file, _LoadFile(store, file), missing=missing)
    if missing == "empty" and not file.exists():
        return FixedLibrary(EMPTY_LIBRARY, shown)
    return FixedLibrary(store.read_file(file), shown)


def _fixed(library: Library, name: str | None, follow: bool, because: str) -> FixedLibrary:
    if follow:
        raise LibraryError(
            f"follow=True needs a library that is published under a name, and {because}; give the name, or leave"
            " follow out",
            code="cannot_follow",
        )
    return FixedLibrary(library, name)


def _loaded(load: Callable[[], Library], missing: WhenMissing) -> Library:
    try:
        return load()
    except LibraryError as error:
        if missing == "empty" and error.code == "unknown_library":
            return EMPTY_LIBRARY
        raise


def _libraries(store: Path | str | None) -> LibraryStore:
    if store is None:
        from agentlearn.config.environment import default_store  # imported here: applications need no settings

        store = default_store()
    return LibraryStore(Path(store).absolute() / "libraries")


def _mark_of(file: Path) -> _Mark:
    try:
        found = file.stat()
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)


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
