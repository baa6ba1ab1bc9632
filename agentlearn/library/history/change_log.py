"""The files of a library: the log of its changes, `HEAD`, the lock of those who change it, and its versions.

A line of the log `NAME/history.jsonl` is JSON with sorted keys and holds the hash of the line before it, so a line that
was changed, added or removed later does not fit its neighbours. The log is only ever appended to. A change counts when
its whole line is on disk. What a crash left of a line is not a change, and the next append removes it. Programs that
follow a library watch `NAME/HEAD`. It follows from the log and is written after it; a reader that finds the two
different corrects HEAD. A HEAD that names more versions than the log shows that lines of the log are lost.

`NAME/history.cache` holds what the first lines mean together, so that a reader need not parse them again. It is
believed only where it has the hash of itself, of these lines and of the part of HEAD that follows from them; else it is
ignored and replaced. The clock is not used.

`NAME/files/SHA256` holds the bytes of a file that came with a skill.

A version `NAME/VERSION.json` is written once and never changed. It holds all lessons, or what changed since another
version and the hash of that version's file.
"""

import fcntl
import hashlib
import json
import os
import re
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError

from agentlearn.errors import LibraryError
from agentlearn.library.formats import changes_text, library_text, parse_library
from agentlearn.text.files import own, own_folder, sync, write_whole
from agentlearn.types.experience import Library
from agentlearn.types.ids import ExperienceId, LibraryVersion, content_hash
from agentlearn.types.operation import Add, Delete, Merge, Modify
from agentlearn.types.value import Value

FORMAT = 1
"""The format of a line that this agentlearn writes."""

ChangeKind = Literal[
    "publish",
    "learn",
    "add",
    "edit",
    "remove",
    "park",
    "unpark",
    "approve",
    "reject",
    "import",
    "join",
    "rollback",
    "branch",
    "canary",
    "end_canary",
    "promote",
    "pin",
    "unpin",
    "tag",
]
"""What a change did. `join`, `pin`, `unpin` and `tag` are only read; the last three name no version."""
STILL = frozenset[str]({"canary", "end_canary", "pin", "unpin", "tag"})
"""Kinds that move no branch."""


class ParkLesson(Value):
    """Keep a lesson and show it to no agent."""

    op: Literal["park"] = "park"
    target: ExperienceId
    reason: str = ""


class UnparkLesson(Value):
    """Show a parked lesson again."""

    op: Literal["unpark"] = "unpark"
    target: ExperienceId


class ApproveLesson(Value):
    """Show a lesson that waited for a person."""

    op: Literal["approve"] = "approve"
    target: ExperienceId


class RejectLesson(Value):
    """Refuse a lesson that waited for a person. The library no longer holds it."""

    op: Literal["reject"] = "reject"
    target: ExperienceId
    lesson: str
    """Its words, which later runs do not propose again."""


HistoryOperation = Annotated[
    Add | Modify | Merge | Delete | ParkLesson | UnparkLesson | ApproveLesson | RejectLesson, Field(discriminator="op")
]
"""One operation of a change: what a person or the evidence did to one lesson."""


def parked_by(operations: Iterable[HistoryOperation]) -> dict[ExperienceId, str | None]:
    """The lessons that operations park, with the reasons, and those that they show again, with None."""
    found = (one for one in operations if isinstance(one, ParkLesson | UnparkLesson))
    return {one.target: one.reason if isinstance(one, ParkLesson) else None for one in found}


class Change(Value):
    """One line of a library's log."""

    format: Literal[1] = FORMAT
    number: int = Field(ge=0)
    """Place in the log, from 0."""
    at: datetime
    kind: ChangeKind
    branch: str
    """The branch that it moved or made."""
    version: LibraryVersion
    """The version after the change."""
    before: LibraryVersion | None = None
    """The version of the branch before it; None for the first one."""
    base: LibraryVersion | None = None
    """The version that a learn run started from. The versions in between are in the trajectory store."""
    label: str = ""
    """The name of a `tag`."""
    operations: tuple[HistoryOperation, ...] = ()
    """What was done to single lessons; empty where whole versions were published, joined or made current."""
    copied: dict[ExperienceId, tuple[ExperienceId, ...]] = Field(
        default_factory=dict[ExperienceId, tuple[ExperienceId, ...]], exclude_if=lambda copied: not copied
    )
    """By lesson that came from elsewhere: the lessons of this store that it was copied from, as far as is known."""
    accepted: tuple[str, ...] = ()
    """Codes of rules that the person set aside."""
    decided: str = Field(default="", exclude_if=lambda decided: not decided)
    """What of a run waited and was approved with it: the id of a proposal, or a version."""
    share: float | None = Field(default=None, exclude_if=lambda share: share is None)
    """For `canary`: the share of episodes that read the version, above 0 and at most 1/2."""
    margin: float | None = Field(default=None, exclude_if=lambda margin: margin is None)
    """For `canary`: by how much the mean reward may be lower, at most, for the version to be promoted."""
    feedback_days: float | None = Field(default=None, exclude_if=lambda days: days is None)
    """For `canary`: how many days an episode without feedback is waited for; None: as long as feedback takes."""
    figures: dict[str, float] = Field(default_factory=dict[str, float], exclude_if=lambda figures: not figures)
    """What a decision by rule rests on; empty where a person decided."""
    who: str = ""
    """Name of the person's account; empty for a program."""
    note: str = ""
    run: str = ""
    """The run that made the version."""
    previous: str
    """Hash of the line before it."""

    @property
    def makes(self) -> bool:
        """Whether it may bring lessons that no library showed before. A canary is on trial: no run may publish it."""
        return self.kind not in {"branch", "rollback", *STILL}

    @property
    def why(self) -> str:
        """Its note, and why it parked lessons, each once; empty without both."""
        reasons = (one.reason for one in self.operations if isinstance(one, ParkLesson))
        return "; ".join(filter(None, dict.fromkeys((self.note, *reasons))))

    @property
    def moves(self) -> bool:
        """Whether it makes a version the current one of a branch."""
        return self.kind not in STILL

    @classmethod
    def parse(cls, line: bytes, number: int, previous: str, source: str) -> "Change":
        """Return the change in a line. Raises LibraryError, which names the line, where it does not fit its place."""
        where, reason, cause, change = f"line {number + 1} of {source!r}", "", None, None
        with suppress(ValueError):  # the rest says what is wrong with a line, and reads what only Python's JSON does
            change = cls.model_validate_json(line)
            if change.number == number and change.previous == previous:
                return change
        try:
            document: Any = json.loads(line)
            form = document.get("format") if isinstance(document, dict) else None
            if isinstance(form, int) and form > FORMAT:
                raise LibraryError(f"{where} was written by a newer agentlearn; pip install --upgrade agentlearn-lib")
            change = cls.model_validate(document)
        except (ValueError, RecursionError, ValidationError) as error:
            reason = "its fields cannot be read" if isinstance(error, ValidationError) else "it is not JSON"
            cause = error
        if change is not None and change.number != number:
            reason = f"it has the number {change.number}, and {number} was expected"
        elif change is not None and change.previous != previous:
            reason = "it does not follow the line before it"
        if change is None or reason:
            raise LibraryError(f"{where} is damaged: {reason}; {_RESTORE}") from cause
        return change

    @property
    def line(self) -> bytes:
        """Its line, without its end. Equal changes have equal lines on every machine."""
        document = self.model_dump(mode="json")
        text = json.dumps(document, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return text.encode("utf-8", "backslashreplace")


def _line_hash(line: bytes) -> str:
    """Return the hash of a line without its end: 32 hex digits (BLAKE2b, 128 bits)."""
    return hashlib.blake2b(line, digest_size=16).hexdigest()


NO_LINE = _line_hash(b"")
"""What the first line has as the hash of the line before it."""
_RESTORE = "restore the file from a copy, or export a version to a file and begin a new library with it"


MAIN = "main"
"""The branch that every library has. The name of a library alone means its current version."""

HeadEntry = tuple[LibraryVersion, datetime]
"""A version, and when the library's name began to mean it."""


@dataclass(slots=True)
class LibraryState:
    """What the names of a library mean."""

    branches: dict[str, LibraryVersion] = field(default_factory=dict[str, LibraryVersion])
    """The current version of each branch."""
    parked: dict[ExperienceId, str | None] = field(default_factory=dict[ExperienceId, str | None])
    """Why each lesson was parked on `main`; None for one that was shown again since."""

    @property
    def current(self) -> LibraryVersion | None:
        """The version that the library's name means; None before the first change of `main`."""
        return self.branches.get(MAIN)

    def take(self, change: Change) -> bool:
        """Take in the next change. Returns whether HEAD has a line for it: the name means another version from then on.

        A `pin` and an `unpin` have one too, because HEAD got one when they were made.
        """
        before = self.current
        if change.moves:
            self.branches[change.branch] = change.version
        if change.branch == MAIN:
            self.parked |= parked_by(change.operations)
        return self.current is not None and (self.current != before or change.kind in {"pin", "unpin"})

    @classmethod
    def of(cls, changes: Iterable[Change]) -> Self:
        """Return the state after all of these changes."""
        state = cls()
        for change in changes:
            state.take(change)
        return state


FILES = "files"
"""The folder with the bytes of files beside skills, each under its hash. None of them is ever run."""
LOG_FILE = "history.jsonl"
HEAD_FILE = "HEAD"
_CACHE_FILE = "history.cache"
CACHED_EVERY = 64
"""Number of changes after which the cache is written again."""
_LOCK_FILE = "history.lock"
_WAIT_S = 30.0
"""Seconds to wait for another process before giving up."""
_PAUSE_S = 0.01


@contextmanager
def locked(file: Path, *, wait_s: float = _WAIT_S) -> Generator[None]:
    """Hold a lock file of this user. Raises LibraryError after `wait_s` seconds; OSError where it cannot be made."""
    ends = time.monotonic() + wait_s
    fd = os.open(own(file, file.parent), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > ends:
                    raise LibraryError(
                        f"another process has changed {str(file.parent)!r} for {wait_s:.0f} seconds; wait until it ends"
                    ) from error
            time.sleep(_PAUSE_S)
        yield
    finally:
        os.close(fd)


class _LogCache(Value):
    """What the first lines of a log mean together."""

    format: Literal[1] = 1
    lines: int = Field(ge=0)
    size: int = Field(ge=0)
    """Bytes of these lines."""
    tip: str
    head_size: int = Field(ge=0)
    """Bytes of HEAD that follow from these lines."""
    covers: str
    """Hash of these lines and of that part of HEAD."""
    branches: dict[str, LibraryVersion]
    parked: dict[ExperienceId, str | None]

    def fits(self, log: bytes, head: bytes) -> bool:
        """Whether the log and HEAD begin with what it was made from."""
        return self.covers == self.hash_of(log[: self.size], head[: self.head_size])

    @staticmethod
    def hash_of(log: bytes, head: bytes) -> str:
        """Return the hash of lines and the part of HEAD that follows from them (SHA-256; both count by length)."""
        found = hashlib.sha256(b"%d %d\n" % (len(log), len(head)))
        found.update(log)
        found.update(head)
        return found.hexdigest()

    @classmethod
    def parse(cls, content: bytes) -> Self | None:
        """Return the cache in a file; None for one that is torn, was changed, or has another format."""
        check, _, text = content.partition(b"\n")
        try:
            return cls.model_validate_json(text) if check.decode() == content_hash(text.decode()) else None
        except ValueError:
            return None

    def file_content(self) -> bytes:
        """The hash of the cache, and the cache."""
        text = self.model_dump_json()
        return f"{content_hash(text)}\n{text}".encode()


@dataclass(slots=True)
class _LoggedChanges:
    """What the log says. Lines are taken in one by one, after those that the cache covers."""

    source: str
    """Name of the log, for messages."""
    log: bytes = b""
    """The whole lines."""
    head: bytes = b""
    """What HEAD holds after these lines."""
    lines: int = 0
    tip: str = NO_LINE
    """Hash of the last line."""
    state: LibraryState = field(default_factory=LibraryState)
    cached: int = 0
    """Number of lines that the cache on disk covers."""
    head_fits: bool = False
    """Whether HEAD on disk is what follows from the lines."""
    _taken: list[Change] = field(default_factory=list[Change])

    @property
    def changes(self) -> tuple[Change, ...]:
        """All changes, oldest first. Raises LibraryError."""
        earlier, previous = list[Change](), NO_LINE
        for number, line in enumerate(self.log.split(b"\n")[: self.lines - len(self._taken)]):
            earlier.append(Change.parse(line, number, previous, self.source))
            previous = _line_hash(line)
        return (*earlier, *self._taken)

    @property
    def stale(self) -> bool:
        """Whether the cache on disk lacks many lines."""
        return self.lines - self.cached >= CACHED_EVERY

    def take(self, change: Change, line: bytes) -> bytes:
        """Take in the next change, whose line is in the log. Returns what it adds to HEAD."""
        self._taken.append(change)
        self.lines, self.tip = self.lines + 1, _line_hash(line)
        return f"{self.state.current} {change.at.isoformat()}\n".encode() if self.state.take(change) else b""

    @classmethod
    def of(cls, log: bytes, shown: bytes, cache: _LogCache | None, source: str) -> Self:
        """Return what a log says. log: its whole lines. shown: what HEAD holds. Raises LibraryError."""
        logged, size = cls(source, log), 0
        if cache is not None and cache.fits(log, shown):
            state = LibraryState(dict(cache.branches), dict(cache.parked))
            logged, size = (
                cls(source, log, shown[: cache.head_size], cache.lines, cache.tip, state, cache.lines),
                cache.size,
            )
        lines = log[size:].split(b"\n")[:-1]
        added = [logged.take(Change.parse(one, logged.lines, logged.tip, source), one) for one in lines]
        logged.head += b"".join(added)
        logged.head_fits = logged.head == shown
        return logged


class ChangeLog:
    """The log in a library's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / LOG_FILE
        self.head = folder / HEAD_FILE

    def exists(self) -> bool:
        """Whether the folder holds a library."""
        return self.head.is_file() or (self.file.is_file() and bool(self._read().lines))

    def read(self) -> _LoggedChanges:
        """Return what the log says. Corrects HEAD where a crash left it behind. Raises LibraryError."""
        logged = self._read()
        if not logged.head_fits or logged.stale:
            # A reader may lack the right to write, and a process that holds the lock writes these files itself.
            with suppress(OSError, LibraryError), locked(self.folder / _LOCK_FILE, wait_s=0.0):
                logged = self._repaired()
        return logged

    @contextmanager
    def writing(self) -> Generator["LogWriter"]:
        """Hold the lock, and return what appends changes. Raises LibraryError and OSError."""
        own_folder(self.folder, self.folder.parent.parent)
        with locked(self.folder / _LOCK_FILE):
            yield LogWriter(self, self._repaired())

    def _content(self, file: Path) -> bytes:
        return own(file, self.folder.parent.parent).read_bytes()

    def _read(self) -> _LoggedChanges:
        shown, cache, content = b"", None, b""
        with suppress(OSError):  # HEAD and the cache follow from the log; a writer appends to it before it writes them
            shown = self._content(self.head)
        with suppress(OSError):
            cache = _LogCache.parse(self._content(self.folder / _CACHE_FILE))
        try:
            content = self._content(self.file)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise LibraryError(f"{str(self.file)!r} cannot be read: {error}") from error
        whole = content[: content.rfind(b"\n") + 1]  # a crash cut off a line without an end
        logged = _LoggedChanges.of(whole, shown, cache, str(self.file))
        if len(shown) > len(logged.head) and shown.startswith(logged.head):
            raise LibraryError(f"{str(self.file)!r} is damaged: it lacks changes that {HEAD_FILE} shows; {_RESTORE}")
        return logged

    def _repaired(self) -> _LoggedChanges:
        """Read the log again, and correct HEAD and the cache. Raises LibraryError and OSError."""
        logged = self._read()
        if not logged.head_fits:
            write_whole(self.head, logged.head, private=True)
            logged.head_fits = True
        self.keep(logged)
        return logged

    def keep(self, logged: _LoggedChanges) -> None:
        """Write the cache where it lacks many lines. The lock is held. Without it a reader is only slower."""
        if not logged.stale:
            return
        cache = _LogCache(
            lines=logged.lines,
            size=len(logged.log),
            tip=logged.tip,
            head_size=len(logged.head),
            covers=_LogCache.hash_of(logged.log, logged.head),
            branches=logged.state.branches,
            parked=logged.state.parked,
        )
        with suppress(OSError):
            write_whole(self.folder / _CACHE_FILE, cache.file_content(), private=True)
            logged.cached = logged.lines


class LogWriter:
    """Appends changes while the lock is held."""

    def __init__(self, log: ChangeLog, logged: _LoggedChanges) -> None:
        self._log = log
        self.logged = logged

    def append(self, **fields: Any) -> Change:
        """Append a change with these fields and return it. The log is on disk before HEAD. Raises OSError."""
        logged, log = self.logged, self._log
        change = Change(number=logged.lines, previous=logged.tip, **fields)
        line = change.line
        self._append(log.file, len(logged.log), line + b"\n")
        logged.log += line + b"\n"
        if (meant := logged.take(change, line)) or not log.head.exists():
            self._append(log.head, len(logged.head), meant)
            logged.head += meant
        log.keep(logged)
        return change

    @staticmethod
    def _append(file: Path, size: int, added: bytes) -> None:
        """Write after the first `size` bytes; what a crash left behind them is cut off. A failure leaves those."""
        new = not file.exists()
        fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(fd, size)
            os.lseek(fd, size, os.SEEK_SET)
            left = memoryview(added)
            try:
                while left:
                    left = left[os.write(fd, left) :]
                os.fsync(fd)
            except OSError:
                with suppress(OSError):
                    os.ftruncate(fd, size)
                raise
        finally:
            os.close(fd)
        if new:
            sync(file.parent)


NO_LIBRARY = "none"
"""The reference to the empty library."""
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_VERSION_PREFIX = re.compile(r"[0-9a-f]{1,32}")


def is_library_name(name: str) -> bool:
    """Whether a library can have this name."""
    return bool(_NAME.fullmatch(name)) and not name.endswith(".json") and name != NO_LIBRARY


def names_file(reference: str) -> bool:
    """Whether a reference to a library is the path of a file."""
    return reference.endswith(".json") or "/" in reference


def is_version_prefix(text: str) -> bool:
    """Whether a text can be the start of a version."""
    return bool(_VERSION_PREFIX.fullmatch(text))


def checked_name(name: str, noun: Literal["library", "branch"] = "library") -> str:
    """Return the name of a library or a branch. Raises LibraryError if it cannot have the name."""
    if noun != "library" and is_version_prefix(name):
        raise LibraryError(
            f"{name!r} could be the start of a version; use a name with a letter after 'f' or a '-', such as"
            f" {'v-' + name[:20]!r}"
        )
    if not is_library_name(name):
        raise LibraryError(
            f"{name!r} {'is not a valid library name' if noun == 'library' else f'cannot name a {noun}'}; use up to 64"
            " lower-case letters, digits, '.', '_' and '-', a letter or digit first, other than"
            f" {NO_LIBRARY!r} and not ending in '.json'"
        )
    return name


_MAX_STEPS = 15
"""How many files a version may build on. But for the whole version among them, they have at most half of its size."""


@dataclass(frozen=True, slots=True)
class _VersionFile:
    """A version as its file says it."""

    library: Library
    hash: str
    """SHA-256 of the file."""
    steps: int
    """Number of files that it builds on; 0 where it holds all lessons."""
    changed: int
    """Bytes of it and those files, without the one that holds all lessons."""
    whole: int
    """Bytes of that one."""


class VersionFiles:
    """The version files of one library. directory: the library store. name: the library."""

    def __init__(self, directory: Path, name: str) -> None:
        self.directory = directory
        self.folder = directory / name

    def listed(self) -> tuple[LibraryVersion, ...]:
        """Every version that has a file, sorted."""
        return tuple(LibraryVersion(file.stem) for file in sorted(self.folder.glob("*.json")))

    def save(self, library: Library, near: LibraryVersion | None = None) -> Path:
        """Write the version unless it is there, and return its file. Raises OSError.

        near: a version with nearly the same lessons, where the store may lack the version's parents.
        """
        file = self._file(library.version)
        if not file.exists():
            text = ""
            for base in (one for one in (library.parent, library.joined, near) if one and self._file(one).exists()):
                with suppress(LibraryError):  # what builds on a damaged file could not be read
                    found = self._read(base, {})
                    changed = changes_text(library, found.library, found.hash)
                    if found.steps < _MAX_STEPS and 2 * (found.changed + len(changed)) < found.whole:
                        text = changed
                        break
            write_whole(file, (text or library_text(library)).encode("utf-8", "backslashreplace"), private=True)
        return file

    def keep(self, contents: Iterable[bytes]) -> None:
        """Write the bytes of files beside a skill, each under its hash, unless they are there. Raises OSError."""
        for content in contents:
            file = self.folder / FILES / hashlib.sha256(content).hexdigest()
            if not own(file, self.directory.parent).exists():
                own_folder(file.parent, self.directory.parent)
                write_whole(file, content, private=True)

    def load(self, version: LibraryVersion) -> Library:
        """Return the version. Raises LibraryError when its file is missing, unreadable or holds another version."""
        return self._read(version, {}).library

    def load_unchanged(self, version: LibraryVersion, hash_of_file: str) -> Library:
        """Return the version of a file with this SHA-256. Raises LibraryError."""
        if (found := self._read(version, {})).hash != hash_of_file:
            raise LibraryError(
                f"{str(self._file(version))!r} was changed after versions had been made from it; {_RESTORE}"
            )
        return found.library

    def several(self, versions: Iterable[LibraryVersion]) -> Iterator[tuple[LibraryVersion, Library | LibraryError]]:
        """Yield these versions, or why one cannot be read. Each file is read once, and equal lessons are one object."""
        known = dict[LibraryVersion, _VersionFile]()
        for version in versions:
            try:
                yield version, self._read(version, known).library
            except LibraryError as error:
                yield version, error

    def _file(self, version: LibraryVersion) -> Path:
        return self.folder / f"{version}.json"

    def _read(self, version: LibraryVersion, known: dict[LibraryVersion, _VersionFile], left: int = 99) -> _VersionFile:
        """Return what the file of a version says. known: files that were read before. left: files it may build on."""
        if version in known:
            return known[version]
        file, below = self._file(version), list[_VersionFile]()

        def built_on(base: LibraryVersion, hash_of_file: str) -> Library:
            if not left or not is_version_prefix(base):
                raise LibraryError(f"{str(file)!r} builds on {base!r:.40}, which it cannot; {_RESTORE}")
            found = self._read(base, known, left - 1)
            if found.hash != hash_of_file:
                raise LibraryError(
                    f"{str(self._file(base))!r} was changed after {str(file)!r} had been made from it; {_RESTORE}"
                )
            below.append(found)
            return found.library

        try:
            content = own(file, self.directory.parent).read_bytes()
            library = parse_library(content.decode(), str(file), built_on)
        except (OSError, UnicodeDecodeError) as error:
            raise LibraryError(f"library file {str(file)!r} cannot be read: {error}") from error
        if library.version != version:
            raise LibraryError(f"{str(file)!r} holds version {library.version[:8]!r}; publish the library again")
        steps = 1 + below[0].steps if below else 0
        changed, whole = (len(content) + below[0].changed, below[0].whole) if below else (0, len(content))
        known[version] = _VersionFile(library, hashlib.sha256(content).hexdigest(), steps, changed, whole)
        return known[version]


def account_name() -> str:
    """Return the name of this account, or its number when it has none."""
    try:
        from getpass import getuser  # here: only changes need it

        return getuser()
    except (OSError, KeyError, ImportError):
        return f"uid {os.getuid()}" if hasattr(os, "getuid") else "unknown"
