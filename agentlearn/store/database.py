"""The one place that opens the database file, and the settings without which it must never be opened."""

import os
import shutil
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import duckdb

from agentlearn.errors import StoreDamaged, StoreError, StoreLocked, StoreMissing
from agentlearn.store.lock import StoreLock, Watermark
from agentlearn.store.migrate import apply, known_migrations, pending

_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "threads": 2,
    "memory_limit": "2GB",
    "checkpoint_threshold": "16MB",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
}


DATABASE = "store.duckdb"
LOG = "store.duckdb.wal"
WATERMARK = "store.hwm"
STAGING = "staging"
"""The one folder of a store that SQL may write files to; what stands there at an opening was left by a crash."""


class Database:
    """A store's database, attached, migrated and locked, from construction to `close`.

    Raises StoreLocked, SchemaTooNew, StoreDamaged, or StoreMissing where there is none and `create`
    is False. Belongs to the process that opened it: in a forked child every use raises StoreError.
    """

    def __init__(self, directory: Path, *, create: bool) -> None:
        self.directory = directory
        self._path = directory / DATABASE
        self.staging = directory.absolute() / STAGING
        self._pid = os.getpid()
        self._swap = threading.Lock()
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
        """A connection of its own for one thread, to be closed by the caller. Raises StoreError."""
        self.guard()
        with self._swap:
            if self._root is None:
                raise StoreError(f"the store {str(self.directory)!r} is closed", code="store_closed")
            cursor = self._root.cursor()
        cursor.execute("USE store")
        return cursor

    def guard(self) -> None:
        """Raise StoreError in a forked child: what it writes would be lost."""
        if os.getpid() != self._pid:
            raise StoreError(
                f"the store was opened by process {self._pid} and cannot be used in process {os.getpid()}, a fork of"
                " it; start worker processes with the 'spawn' method and write in the parent",
                code="store_forked",
            )

    def last_seq(self) -> int:
        """Number of the last group commit in the database."""
        with self.cursor() as cursor:
            return last_seq_of(cursor)

    def acknowledge(self, seq: int) -> None:
        """Note that every commit up to `seq` has been promised to somebody."""
        self._watermark.write(seq)

    def reopen(self) -> None:
        """Close and open again, after DuckDB declared its state invalid. Cursors taken before are dead."""
        self.guard()
        with self._swap:
            self._disconnect()
            self._root = self._open()

    def checkpoint(self) -> None:
        """Move the log into the database file, unless the disk may be too full for it: the log is as safe."""
        log = self._path.with_name(self._path.name + ".wal")
        log_bytes = log.stat().st_size if log.exists() else 0
        if shutil.disk_usage(self.directory).free > 4 * log_bytes:
            with self.cursor() as cursor:
                cursor.execute("CHECKPOINT store")

    def close(self) -> None:
        """Checkpoint, detach, let go of the lock. Does nothing the second time, or in a forked child."""
        if os.getpid() != self._pid:
            return
        # nothing is lost: the log keeps what a failed checkpoint leaves behind
        with suppress(duckdb.Error, StoreError, OSError):
            self.checkpoint()
        with self._swap:
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
                f"{str(self._path)!r} is gone; put it back from a backup, or remove {store!r} as a whole"
            )
        connection = duckdb.connect(":memory:", config=_SETTINGS | {"temp_directory": f"{store}/spill"})
        try:
            _attach(connection, self._path)
            missing = pending(connection, store, known_migrations())
            is_new = known_migrations()[0] in missing
            self._verify(0 if is_new else last_seq_of(connection), acknowledged)
            apply(connection, missing)
            _close_off(connection, self.staging)
        except duckdb.Error as error:
            connection.close()
            raise StoreDamaged(
                f"the store {store!r} cannot be opened: {_first_line(error)}; copy the directory before anything else"
            ) from error
        except BaseException:
            connection.close()
            raise
        return connection

    def _verify(self, stored: int, acknowledged: int) -> None:
        if stored < acknowledged:
            raise StoreDamaged(
                f"the store {str(self.directory)!r} holds commits up to {stored}, but {acknowledged} were acknowledged:"
                f" its log {self._path.name + '.wal'!r} is damaged and was kept; copy the directory first of all, then"
                " run `agentlearn store repair`"
            )


@contextmanager
def look_at(path: Path) -> Generator[duckdb.DuckDBPyConnection]:
    """A database file as it is, its log read over it; not a byte is changed. Raises duckdb.Error.

    For whoever holds the store's lock, and has not opened the file otherwise.
    """
    with duckdb.connect(":memory:", config=_SETTINGS) as connection:
        connection.execute(f"ATTACH {_quoted(path)} AS store (READ_ONLY)")
        connection.execute("USE store; SET enable_external_access = false; SET lock_configuration = true")
        yield connection


def _close_off(connection: duckdb.DuckDBPyConnection, staging: Path) -> None:
    """Leave SQL one folder to write to, and no way to change that."""
    connection.execute(f"SET allowed_directories = [{_quoted(staging)}]")
    connection.execute("SET enable_external_access = false; SET lock_configuration = true")


def _quoted(path: Path) -> str:
    text = str(path).replace("'", "''")
    return f"'{text}'"


def _attach(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    # Checkpoints are asked for, never a side effect of closing: a log that was found damaged has to stay as it is.
    connection.execute("PRAGMA disable_checkpoint_on_shutdown")
    # The size of row groups belongs to the attachment: without it the next checkpoint merges them, and stalls grow.
    try:
        connection.execute(f"ATTACH {_quoted(path)} AS store (ROW_GROUP_SIZE 2048)")
    except duckdb.IOException as error:
        if "Could not set lock" in str(error):
            raise StoreLocked(
                f"the database of the store {str(path.parent)!r} is open in another program: {_first_line(error)}"
            ) from error
        raise
    connection.execute("USE store")


def last_seq_of(connection: duckdb.DuckDBPyConnection) -> int:
    """Number of the last group commit in the attached store."""
    found = connection.execute("SELECT coalesce(max(seq), 0) FROM commit_log").fetchone()
    return 0 if found is None else int(found[0])


def _first_line(error: duckdb.Error) -> str:
    return str(error).partition("\n")[0].rstrip(".")
