"""Group commits, and what becomes of a group that cannot be committed. Blocking; for one thread at a time."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

import duckdb

from agentlearn.errors import StoreError
from agentlearn.store.database import Database
from agentlearn.store.table_row import RowGroup, unfit_number
from agentlearn.store.write_ahead_log import NAME, WriteAheadLog

PAUSES_S = (0.0, 0.05, 0.2, 0.8)
"""Waits before each try of a group: failures such as a full disk may pass."""

FIRST_STAYS = frozenset({"blob", "experience", "library_version", "task"})
"""Tables whose rows are named by what they hold: a second row with the same name says nothing new."""

_MAY_PASS = (duckdb.TransactionException, duckdb.IOException, duckdb.OutOfMemoryException, OSError, StoreError)
_INVALIDATES = (duckdb.FatalException, duckdb.InternalException)


MAX_SPOOLED = 1_024
"""Entries that wait outside the database at most."""
MAX_SPOOLED_BYTES = 2**20
"""What they take there, at most."""


class JournalEntry(NamedTuple):
    """A unit that may wait outside the database, and its content as the journal's file holds it."""

    unit: RowGroup
    content: bytes


class GroupCommit:
    """Writes units into the database, several in one transaction; entries first into a file of their own.

    The entries go into the database with the next units, or by `fold`. read: an entry as an earlier process wrote it.
    """

    def __init__(self, database: Database, read: Callable[[bytes], RowGroup]) -> None:
        self._database = database
        self._spool = WriteAheadLog(database.directory / NAME)
        self._seq = database.last_seq()
        self._connection: duckdb.DuckDBPyConnection | None = database.cursor()
        self._appenders: dict[str, duckdb.Appender] = {}
        self._inserts: dict[str, str] = {}
        self._spooled: list[RowGroup] = []
        self._spooled_rollouts: set[str] = set()
        recovered = [read(content) for content in self._spool.recover()]
        stored = self._stored(recovered)  # those of a process that died between a commit and the end of it
        for unit in recovered:
            if _rollout_of(unit) not in stored:
                self._remember(unit)

    @property
    def spooled(self) -> int:
        """Entries that are durable, and not in the database yet."""
        return len(self._spooled)

    def write(self, group: Sequence[RowGroup | JournalEntry]) -> list[StoreError | None]:
        """Make everything durable. For each: None, or why it is not stored."""
        entries = [one for one in group if isinstance(one, JournalEntry)]
        units = [one.unit if isinstance(one, JournalEntry) else one for one in group]
        if len(entries) < len(group):  # the database is written anyway
            return self.commit(units)
        try:
            refusals = self._refusals(units)
        except (duckdb.Error, StoreError):  # a commit tries more than once, and opens afresh what was declared invalid
            return self.commit(units)
        failure = self._append_to_spool([one for one, why in zip(entries, refusals, strict=True) if why is None])
        if failure is None and (len(self._spooled) > MAX_SPOOLED or self._spool.size_bytes > MAX_SPOOLED_BYTES):
            with suppress(StoreError):  # they are durable where they are
                self.fold()
        return [why or failure for why in refusals]

    def _refusals(self, units: Sequence[RowGroup]) -> list[StoreError | None]:
        """Why the database would refuse a unit, found out before it is acknowledged; None where it would not."""
        refusals, stored = list[StoreError | None](), self._stored(units)
        for unit in units:
            rollout = _rollout_of(unit)
            if (unfit := unfit_number(unit)) is not None:
                refusals.append(_refused(unit, unfit))
            elif rollout in stored:
                refusals.append(_refused(unit, f"the rollout {rollout!r} is stored already"))
            else:
                refusals.append(None)
                if rollout is not None:
                    stored.add(rollout)
        return refusals

    def _stored(self, units: Sequence[RowGroup]) -> set[str]:
        """Ids of those of the units that are rollouts and that the store has. Raises duckdb.Error, StoreError."""
        rollouts = {rollout for unit in units if (rollout := _rollout_of(unit)) is not None}
        waiting = rollouts & self._spooled_rollouts
        if not (asked := sorted(rollouts - waiting)):
            return waiting
        places = ", ".join("?" * len(asked))
        found = self._connected().execute(f"SELECT id FROM trajectory WHERE id IN ({places})", asked)  # noqa: S608
        return waiting | {rollout for (rollout,) in found.fetchall()}

    def _remember(self, unit: RowGroup) -> None:
        """One more unit waits in the spool."""
        self._spooled.append(unit)
        if (rollout := _rollout_of(unit)) is not None:
            self._spooled_rollouts.add(rollout)

    def fold(self) -> None:
        """Move the journal's entries into the database. Raises StoreError; they stay where they are when it does."""
        failure = self._commit([]) if self._spooled else None
        if failure is not None:
            raise _not_written(failure)

    def commit(self, units: Sequence[RowGroup]) -> list[StoreError | None]:
        """Make the units durable. For each: None, or why it is not stored.

        A unit that the database refuses fails alone. After any other failure the group is tried again, unless the
        database, opened afresh where DuckDB declared its state invalid, turns out to hold it already.
        """
        failure = self._commit(units)
        if failure is None:
            return [None] * len(units)
        if not isinstance(failure, duckdb.Error) or isinstance(failure, (*_MAY_PASS, *_INVALIDATES)):
            return [_not_written(failure)] * len(units)
        if len(units) == 1:
            return [_refused(units[0], _first_line(failure))]
        middle = len(units) // 2
        return self.commit(units[:middle]) + self.commit(units[middle:])

    def _commit(self, units: Sequence[RowGroup]) -> Exception | None:
        """Commit what waits in the spool and the units; why it could not be done."""
        self._seq += 1  # a number is never used for two groups, so that finding it proves its group durable
        failure: Exception | None = None
        for pause_s in PAUSES_S:
            time.sleep(pause_s)
            try:
                connection = self._connected()
                if failure is None or self._database.last_seq() < self._seq:
                    self._transaction(connection, [*self._spooled, *units])
                self._database.acknowledge(self._seq)
            except _INVALIDATES as error:
                self._connection, failure = None, error
            except _MAY_PASS as error:
                failure = error
            except duckdb.Error as error:
                return error
            else:
                self._spooled.clear()
                self._spooled_rollouts.clear()
                with suppress(OSError):  # what stays there is folded in once more, and the first of equal ids counts
                    self._spool.clear()
                return None
        return failure

    def _append_to_spool(self, entries: Sequence[JournalEntry]) -> StoreError | None:
        if not entries:
            return None
        failure: OSError | None = None
        for pause_s in PAUSES_S:
            time.sleep(pause_s)
            try:
                self._spool.append([entry.content for entry in entries])
            except OSError as error:
                failure = error
            else:
                for entry in entries:
                    self._remember(entry.unit)
                return None
        return _not_written(failure)

    def checkpoint(self) -> None:
        """Move the log into the database file. Raises StoreError; nothing is lost when it does."""
        try:
            self._database.checkpoint()
        except duckdb.Error as error:
            if isinstance(error, _INVALIDATES):
                self._connection = None
                self._connected()
            raise StoreError(
                f"the store could not be checkpointed: {_first_line(error)}", code="store_write"
            ) from error

    def close(self) -> None:
        """Let go of the connection and of the spool; what is left in it is folded in when the store is opened again."""
        with suppress(StoreError):
            self.fold()
        self._spool.close()
        self._appenders.clear()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self) -> duckdb.DuckDBPyConnection:
        if self._connection is None:
            self._appenders.clear()
            self._database.reopen()
            self._connection = self._database.cursor()
        return self._connection

    def _transaction(self, connection: duckdb.DuckDBPyConnection, units: Sequence[RowGroup]) -> None:
        by_table: dict[str, list[dict[str, object]]] = {}
        for unit in units:
            for table, values in unit:
                by_table.setdefault(table, []).append(values)
        connection.begin()
        try:
            n_rows = sum(
                self._insert_new(connection, table, rows)
                if table in FIRST_STAYS
                else self._append(connection, table, rows)
                for table, rows in by_table.items()
            )
            self._append(connection, "commit_log", [{"committed_at": datetime.now(UTC), "n_rows": n_rows}])
            connection.commit()
        except BaseException:
            self._appenders.clear()  # what they still hold is dropped with them
            with suppress(duckdb.Error):
                connection.rollback()
            raise

    def _append(self, connection: duckdb.DuckDBPyConnection, table: str, rows: Sequence[dict[str, object]]) -> int:
        """Add rows that share their columns, in the same order."""
        if table not in self._appenders:
            self._appenders[table] = connection.appender(table, columns=[*rows[0], "seq"])
        appender = self._appenders[table]
        appender.append_rows([(*values.values(), self._seq) for values in rows])
        appender.flush()
        return len(rows)

    def _insert_new(self, connection: duckdb.DuckDBPyConnection, table: str, rows: Sequence[dict[str, object]]) -> int:
        """Add those of the rows whose key is new. One statement: an `executemany` costs 2 ms per row."""
        if table not in self._inserts:
            self._inserts[table] = _insert_statement(connection, table, [*rows[0], "seq"])
        columns = [list(column) for column in zip(*((*values.values(), self._seq) for values in rows), strict=True)]
        inserted = connection.execute(self._inserts[table], columns).fetchone()
        return 0 if inserted is None else int(inserted[0])


def _rollout_of(unit: RowGroup) -> str | None:
    """The id of the rollout that the unit is; None of any other."""
    first = unit[0]
    return str(first.values["id"]) if first.table == "trajectory" else None


def _refused(unit: RowGroup, why: str) -> StoreError:
    return StoreError(f"the store refused a {unit[0].table}: {why}", code="row_refused")


def _insert_statement(connection: duckdb.DuckDBPyConnection, table: str, columns: Sequence[str]) -> str:
    described = connection.execute(
        "SELECT column_name, data_type FROM duckdb_columns() WHERE database_name = 'store' AND table_name = ?", [table]
    ).fetchall()
    types = dict(described)
    values = ", ".join(f"unnest(${place}::{types[column]}[])" for place, column in enumerate(columns, start=1))
    return f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} ON CONFLICT DO NOTHING"


def _not_written(failure: Exception | None) -> StoreError:
    return StoreError(f"the store could not be written: {_first_line(failure)}", code="store_write")


def _first_line(error: Exception | None) -> str:
    return str(error).partition("\n")[0].rstrip(".")
