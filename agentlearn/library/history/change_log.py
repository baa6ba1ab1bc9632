"""The files of a library: the log of its changes, `HEAD`, the lock of those who change it, and its versions.

A line of the log `NAME/history.jsonl` is JSON with sorted keys and holds the hash of the line before it, so a line that
was changed, added or removed later does not fit its neighbours. The log is only ever appended to. A change counts when
its whole line is on disk. What a crash left of a line is not a change, and the next append removes it. Programs that
follow a library watch `NAME/HEAD`. It follows from the log and is written after it; a reader that finds the two
different corrects HEAD. A HEAD that names more versions than the log shows that lines of the log are lost. A version
`NAME/VERSION.json` is written once and never changed.
"""

import fcntl
import getpass
import hashlib
import json
import os
import re
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from agentlearn.errors import LibraryError
from agentlearn.files import own, own_folder, sync, write_whole
from agentlearn.library.formats import library_text, parse_library
from agentlearn.types.experience import Library
from agentlearn.types.ids import ExperienceId, LibraryVersion
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
    "pin",
    "unpin",
    "tag",
    "branch",
    "canary",
    "end_canary",
    "promote",
]
"""What a change did. `pin`, `unpin`, `tag`, `canary` and `end_canary` move no branch; every other kind does."""
STILL = frozenset[str]({"pin", "unpin", "tag", "canary", "end_canary"})
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
    """The version after the change; for `pin` and `tag`, the version that the name now means."""
    before: LibraryVersion | None = None
    """The version of the branch before it; None for the first one."""
    base: LibraryVersion | None = None
    """The version that a learn run started from. The versions in between are in the trajectory store."""
    label: str = ""
    """The name of a tag."""
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
        return self.kind not in {"pin", "unpin", "tag", "branch", "rollback", "canary", "end_canary"}

    @property
    def moves(self) -> bool:
        """Whether it makes a version the current one of a branch."""
        return self.kind not in STILL

    @classmethod
    def parse(cls, line: bytes, number: int, previous: str, source: str) -> "Change":
        """Return the change in a line. Raises LibraryError, which names the line, where it does not fit its place."""
        where, reason, cause, change = f"line {number + 1} of {source!r}", "", None, None
        try:
            document: Any = json.loads(line)
            form = document.get("format") if isinstance(document, dict) else None
            if isinstance(form, int) and form > FORMAT:
                raise LibraryError(
                    f"{where} was written by a newer agentlearn; pip install --upgrade agentlearn-lib",
                    code="newer_history",
                )
            change = cls.model_validate(document)
        except (ValueError, RecursionError, ValidationError) as error:
            reason = "its fields cannot be read" if isinstance(error, ValidationError) else "it is not JSON"
            cause = error
        if change is not None and change.number != number:
            reason = f"it has the number {change.number}, and {number} was expected"
        elif change is not None and change.previous != previous:
            reason = "it does not follow the line before it"
        if change is None or reason:
            raise LibraryError(
                f"{where} is damaged: {reason}; {_RESTORE}",
                code="history_damaged",
            ) from cause
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


@dataclass(frozen=True, slots=True)
class LibraryState:
    """What the names of a library mean."""

    branches: dict[str, LibraryVersion] = field(default_factory=dict[str, LibraryVersion])
    """The current version of each branch."""
    tags: dict[str, LibraryVersion] = field(default_factory=dict[str, LibraryVersion])
    """The version of each tag, which never changes."""
    pinned: LibraryVersion | None = None
    """The version that the library's name means until it is unpinned; None: the current version of `main`."""

    @property
    def current(self) -> LibraryVersion | None:
        """The version that the library's name means; None before the first change of `main`."""
        return self.pinned or self.branches.get(MAIN)

    def after(self, change: Change) -> "LibraryState":
        """The state after one more change."""
        match change.kind:
            case "pin":
                return replace(self, pinned=change.version)
            case "unpin":
                return replace(self, pinned=None)
            case "tag":
                return replace(self, tags={**self.tags, change.label: change.version})
            case "canary" | "end_canary":
                return self
            case _:
                return replace(self, branches={**self.branches, change.branch: change.version})

    @classmethod
    def of(cls, changes: Iterable[Change]) -> "LibraryState":
        """Return the state after all of these changes."""
        state = cls()
        for change in changes:
            state = state.after(change)
        return state

    @classmethod
    def heads(cls, changes: Iterable[Change]) -> tuple[HeadEntry, ...]:
        """Return each version that the library's name came to mean, with the time, oldest first."""
        state, entries = cls(), list[HeadEntry]()
        for change in changes:
            before, state = state.current, state.after(change)
            if state.current is not None and state.current != before:
                entries.append((state.current, change.at))
        return tuple(entries)


LOG_FILE = "history.jsonl"
HEAD_FILE = "HEAD"
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
                        f"another process has changed {str(file.parent)!r} for {wait_s:.0f} seconds; wait until it"
                        " ends",
                        code="library_locked",
                    ) from error
            time.sleep(_PAUSE_S)
        yield
    finally:
        os.close(fd)


@dataclass(frozen=True, slots=True)
class _LoggedChanges:
    """What the log holds, and whether HEAD follows from it."""

    changes: tuple[Change, ...]
    """All changes, oldest first."""
    size: int
    """Bytes of the log's whole lines."""
    tip: str
    """Hash of the last change's line."""
    head_fits: bool
    """Whether HEAD says what follows from the changes."""


class ChangeLog:
    """The log in a library's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / LOG_FILE
        self.head = folder / HEAD_FILE

    def exists(self) -> bool:
        """Whether the folder holds a library."""
        return self.head.is_file() or (self.file.is_file() and bool(self._read().changes))

    def read(self) -> _LoggedChanges:
        """Return the changes, and correct HEAD where a crash left it behind. Raises LibraryError."""
        logged = self._read()
        if not logged.head_fits:
            # A reader may lack the right to write, and a process that holds the lock writes HEAD itself.
            with suppress(OSError, LibraryError), locked(self.folder / _LOCK_FILE, wait_s=0.0):
                logged = self._repaired()
        return logged

    @contextmanager
    def writing(self) -> Generator["LogWriter"]:
        """Hold the lock, and return what appends changes. Raises LibraryError and OSError."""
        own_folder(self.folder, self.folder.parent.parent)
        with locked(self.folder / _LOCK_FILE):
            yield LogWriter(self, self._repaired())

    def _read(self) -> _LoggedChanges:
        try:  # read first, because a writer appends to the log before it writes HEAD
            shown = own(self.head, self.folder.parent.parent).read_bytes()
        except OSError:  # it follows from the log
            shown = b""
        try:
            content = own(self.file, self.folder.parent.parent).read_bytes()
        except FileNotFoundError:
            content = b""
        except OSError as error:
            raise LibraryError(f"{str(self.file)!r} cannot be read: {error}") from error
        lines = content.split(b"\n")[:-1]  # what stands after the last line end is no change
        changes, previous = list[Change](), NO_LINE
        for number, line in enumerate(lines):
            changes.append(Change.parse(line, number, previous, str(self.file)))
            previous = _line_hash(line)
        derived = self.head_of(changes)
        if len(shown) > len(derived) and shown.startswith(derived):
            raise LibraryError(
                f"{str(self.file)!r} is damaged: it lacks changes that {HEAD_FILE} shows; {_RESTORE}",
                code="history_damaged",
            )
        size = sum(len(line) + 1 for line in lines)
        return _LoggedChanges(tuple(changes), size, previous, head_fits=derived == shown)

    def _repaired(self) -> _LoggedChanges:
        """Read the log again, and correct HEAD. Raises LibraryError and OSError."""
        logged = self._read()
        if not logged.head_fits:
            write_whole(self.head, self.head_of(logged.changes), private=True)
        return replace(logged, head_fits=True)

    @staticmethod
    def head_of(changes: Iterable[Change]) -> bytes:
        """What HEAD holds after these changes."""
        return "".join(f"{version} {at.isoformat()}\n" for version, at in LibraryState.heads(changes)).encode()


class LogWriter:
    """Appends changes while the lock is held."""

    def __init__(self, log: ChangeLog, logged: _LoggedChanges) -> None:
        self._log = log
        self.logged = logged

    @property
    def state(self) -> LibraryState:
        """What the names of the library mean after the changes so far."""
        return LibraryState.of(self.logged.changes)

    def append(self, **fields: Any) -> Change:
        """Append a change with these fields and return it. The log is on disk before HEAD. Raises OSError."""
        logged, log = self.logged, self._log
        change = Change(number=len(logged.changes), previous=logged.tip, **fields)
        changes, line = (*logged.changes, change), change.line
        self._append(line + b"\n")
        self.logged = _LoggedChanges(changes, logged.size + len(line) + 1, _line_hash(line), head_fits=True)
        head = log.head_of(changes)
        if head != log.head_of(logged.changes) or not log.head.exists():
            write_whole(log.head, head, private=True)
        return change

    def _append(self, added: bytes) -> None:
        """Write after the whole lines; what a crash left behind them is cut off. A failure leaves the whole lines."""
        file, size = self._log.file, self.logged.size
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


def is_version_prefix(text: str) -> bool:
    """Whether a text can be the start of a version."""
    return bool(_VERSION_PREFIX.fullmatch(text))


def checked_name(name: str, noun: Literal["library", "branch", "tag"] = "library") -> str:
    """Return the name of a library, a branch or a tag. Raises LibraryError if it cannot have the name."""
    code = "bad_library_name" if noun == "library" else "bad_label"
    if noun != "library" and is_version_prefix(name):
        raise LibraryError(
            f"{name!r} could be the start of a version; use a name with a letter after 'f' or a '-', such as"
            f" {'v-' + name[:20]!r}",
            code=code,
        )
    if not is_library_name(name):
        raise LibraryError(
            f"{name!r} {'is not a valid library name' if noun == 'library' else f'cannot name a {noun}'}; use up to 64"
            " lower-case letters, digits, '.', '_' and '-', a letter or digit first, other than"
            f" {NO_LIBRARY!r} and not ending in '.json'",
            code=code,
        )
    return name


class VersionFiles:
    """The version files of one library. directory: the library store. name: the library."""

    def __init__(self, directory: Path, name: str) -> None:
        self.directory = directory
        self.folder = directory / name

    def listed(self) -> tuple[LibraryVersion, ...]:
        """Every version that has a file, sorted."""
        return tuple(LibraryVersion(file.stem) for file in sorted(self.folder.glob("*.json")))

    def save(self, library: Library) -> Path:
        """Write the version unless it is there, and return its file. Raises OSError."""
        file = self.folder / f"{library.version}.json"
        if not file.exists():
            write_whole(file, library_text(library).encode("utf-8", "backslashreplace"), private=True)
        return file

    def load(self, version: LibraryVersion) -> Library:
        """Return the version. Raises LibraryError when its file is missing, unreadable or holds another version."""
        file = self.folder / f"{version}.json"
        try:
            library = parse_library(own(file, self.directory.parent).read_text(encoding="utf-8"), str(file))
        except (OSError, UnicodeDecodeError) as error:
            raise LibraryError(f"library file {str(file)!r} cannot be read: {error}") from error
        if library.version != version:
            raise LibraryError(f"{str(file)!r} holds version {library.version[:8]!r}; publish the library again")
        return library

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
        others = (one for one in sorted(self.directory.glob("*")) if one != self.folder and one.is_dir())
        return (self.folder, *(one for one in others if is_library_name(one.name)))


def account_name() -> str:
    """Return the name of this account, or its number when it has none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return f"uid {os.getuid()}" if hasattr(os, "getuid") else "unknown"
