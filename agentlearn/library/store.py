"""Published libraries as plain files, readable without the database and its lock.

DIR/NAME/VERSION.json    one file per published version, written once
DIR/NAME/files/SHA256    the bytes of a file that came with a skill, written once and never run
DIR/NAME/history.jsonl   one line per change, only appended to (`library.history`)
DIR/NAME/HEAD            one line per version that the name came to mean, `VERSION TIME`; the last is current
"""

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from agentlearn.errors import LibraryError
from agentlearn.library.formats import missing_file, parse_library, write_form
from agentlearn.library.formats.source_files import Form
from agentlearn.library.history import History
from agentlearn.library.history.change_log import (
    FILES,
    HEAD_FILE,
    LOG_FILE,
    MAIN,
    NO_LIBRARY,
    ChangeKind,
    ChangeLog,
    VersionFiles,
    checked_name,
    is_library_name,
    locked,
    names_file,
)
from agentlearn.library.shown import ERASED_FILE, NotShown, in_canary
from agentlearn.text import nearest_name
from agentlearn.text.files import own, own_folder, readable, write_whole
from agentlearn.types.experience import EMPTY_LIBRARY, Experience, KeptFile, Library, Origin, held_lessons
from agentlearn.types.ids import ExperienceId, LibraryVersion
from agentlearn.types.ranking import lower_case_words
from agentlearn.types.value import Author

if TYPE_CHECKING:  # applications that use lessons do not ask where they come from
    from agentlearn.library.history.three_way import Ancestry, HeldLesson

WAITING_FILE = "waiting"
"""File with the number of things of runs that wait for a person."""


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


def things_waiting(libraries: Path) -> int:
    """Return about how many things wait for a person's decision, without the database.

    Lessons that wait in a library are counted in the version files; what runs left, when a run ends and when somebody
    looks at the inbox. What cannot be read counts as nothing: every other command says what is wrong with it.
    """
    found = 0
    with suppress(OSError, ValueError):
        found = int(own(libraries / WAITING_FILE, libraries).read_bytes()[:20])
    for log in libraries.glob("*/history.jsonl"):
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, LibraryError):
            version = ChangeLog(own(log, libraries).parent).read().state.branches[MAIN]
            text = own(log.parent / f"{version}.json", libraries).read_bytes()
            builds_on = b'"base":{' in text and b'"withheld":[]' not in text
            if b"pending" in text or builds_on:
                library = VersionFiles(libraries, log.parent.name).load(version)
                shown = {one.lesson.casefold() for one in library.experiences}
                pending = [one.experience for one in library.withheld if one.status == "pending"]
                found += sum(one.lesson.casefold() not in shown for one in pending)
    return found


@dataclass(frozen=True, slots=True)
class ServedVersions:
    """What episodes read of a library: its current version, and a share of them a canary."""

    library: Library
    canary: Library | None = None
    share: float = 0.0

    def of(self, name: str | None, episode: str | None) -> Library:
        """Return the version that an episode reads. Without an episode, it is the current version."""
        if self.canary is None or not name or not episode:
            return self.library
        reads = in_canary(name, self.canary.version, episode, share=self.share)
        return self.canary if reads else self.library


class LibraryStore:
    """The published libraries in a directory. Publishing creates the directory."""

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory)

    def history(self, name: str) -> History:
        """Return the history of a library, which need not exist yet. Raises LibraryError for a bad name."""
        return History(self.directory, name)

    def publish(
        self,
        name: str,
        library: Library,
        *,
        kind: ChangeKind = "publish",
        base: LibraryVersion | None = None,
        run: str = "",
        who: str = "",
        note: str = "",
    ) -> Path:
        """Make the library the current version of `main` under that name and return its file. Raises LibraryError.

        kind: what made it. base: the version that a run started from.
        """
        try:
            self.history(name).publish(library, kind=kind, base=base, run=run, who=who, note=note)
        except LibraryError as error:
            if error.code != "not_written":
                raise
            reason = error.__cause__
            raise LibraryError(f"library {name!r} could not be published: {reason}", code=error.code) from reason
        return self._folder(name) / f"{library.version}.json"

    def load(self, reference: str, *, stored: bool = False) -> Library:
        """Return the library of a reference: `NAME`, `NAME@X`, a JSON file, or `none`. Raises LibraryError.

        X is a branch, or any prefix of exactly one version. A reference that ends in `.json` or holds a `/` is a
        file. Lessons that may not be shown, see `NotShown`, are withheld in it, and a warning says so. stored: return a
        version as it was published, for what looks back.
        """
        if reference == NO_LIBRARY:
            return EMPTY_LIBRARY
        if names_file(reference):
            return self.read_file(Path(reference))
        name, at, wanted = reference.partition("@")
        self._refuse_unknown(name)
        history, label = self.history(name), wanted if at else None
        return history.stored(label) if stored else history.load(label)

    def still_read(self, name: str, version: LibraryVersion) -> Library | None:
        """Return a version that a conversation began with, as it may be shown now; None for one that it has to leave.

        It leaves what a person took back, see `History.still_read`, and what this store cannot read.
        """
        try:
            history = self.history(name)
            return history.load(version) if history.still_read(version) else None
        except LibraryError:
            return None

    def served(self, name: str) -> ServedVersions:
        """Return the current version of a library and its canary. Raises LibraryError for the current version only.

        A canary that cannot be read is left out with a warning, so that it harms no application.
        """
        self._refuse_unknown(name)
        history = self.history(name)
        canary, current = history.canary, history.load()
        if canary is None:
            return ServedVersions(current)
        try:
            tried = history.load(canary.version)
        except LibraryError as error:
            _log.warning("canary.left_out name=%r code=%s reason=%s", name, error.code, error.message)
            return ServedVersions(current)
        ended = tried.version != canary.version  # it holds lessons that may not be shown
        return ServedVersions(current, None if ended else tried, canary.share)

    def read_file(self, file: Path) -> Library:
        """Return the library in a file. Raises LibraryError.

        Lessons that no library of the store has shown are a stranger's, whatever the file says about who wrote them.
        Those that may not be shown, by their ids or their words, are withheld.
        """
        try:
            text = readable(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or error
            raise LibraryError(f"library file {str(file)!r} cannot be read: {why}; check the path") from error
        beside = VersionFiles(file.parent.parent, file.parent.name)  # versions that a version of a store builds on
        library, shown = parse_library(text, str(file), beside.load_unchanged), self.shown_lessons()
        stranger = Origin(kind="import", strangers=(Author(kind="library", name=file.name),))

        def known(one: Experience) -> Experience:
            own = shown.get(one.id)
            if own is None:
                return one.model_copy(update={"origin": stranger.model_copy(update={"parents": one.origin.parents})})
            if own.lesson != one.lesson:
                raise LibraryError(
                    f"the lesson {one.id[:12]!r} of {str(file)!r} has other words in this store; an id always names the"
                    " same words, so write the lesson without it"
                )
            return own

        held = tuple(one.model_copy(update={"experience": known(one.experience)}) for one in library.withheld)
        library = library.model_copy(update={"experiences": tuple(map(known, library.experiences)), "withheld": held})
        return self.not_shown().applied(library, file.name)

    def not_shown(self) -> NotShown:
        """Return what may not be shown of a file, or of a version that a run holds.

        That is what rests on erased records, or what a library of the store shows in no version while none shows it.
        """
        rules, shown = [NotShown.of(self.directory, {})], set[ExperienceId]()
        for history in map(self.history, self.names()):
            with suppress(LibraryError):  # a damaged library says nothing
                rules.append(history.not_shown())
                for _, head in history.load_each(history.state.branches.values()):
                    shown |= rules[-1].applied(head).by_id.keys() if isinstance(head, Library) else set()
        reasons = {one: why for rule in rules for one, why in rule.reasons.items() if one not in shown}
        known = self.ancestry().experiences if reasons else {}
        said = {one: lower_case_words(made.lesson) for one, made in known.items() if one in shown or one in reasons}
        words = {key: reasons[one] for one, key in said.items() if one in reasons}
        return NotShown(reasons | {key: why for key, why in words.items() if key not in map(said.get, shown)})

    def shown_lessons(self) -> dict[ExperienceId, Experience]:
        """Return the lessons that any library of the store has shown: those that a person or a run published.

        Versions that only a branch or a rollback names are left out, and so are damaged ones.
        """
        found: dict[ExperienceId, Experience] = {}
        for name in self.names():
            history = self.history(name)
            with suppress(LibraryError):
                made = dict.fromkeys(one.version for one in history.changes if one.makes)
                for _, library in history.load_each(made):
                    if isinstance(library, Library):
                        found.update((one.id, one) for one in library.experiences)
        return found

    def head(self, name: str) -> Path:
        """Return the file that a publication under that name replaces. Raises LibraryError for a bad name."""
        return self._folder(name) / HEAD_FILE

    def watched(self, reference: str) -> Path | None:
        """Return the file that changes when a reference gets another meaning; None for one that never does."""
        name, at, label = reference.partition("@")
        moves = not at or (self._known(name) and label in self.history(name).state.branches)
        return self.head(name) if moves else None

    def is_label(self, name: str, label: str) -> bool:
        """Whether a library has a branch of that name."""
        return is_library_name(name) and self._known(name) and label in self.history(name).state.branches

    def names(self) -> tuple[str, ...]:
        """Return the names of all libraries, sorted."""
        folders = {file.parent.name for name in (HEAD_FILE, LOG_FILE) for file in self.directory.glob(f"*/{name}")}
        return tuple(sorted(name for name in folders if is_library_name(name) and self._known(name)))

    def versions(self, name: str) -> tuple[LibraryVersion, ...]:
        """Return every published version of a library, sorted; none for an unknown name. Raises LibraryError."""
        return self.history(name).versions()

    def log(self, name: str) -> list[Publication]:
        """Return the versions that the name came to mean, newest first. Raises LibraryError."""
        self._refuse_unknown(name)
        publications, history = list[Publication](), self.history(name)
        heads, before = history.heads, set[ExperienceId]()
        for (version, at), (_, library) in zip(heads, history.load_each(one for one, _ in heads), strict=True):
            if isinstance(library, LibraryError):
                raise library
            held = {one.id for one in library.experiences}
            publications.append(
                Publication(
                    version=version,
                    parent=library.parent,
                    lessons=len(library),
                    tokens=library.tokens,
                    added=len(held - before),
                    removed=len(before - held),
                    at=at,
                )
            )
            before = held
        return publications[::-1]

    def lessons_from(self, identities: Iterable[ExperienceId]) -> "tuple[HeldLesson, ...]":
        """Return the lessons, and those that go back to one of them, with the versions of all libraries that hold each.

        Raises LibraryError for a version that cannot be read.
        """
        from agentlearn.library.history.three_way import Ancestry, HeldLesson

        named = list[tuple[str, Library]]()
        for name in self.names():
            history = self.history(name)
            for _, library in history.load_each(history.versions()):
                if isinstance(library, LibraryError):
                    raise library
                named.append((name, library))
        found = Ancestry((library for _, library in named), ()).with_descendants(identities)
        held = [(f"{name}@{library.version}", held_lessons(library)) for name, library in named]
        return tuple(
            HeldLesson(experience=one, versions=tuple(name for name, lessons in held if one.id in lessons))
            for one in found
        )

    def ancestry(self) -> "Ancestry":
        """Return what all libraries know of where their versions and lessons come from. What is damaged is left out."""
        from agentlearn.library.history.three_way import Ancestry

        return Ancestry.in_store(self.directory)

    def export(self, reference: str, out: Path, format: Form = "agentlearn") -> None:  # noqa: A002 - the name of the option
        """Write a library to a file. Raises LibraryError, also where another file or a changed one is there."""
        write_form(self.load(reference), out, format, known=self.exported(reference), content=self.content)

    def content(self, file: KeptFile) -> bytes:
        """Return the bytes of a file beside a skill, which any library of the store holds. Raises LibraryError."""
        for found in sorted(self.directory.glob(f"*/{FILES}/{file.sha256}")):
            with suppress(OSError):
                content = own(found, self.directory.parent).read_bytes()
                if hashlib.sha256(content).hexdigest() == file.sha256:
                    return content
        raise missing_file(file)

    def exported(self, reference: str) -> Iterator[Library]:
        """Yield the published versions of the library of a reference, the newest first; none for a file."""
        name = reference.partition("@")[0]
        if not is_library_name(name) or not self._known(name):
            return
        history = self.history(name)
        newest = dict.fromkeys(one.version for one in reversed(history.changes))
        # a damaged version was exported by nobody
        yield from (one for _, one in history.load_each(newest) if isinstance(one, Library))

    def list(self) -> list[StoredLibrary]:
        """Return the current version of every library, sorted by name."""
        found: list[StoredLibrary] = []
        for name in self.names():
            history = self.history(name)
            version, at = history.heads[-1]
            library = history.load(version)
            found.append(StoredLibrary(name, version, len(library), library.tokens, at))
        return found

    @contextmanager
    def reviewing(self) -> Generator[None]:
        """Hold the lock of those who decide on what waits. Raises LibraryError where it takes too long."""
        try:
            own_folder(self.directory, self.directory.parent)
            with locked(self.directory / "inbox.lock"):
                yield
        except OSError as error:
            raise LibraryError(
                f"the inbox of {str(self.directory)!r} cannot be used: {error}", code="not_written"
            ) from error

    def note_waiting(self, number: int) -> None:
        """Keep how many things of runs wait for a person, for the last line of commands. Unwritable folders stay."""
        file = self.directory / WAITING_FILE
        if number or file.exists():
            with suppress(OSError):
                write_whole(
                    own_folder(self.directory, self.directory.parent) / file.name, b"%d\n" % number, private=True
                )

    def _folder(self, name: str) -> Path:
        return self.directory / checked_name(name)

    def _known(self, name: str) -> bool:
        return ChangeLog(self._folder(name)).exists()

    def unknown_words(self, name: str) -> str:
        """A sentence for the name of a library that does not exist; empty for one that does."""
        found = ", ".join(map(repr, self.names())) or "none"
        return "" if self._known(name) else f"there is no library {name!r} yet (found: {found})"

    def unknown(self, name: str) -> LibraryError:
        """The error about the name of a library that does not exist, with what to do."""
        found = ", ".join(map(repr, self.names())) or "none"
        meant, waiting = nearest_name(name, self.names()), things_waiting(self.directory)
        learned = f"decide with `agentlearn review` on what waits for you ({waiting})" if waiting else "learn one"
        begun = f"{learned}, begin it with `agentlearn library add {name} LESSON`, or name a file"
        return LibraryError(
            f"library {name!r} is not in the library store {str(self.directory)!r} (found: {found});"
            f" {f'did you mean {meant!r}?' if meant else begun}",
            code="unknown_library",
        )

    def _refuse_unknown(self, name: str) -> None:
        if not self._known(name):
            raise self.unknown(name)


GivenLibrary = Library | str | Path | Sequence[str]
"""A library, a reference to one (`NAME`, `NAME@VERSION`, `none`, a file), a file, or lessons in words."""

WhenMissing = Literal["error", "empty"]
"""What a library means that does not exist: an error, or no lessons."""

RETRY_S = 1.0
"""Seconds between two attempts to read a followed library that could not be read."""

_log = logging.getLogger("agentlearn")


EarlierVersions = Callable[[LibraryVersion], Library | None]


class LibrarySource:
    """A library by its origin. This one never changes."""

    follows = False
    """Whether the library may change."""
    canary = False
    """Whether a share of episodes reads the canary of the library, while it has one."""

    def __init__(
        self,
        served: Library | ServedVersions,
        name: str | None = None,
        *,
        canary: bool = False,
        earlier: EarlierVersions | None = None,
    ) -> None:
        """earlier: returns an earlier version for the conversations that began with it."""
        self._served = ServedVersions(served) if isinstance(served, Library) else served
        self.name = name
        """The reference that was given; None for a `Library` or lessons in words."""
        self.canary = canary
        self._earlier = earlier
        self._known = dict[LibraryVersion, Library]()

    @property
    def identity(self) -> object:
        """Equal for two sources that give the same library."""
        return self._served.library.version

    def current(self, episode: str | None = None) -> Library:
        """The library to use now, in an episode."""
        return self._served.of(self.name, episode)

    def going_on(self, version: LibraryVersion, episode: str | None = None) -> Library:
        """The library for a conversation that has read this version: that version, or the current one if it is gone.

        A publication reaches new conversations only, so that what was sent stays the start of what is sent next.
        """
        current = self.current(episode)
        if version == current.version or self._earlier is None:
            return current
        known = self._known.get(version) or self._earlier(version)
        if known is None:
            return current
        self._known |= {version: known, known.version: known}  # without a lesson that was parked it is another one
        return known


_Mark = tuple[int, ...] | None
"""Times, size and inode of files, which change when they are replaced; None where the watched one does not exist."""


@dataclass(frozen=True, slots=True)
class _Held:
    """The last library that could be read, and what happened since."""

    served: ServedVersions
    mark: _Mark
    """State of the watched file when the library was read."""
    refused: _Mark = ()
    """State of the watched file that could not be read last; empty when there is none."""
    retry_at: float = 0.0


class _FollowedLibrary(LibrarySource):
    """A library that is read again when a new version is published. Works from threads and several event loops.

    name: what was given. watched: the file that a publication replaces. logs: those that say what may not be shown,
    below the folder of all libraries. load: reads the library; raises LibraryError.
    """

    follows = True

    def __init__(
        self,
        name: str,
        watched: Path,
        logs: tuple[Path, str],
        load: Callable[[], ServedVersions],
        *,
        missing: WhenMissing,
        canary: bool,
        earlier: EarlierVersions | None,
    ) -> None:
        self.name, self.canary, self._earlier, self._known = name, canary, earlier, {}
        self.watched, self._logs = watched, logs
        self._load = load
        self._lock = threading.Lock()
        mark = self._mark()
        try:
            self._held = _Held(load(), mark)
        except LibraryError as error:
            if missing == "error":
                raise
            self._held = _Held(ServedVersions(EMPTY_LIBRARY), None)
            if mark is not None:
                self._refuse(mark, error)

    @property
    def identity(self) -> object:
        """The watched file."""
        return str(self.watched)

    def current(self, episode: str | None = None) -> Library:
        """The newest published version that can be read, or the canary where the episode reads that."""
        held = self._held
        if self._mark() == held.mark:
            return held.served.of(self.name, episode)
        with self._lock:
            return self._read().of(self.name, episode)

    def _read(self) -> ServedVersions:
        mark, held = self._mark(), self._held
        if mark == held.mark or (mark == held.refused and time.monotonic() < held.retry_at):
            return held.served
        self._known = {}
        try:
            self._held = _Held(self._load(), mark)
        except LibraryError as error:
            self._refuse(mark, error)
        return self._held.served

    def _mark(self) -> _Mark:
        if not self.watched.exists():
            return None
        found, (libraries, logs) = list[int](), self._logs  # a canary, and what is parked, may change the log alone
        for one in (self.watched, libraries / ERASED_FILE, *libraries.glob(logs)):
            with suppress(OSError):
                state = one.stat()
                found += (state.st_mtime_ns, state.st_ctime_ns, state.st_size, state.st_ino)
        return tuple(found)

    def _refuse(self, mark: _Mark, error: LibraryError) -> None:
        """Keep the library that is held, and warn once about each state of the file that cannot be read."""
        held = self._held
        if mark != held.refused:
            _log.warning(
                "library.kept name=%r version=%r code=%s reason=%s",
                self.name,
                held.served.library.version[:8],
                error.code,
                error.message,
            )
        self._held = _Held(held.served, held.mark, mark, time.monotonic() + RETRY_S)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())


def open_source(
    given: GivenLibrary,
    *,
    store: Path | str | None = None,
    follow: bool = False,
    missing: WhenMissing = "error",
    canary: bool = False,
) -> LibrarySource:
    """Return the source of what an application gave. Raises LibraryError.

    store: the directory that `agentlearn learn --store` wrote to; None: `AGENTLEARN_STORE`, else `.agentlearn`. It is
    made absolute here. follow: read the library again when a new version is published. missing: what to do where the
    library does not exist; an unknown version of a library that exists is always an error. canary: let a share of
    episodes read the library's canary, while it has one; the history of the library says which share.
    """
    if not isinstance(canary, bool):  # pyright: ignore[reportUnnecessaryIsInstance] - programs without types
        raise LibraryError(
            f"canary is {canary!r}; the share is a part of the library, so that all processes agree: agentlearn library"
            " canary NAME@VERSION --share 1/10, and canary=True here"
        )
    if canary and not (isinstance(given, str) and is_library_name(given)):
        raise LibraryError(f"canary=True needs the name of a library, not {given!r:.80}")
    if missing not in get_args(WhenMissing):
        raise LibraryError(f"missing is {missing!r}; use 'error' or 'empty'")
    match given:
        case Library():
            library, because = given, "a Library object never changes"
        case str() | PathLike():
            if store is None:
                from agentlearn.config.defaults import default_store  # here: applications need no settings

                store = default_store()
            libraries = LibraryStore(Path(store).absolute() / "libraries")
            return _stored(given, libraries, follow=follow, missing=missing, canary=canary)
        case list() | tuple():
            library, because = Library.of(given), "lessons in words never change"
        case _:
            raise LibraryError(
                f"a library is given as a name, a file, a Library or a list of lessons, not as {given!r:.80}"
            )
    return _fixed(library, None, because, follow=follow)


def _stored(
    given: str | PathLike[str], libraries: LibraryStore, *, follow: bool, missing: WhenMissing, canary: bool
) -> LibrarySource:
    """The source of a library in a file, or in a store by its reference."""
    is_file = not isinstance(given, str) or names_file(given)
    if is_file:
        watched = Path(given).absolute()
        name, load = given if isinstance(given, str) else str(watched), partial(libraries.read_file, watched)
    elif any(sign.isspace() for sign in str(given).strip()):
        raise LibraryError(f"{given!r:.80} is not the name of a library; give lessons in words as a list")
    else:
        name, load = str(given), partial(libraries.load, str(given))
        moves = name != NO_LIBRARY and (follow or "@" not in name)
        watched = libraries.watched(name) if moves else None
    served = partial(libraries.served, name) if canary else partial(_alone, load)
    earlier = partial(libraries.still_read, name) if is_library_name(name) else None
    if follow and watched is not None:
        logs = libraries.directory, f"{'*' if is_file else name.partition('@')[0]}/{LOG_FILE}"
        return _FollowedLibrary(name, watched, logs, served, missing=missing, canary=canary, earlier=earlier)
    try:
        library = served()
    except LibraryError as error:
        absent = not watched.exists() if is_file and watched else error.code == "unknown_library"
        if missing == "error" or not absent:
            raise
        library = ServedVersions(EMPTY_LIBRARY)
    because = f"{given!r} always means the same lessons"
    return _fixed(library, name, because, follow=follow, canary=canary, earlier=earlier)


def _alone(load: Callable[[], Library]) -> ServedVersions:
    return ServedVersions(load())


def _fixed(
    library: Library | ServedVersions,
    name: str | None,
    because: str,
    *,
    follow: bool,
    canary: bool = False,
    earlier: EarlierVersions | None = None,
) -> LibrarySource:
    if follow:
        raise LibraryError(
            f"follow=True needs a library that is published under a name, and {because}; give the name, or leave"
            " follow out"
        )
    return LibrarySource(library, name, canary=canary, earlier=earlier)


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
