"""Repair a damaged store. Damaged files are kept under another name, and everything that is lost is reported.

Of a damaged database file, what can still be read is copied into a new one.
"""
# ruff: noqa: S608 - names of tables and columns come from our own schema

import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path

import duckdb

from agentlearn.errors import StoreDamaged, StoreError, StoreMissing
from agentlearn.files import write_whole
from agentlearn.store.consistency import (
    DatabaseState,
    JournalState,
    database_state,
    file_contradictions,
    journal_contradictions,
    read_journal,
)
from agentlearn.store.database import DATABASE, DATABASE_LOG, Database, has_schema, open_draft, open_read_only
from agentlearn.store.group_commit import GroupCommit
from agentlearn.store.journal_entries import entry_rows
from agentlearn.store.journal_file import JOURNAL, JOURNAL_PARTS, make_journal
from agentlearn.store.store_files import (
    WATERMARK,
    Acknowledged,
    StoreLock,
    make_private,
    read_watermark,
    write_watermark,
)
from agentlearn.store.text import error_line, sql_string
from agentlearn.types.value import Value

_DAMAGED_AT = re.compile(r"Corrupt WAL file: entry at byte position (\d+)")


class Repaired(Value):
    """What a repair did and what was lost."""

    store: str
    """Directory of the store."""
    kept: tuple[str, ...] = ()
    """Names under which damaged files were kept."""
    made: tuple[str, ...] = ()
    """Names of the files that were made or replaced."""
    lost_commits: int | None = 0
    """Number of acknowledged group commits that are lost; None if unknown. See `restored_entries`."""
    last_commit: int
    """Sequence number of the last remaining group commit."""
    lost_log_bytes: int = 0
    """Bytes removed from DuckDB's log."""
    lost_entries: int | None = 0
    """Number of acknowledged calls, rollouts and summaries lost from the journal; None if unknown."""
    restored_entries: int = 0
    """Number of calls, rollouts and summaries taken in from the journal, those of lost commits too."""
    lost_rows: Mapping[str, int] = {}
    """Number of rows lost from each table of the database file."""

    @property
    def changed(self) -> bool:
        """Whether anything had to be repaired."""
        return bool(self.kept or self.made)


def repair_store(directory: Path) -> Repaired:
    """Restore a store to its last intact state, and open it once to verify it.

    Raises StoreLocked, StoreMissing, UnknownSchema; StoreDamaged when nothing of the database file can be read. Then
    all files stay unchanged.
    """
    if not (directory / DATABASE).exists() and not _only_begun(directory):
        raise StoreMissing(f"there is no {DATABASE} in {str(directory)!r}; restore it from a backup")
    lock = StoreLock(directory)
    try:
        if not (directory / DATABASE).exists():
            open_draft(directory / DATABASE).close()
        with suppress(duckdb.Error), open_read_only(directory / DATABASE) as connection:
            has_schema(connection, directory)
        repaired = _StoreRepair(directory).run()
    except OSError as error:
        raise StoreError(f"the store {str(directory)!r} cannot be repaired: {error}") from error
    except duckdb.Error as error:
        raise StoreError(f"the store {str(directory)!r} cannot be repaired: {error_line(error)}") from error
    finally:
        lock.release()
    with closing(Database(directory, create=False)) as database:
        database.checkpoint()  # empties the shortened log, so that nothing is appended to it
        commits = GroupCommit(database, entry_rows)
        restored = commits.waiting
        commits.close()
    return repaired.model_copy(update={"restored_entries": restored})


def _only_begun(directory: Path) -> bool:
    """Whether a recorder began the store and nobody has opened it yet."""
    try:
        mark = read_watermark(directory / WATERMARK)
    except StoreDamaged:
        return False
    return mark is not None and mark.only_journal


class _StoreRepair:
    """One repair. The caller holds the store's lock."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._kept: list[str] = []
        self._made: list[str] = []
        try:
            self._known = read_watermark(directory / WATERMARK)
        except StoreDamaged:
            self._known = None
        self._short = any(file_contradictions(self._known, directory / DATABASE))

    def run(self) -> Repaired:
        commit = self._known.commit if self._known is not None else None
        last, lost_log_bytes = self._repair_log(commit)
        lost_rows = self._repair_tables()
        last = max(last, self._state().last) if lost_rows else last
        lost_entries = self._repair_journal(self._known, commits_lost=bool(lost_rows))
        make_private(self._directory)
        return Repaired(
            store=str(self._directory),
            kept=tuple(self._kept),
            made=tuple(self._made),
            lost_commits=None if commit is None and self._made else max((commit or 0) - last, 0),
            last_commit=self._state().last,
            lost_log_bytes=lost_log_bytes,
            lost_entries=lost_entries,
            lost_rows=lost_rows,
        )

    def _state(self) -> DatabaseState:
        with open_read_only(self._directory / DATABASE) as connection:
            return database_state(connection, self._known)

    def _repair_log(self, acknowledged: int | None) -> tuple[int, int]:
        """The number of the last commit that can be kept, and how many bytes of DuckDB's log had to be removed."""
        log = self._directory / DATABASE_LOG
        size = log.stat().st_size if log.exists() else 0
        found = self._last_commit()
        if isinstance(found, int) and (acknowledged is None or found >= acknowledged):
            return found, 0
        if not size:
            if isinstance(found, int):
                return found, 0
            raise self._beyond_repair(found)
        content, before = log.read_bytes(), found
        left = size
        while not isinstance(found, int) and (cut := _DAMAGED_AT.search(str(found))) and int(cut[1]) < left:
            left = int(cut[1])
            write_whole(log, content[:left])
            found = self._last_commit()
        log.unlink()
        without = self._last_commit()
        write_whole(log, content)
        if not isinstance(found, int) and not isinstance(without, int):
            raise self._beyond_repair(before if isinstance(before, duckdb.Error) else without)
        self._keep(DATABASE_LOG)
        if isinstance(without, int) and (not isinstance(found, int) or without == found):
            log.unlink()  # its header is damaged, so none of it can be used
            return without, size
        write_whole(log, content[:left])
        return found if isinstance(found, int) else 0, size - left

    def _last_commit(self) -> int | duckdb.Error:
        """The number of the last commit in the database and its log, or the error why they cannot be read."""
        try:
            with open_read_only(self._directory / DATABASE) as connection:
                tables = connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
                if not tables:
                    return duckdb.Error("it has no tables")
                try:
                    return database_state(connection, None).last
                except duckdb.Error:  # its log was applied; the table is salvaged later
                    return self._known.commit if self._known is not None else 0
        except duckdb.Error as error:
            return error

    def _repair_tables(self) -> dict[str, int]:
        """Salvage the tables if one of them cannot be read. Returns the number of rows lost of each.

        Also where the end of the file is missing: it may have held an index, which is not read with its table.
        """
        if not self._short and not unreadable_tables(self._directory / DATABASE):
            return {}
        draft = self._directory / f"{DATABASE}.draft"
        try:
            lost = salvage_database(self._directory / DATABASE, draft)
            self._keep(DATABASE)
            if (self._directory / DATABASE_LOG).exists():
                self._keep(DATABASE_LOG)
                (self._directory / DATABASE_LOG).unlink()
            draft.replace(self._directory / DATABASE)
        finally:
            for part in (draft, draft.with_name(draft.name + ".wal")):
                part.unlink(missing_ok=True)
        self._made.append(DATABASE)
        return lost

    def _repair_journal(self, known: Acknowledged | None, *, commits_lost: bool) -> int | None:
        """Make the journal and the watermark fit the database. Returns how many acknowledged entries are lost."""
        state = self._state()
        identity = state.identity or (known.identity if known else secrets.token_hex(16))
        if known is not None and known.identity != identity:
            known = None
        wanted = known or Acknowledged(identity, 0, 0)
        journal = read_journal(self._directory, expected_last=wanted.journal)
        if journal.identity not in (None, identity):
            journal = journal._replace(entries={}, last=0)
        taken = _taken(state, journal) if commits_lost else state.taken
        lost: int | None = 0
        end = max(journal.last, taken)
        damaged = [*journal_contradictions(wanted, taken, journal)] or journal.identity != identity
        if damaged or taken > state.taken:
            sane = journal.last if journal.problem is None else 0
            base = max([wanted.journal, taken, sane, *journal.entries])
            lost = None if known is None and journal.problem else journal.lacks(taken, base)
            end = self._new_journal(identity, journal, taken, base)
            self._set_base(identity, base)
        elif state.identity is None:
            self._set_base(identity, state.taken)
        size_bytes = known.size_bytes if known is not None and not self._made else 0
        self._new_watermark(Acknowledged(identity, end, self._state().last, size_bytes))
        return lost

    def _new_journal(self, identity: str, journal: JournalState, taken: int, base: int) -> int:
        """Write the intact entries to a new journal, numbered from `base` + 1. Returns the last number."""
        for name in JOURNAL_PARTS:
            if (self._directory / name).exists() and not name.endswith("-shm"):
                self._keep(name)
        entries = [content for number, content in sorted(journal.entries.items()) if number > taken]
        draft = self._directory / f"{JOURNAL}.draft"
        make_journal(draft, identity, after=base, entries=entries)
        for name in JOURNAL_PARTS[1:]:
            (self._directory / name).unlink(missing_ok=True)
        draft.replace(self._directory / JOURNAL)
        self._made.append(JOURNAL)
        return base + len(entries)

    def _set_base(self, identity: str, base: int) -> None:
        """Note in the database that entries up to `base` are in it or lost."""
        with closing(open_draft(self._directory / DATABASE)) as connection:
            if connection.execute("SELECT id FROM store_identity").fetchone() is None:
                connection.execute("INSERT INTO store_identity VALUES (?)", [identity])
            connection.execute(
                "INSERT INTO commit_log (seq, committed_at, n_rows, journal)"
                " SELECT coalesce(max(seq), 0) + 1, now(), 0, ? FROM commit_log",
                [base],
            )
            connection.execute("CHECKPOINT store")

    def _new_watermark(self, acknowledged: Acknowledged) -> None:
        file = self._directory / WATERMARK
        if self._known == acknowledged:
            return
        if self._made or self._needs_watermark(acknowledged):
            if file.exists() and self._needs_watermark(acknowledged):
                self._keep(WATERMARK)
            write_watermark(file, acknowledged)
            self._made.append(WATERMARK)

    def _needs_watermark(self, acknowledged: Acknowledged) -> bool:
        """Whether the watermark is missing, damaged, of another store, too high, or older than a crash explains."""
        known = self._known
        if known is None or known.identity != acknowledged.identity:
            return True
        return known.commit > acknowledged.commit or self._state().unacknowledged > 1

    def _keep(self, name: str) -> None:
        """Give a file a second name, the first unused one of `NAME.damaged-N`. Files are replaced, never changed."""
        file = self._directory / name
        number = 1
        while (copy := file.with_name(f"{name}.damaged-{number}")).exists():
            number += 1
        try:
            os.link(file, copy)
        except OSError:  # a file system without links
            write_whole(copy, file.read_bytes())
        self._kept.append(copy.name)

    def _beyond_repair(self, error: duckdb.Error) -> StoreDamaged:
        return StoreDamaged(
            f"nothing of the database file of {str(self._directory)!r} can be read ({error_line(error)}); restore the"
            " directory from a backup"
        )


def _taken(state: DatabaseState, journal: JournalState) -> int:
    """The last entry that was taken in, where the database may have lost the number."""
    first_waiting = min(journal.entries, default=journal.last + 1)
    return max(state.taken, first_waiting - 1)


_ROW_GROUP = 2_048
_SMALLEST = 128
"""Number of rows that are given up together at least."""

_PARTLESS = (
    "DELETE FROM trajectory WHERE id NOT IN (SELECT rollout FROM trajectory_body)",
    "DELETE FROM trajectory_body WHERE rollout NOT IN (SELECT id FROM trajectory)",
    "DELETE FROM step WHERE rollout NOT IN (SELECT id FROM trajectory)",
)
"""A rollout is stored completely or not at all."""


def unreadable_tables(path: Path) -> list[str]:
    """Tables of a database file that cannot be read completely. Raises duckdb.Error when it cannot be opened."""
    with open_read_only(path) as connection:
        names = _tables(connection)
    return [] if _readable(path, names) else [name for name in names if not _readable(path, [name])]


def salvage_database(path: Path, draft: Path) -> dict[str, int]:
    """Write every readable row to a new database file. Returns the number of rows lost of each table.

    Raises duckdb.Error when the draft cannot be written.
    """
    for part in (draft, draft.with_name(draft.name + ".wal")):
        part.unlink(missing_ok=True)
    with open_read_only(path) as connection:
        there = {name: _columns(connection, name) for name in _tables(connection)}
        rows = dict(connection.execute(_SIZES).fetchall())
    lost: dict[str, int] = {}
    with closing(open_draft(draft)) as connection:
        for name in _tables(connection):
            if name == "schema_version":
                continue
            columns = [one for one in _columns(connection, name) if one in there.get(name, [])]
            if columns:
                lost[name] = rows[name] - _copy(connection, path, name, columns, rows[name])
        lost["trajectory"] += _drop_partial_rollouts(connection)
        _rebuild_commit_log(connection)
        connection.execute("CHECKPOINT store")
    return {name: count for name, count in lost.items() if count > 0}


_SIZES = "SELECT table_name, estimated_size FROM duckdb_tables() WHERE database_name = 'store'"


def _tables(connection: duckdb.DuckDBPyConnection) -> list[str]:
    return sorted(name for name, _ in connection.execute(_SIZES).fetchall())


def _columns(connection: duckdb.DuckDBPyConnection, table: str) -> list[str]:
    found = connection.execute(
        "SELECT column_name FROM duckdb_columns() WHERE database_name = 'store' AND table_name = ?", [table]
    )
    return [name for (name,) in found.fetchall()]


def _readable(path: Path, tables: list[str]) -> bool:
    try:
        with open_read_only(path) as connection:
            for table in tables:
                connection.execute(f'SELECT count(*), bit_xor(hash(t)) FROM "{table}" t').fetchone()
    except duckdb.Error:
        return False
    return True


def _copy(connection: duckdb.DuckDBPyConnection, path: Path, table: str, columns: list[str], rows: int) -> int:
    """Copy the readable rows of a table. Returns their number."""
    return sum(_copy_range(connection, path, (table, columns), first, end) for first, end in _ranges(0, rows, rows))


def _copy_range(
    connection: duckdb.DuckDBPyConnection, path: Path, what: tuple[str, list[str]], first: int, end: int
) -> int:
    try:
        return _insert(connection, path, *what, first, end)
    except duckdb.Error:
        if end - first <= _SMALLEST:
            return 0
    size = _ROW_GROUP if end - first > _ROW_GROUP else (end - first + 1) // 2
    return sum(_copy_range(connection, path, what, *part) for part in _ranges(first, end, size))


def _insert(
    connection: duckdb.DuckDBPyConnection, path: Path, table: str, columns: list[str], first: int, end: int
) -> int:
    """Copy rows by their place. The damaged file is attached each time: an unreadable block can invalidate it."""
    names = ", ".join(columns)
    connection.execute(f"ATTACH {sql_string(path)} AS damaged (READ_ONLY)")
    try:
        done = connection.execute(
            f"INSERT INTO store.{table} ({names}) SELECT {names} FROM damaged.{table}"
            f" WHERE rowid >= {first} AND rowid < {end} ON CONFLICT DO NOTHING"
        ).fetchone()
        return 0 if done is None else int(done[0])
    finally:
        connection.execute("DETACH damaged")


def _ranges(first: int, end: int, size: int) -> Iterator[tuple[int, int]]:
    for at in range(first, end, max(size, 1)):
        yield at, min(at + size, end)


def _drop_partial_rollouts(connection: duckdb.DuckDBPyConnection) -> int:
    """Remove rollouts whose text is lost, and texts and steps without their rollout. Returns how many rollouts."""
    dropped = [connection.execute(statement).fetchone() for statement in _PARTLESS]
    return 0 if dropped[0] is None else int(dropped[0][0])


def _rebuild_commit_log(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the list of commits fit the rows that are left."""
    counted = "SELECT DISTINCT table_name FROM duckdb_columns() WHERE database_name = 'store' AND column_name = 'seq'"
    names = sorted(name for (name,) in connection.execute(counted).fetchall() if name != "commit_log")
    parts = " UNION ALL ".join(f"SELECT seq FROM {name}" for name in names)
    rows = f"SELECT seq, count(*) AS n FROM ({parts}) GROUP BY seq"
    connection.execute(
        "CREATE TEMP TABLE rebuilt AS SELECT seq, coalesce(c.committed_at, now()) AS committed_at,"
        f" coalesce(r.n, 0) AS n_rows, c.journal FROM commit_log c FULL JOIN ({rows}) r USING (seq) ORDER BY seq"
    )
    connection.execute("DELETE FROM commit_log")
    connection.execute(
        "INSERT INTO commit_log (seq, committed_at, n_rows, journal)"
        " SELECT seq, committed_at, n_rows, journal FROM rebuilt"
    )
