"""Whether a store is sound: its lock, log, journal file and every table, looked at without changing a byte."""

from collections.abc import Iterator
from pathlib import Path

import duckdb

from agentlearn.errors import AgentlearnError, StoreDamaged, StoreMissing
from agentlearn.store.codec import filed_rows
from agentlearn.store.database import DATABASE, WATERMARK, last_seq_of, look_at
from agentlearn.store.lock import StoreLock, Watermark
from agentlearn.store.migrate import known_migrations, pending
from agentlearn.store.write_ahead_log import NAME as JOURNAL
from agentlearn.store.write_ahead_log import state_of
from agentlearn.types.value import Value


class StoreProblem(Value):
    """One thing that is wrong with a store."""

    code: str
    words: str
    mend: str
    """What to do about it."""


class StoreReport(Value):
    """A store as it was found."""

    store: str
    findings: tuple[StoreProblem, ...]
    commits: int | None
    """Number of the last group commit; None where the database cannot be opened."""
    acknowledged: int | None
    """Number of the last one that was promised to anybody; None where its file is damaged."""
    journal_entries: int
    """Sound entries that wait in the journal's file."""
    tables: dict[str, int]
    """Rows by table, of those that can be read."""
    size_bytes: int
    """Of the store's own files."""

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings


def check_store(directory: Path) -> StoreReport:
    """Look at everything in a store. Raises StoreLocked; StoreMissing where there is none."""
    if not (directory / DATABASE).exists() and not (directory / WATERMARK).exists():
        raise StoreMissing(f"there is no store at {str(directory)!r}; a run makes one, or pass another --store DIR")
    lock = StoreLock(directory)
    try:
        return _look(directory)
    finally:
        lock.release()


def _look(directory: Path) -> StoreReport:
    acknowledged, marks = _watermark(directory)
    entries, journal = _journal(directory)
    tables: dict[str, int] = {}
    commits, database = None, list[StoreProblem]()
    try:
        if not (directory / DATABASE).exists():
            raise StoreDamaged(f"{DATABASE} is gone")
        with look_at(directory / DATABASE) as connection:
            pending(connection, str(directory), known_migrations())
            commits = last_seq_of(connection)
            names = [name for (name,) in connection.execute(_TABLES).fetchall()]
            database += _missing_commits(commits, acknowledged)
        for name in names:
            tables.update(_read(directory, name, database))
        if tables.keys() >= set(names):
            with look_at(directory / DATABASE) as connection:
                database += _relations(connection)
    except duckdb.Error as error:
        in_log = "WAL" in str(error)
        mend = _REPAIR if in_log else _BACKUP
        database.append(_finding("unreadable_log" if in_log else "unreadable_database", _first_line(error), mend))
    except AgentlearnError as error:
        database.append(_finding(error.code, str(error), _BACKUP if isinstance(error, StoreDamaged) else _INSTALL))
    return StoreReport(
        store=str(directory),
        findings=(*marks, *journal, *database),
        commits=commits,
        acknowledged=acknowledged,
        journal_entries=entries,
        tables=dict(sorted(tables.items())),
        size_bytes=sum(file.stat().st_size for file in directory.glob("store.*") if file.is_file()),
    )


_REPAIR = "agentlearn store repair --store DIR"
_BACKUP = "put the store's directory back from a backup"
_INSTALL = "pip install --upgrade agentlearn-lib"
_TABLES = "SELECT table_name FROM duckdb_tables() WHERE database_name = 'store' ORDER BY table_name"

_LINKS = {
    "rollout_without_body": (
        "rollouts have no texts",
        "SELECT count(*) FROM trajectory WHERE id NOT IN (SELECT rollout FROM trajectory_body)",
    ),
    "body_without_rollout": (
        "texts belong to no rollout",
        "SELECT count(*) FROM trajectory_body WHERE rollout NOT IN (SELECT id FROM trajectory)",
    ),
    "step_without_rollout": (
        "steps belong to no rollout",
        "SELECT count(*) FROM step WHERE rollout NOT IN (SELECT id FROM trajectory)",
    ),
    "short_commit": (
        "commits hold fewer or more rows than they were made of",
        """
        SELECT count(*) FROM commit_log c LEFT JOIN ({rows}) r USING (seq) WHERE c.n_rows <> coalesce(r.n, 0)
        """,
    ),
    "rows_without_commit": (
        "commits have rows and are not in the log of commits",
        "SELECT count(*) FROM ({rows}) WHERE seq NOT IN (SELECT seq FROM commit_log)",
    ),
}


def _watermark(directory: Path) -> tuple[int | None, list[StoreProblem]]:
    try:
        mark = Watermark(directory / WATERMARK)
        try:
            return mark.read(), []
        finally:
            mark.close()
    except StoreDamaged as error:
        return None, [_finding("damaged_watermark", str(error).partition(";")[0], _REPAIR)]


def _journal(directory: Path) -> tuple[int, list[StoreProblem]]:
    file = directory / JOURNAL
    content = file.read_bytes() if file.exists() else b""
    if not content:
        return 0, []
    state = state_of(content)
    if not state.marked:
        return 0, [_finding("damaged_journal", f"{JOURNAL} does not begin as a journal file does", _REPAIR)]
    if state.end < state.acknowledged_end:
        lost = state.acknowledged_end - state.end
        words = f"{JOURNAL} is sound for {state.end} bytes, and {lost} more were acknowledged"
        return len(state.entries), [_finding("damaged_journal", words, _REPAIR)]
    try:
        for entry in state.entries:
            filed_rows(entry)
    except StoreDamaged as error:
        return len(state.entries), [_finding("unreadable_entry", str(error), _INSTALL)]
    return len(state.entries), []


def _missing_commits(commits: int, acknowledged: int | None) -> Iterator[StoreProblem]:
    if acknowledged is not None and commits < acknowledged:
        words = f"the database holds commits up to {commits}, but {acknowledged} were acknowledged"
        yield _finding("missing_commits", words, _REPAIR)


def _read(directory: Path, table: str, findings: list[StoreProblem]) -> dict[str, int]:
    """Rows of a table, every block of which is read; a finding where that fails.

    Each on a fresh opening: a damaged block can invalidate all of the one that met it.
    """
    try:
        with look_at(directory / DATABASE) as connection:
            # the table's name is one of our own, found in the database
            found = connection.execute(f"SELECT count(*), bit_xor(hash(t)) FROM {_name(table)} t").fetchone()  # noqa: S608
            return {table: 0 if found is None else int(found[0])}
    except duckdb.Error as error:
        findings.append(_finding("unreadable_table", f"table {table} cannot be read: {_first_line(error)}", _BACKUP))
        return {}


def _relations(connection: duckdb.DuckDBPyConnection) -> Iterator[StoreProblem]:
    """What does not fit together in tables that can all be read."""
    counted = "SELECT DISTINCT table_name FROM duckdb_columns() WHERE database_name = 'store' AND column_name = 'seq'"
    names = [name for (name,) in connection.execute(counted).fetchall() if name != "commit_log"]
    parts = " UNION ALL ".join(f"SELECT seq FROM {_name(name)}" for name in sorted(names))  # noqa: S608
    rows = f"SELECT seq, count(*) AS n FROM ({parts}) GROUP BY seq"  # noqa: S608
    for code, (words, query) in _LINKS.items():
        found = connection.execute(query.format(rows=rows)).fetchone()
        if found is not None and found[0]:
            yield _finding(code, f"{found[0]} {words}", _BACKUP)


def _finding(code: str, words: str, mend: str) -> StoreProblem:
    return StoreProblem(code=code, words=words, mend=mend)


def _name(table: str) -> str:
    quoted = table.replace('"', '""')
    return f'"{quoted}"'


def _first_line(error: duckdb.Error) -> str:
    return str(error).partition("\n")[0].rstrip(".")
