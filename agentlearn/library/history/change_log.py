"""The log of a library's changes in `NAME/history.jsonl`, and `NAME/HEAD`, which programs that follow a library watch.

The log is only ever appended to. A change counts when its whole line is on disk. What a crash left of a line is not a
change, and the next append removes it. HEAD follows from the log: it is written after the log, and a reader that finds
the two different corrects HEAD. A HEAD that names more versions than the log shows that lines of the log are lost.
"""

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agentlearn.errors import LibraryError
from agentlearn.files import own, own_folder, sync, write_whole
from agentlearn.library.history.change import NO_LINE, Change, change_line, line_hash, parse_change
from agentlearn.library.history.library_state import head_entries
from agentlearn.library.history.writer_lock import writer_lock

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
