"""Commit rows of several writers in one transaction, with retries. Blocking; for one thread at a time."""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

import duckdb
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelRequest, ModelResponse, TextPart, UserPromptPart

from agentlearn.errors import StoreDamaged, StoreError
from agentlearn.store.codec import (
    EntryValue,
    RowGroup,
    encode_entry,
    entry_rows,
    error_line,
    rows_of_entry,
    time_of,
    trajectory_rows,
    unescape,
    unfit_number,
)
from agentlearn.store.database import CHECKPOINT_BYTES, Database, DatabaseState
from agentlearn.store.journal_file import attempts
from agentlearn.types.experience import EMPTY_LIBRARY
from agentlearn.types.ids import RolloutId, RunId, TaskId
from agentlearn.types.trajectory import DEMONSTRATION, ModelTurn, Trajectory, Treatment, Verdict

PERSON = "person"
"""Model of a rollout that a person wrote."""

_NEW = f"""
    SELECT f.id, t.run, t.task, k.problem, f.demonstration, f.reason, f.who, epoch_us(f.given_at) AS at,
           row_number() OVER (PARTITION BY t.run, t.task ORDER BY f.seq, f.rowid)
             - 1 + (
               SELECT count(*) FROM trajectory o
               WHERE o.run = t.run AND o.task = t.task AND o.phase = '{DEMONSTRATION}'
             ) AS g
    FROM feedback f JOIN live l ON l.rollout = f.rollout JOIN trajectory t ON t.id = f.rollout
    JOIN task k ON k.id = t.task
    WHERE f.demonstration <> '' AND f.id NOT IN (SELECT id FROM trajectory WHERE phase = '{DEMONSTRATION}')
"""  # noqa: S608 - a constant of ours


def _new_demonstrations(connection: duckdb.DuckDBPyConnection) -> list[RowGroup]:
    """The rows of every demonstration that is no rollout yet and whose rollout is stored. Raises duckdb.Error."""
    found = connection.execute(_NEW)
    columns = [column[0] for column in found.description]
    units = dict[str, RowGroup]()  # an entry that was stored twice has the same id
    for values in found.fetchall():
        fields = dict(zip(columns, values, strict=True))
        units.setdefault(fields["id"], _rows(fields))
    return list(units.values())


def _rows(found: dict[str, Any]) -> RowGroup:
    answer, problem, who = unescape(found["demonstration"]), unescape(found["problem"]), unescape(found["who"])
    at = time_of(found["at"])
    trajectory = Trajectory(
        id=RolloutId(found["id"]),
        run=RunId(found["run"]),
        phase=DEMONSTRATION,
        task=TaskId(found["task"]),
        g=found["g"],
        seed=0,
        treatment=Treatment(model=PERSON, library=EMPTY_LIBRARY.version),
        steps=(ModelTurn(text=answer),),
        answer=answer,
        verdict=Verdict(
            status="correct",
            reward=1.0,
            reason=unescape(found["reason"]) or f"a right answer, written by {who or 'a person'}",
        ),
        started_at=at,
    )
    messages = [
        ModelRequest(parts=[UserPromptPart(content=problem, timestamp=at)]),
        ModelResponse(parts=[TextPart(content=answer)], timestamp=at),
    ]
    return trajectory_rows(trajectory, ModelMessagesTypeAdapter.dump_json(messages))


KEEP_FIRST = frozenset({"blob", "experience", "library_version", "task"})
"""Tables whose ids are content hashes: a second row with the same id is a duplicate and is not stored."""

_TRANSIENT = (duckdb.TransactionException, duckdb.IOException, duckdb.OutOfMemoryException, OSError, StoreError)
_INVALIDATES = (duckdb.FatalException, duckdb.InternalException)


MAX_WAITING = 1_024
"""Largest number of journal entries that may wait outside the database."""
MAX_TAKEN = 4_096
"""Largest number of journal entries in one commit: other processes may have appended more than fit into memory."""
MAX_WAITING_BYTES = 2**20
"""Largest size of the waiting journal entries."""


class JournalEntry(NamedTuple):
    """Rows that may wait outside the database, and the bytes that represent them in the journal."""

    unit: RowGroup
    content: bytes

    @classmethod
    def of(cls, value: EntryValue) -> "JournalEntry":
        """The entry of a value. Raises StoreError for one that cannot be stored."""
        return cls(rows_of_entry(value), encode_entry(value))


class GroupCommit:
    """Writes row groups to the database, several in one transaction, and journal entries to the journal first.

    Journal entries enter the database with the next commit or on `flush`.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._journal = database.journal
        with database.cursor() as cursor:
            state = DatabaseState.read(cursor, None)
        self._seq, self._taken = state.last, state.taken
        self._connection: duckdb.DuckDBPyConnection | None = database.cursor()
        self._appenders: dict[str, duckdb.Appender] = {}
        self._inserts: dict[str, str] = {}
        self._waiting: dict[int, RowGroup] = {}
        self._waiting_bytes = 0
        self._waiting_rollouts: set[str] = set()
        self._known_rollouts = _KnownRollouts()
        self._unsure = False
        """Whether the last commit failed, so that it may be in the database or not."""
        with suppress(duckdb.Error):  # then they are read with the first commit
            self._read_journal()

    @property
    def waiting(self) -> int:
        """Number of journal entries that are durable but not yet in the database."""
        return max(self._journal.last() - self._taken, 0)

    def write(self, group: Sequence[RowGroup | JournalEntry]) -> list[StoreError | None]:
        """Make everything durable. Returns, for each item, None or the error why it was not stored."""
        entries = iter(self._write_entries([one for one in group if isinstance(one, JournalEntry)]))
        rows = iter(self._write_rows([one for one in group if not isinstance(one, JournalEntry)]))
        return [next(entries if isinstance(one, JournalEntry) else rows) for one in group]

    def _write_rows(self, units: Sequence[RowGroup]) -> list[StoreError | None]:
        """Commit rows, with the waiting entries. Without rows, the entries wait until they are many."""
        if units:
            return self.commit(units)
        if len(self._waiting) > MAX_WAITING or self._waiting_bytes > MAX_WAITING_BYTES:
            with suppress(StoreError):  # they stay durable in the journal
                self.flush()
        return []

    def _write_entries(self, entries: Sequence[JournalEntry]) -> list[StoreError | None]:
        """Append entries to the journal."""
        units = [entry.unit for entry in entries]
        try:
            refusals = self._refusals(units)
        except (duckdb.Error, StoreError):  # `commit` retries, and reopens an invalid database
            outcomes = self.commit(units)
            with suppress(StoreError):  # the journal lacks them, so they must not be in the log alone
                self.checkpoint()
            return outcomes
        failure = self._append_to_journal([one for one, why in zip(entries, refusals, strict=True) if why is None])
        return [why or failure for why in refusals]

    def _refusals(self, units: Sequence[RowGroup]) -> list[StoreError | None]:
        """For each row group, why the database would refuse it, or None. Checked before anything is acknowledged."""
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
        """Ids of the rollouts among `units` that the store already has. Raises duckdb.Error, StoreError."""
        rollouts = _rollouts_of(units)
        waiting = rollouts & self._waiting_rollouts
        return waiting | self._known_rollouts.among(self._connected(), rollouts - waiting)

    def _add_waiting(self, number: int, unit: RowGroup, size_bytes: int) -> None:
        """Note that a row group is in the journal and not yet in the database."""
        self._waiting[number] = unit
        self._waiting_bytes += size_bytes
        if unit and (rollout := _rollout_of(unit)) is not None:
            self._waiting_rollouts.add(rollout)

    def _read_journal(self) -> int:
        """Read the next entries that other processes have appended; return the number of the last entry that was read.

        Raises StoreError, duckdb.Error. A rollout that is stored already is left out.
        """
        last = min(self._journal.last(), self._taken + MAX_TAKEN)
        for first, end in _gaps(self._waiting, self._taken, last):
            contents = self._journal.read(first, end)
            units = [entry_rows(content) for content in contents]
            stored = self._stored(units)
            for number, unit, content in zip(range(first, end + 1), units, contents, strict=True):
                rollout = _rollout_of(unit)
                self._add_waiting(number, () if rollout in stored else unit, len(content))
                stored |= {rollout} if rollout is not None else set[str]()
        return last

    def flush(self) -> None:
        """Move the waiting journal entries into the database. Raises StoreError; then they stay in the journal."""
        failure = None
        while failure is None and self._journal.last() > self._taken:
            failure = self._commit([])
        if failure is not None:
            raise _not_written(failure)

    def commit(self, units: Sequence[RowGroup]) -> list[StoreError | None]:
        """Commit the row groups. Returns, for each, None or the error why it was not stored.

        A row group that the database refuses fails alone. After any other failure the whole commit is retried, unless
        it turns out to be in the database (reopened first if DuckDB declared its state invalid).
        """
        failure = self._commit(units)
        if failure is None:
            return [None] * len(units)
        if not isinstance(failure, duckdb.Error) or isinstance(failure, (*_TRANSIENT, *_INVALIDATES)):
            return [_not_written(failure)] * len(units)
        if len(units) == 1:
            return [_refused(units[0], error_line(failure))]
        middle = len(units) // 2
        return self.commit(units[:middle]) + self.commit(units[middle:])

    def _commit(self, units: Sequence[RowGroup]) -> Exception | None:
        """Commit the waiting journal entries and the units. Returns None or why it failed."""
        self._seq += 1  # never used for two groups, so finding it in the database proves the commit durable
        failure: Exception | None = None
        for _ in attempts():
            try:
                connection = self._connected()
                taken = self._stored_already() if self._unsure else None
                if taken is None:
                    taken = self._read_journal()
                    waiting = [unit for at, unit in sorted(self._waiting.items()) if unit and at <= taken]
                    self._transaction(connection, [*waiting, *units], taken)
                    self._known_rollouts.add(_rollouts_of([*waiting, *units]))
                self._database.acknowledge(self._seq, taken)
            except StoreDamaged as error:
                return error
            except (*_TRANSIENT, *_INVALIDATES) as error:
                self._unsure, failure = True, error
                self._known_rollouts.forget()
                if isinstance(error, _INVALIDATES) or "invalidated" in str(error):
                    self._connection = None
            except duckdb.Error as error:
                return error
            else:
                self._taken_in(taken)
                return None
        return failure

    def _stored_already(self) -> int | None:
        """The last journal entry in the database, if the commit under way turns out to be there; otherwise None."""
        with self._database.cursor() as cursor:
            state = DatabaseState.read(cursor, None)
        self._forget(state.taken)
        return state.taken if state.last >= self._seq else None

    def _taken_in(self, taken: int) -> None:
        """Note that the journal entries up to `taken` are in the database now. A checkpoint removes them."""
        self._unsure = False
        if taken > self._taken:
            self._forget(taken)
        if self._database.log_bytes > CHECKPOINT_BYTES:
            with suppress(StoreError):
                self.checkpoint()

    def _forget(self, taken: int) -> None:
        self._taken = max(self._taken, taken)
        self._waiting = {number: unit for number, unit in self._waiting.items() if number > taken}
        self._waiting_rollouts = {one for unit in self._waiting.values() if unit and (one := _rollout_of(unit))}
        self._waiting_bytes = self._waiting_bytes if self._waiting else 0

    def _append_to_journal(self, entries: Sequence[JournalEntry]) -> StoreError | None:
        if not entries:
            return None
        failure: StoreError | None = None
        for _ in attempts():
            try:
                numbers = self._journal.append([entry.content for entry in entries])
            except StoreDamaged as error:
                return error
            except StoreError as error:
                failure = error
            else:
                for number, entry in zip(numbers, entries, strict=True):
                    self._add_waiting(number, entry.unit, len(entry.content))
                return None
        return failure

    def add(self, insert: Callable[[duckdb.DuckDBPyConnection, int], int]) -> None:
        """Commit what `insert` adds, all or nothing, after everything in the journal. Raises StoreError, duckdb.Error.

        insert: gets the connection, which is in a transaction, and the number of the commit; returns how many rows it
        inserted. It may leave another database as the default one.
        """
        self.flush()
        self._seq += 1
        connection = self._connected()
        self._known_rollouts.forget()
        try:
            with self._committing(connection, self._taken) as counted:
                counted.append(insert(connection, self._seq))
                connection.execute("USE store")
                counted.append(self._store(connection, _new_demonstrations(connection)))
        finally:
            connection.execute("USE store")
        self._database.acknowledge(self._seq, self._taken)

    def checkpoint(self) -> None:
        """Move DuckDB's log into the database file. Raises StoreError; nothing is lost then."""
        try:
            self._database.checkpoint()
        except duckdb.Error as error:
            self._connection = None  # a failed checkpoint can invalidate the database, whatever the error's type
            with suppress(StoreError):
                self._connected()
            raise StoreError(f"the store could not be checkpointed: {error_line(error)}") from error

    def close(self) -> None:
        """Flush, then close the connection. The next opening commits unflushed entries."""
        with suppress(StoreError):
            self.flush()
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

    def _transaction(self, connection: duckdb.DuckDBPyConnection, units: Sequence[RowGroup], taken: int) -> None:
        with self._committing(connection, taken) as counted:
            counted.append(self._store(connection, units))
            if any(one.table in {"feedback", "live"} for unit in units for one in unit):
                counted.append(self._store(connection, _new_demonstrations(connection)))

    @contextmanager
    def _committing(self, connection: duckdb.DuckDBPyConnection, taken: int) -> Generator[list[int]]:
        """One transaction. The block appends the numbers of rows that it stores to the list that it gets."""
        counted = list[int]()
        connection.begin()
        try:
            yield counted
            log_row: dict[str, object] = {"committed_at": datetime.now(UTC), "n_rows": sum(counted), "journal": taken}
            self._append(connection, "commit_log", [log_row])
            connection.commit()
        except BaseException:
            self._appenders.clear()  # also discards the rows that they still buffer
            with suppress(duckdb.Error):
                connection.rollback()
            raise

    def _store(self, connection: duckdb.DuckDBPyConnection, units: Sequence[RowGroup]) -> int:
        """Store the rows, table by table. Returns their number."""
        by_table: dict[str, list[dict[str, object]]] = {}
        for unit in units:
            for table, values in unit:
                by_table.setdefault(table, []).append(values)
        return sum(
            self._insert_new(connection, table, rows) if table in KEEP_FIRST else self._append(connection, table, rows)
            for table, rows in by_table.items()
        )

    def _append(self, connection: duckdb.DuckDBPyConnection, table: str, rows: Sequence[dict[str, object]]) -> int:
        """Append rows that have the same columns in the same order. Returns their number."""
        if table not in self._appenders:
            self._appenders[table] = connection.appender(table, columns=[*rows[0], "seq"])
        appender = self._appenders[table]
        appender.append_rows([(*values.values(), self._seq) for values in rows])
        appender.flush()
        return len(rows)

    def _insert_new(self, connection: duckdb.DuckDBPyConnection, table: str, rows: Sequence[dict[str, object]]) -> int:
        """Insert the rows whose key is new; return their number. One statement: `executemany` takes 2 ms per row."""
        if table not in self._inserts:
            query = "SELECT column_name, data_type FROM duckdb_columns() WHERE database_name = 'store'"
            types = dict(connection.execute(query + " AND table_name = ?", [table]).fetchall())
            names = [*rows[0], "seq"]
            values = ", ".join(f"unnest(${place}::{types[name]}[])" for place, name in enumerate(names, start=1))
            self._inserts[table] = f"INSERT INTO {table} ({', '.join(names)}) SELECT {values} ON CONFLICT DO NOTHING"
        columns = [list(column) for column in zip(*((*values.values(), self._seq) for values in rows), strict=True)]
        inserted = connection.execute(self._inserts[table], columns).fetchone()
        return 0 if inserted is None else int(inserted[0])


def _rollout_of(unit: RowGroup) -> str | None:
    """The rollout id of a row group that holds a rollout; None for other row groups."""
    first = unit[0]
    return str(first.values["id"]) if first.table == "trajectory" else None


def _rollouts_of(units: Sequence[RowGroup]) -> set[str]:
    """The ids of the rollouts in row groups."""
    return {rollout for unit in units if (rollout := _rollout_of(unit)) is not None}


def _refused(unit: RowGroup, why: str) -> StoreError:
    return StoreError(f"the store refused a {unit[0].table}: {why}", code="row_refused")


def _gaps(known: Mapping[int, object], after: int, last: int) -> list[tuple[int, int]]:
    """The ranges of numbers from `after` + 1 to `last` that are not known, as first and last number."""
    gaps, first = list[tuple[int, int]](), after + 1
    for number in (*sorted(known), last + 1):
        if number > first:
            gaps.append((first, number - 1))
        first = number + 1
    return gaps


def _not_written(failure: Exception | None) -> StoreError:
    if isinstance(failure, StoreError):
        return failure
    return StoreError(f"the store could not be written: {error_line(failure)}")


MOST_REMEMBERED = 100_000
"""Largest number of ids that are remembered. A larger store is asked each time."""


class _KnownRollouts:
    """The ids of the stored rollouts. They are read with the second question, and again after `forget`."""

    def __init__(self) -> None:
        self._ids: set[str] | None = None
        self._asked = self._too_many = False

    def among(self, connection: duckdb.DuckDBPyConnection, rollouts: AbstractSet[str]) -> set[str]:
        """Return those of the rollouts that the database holds. Raises duckdb.Error."""
        if not rollouts:
            return set()
        if self._ids is None and self._asked and not self._too_many:
            found = connection.execute("SELECT id FROM trajectory LIMIT ?", [MOST_REMEMBERED + 1]).fetchall()
            self._keep({rollout for (rollout,) in found})
        if self._ids is not None:
            return self._ids & rollouts
        self._asked = True
        query = "SELECT id FROM trajectory WHERE id IN (SELECT unnest($1::VARCHAR[]))"
        return {rollout for (rollout,) in connection.execute(query, [sorted(rollouts)]).fetchall()}

    def add(self, rollouts: Iterable[str]) -> None:
        """Remember rollouts that the database holds now."""
        if self._ids is not None:
            self._ids.update(rollouts)
            self._keep(self._ids)

    def forget(self) -> None:
        """Forget everything, after a commit of which it is not known whether it is in the database."""
        self._ids = None

    def _keep(self, ids: set[str]) -> None:
        self._too_many = len(ids) > MOST_REMEMBERED
        self._ids = None if self._too_many else ids
