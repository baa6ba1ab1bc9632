"""The journal file `journal.sqlite`: entries that are durable at once and enter the database later.

Every model call waits for its entry, and a commit of the database takes thirty times as long. Any number of processes
may append, without the store's lock. The process that has the lock takes the entries into the database and removes
them here. Numbers of entries are never used twice. A store can begin with a journal and a watermark, without DuckDB:
the next command that opens it makes the database.
"""

import os
import secrets
import sqlite3
import time
import zlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

from agentlearn.errors import StoreDamaged, StoreError, StoreLocked
from agentlearn.store.codec import error_line
from agentlearn.store.store_files import WATERMARK, Acknowledged, FileWatch, StoreLock, Watermark, make_private
from agentlearn.text.files import own, refuse_links

JOURNAL = "journal.sqlite"
JOURNAL_PARTS = (JOURNAL, JOURNAL + "-wal", JOURNAL + "-shm")
"""Files that belong to the journal. SQLite makes and removes the last two."""
_FORMAT = 1
_BUSY_TIMEOUT_S = 60.0
_KEPT_PAGES = 64
_ONE_STATEMENT = 32
"""Largest number of entries in one statement."""
_TABLES = """
    CREATE TABLE meta (format INTEGER NOT NULL, identity TEXT NOT NULL);
    CREATE TABLE entry (seq INTEGER PRIMARY KEY AUTOINCREMENT, checksum INTEGER NOT NULL, content BLOB NOT NULL);
"""
_DAMAGED = ("malformed", "not a database", "no such table", "no such column", "file is encrypted", "unsupported file")


RETRY_PAUSES_S = (0.0, 0.05, 0.2, 0.8)
"""Seconds to wait before each attempt to write: a failure such as a full disk may be temporary."""


def attempts() -> Iterator[None]:
    """Yield once for each attempt to write, after its pause."""
    for pause_s in RETRY_PAUSES_S:
        if pause_s:  # even a sleep of 0 s would make this thread wait for the interpreter
            time.sleep(pause_s)
        yield


class JournalFile:
    """An open journal, for one thread at a time. Raises StoreError when the disk fails, StoreDamaged for damage.

    Only the process that opened it may use it.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / JOURNAL
        self._pid = os.getpid()
        self._closed = False
        self._watermark = Watermark(directory / WATERMARK)
        with ExitStack() as undo:
            undo.callback(self._watermark.close)
            identity = self._watermark.read().identity
            with self._errors(), self._watermark.locked():
                self._connection = connect(self._path)
                undo.callback(self._connection.close)
                found = identity_of(self._connection)
            self._refuse(found != identity, "belongs to another store")
            undo.pop_all()
        self._watch = FileWatch()
        for name in JOURNAL_PARTS:
            self._watch.add(directory / name)
        self._watch.add(directory / WATERMARK, self._watermark.file_id)

    def append(self, contents: Sequence[bytes]) -> range:
        """Append the entries, all or none, and return their numbers when they are on disk."""
        self._refuse_in_fork()
        with self._watermark.locked():
            with self._errors():
                numbers = self._insert(contents)
            self._watch.verify()
            self._watermark.lift(journal=numbers[-1])
        return numbers

    def last(self) -> int:
        """Number of the last entry that was ever appended; 0 when there was none."""
        self._refuse_in_fork()
        with self._errors():
            return last_of(self._open())

    def read(self, first: int, last: int) -> list[bytes]:
        """The entries with these numbers, in order."""
        self._refuse_in_fork()
        with self._errors():
            rows = list(entry_rows_of(self._open(), first, last))
        intact = intact_entries(rows)
        if sorted(intact) != list(range(first, last + 1)):
            raise self._damaged(f"lacks {last + 1 - first - len(intact)} of its entries {first} to {last}")
        return [intact[number] for number in range(first, last + 1)]

    def checksums(self, last: int) -> int:
        """The sum of the checksums of the entries up to this number, each of which is of the number as well."""
        self._refuse_in_fork()
        with self._errors():
            found = self._open().execute("SELECT coalesce(sum(checksum), 0) FROM entry WHERE seq <= ?", (last,))
            return int(found.fetchone()[0])

    def remove(self, last: int) -> None:
        """Remove the entries up to this number, which a checkpoint has made durable in the database file."""
        self._refuse_in_fork()
        with self._watermark.locked(), self._errors():
            self._open().execute("DELETE FROM entry WHERE seq <= ?", (last,))

    def shrink(self) -> None:
        """Give the room of removed entries back to the disk, if it is more than a little."""
        self._refuse_in_fork()
        with self._watermark.locked(), self._errors():
            (free_pages,) = self._open().execute("PRAGMA freelist_count").fetchone()
            if free_pages > _KEPT_PAGES:
                self._open().execute("VACUUM")

    def purge(self, last: int) -> None:
        """Remove the entries up to this number, so that no file of the journal holds a byte of them."""
        self._refuse_in_fork()
        with self._watermark.locked(), self._errors():
            connection = self._open()
            connection.execute("DELETE FROM entry WHERE seq <= ?", (last,))
            connection.execute("VACUUM")
            give_up = time.monotonic() + _PATIENCE_S
            while connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:  # another process reads
                if time.monotonic() > give_up:
                    raise sqlite3.OperationalError("another process does not stop reading the journal")
                time.sleep(_PAUSE_S)

    def acknowledged(self) -> Acknowledged:
        """What the watermark says now."""
        return self._watermark.read()

    def acknowledge(self, *, commit: int, journal: int) -> None:
        """Raise the watermark after a commit of the database that took in the entries up to `journal`."""
        self._refuse_in_fork()
        with self._watermark.locked():
            self._watch.verify()
            self._watermark.lift(commit=commit, journal=journal, sync=True)

    def note_size(self, size_bytes: int) -> None:
        """Record the size of the database file after a checkpoint; 0 before one, when it may shrink."""
        self._refuse_in_fork()
        with self._watermark.locked():
            self._watermark.lift(size_bytes=size_bytes, sync=True)

    def close(self) -> None:
        """Close the file. Does nothing the second time, or in a forked child."""
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        with suppress(sqlite3.Error, StoreError), self._watermark.locked():
            self._connection.close()
        self._watermark.close()

    def _insert(self, contents: Sequence[bytes]) -> range:
        connection = self._open()
        last, acknowledged = last_of(connection), self._watermark.read().journal
        self._refuse(last < acknowledged, f"ends with entry {last}, but {acknowledged} were acknowledged")
        numbers = range(last + 1, last + 1 + len(contents))
        rows = [(at, entry_checksum(at, content), content) for at, content in zip(numbers, contents, strict=True)]
        try:
            if len(rows) <= _ONE_STATEMENT:  # after each statement this thread waits for the interpreter
                places = ", ".join(["(?, ?, ?)"] * len(rows))
                values = [value for one in rows for value in one]
                connection.execute(f"INSERT INTO entry VALUES {places}", values)  # noqa: S608
            else:
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany("INSERT INTO entry VALUES (?, ?, ?)", rows)
                connection.execute("COMMIT")
        except BaseException as error:
            with suppress(sqlite3.Error):
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                elif isinstance(error, sqlite3.Error) and last_of(connection) >= numbers[-1]:
                    return numbers  # the commit failed after its entries were on disk
            raise
        return numbers

    def _open(self) -> sqlite3.Connection:
        if self._closed:
            raise StoreError(f"the journal {str(self._path)!r} is closed")
        return self._connection

    def _refuse_in_fork(self) -> None:
        if os.getpid() != self._pid:
            raise StoreError(
                f"the journal was opened by process {self._pid} and cannot be used in process {os.getpid()}, a fork of"
                " it; open the journal again in each process"
            )

    @contextmanager
    def _errors(self) -> Generator[None]:
        try:
            yield
        except (sqlite3.Error, OverflowError) as error:
            # an operational error mostly tells of a disk or a lock, any other of damage
            of_file = not isinstance(error, sqlite3.OperationalError) or any(words in str(error) for words in _DAMAGED)
            if of_file and isinstance(error, sqlite3.DatabaseError | OverflowError):
                raise self._damaged(f"cannot be read ({error_line(error)})") from error
            raise StoreError(f"the store could not be written: {error_line(error)}") from error

    def _refuse(self, refused: bool, problem: str) -> None:
        if refused:
            raise self._damaged(problem)

    def _damaged(self, problem: str) -> StoreDamaged:
        return StoreDamaged(
            f"{str(self._path)!r} {problem}; copy the store's directory, then run `agentlearn store repair`"
        )


def make_journal(path: Path, identity: str, *, after: int = 0, entries: Sequence[bytes] = ()) -> None:
    """Make a journal with these entries, numbered from `after` + 1. Replaces what is at the path. Raises OSError."""
    for part in JOURNAL_PARTS:
        path.with_name(part.replace(JOURNAL, path.name)).unlink(missing_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    with closing(connect(path)) as connection:
        connection.executescript("BEGIN IMMEDIATE;" + _TABLES)
        connection.execute("INSERT INTO meta VALUES (?, ?)", (_FORMAT, identity))
        connection.execute("INSERT INTO sqlite_sequence VALUES ('entry', ?)", (after,))
        rows = [(at, entry_checksum(at, content), content) for at, content in enumerate(entries, start=after + 1)]
        connection.executemany("INSERT INTO entry VALUES (?, ?, ?)", rows)
        connection.execute("COMMIT")


def connect(path: Path) -> sqlite3.Connection:
    """A connection to an existing journal that makes every commit durable. Raises sqlite3.Error."""
    location = f"{own(path, path.parent).absolute().as_uri()}?mode=rw"
    connection = sqlite3.connect(
        location, uri=True, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
    except BaseException:
        connection.close()
        raise
    return connection


def identity_of(connection: sqlite3.Connection) -> str | None:
    """Identity of the store that a journal belongs to; None for a format that this version does not know."""
    found = connection.execute("SELECT format, identity FROM meta").fetchone()
    return str(found[1]) if found is not None and found[0] == _FORMAT else None


def last_of(connection: sqlite3.Connection) -> int:
    """Number of the last entry that was ever appended."""
    found = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'entry'").fetchone()
    if found is None or not isinstance(found[0], int):
        raise sqlite3.DatabaseError("the number of its last entry is malformed")
    return found[0]


def entry_rows_of(connection: sqlite3.Connection, first: int, last: int) -> Iterator[tuple[object, ...]]:
    """Number, checksum and content of the entries with these numbers, intact or not. They are read one by one."""
    query = "SELECT seq, checksum, content FROM entry WHERE seq BETWEEN ? AND ? ORDER BY seq"
    return connection.execute(query, (first, last))


def intact_entries(rows: Sequence[tuple[object, ...]]) -> dict[int, bytes]:
    """The entries among the rows that match their checksum, by number."""
    return {
        number: content
        for number, wanted, content in rows
        if isinstance(number, int) and isinstance(content, bytes) and entry_checksum(number, content) == wanted
    }


def entry_checksum(number: int, content: bytes) -> int:
    """Checksum of an entry together with its number. SQLite itself has none for its pages."""
    return zlib.crc32(content, number & 0xFFFFFFFF)


_DATABASE = "store.duckdb"
_PATIENCE_S = 60.0
_PAUSE_S = 0.01


def begin_store(directory: Path) -> None:
    """Make a store in `directory` unless there is one. Any number of processes may do so at once. Blocks.

    Raises StoreError when the directory cannot be written; StoreDamaged when a file of the store is damaged or missing.
    """
    give_up = time.monotonic() + _PATIENCE_S
    try:
        while Acknowledged.read(directory / WATERMARK) is None:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            refuse_links(directory)
            try:
                lock = StoreLock(directory)
            except StoreLocked:  # another process is making it
                if time.monotonic() > give_up:
                    raise
                time.sleep(_PAUSE_S)
                continue
            try:
                begun = _begin(directory)
            finally:
                lock.release()
            if not begun:
                _open_once(directory)
    except OSError as error:
        raise StoreError(f"the store {str(directory)!r} cannot be used: {error}") from error


def _begin(directory: Path) -> bool:
    """Make the files; False when there is an unfinished store. The caller holds the store's lock."""
    if Acknowledged.read(directory / WATERMARK) is not None:
        return True
    if (directory / _DATABASE).exists():
        return False
    identity = secrets.token_hex(16)
    make_journal(directory / JOURNAL, identity)
    Acknowledged(identity, 0, 0).write(directory / WATERMARK)  # last: without it, all of this is done again
    make_private(directory)
    return True


def _open_once(directory: Path) -> None:
    """Let DuckDB complete a store whose making was interrupted."""
    if find_spec("duckdb") is None:
        raise StoreError(
            f"the store {str(directory)!r} is unfinished, because its making was interrupted; open it once with"
            " `agentlearn runs list` where all of agentlearn is installed (pip install 'agentlearn-lib[learn]')"
        )
    from agentlearn.store.database import Database

    try:
        Database(directory, create=True).close()
    except StoreLocked:  # another process has opened it, which completes it as well
        time.sleep(_PAUSE_S)
