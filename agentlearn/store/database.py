"""Open the database file, always with the settings that the store depends on. No other module opens it."""

import os
import secrets
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import duckdb

from agentlearn.errors import StoreDamaged, StoreError, StoreLocked, StoreMissing, UnknownSchema
from agentlearn.plugins import version
from agentlearn.store.codec import error_line, sql_string
from agentlearn.store.erasure_intent import finish_erasure
from agentlearn.store.journal_file import (
    JOURNAL,
    JournalFile,
    connect,
    entry_rows_of,
    identity_of,
    intact_entries,
    last_of,
    make_journal,
)
from agentlearn.store.store_files import (
    LOCK,
    WATERMARK,
    Acknowledged,
    FileWatch,
    StoreLock,
    Watermark,
    make_private,
    restrict,
)
from agentlearn.text.files import refuse_links

_FARTHEST = 2**62
_SEARCHED = 100_000
"""How many numbers a search in a damaged file tries at most."""


class JournalState(NamedTuple):
    """Content of a journal, intact or not."""

    exists: bool
    identity: str | None
    """Identity of the store that it belongs to; None if unreadable."""
    last: int
    """Number of the last entry that was ever appended, as far as it can be read."""
    entries: dict[int, bytes]
    """The intact entries, by number; without their contents where only the numbers were asked for."""
    problem: str | None
    """What is wrong with the file itself; None for an intact one."""

    def lacks(self, after: int, up_to: int) -> int:
        """How many of the numbers after `after`, up to `up_to`, have no intact entry."""
        return max(up_to - after, 0) - sum(after < number <= up_to for number in self.entries)

    @classmethod
    def _read(cls, path: Path, expected_last: int, *, contents: bool) -> "JournalState":
        state = ABSENT._replace(exists=True, problem=None)
        try:
            with closing(connect(path)) as connection:
                problems = list[str]()
                for name, step in (("identity", identity_of), ("last", last_of)):
                    try:
                        state = state._replace(**{name: step(connection)})
                    except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
                        problems.append(error_line(error))
                try:
                    (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
                    problems += [] if found == "ok" else [str(found).splitlines()[0]]
                except (sqlite3.Error, UnicodeDecodeError) as error:
                    problems.append(error_line(error))
                entries, count = dict[int, bytes](), 0
                try:
                    for row in entry_rows_of(connection, 0, _FARTHEST):
                        count += 1
                        entries |= {at: one if contents else b"" for at, one in intact_entries([row]).items()}
                except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
                    problems.append(error_line(error))
                    entries, count, last = dict[int, bytes](), 0, max(state.last, expected_last)
                    for number in range(max(last - _SEARCHED, 0) + 1, last + 1):  # what can still be read
                        with suppress(sqlite3.Error, OverflowError, UnicodeDecodeError):
                            rows = list(entry_rows_of(connection, number, number))
                            count += len(rows)
                            entries |= intact_entries(rows)
                if damaged := count - len(entries):
                    problems.append(f"{damaged} of its entries do not match their checksum")
                problem = f"{JOURNAL} is damaged: {problems[0]}" if problems else None
                return state._replace(entries=entries, problem=problem)
        except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
            return state._replace(problem=f"{JOURNAL} cannot be read: {error_line(error)}")

    @classmethod
    def read(cls, directory: Path, *, expected_last: int = 0, contents: bool = True) -> "JournalState":
        """The state of a store's journal. expected_last: the last acknowledged entry. Raises OSError.

        contents: keep what is in the entries, which takes as much memory as they have bytes.
        """
        if not (directory / JOURNAL).exists():
            return ABSENT
        with tempfile.TemporaryDirectory(prefix="agentlearn-journal-") as folder:
            for name in (JOURNAL, JOURNAL + "-wal"):  # the third part, -shm, is only an index
                with suppress(FileNotFoundError):
                    shutil.copyfile(directory / name, Path(folder, name))
            if (Path(folder, JOURNAL)).stat().st_size == 0:  # SQLite would delete what its log still has
                return ABSENT._replace(exists=True, problem=f"{JOURNAL} is empty")
            return cls._read(Path(folder, JOURNAL), expected_last, contents=contents)


ABSENT = JournalState(exists=False, identity=None, last=0, entries={}, problem=f"{JOURNAL} is missing")


_LAST_SEQ = 2**63 - 1
"""No commit has a larger number."""


class DatabaseState(NamedTuple):
    """What a database says about its commits."""

    identity: str | None
    """Identity of the store; None in a new database."""
    last: int
    """Number of its last group commit."""
    taken: int
    """Number of the last journal entry that is in it."""
    unacknowledged: int
    """Number of its commits that are later than the watermark; a crash leaves one at most."""

    @classmethod
    def read(cls, connection: duckdb.DuckDBPyConnection, acknowledged: Acknowledged | None) -> "DatabaseState":
        """The state of the attached database. Raises duckdb.Error."""
        query = (
            "SELECT (SELECT first(id) FROM store_identity), coalesce(max(seq), 0), coalesce(max(journal), 0),"
            " count(*) FILTER (seq > ?) FROM commit_log"
        )
        since = _LAST_SEQ if acknowledged is None else acknowledged.commit
        try:
            identity, last, taken, later = connection.execute(query, [since]).fetchall()[0]
        except duckdb.CatalogException:
            if _tables(connection):
                raise
            return cls(None, 0, 0, 0)
        return cls(None if identity is None else str(identity), int(last), int(taken), int(later))


class _Contradiction(NamedTuple):
    """Something that the files of a store disagree about."""

    code: str
    words: str


def file_contradictions(acknowledged: Acknowledged | None, database: Path) -> Iterator[_Contradiction]:
    """What the size of the database file shows. DuckDB itself notices a missing end only when it reads there."""
    wanted = acknowledged.size_bytes if acknowledged is not None else 0
    size = database.stat().st_size if database.exists() else 0
    if size < wanted:
        words = f"{database.name} has {size} bytes, but {wanted} were written; its end is missing"
        yield _Contradiction("short_database", words)


def database_contradictions(acknowledged: Acknowledged | None, database: DatabaseState) -> Iterator[_Contradiction]:
    """What the database shows when it is held against the watermark."""
    if acknowledged is None:
        return
    if database.last < acknowledged.commit:
        words = f"the database holds commits up to {database.last}, but {acknowledged.commit} were acknowledged"
        yield _Contradiction("missing_commits", words)
    elif database.identity != acknowledged.identity:
        if acknowledged.only_journal and database.identity is None and not database.last:
            return  # a recorder began the store, and its database is not complete yet
        yield _Contradiction("other_store", "the database and store.hwm belong to different stores")
    elif database.unacknowledged > 1:
        words = f"store.hwm is older than the database, which holds {database.unacknowledged} later commits"
        yield _Contradiction("old_watermark", words)


def journal_contradictions(acknowledged: Acknowledged, taken: int, journal: JournalState) -> Iterator[_Contradiction]:
    """What the journal shows when it is held against the watermark and the last entry in the database."""
    wanted = max(acknowledged.journal, taken)
    if not journal.exists:
        gone = journal.lacks(taken, wanted)
        yield _Contradiction("missing_journal", f"{journal.problem}; {gone} acknowledged entries were only there")
    elif journal.identity is not None and journal.identity != acknowledged.identity:
        yield _Contradiction("other_store", "journal.sqlite and store.hwm belong to different stores")
    elif gone := journal.lacks(taken, max(wanted, journal.last)):
        why = f" ({journal.problem})" if journal.problem else ""
        words = f"journal.sqlite lacks {gone} acknowledged entries of {wanted - taken}{why}"
        yield _Contradiction("missing_entries", words)
    elif journal.last < wanted:
        words = f"journal.sqlite ends with entry {journal.last}, but {wanted} were acknowledged"
        yield _Contradiction("missing_entries", words)
    elif journal.problem is not None:
        yield _Contradiction("damaged_journal", journal.problem)


OLDEST_DUCKDB = 2
"""First major version that can write the store."""
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "threads": 2,
    "checkpoint_threshold": "1TB",  # we checkpoint, so that we know when its log may be replaced
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
}


_MEMORY_MB = 2_000
"""What DuckDB may use, unless less is asked for."""
SCHEMA = 1
"""Number of the schema in `schema.sql`. A store of another schema is refused."""
DATABASE = "store.duckdb"
DATABASE_LOG = "store.duckdb.wal"
CHECKPOINT_BYTES = 2**24
"""Size of DuckDB's log that is worth a checkpoint."""
STAGING = "staging"
"""The only folder that SQL may write files to. It is emptied on opening: its files are left over from a crash."""


class Database:
    """A store's database, attached and locked from construction to `close`.

    reads: it is opened for a moment, to read; others wait for it, see `StoreLock`. Raises StoreLocked, UnknownSchema,
    StoreDamaged, or StoreMissing when there is no store and `create` is False. Only the process that opened it may use
    it: in a forked child every use raises StoreError.
    """

    def __init__(self, directory: Path, *, create: bool, reads: bool = False) -> None:
        if int(duckdb.__version__.partition(".")[0]) < OLDEST_DUCKDB:  # 1 has no appenders
            raise StoreError(
                f"the store needs DuckDB {OLDEST_DUCKDB} or newer, which appends rows in batches, and found"
                f" {duckdb.__version__!r}: pip install 'duckdb>={OLDEST_DUCKDB},<{OLDEST_DUCKDB + 1}'"
            )
        self.directory, self.reads = directory, reads
        self._path = directory / DATABASE
        self._log = directory / DATABASE_LOG
        self.staging = directory.absolute() / STAGING
        self._pid = os.getpid()
        self._root_lock = threading.Lock()
        self._root: duckdb.DuckDBPyConnection | None = None
        self._opened = False
        if not create and not self._path.exists() and not (directory / WATERMARK).exists():
            raise StoreMissing(
                f"there is no store at {str(directory)!r}; a run makes one, or pass another --store DIR",
            )
        with ExitStack() as undo:
            try:
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                refuse_links(directory)
                self._lock = StoreLock(directory, reads=reads)
                undo.callback(self._lock.release)
                finish_erasure(directory)
                shutil.rmtree(self.staging, ignore_errors=True)
                self._acknowledged = Acknowledged.read(directory / WATERMARK)
                self._root = self._open()
                undo.callback(self._disconnect)
                make_private(directory)
                self.journal = JournalFile(directory)
                undo.callback(self.journal.close)
            except OSError as error:
                why = error.strerror or error
                raise StoreError(f"the store {str(directory)!r} cannot be used: {why}; give another --store") from error
            self._watch = FileWatch()
            self._watch.add(directory)
            self._watch.add(directory / LOCK, self._lock.file_id)
            self._watch.add(self._path)
            self._opened = True
            self._release = undo.pop_all()

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A separate connection for one thread; the caller closes it. Raises StoreError."""
        self.refuse_in_fork()
        with self._root_lock:
            if self._root is None:
                raise StoreError(f"the store {str(self.directory)!r} is closed")
            cursor = self._root.cursor()
        cursor.execute("USE store")
        return cursor

    def refuse_in_fork(self) -> None:
        """Raise StoreError in a forked child, whose writes would be lost."""
        if os.getpid() != self._pid:
            raise StoreError(
                f"the store was opened by process {self._pid} and cannot be used in process {os.getpid()}, a fork of"
                " it; start worker processes with the 'spawn' method and write in the parent"
            )

    def acknowledge(self, seq: int, journal: int = 0) -> None:
        """Record that commits up to `seq` were acknowledged, and that journal entries up to `journal` are in them.

        Raises StoreDamaged when a file of the store was removed or replaced.
        """
        self.refuse_in_fork()
        self.verify_files()
        self.journal.acknowledge(commit=seq, journal=journal)

    def verify_files(self) -> None:
        """Raise StoreDamaged when a file of the database was removed or replaced since it was opened."""
        if not self._watch.watches(self._log):
            restrict(self._log)
            self._watch.add(self._log)
        self._watch.verify()

    @property
    def log_bytes(self) -> int:
        """Size of DuckDB's log."""
        return self._log.stat().st_size if self._log.exists() else 0

    def reopen(self, memory_mb: int = _MEMORY_MB) -> None:
        """Close and reopen the database, after DuckDB declared its state invalid. Older cursors stop working.

        memory_mb: what DuckDB may use. It keeps every page that it has read, up to that.
        """
        self.refuse_in_fork()
        with self._root_lock:
            self._disconnect()
            self._watch.verify()
            self._watch.forget(self._log)
            self._acknowledged = self.journal.acknowledged()
            self._root = self._open(memory_mb)

    def checkpoint(self) -> None:
        """Move DuckDB's log into the database file. Skipped when the disk may be too full; nothing is lost.

        The journal keeps the entries that are in the log until then: a damaged log costs none of them.
        """
        self._watch.verify()
        if not self.log_bytes and not self.journal.last():
            return  # as after a read
        if shutil.disk_usage(self.directory).free <= 4 * self.log_bytes:
            return
        self._watch.forget(self._log)
        with self.cursor() as cursor:
            taken = DatabaseState.read(cursor, None).taken
            self.journal.note_size(0)  # a checkpoint may cut off unused blocks
            cursor.execute("CHECKPOINT store")
        self.journal.note_size(self._path.stat().st_size)
        if not self.log_bytes:
            with suppress(StoreError):  # what stays there is removed after the next one
                self.journal.remove(taken)

    def close(self) -> None:
        """Checkpoint, detach and release the lock. Does nothing the second time or in a forked child."""
        if os.getpid() != self._pid:
            return
        # a failed checkpoint loses nothing: the log still has everything
        with suppress(duckdb.Error, StoreError, OSError):
            self.checkpoint()
            self.journal.shrink()
        with self._root_lock:
            self._disconnect()
        self._release.close()

    def _disconnect(self) -> None:
        if self._root is not None:
            self._root.close()
            self._root = None

    def _open(self, memory_mb: int = _MEMORY_MB) -> duckdb.DuckDBPyConnection:
        store = str(self.directory)
        self._require_files()
        for one in file_contradictions(self._acknowledged, self._path):
            raise self._damaged(one.words)
        own = {"temp_directory": f"{store}/spill", "memory_limit": f"{memory_mb}MB"}
        connection = duckdb.connect(":memory:", config=_SETTINGS | own)
        try:
            _attach(connection, self._path)
            made = has_schema(connection, self.directory)
            self._verify(DatabaseState.read(connection, self._acknowledged))
            if made:
                for table, column in (
                    ("feedback", "given"),
                    ("library_version", "document"),
                    ("library_version", "files"),
                ):
                    connection.execute(f"ALTER TABLE store.{table} ADD COLUMN IF NOT EXISTS {column} VARCHAR")
            else:
                _make_schema(connection)
            if self._acknowledged is None:
                self._acknowledged = _complete_store(connection, self.directory)
            elif self._acknowledged.only_journal:
                self._adopt(connection, self._acknowledged)
            # SQL may write files to the staging folder only
            connection.execute(f"SET allowed_directories = [{sql_string(self.staging)}]")
            connection.execute("SET enable_external_access = false; SET lock_configuration = true")
        except duckdb.Error as error:
            connection.close()
            raise StoreDamaged(
                f"the store {store!r} cannot be opened: {error_line(error)}; first copy the directory,"
                " then run `agentlearn store check`"
            ) from error
        except BaseException:
            connection.close()
            raise
        return connection

    def _require_files(self) -> None:
        """Raise StoreDamaged when a file is missing that this store had."""
        mark = self._acknowledged
        if mark is None:
            return
        for path in [self.directory / JOURNAL] if mark.only_journal else [self._path, self.directory / JOURNAL]:
            if not path.exists():
                raise self._damaged(f"{str(path)!r} is missing")

    def _verify(self, database: DatabaseState) -> None:
        """Raise StoreDamaged when anything that was acknowledged is missing."""
        mark = self._acknowledged
        if mark is None:  # the store is new, or its making was interrupted
            if JournalState.read(self.directory, contents=False).last or (
                database.identity is not None and database.last
            ):
                raise self._damaged(f"{str(self.directory / WATERMARK)!r} is missing")
            return
        found = [*database_contradictions(mark, database)]
        if not found and not self._opened:  # it is opened once only
            journal = JournalState.read(self.directory, expected_last=mark.journal, contents=False)
            found = [*journal_contradictions(mark, database.taken, journal)]
        if found:
            raise self._damaged(found[0].words)

    def _adopt(self, connection: duckdb.DuckDBPyConnection, begun: Acknowledged) -> None:
        """Give a new database the identity of the journal and the watermark that a recorder made before it."""
        if connection.execute("SELECT id FROM store_identity").fetchone() is None:
            connection.execute("INSERT INTO store_identity VALUES (?)", [begun.identity])
            connection.execute("CHECKPOINT store")
        with closing(Watermark(self.directory / WATERMARK)) as mark, mark.locked():
            mark.lift(size_bytes=self._path.stat().st_size, sync=True)

    def _damaged(self, problem: str) -> StoreDamaged:
        return StoreDamaged(
            f"the store {str(self.directory)!r} is damaged: {problem}. It was left unchanged; first copy the directory,"
            " then run `agentlearn store repair`"
        )


def has_schema(connection: duckdb.DuckDBPyConnection, directory: Path) -> bool:
    """Whether the attached database has our tables; False for an empty one. Raises UnknownSchema, duckdb.Error."""
    found = None
    try:
        found = connection.execute("SELECT version, agentlearn FROM store.schema_version").fetchone()
    except duckdb.CatalogException:
        tables = _tables(connection)
        if not tables:
            return False
        if "schema_version" in tables:
            raise
    if found is None or found[0] != SCHEMA:
        said = "an unknown schema" if found is None else f"schema {found[0]}, written by agentlearn {found[1]}"
        raise UnknownSchema(
            f"the store {str(directory)!r} has {said}; this agentlearn {version()} reads schema {SCHEMA} only: open it"
            " with the agentlearn that wrote it, or pass another --store DIR"
        )
    return True


def _tables(connection: duckdb.DuckDBPyConnection) -> frozenset[str]:
    """Names of the tables of the attached database. Raises duckdb.Error."""
    found = connection.execute("SELECT table_name FROM duckdb_tables() WHERE database_name = 'store'").fetchall()
    return frozenset(str(name) for (name,) in found)


def _make_schema(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the tables in an empty database, in one transaction followed by a checkpoint, so that no log is left."""
    connection.begin()
    try:
        connection.execute(files("agentlearn.store").joinpath("schema.sql").read_text(encoding="utf-8"))
        written_by = [SCHEMA, version(), duckdb.__version__]
        connection.execute("INSERT INTO schema_version VALUES (?, now(), ?, ?)", written_by)
        connection.commit()
    except BaseException:
        connection.rollback()
        raise
    connection.execute("CHECKPOINT store")


def _complete_store(connection: duckdb.DuckDBPyConnection, directory: Path) -> Acknowledged:
    """Give a new database an identity, a journal and a watermark.

    The watermark is written last: without it, all of this is done again.
    """
    found = connection.execute("SELECT id FROM store_identity").fetchone()
    identity = secrets.token_hex(16) if found is None else str(found[0])
    if found is None:
        connection.execute("INSERT INTO store_identity VALUES (?)", [identity])
        connection.execute("CHECKPOINT store")
    make_journal(directory / JOURNAL, identity)
    size_bytes = (directory / DATABASE).stat().st_size
    acknowledged = Acknowledged(identity, 0, DatabaseState.read(connection, None).last, size_bytes)
    acknowledged.write(directory / WATERMARK)
    return acknowledged


@contextmanager
def open_read_only(path: Path) -> Generator[duckdb.DuckDBPyConnection]:
    """A read-only connection to a database file and its log; nothing is changed. Raises duckdb.Error.

    The caller must hold the store's lock and must not have the file open otherwise.
    """
    with duckdb.connect(":memory:", config=_SETTINGS) as connection:
        connection.execute(f"ATTACH {sql_string(path)} AS store (READ_ONLY)")
        connection.execute("USE store; SET enable_external_access = false; SET lock_configuration = true")
        yield connection


def open_draft(path: Path) -> duckdb.DuckDBPyConnection:
    """A connection to a database file, made if it is missing. Raises UnknownSchema, duckdb.Error.

    The caller holds the store's lock.
    """
    connection = duckdb.connect(":memory:", config=_SETTINGS)
    try:
        _attach(connection, path)
        if not has_schema(connection, path.parent):
            _make_schema(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _attach(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    # Closing must not checkpoint: a damaged log has to stay unchanged.
    connection.execute("PRAGMA disable_checkpoint_on_shutdown")
    # ROW_GROUP_SIZE holds per ATTACH: without it the next checkpoint merges row groups and writes stall for longer.
    try:
        connection.execute(f"ATTACH {sql_string(path)} AS store (ROW_GROUP_SIZE 2048)")
    except duckdb.IOException as error:
        if "Could not set lock" in str(error):
            raise StoreLocked(
                f"the database of the store {str(path.parent)!r} is open in another program: {error_line(error)}"
            ) from error
        raise
    connection.execute("USE store")
