"""Open the database file, always with the settings that the store depends on. No other module opens it."""

import os
import shutil
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import duckdb

from agentlearn.errors import StoreDamaged, StoreError, StoreLocked, StoreMissing
from agentlearn.store.lock import StoreLock, Watermark
from agentlearn.store.migrate import apply_migrations, known_migrations, pending_migrations
from agentlearn.store.text import error_line, sql_string

_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "threads": 2,
    "memory_limit": "2GB",
    "checkpoint_threshold": "16MB",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
}


DATABASE = "store.duckdb"
DATABASE_LOG = "store.duckdb.wal"
WATERMARK = "store.hwm"
STAGING = "staging"
"""The only folder that SQL may write files to. It is emptied on opening: its files are left over from a crash."""


class Database:
    """A store's database, attached, migrated and locked from construction to `close`.

    Raises StoreLocked, SchemaTooNew, StoreDamaged, or StoreMissing when there is no store and `create` is False.
    Only the process that opened it may use it: in a forked child every use raises StoreError.
    """

    def __init__(self, directory: Path, *, create: bool) -> None:
        self.directory = directory
        self._path = directory / DATABASE
        self.staging = directory.absolute() / STAGING
        self._pid = os.getpid()
        self._root_lock = threading.Lock()
        if not create and not self._path.exists():
            raise StoreMissing(
                f"there is no store at {str(directory)!r}; a run makes one, or pass another --store DIR",
            )
        with ExitStack() as undo:
            try:
                directory.mkdir(parents=True, exist_ok=True)
                self._lock = StoreLock(directory)
                undo.callback(self._lock.release)
                self._watermark = Watermark(directory / WATERMARK)
                undo.callback(self._watermark.close)
            except OSError as error:
                raise StoreError(f"the store {str(directory)!r} cannot be used: {error}") from error
            shutil.rmtree(self.staging, ignore_errors=True)
            self._root: duckdb.DuckDBPyConnection | None = self._open()
            self._release = undo.pop_all()

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A separate connection for one thread; the caller closes it. Raises StoreError."""
        self.refuse_in_fork()
        with self._root_lock:
            if self._root is None:
                raise StoreError(f"the store {str(self.directory)!r} is closed", code="store_closed")
            cursor = self._root.cursor()
        cursor.execute("USE store")
        return cursor

    def refuse_in_fork(self) -> None:
        """Raise StoreError in a forked child, whose writes would be lost."""
        if os.getpid() != self._pid:
            raise StoreError(
                f"the store was opened by process {self._pid} and cannot be used in process {os.getpid()}, a fork of"
                " it; start worker processes with the 'spawn' method and write in the parent",
                code="store_forked",
            )

    def last_seq(self) -> int:
        """Sequence number of the last group commit in the database."""
        with self.cursor() as cursor:
            return last_seq_of(cursor)

    def acknowledge(self, seq: int) -> None:
        """Record that every commit up to `seq` was acknowledged to its writers."""
        self._watermark.write(seq)

    def reopen(self) -> None:
        """Close and reopen the database after DuckDB declared its state invalid. Older cursors stop working."""
        self.refuse_in_fork()
        with self._root_lock:
            self._disconnect()
            self._root = self._open()

    def checkpoint(self) -> None:
        """Move DuckDB's log into the database file. Skipped when the disk may be too full; nothing is lost."""
        log = self._path.with_name(self._path.name + ".wal")
        log_bytes = log.stat().st_size if log.exists() else 0
        if shutil.disk_usage(self.directory).free > 4 * log_bytes:
            with self.cursor() as cursor:
                cursor.execute("CHECKPOINT store")

    def close(self) -> None:
        """Checkpoint, detach and release the lock. Does nothing the second time or in a forked child."""
        if os.getpid() != self._pid:
            return
        # a failed checkpoint loses nothing: the log still has everything
        with suppress(duckdb.Error, StoreError, OSError):
            self.checkpoint()
        with self._root_lock:
            self._disconnect()
        self._release.close()

    def _disconnect(self) -> None:
        if self._root is not None:
            self._root.close()
            self._root = None

    def _open(self) -> duckdb.DuckDBPyConnection:
        store, acknowledged = str(self.directory), self._watermark.read()
        if acknowledged and not self._path.exists():
            raise StoreDamaged(
                f"{str(self._path)!r} is missing; restore it from a backup, or delete the whole directory {store!r}"
            )
        connection = duckdb.connect(":memory:", config=_SETTINGS | {"temp_directory": f"{store}/spill"})
        try:
            _attach(connection, self._path)
            missing = pending_migrations(connection, store, known_migrations())
            is_new = known_migrations()[0] in missing
            self._verify(0 if is_new else last_seq_of(connection), acknowledged)
            apply_migrations(connection, missing)
            _restrict_file_access(connection, self.staging)
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

    def _verify(self, stored: int, acknowledged: int) -> None:
        if stored < acknowledged:
            raise StoreDamaged(
                f"the store {str(self.directory)!r} holds commits up to {stored}, but {acknowledged} were acknowledged:"
                f" its log {self._path.name + '.wal'!r} is damaged and was left unchanged; first copy the directory,"
                " then run `agentlearn store repair`"
            )


@contextmanager
def open_read_only(path: Path) -> Generator[duckdb.DuckDBPyConnection]:
    """A read-only connection to a database file and its log; nothing is changed. Raises duckdb.Error.

    The caller must hold the store's lock and must not have the file open otherwise.
    """
    with duckdb.connect(":memory:", config=_SETTINGS) as connection:
        connection.execute(f"ATTACH {sql_string(path)} AS store (READ_ONLY)")
        connection.execute("USE store; SET enable_external_access = false; SET lock_configuration = true")
        yield connection


def _restrict_file_access(connection: duckdb.DuckDBPyConnection, staging: Path) -> None:
    """Allow SQL to write files to `staging` only, and lock that setting."""
    connection.execute(f"SET allowed_directories = [{sql_string(staging)}]")
    connection.execute("SET enable_external_access = false; SET lock_configuration = true")


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


def last_seq_of(connection: duckdb.DuckDBPyConnection) -> int:
    """Sequence number of the last group commit in the attached store."""
    found = connection.execute("SELECT coalesce(max(seq), 0) FROM commit_log").fetchone()
    return 0 if found is None else int(found[0])
