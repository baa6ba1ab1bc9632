"""The log of a library's changes in `NAME/history.jsonl`, and `NAME/HEAD`, which programs that follow a library watch.

The log is only ever appended to. A change counts when its whole line is on disk. What a crash left of a line is not a
change, and the next append removes it. HEAD follows from the log: it is written after the log, and a reader that finds
the two different corrects HEAD. A HEAD that names more versions than the log shows that lines of the log are lost.

It is a `flock` on a file, which ends with the process. Where `fcntl` does not exist, it is a file that only one process
can create; after a crash that file stays, and the error says so.
"""

import errno
import os
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from agentlearn.errors import LibraryError
from agentlearn.files import own, own_folder, sync, write_whole
from agentlearn.library.history.change import NO_LINE, Change, change_line, line_hash, parse_change
from agentlearn.types.ids import LibraryVersion

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
            case _:
                return replace(self, branches={**self.branches, change.branch: change.version})


def state_after(changes: Iterable[Change]) -> LibraryState:
    """Return the state after all of these changes."""
    state = LibraryState()
    for change in changes:
        state = state.after(change)
    return state


def head_entries(changes: Iterable[Change]) -> tuple[HeadEntry, ...]:
    """Return each version that the library's name came to mean, with the time, oldest first."""
    state, entries = LibraryState(), list[HeadEntry]()
    for change in changes:
        before, state = state.current, state.after(change)
        if state.current is not None and state.current != before:
            entries.append((state.current, change.at))
    return tuple(entries)


try:
    import fcntl
except ImportError:  # pragma: no cover  not a POSIX system
    fcntl = None

LOCK_FILE = "history.lock"
WAIT_S = 30.0
"""Seconds to wait for another process before giving up."""
_PAUSE_S = 0.01


@contextmanager
def writer_lock(folder: Path, *, wait_s: float = WAIT_S) -> Generator[None]:
    """Hold the lock of a library's folder. Raises LibraryError after `wait_s`; OSError where it cannot be made."""
    file = folder / LOCK_FILE
    locks = fcntl
    if locks is None:
        with _created(file, wait_s):
            yield
        return
    fd = os.open(own(file, folder), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        _until_free(lambda: locks.flock(fd, locks.LOCK_EX | locks.LOCK_NB), file, wait_s)
        yield
    finally:
        os.close(fd)


@contextmanager
def _created(file: Path, wait_s: float) -> Generator[None]:
    held = file.with_suffix(".held")
    _until_free(lambda: os.close(os.open(held, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)), held, wait_s)
    try:
        yield
    finally:
        with suppress(OSError):
            held.unlink()


def _until_free(attempt: Callable[[], None], file: Path, wait_s: float) -> None:
    ends = time.monotonic() + wait_s
    while True:
        try:
            attempt()
        except OSError as error:
            if error.errno not in {errno.EAGAIN, errno.EACCES, errno.EEXIST}:
                raise
            if time.monotonic() > ends:
                raise LibraryError(
                    f"another process has changed {str(file.parent)!r} for {wait_s:.0f} seconds; wait until it ends,"
                    f" or delete {str(file)!r} if no such process exists",
                    code="library_locked",
                ) from error
            time.sleep(_PAUSE_S)
        else:
            return


LOG_FILE = "history.jsonl"
HEAD_FILE = "HEAD"


@dataclass(frozen=True, slots=True)
class LoggedChanges:
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

    def read(self) -> LoggedChanges:
        """Return the changes, and correct HEAD where a crash left it behind. Raises LibraryError."""
        logged = self._read()
        if not logged.head_fits:
            # A reader may lack the right to write, and a process that holds the lock writes HEAD itself.
            with suppress(OSError, LibraryError), writer_lock(self.folder, wait_s=0.0):
                logged = self._repaired(self._read())
        return logged

    @contextmanager
    def writing(self) -> Generator["LogWriter"]:
        """Hold the lock, and return what appends changes. Raises LibraryError and OSError."""
        own_folder(self.folder, self.folder.parent.parent)
        with writer_lock(self.folder):
            yield LogWriter(self, self._repaired(self._read()))

    def _read(self) -> LoggedChanges:
        shown = self._head()  # read first, because a writer appends to the log before it writes HEAD
        lines = self._lines()
        changes, previous = list[Change](), NO_LINE
        for number, line in enumerate(lines):
            changes.append(parse_change(line, number, previous, str(self.file)))
            previous = line_hash(line)
        derived = _head_of(changes)
        if len(shown) > len(derived) and shown.startswith(derived):
            raise LibraryError(
                f"{str(self.file)!r} is damaged: it lacks changes that {HEAD_FILE} shows; restore the file from a copy,"
                " or export a version to a file and begin a new library with it",
                code="history_damaged",
            )
        size = sum(len(line) + 1 for line in lines)
        return LoggedChanges(tuple(changes), size, previous, head_fits=derived == shown)

    def _repaired(self, logged: LoggedChanges) -> LoggedChanges:
        """Correct HEAD."""
        if logged.head_fits:
            return logged
        self.write_head(logged.changes)
        return replace(logged, head_fits=True)

    def _lines(self) -> list[bytes]:
        """The whole lines of the log. What stands after the last line end is left out."""
        try:
            content = own(self.file, self.folder.parent.parent).read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise LibraryError(f"{str(self.file)!r} cannot be read: {error}") from error
        return content.split(b"\n")[:-1]

    def _head(self) -> bytes:
        """The content of HEAD; empty where it is missing or cannot be read, because it follows from the log."""
        try:
            return own(self.head, self.folder.parent.parent).read_bytes()
        except OSError:
            return b""

    def write_head(self, changes: tuple[Change, ...]) -> None:
        """Replace HEAD with what follows from the changes. Raises OSError."""
        write_whole(self.head, _head_of(changes), private=True)


def _head_of(changes: Sequence[Change]) -> bytes:
    return "".join(f"{version} {at.isoformat()}\n" for version, at in head_entries(changes)).encode()


class LogWriter:
    """Appends changes while the lock is held."""

    def __init__(self, log: ChangeLog, logged: LoggedChanges) -> None:
        self._log = log
        self.logged = logged

    def append(self, **fields: Any) -> Change:
        """Append a change with these fields and return it. The log is on disk before HEAD. Raises OSError."""
        logged = self.logged
        change = Change(number=len(logged.changes), previous=logged.tip, **fields)
        changes = (*logged.changes, change)
        added = change_line(change) + b"\n"
        _append(self._log.file, logged.size, added)
        self.logged = LoggedChanges(changes, logged.size + len(added), line_hash(added[:-1]), head_fits=True)
        if head_entries(changes) != head_entries(logged.changes) or not self._log.head.exists():
            self._log.write_head(changes)
        return change


def _append(file: Path, size: int, added: bytes) -> None:
    """Write after the first `size` bytes; what a crash left behind them is cut off. A failure leaves `size` bytes."""
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
