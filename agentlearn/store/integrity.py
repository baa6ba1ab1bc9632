"""Check a store for damage, and repair it.

A check reads the lock, DuckDB's log, the journal and every table, and changes nothing. A repair keeps damaged files
under another name, copies what can still be read of a damaged database file into a new one, and reports what is lost.
"""
# ruff: noqa: S608 - names of tables and columns come from the database itself or from our own schema

import os
import re
import secrets
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path

import duckdb

from agentlearn.errors import AgentlearnError, StoreDamaged, StoreError, StoreMissing
from agentlearn.store.codec import entry_rows, error_line, sql_string
from agentlearn.store.database import (
    DATABASE,
    DATABASE_LOG,
    Database,
    DatabaseState,
    JournalState,
    database_contradictions,
    file_contradictions,
    has_schema,
    journal_contradictions,
    open_draft,
    open_read_only,
)
from agentlearn.store.group_commit import GroupCommit
from agentlearn.store.journal_file import JOURNAL, JOURNAL_PARTS, make_journal
from agentlearn.store.store_files import WATERMARK, Acknowledged, StoreLock, make_private
from agentlearn.text.files import write_whole
from agentlearn.types.value import Value

_SIZES = "SELECT table_name, estimated_size FROM duckdb_tables() WHERE database_name = 'store' ORDER BY table_name"
_COLUMNS = "SELECT table_name, column_name FROM duckdb_columns() WHERE database_name = 'store'"


def _columns(connection: duckdb.DuckDBPyConnection) -> dict[str, list[str]]:
    """The columns of each table, by table."""
    columns: dict[str, list[str]] = {}
    for table, column in connection.execute(_COLUMNS).fetchall():
        columns.setdefault(table, []).append(column)
    return dict(sorted(columns.items()))


def _rows_by_commit(connection: duckdb.DuckDBPyConnection) -> str:
    """A query for the number of rows `n` that the tables hold of each commit `seq`."""
    counted = [table for table, columns in _columns(connection).items() if "seq" in columns and table != "commit_log"]
    parts = " UNION ALL ".join(f'SELECT seq FROM "{table}"' for table in counted)
    return f"SELECT seq, count(*) AS n FROM ({parts}) GROUP BY seq"


def _counted(connection: duckdb.DuckDBPyConnection, tables: Sequence[str]) -> dict[str, int]:
    """Number of rows of each table, after reading all its blocks. Raises duckdb.Error, also for one damaged table."""
    reading = 'SELECT count(*), bit_xor(hash(t)) FROM "{}" t'
    return {table: int(connection.execute(reading.format(table)).fetchall()[0][0]) for table in tables}


def _counted_apart(path: Path, tables: Sequence[str]) -> tuple[dict[str, int], dict[str, duckdb.Error]]:
    """Number of rows of each table that can be read, and the errors of the others.

    The database is opened again for each table, because a damaged block can invalidate a connection.
    """
    counts, errors = dict[str, int](), dict[str, duckdb.Error]()
    for table in tables:
        try:
            with open_read_only(path) as connection:
                counts |= _counted(connection, [table])
        except duckdb.Error as error:
            errors[table] = error
    return counts, errors


class StoreProblem(Value):
    """One problem found in a store."""

    code: str
    """Stable name of the kind of problem."""
    words: str
    """One sentence that describes the problem."""
    mend: str
    """How to fix it, as a command or an instruction."""


class StoreReport(Value):
    """Result of `check_store`."""

    store: str
    """Directory of the store."""
    findings: tuple[StoreProblem, ...]
    """The problems found; empty for an intact store."""
    commits: int | None
    """Sequence number of the last group commit in the database; None if the database cannot be opened."""
    acknowledged: int | None
    """Sequence number of the last group commit that was acknowledged to a writer; None if its file is damaged."""
    journal_entries: int
    """Intact journal entries that are not yet in the database."""
    tables: dict[str, int]
    """Number of rows of each readable table."""
    size_bytes: int
    """Total size of the store's files."""

    @property
    def sound(self) -> bool:
        """Whether no problem was found."""
        return not self.findings


def check_store(directory: Path) -> StoreReport:
    """Return a report on everything in a store. Raises StoreLocked; StoreMissing when the directory holds no store."""
    if not (directory / DATABASE).exists() and not (directory / WATERMARK).exists():
        raise StoreMissing(f"there is no store at {str(directory)!r}; a run makes one, or pass another --store DIR")
    lock = StoreLock(directory, reads=True)
    try:
        return _report(directory)
    finally:
        lock.release()


def _report(directory: Path) -> StoreReport:
    path = directory / DATABASE
    mark: Acknowledged | None = None
    problems: list[StoreProblem] = []

    def add(code: str, words: str, fix: str = _REPAIR) -> None:
        problems.append(StoreProblem(code=code, words=words, mend=fix))

    try:
        mark = Acknowledged.read(directory / WATERMARK)
        if mark is None:
            add("missing_watermark", f"{WATERMARK} is missing")
    except StoreDamaged as error:
        add("damaged_watermark", str(error).partition(";")[0])
    for one in file_contradictions(mark, path):
        add(*one)
    tables: dict[str, int] = {}
    state: DatabaseState | None = None
    try:
        if path.exists():
            damage: duckdb.Error | None = None
            with open_read_only(path) as connection:
                has_schema(connection, directory)
                state = DatabaseState.read(connection, mark)
                for one in database_contradictions(mark, state):
                    add(*one)
                names = [table for table, _ in connection.execute(_SIZES).fetchall()]
                try:
                    tables = _counted(connection, names)
                except duckdb.Error as error:
                    damage = error
                else:
                    rows = _rows_by_commit(connection)
                    for code, (words, query) in _RELATIONS.items():
                        if (count := connection.execute(query.format(rows=rows)).fetchall()[0][0]) > 0:
                            add(code, f"{count} {words}", _BACKUP)
            if damage is not None:
                tables, errors = _counted_apart(path, names)
                for table, error in errors.items():
                    add("unreadable_table", f"table {table} cannot be read: {error_line(error)}")
                if not errors:
                    raise damage
        elif mark is not None and mark.only_journal:  # a recorder began the store, and nobody has opened it yet
            state = DatabaseState(None, 0, 0, 0)
        else:
            raise StoreDamaged(f"{DATABASE} is missing")
    except duckdb.Error as error:
        add("unreadable_log" if "WAL" in str(error) else "unreadable_database", error_line(error))
    except AgentlearnError as error:
        add(error.code, str(error), _BACKUP if isinstance(error, StoreDamaged) else _INSTALL)
    waiting: list[bytes] = []
    if mark is not None:
        journal = JournalState.read(directory, expected_last=mark.journal)
        # without a database, the number of the last entry that it has taken in is unknown
        taken = max(mark.journal, journal.last) if state is None else state.taken
        for one in journal_contradictions(mark, taken, journal):
            add(*one)
        waiting = [content for number, content in journal.entries.items() if number > taken]
        try:
            for content in waiting:
                entry_rows(content)
        except StoreDamaged as error:
            add("unreadable_entry", str(error), _INSTALL)
    files = [file for name in ("store.*", f"{JOURNAL}*") for file in directory.glob(name) if file.is_file()]
    return StoreReport(
        store=str(directory),
        findings=tuple(problems),
        commits=None if state is None else state.last,
        acknowledged=None if mark is None else mark.commit,
        journal_entries=len(waiting),
        tables=dict(sorted(tables.items())),
        size_bytes=sum(file.stat().st_size for file in files),
    )


_REPAIR = "agentlearn store repair --store DIR"
_BACKUP = "restore the store's directory from a backup"
_INSTALL = "pip install --upgrade agentlearn-lib"
_PARTS = {
    "rollout_without_body": (
        "rollouts have no text",
        "trajectory WHERE id NOT IN (SELECT rollout FROM trajectory_body)",
    ),
    "body_without_rollout": (
        "texts belong to no rollout",
        "trajectory_body WHERE rollout NOT IN (SELECT id FROM trajectory)",
    ),
    "step_without_rollout": ("steps belong to no rollout", "step WHERE rollout NOT IN (SELECT id FROM trajectory)"),
}
"""Rows without those that belong to them. A rollout is stored completely or not at all."""
_RELATIONS = {code: (words, f"SELECT count(*) FROM {rows}") for code, (words, rows) in _PARTS.items()} | {
    "short_commit": (
        "commits have more or fewer rows than were written",
        "SELECT count(*) FROM commit_log c LEFT JOIN ({rows}) r USING (seq) WHERE c.n_rows <> coalesce(r.n, 0)",
    ),
    "rows_without_commit": (
        "commits have rows but are not in the table commit_log",
        "SELECT count(*) FROM ({rows}) WHERE seq NOT IN (SELECT seq FROM commit_log)",
    ),
}


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
    if not (directory / DATABASE).exists():
        try:
            mark = Acknowledged.read(directory / WATERMARK)
        except StoreDamaged:
            mark = None
        if mark is None or not mark.only_journal:  # else a recorder began the store, and nobody has opened it yet
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
        commits = GroupCommit(database)
        restored = commits.waiting
        commits.close()
    return repaired.model_copy(update={"restored_entries": restored})


class _StoreRepair:
    """One repair. The caller holds the store's lock."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._kept: list[str] = []
        self._made: list[str] = []
        try:
            self._known = Acknowledged.read(directory / WATERMARK)
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
            return DatabaseState.read(connection, self._known)

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
                    return DatabaseState.read(connection, None).last
                except duckdb.Error:  # its log was applied; the table is salvaged later
                    return self._known.commit if self._known is not None else 0
        except duckdb.Error as error:
            return error

    def _repair_tables(self) -> dict[str, int]:
        """Salvage the tables if one of them cannot be read. Returns the number of rows lost of each.

        Also where the end of the file is missing: it may have held an index, which is not read with its table.
        """
        path = self._directory / DATABASE
        with suppress(duckdb.Error), open_read_only(path) as connection:
            _counted(connection, [table for table, _ in connection.execute(_SIZES).fetchall()])
            if not self._short:
                return {}
        draft = self._directory / f"{DATABASE}.draft"
        parts = (draft, draft.with_name(draft.name + ".wal"))
        try:
            for part in parts:
                part.unlink(missing_ok=True)
            lost = _salvage(path, draft)
            self._keep(DATABASE)
            if (self._directory / DATABASE_LOG).exists():
                self._keep(DATABASE_LOG)
                (self._directory / DATABASE_LOG).unlink()
            draft.replace(path)
        finally:
            for part in parts:
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
        journal = JournalState.read(self._directory, expected_last=wanted.journal)
        if journal.identity not in (None, identity):
            journal = journal._replace(entries={}, last=0)
        taken = state.taken
        if commits_lost:  # the database may have lost the number of the last entry that it has taken in
            taken = max(taken, min(journal.entries, default=journal.last + 1) - 1)
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
            acknowledged.write(file)
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


def _salvage(path: Path, draft: Path) -> dict[str, int]:
    """Write every readable row to a new database file. Returns the number of rows lost of each table.

    Raises duckdb.Error when the draft cannot be written.
    """
    with open_read_only(path) as connection:
        there, rows = _columns(connection), dict(connection.execute(_SIZES).fetchall())
    lost: dict[str, int] = {}
    with closing(open_draft(draft)) as connection:
        for table, wanted in _columns(connection).items():
            columns = [one for one in wanted if one in there.get(table, [])]
            if columns and table != "schema_version":
                lost[table] = rows[table] - _copy(connection, path, table, ", ".join(columns), 0, rows[table])
        dropped = [connection.execute(f"DELETE FROM {partless}").fetchall()[0][0] for _, partless in _PARTS.values()]
        lost["trajectory"] += dropped[0]
        connection.execute(
            "CREATE TEMP TABLE rebuilt AS SELECT seq, coalesce(c.committed_at, now()) AS committed_at,"
            " coalesce(r.n, 0) AS n_rows, c.journal"
            f" FROM commit_log c FULL JOIN ({_rows_by_commit(connection)}) r USING (seq) ORDER BY seq"
        )
        connection.execute("DELETE FROM commit_log")
        connection.execute("INSERT INTO commit_log (seq, committed_at, n_rows, journal) FROM rebuilt")
        connection.execute("CHECKPOINT store")
    return {table: count for table, count in lost.items() if count > 0}


_ROW_GROUP = 2_048
_SMALLEST = 128
"""Number of rows that are given up together at least."""


def _copy(connection: duckdb.DuckDBPyConnection, path: Path, table: str, columns: str, first: int, end: int) -> int:
    """Copy the readable rows of a table by their place; return their number.

    The damaged file is attached each time: an unreadable block can invalidate it.
    """
    try:
        connection.execute(f"ATTACH {sql_string(path)} AS damaged (READ_ONLY)")
        try:
            done = connection.execute(
                f"INSERT INTO store.{table} ({columns}) SELECT {columns} FROM damaged.{table}"
                f" WHERE rowid >= {first} AND rowid < {end} ON CONFLICT DO NOTHING"
            ).fetchall()
            return int(done[0][0])
        finally:
            connection.execute("DETACH damaged")
    except duckdb.Error:
        if end - first <= _SMALLEST:
            return 0
    size = _ROW_GROUP if end - first > _ROW_GROUP else (end - first + 1) // 2
    return sum(_copy(connection, path, table, columns, at, min(at + size, end)) for at in range(first, end, size))
