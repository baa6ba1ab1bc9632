"""Check a store for damage: its lock, DuckDB log, journal file and every table. Nothing is changed."""

from collections.abc import Iterator
from pathlib import Path

import duckdb

from agentlearn.errors import AgentlearnError, StoreDamaged, StoreMissing
from agentlearn.store.codec import entry_rows
from agentlearn.store.database import DATABASE, WATERMARK, last_seq_of, open_read_only
from agentlearn.store.lock import StoreLock, Watermark
from agentlearn.store.migrate import known_migrations, pending_migrations
from agentlearn.store.text import error_line
from agentlearn.store.write_ahead_log import JOURNAL_FILE, read_state
from agentlearn.types.value import Value


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
    lock = StoreLock(directory)
    try:
        return _report(directory)
    finally:
        lock.release()


def _report(directory: Path) -> StoreReport:
    acknowledged, watermark_problems = _watermark(directory)
    entries, journal_problems = _journal(directory)
    tables: dict[str, int] = {}
    commits, database_problems = None, list[StoreProblem]()
    try:
        if not (directory / DATABASE).exists():
            raise StoreDamaged(f"{DATABASE} is missing")
        with open_read_only(directory / DATABASE) as connection:
            pending_migrations(connection, str(directory), known_migrations())
            commits = last_seq_of(connection)
            names = [name for (name,) in connection.execute(_TABLES).fetchall()]
            database_problems += _missing_commits(commits, acknowledged)
        for name in names:
            tables.update(_count_rows(directory, name, database_problems))
        if tables.keys() >= set(names):
            with open_read_only(directory / DATABASE) as connection:
                database_problems += _relations(connection)
    except duckdb.Error as error:
        in_log = "WAL" in str(error)
        fix = _REPAIR if in_log else _BACKUP
        code = "unreadable_log" if in_log else "unreadable_database"
        database_problems.append(_problem(code, error_line(error), fix))
    except AgentlearnError as error:
        fix = _BACKUP if isinstance(error, StoreDamaged) else _INSTALL
        database_problems.append(_problem(error.code, str(error), fix))
    return StoreReport(
        store=str(directory),
        findings=(*watermark_problems, *journal_problems, *database_problems),
        commits=commits,
        acknowledged=acknowledged,
        journal_entries=entries,
        tables=dict(sorted(tables.items())),
        size_bytes=sum(file.stat().st_size for file in directory.glob("store.*") if file.is_file()),
    )


_REPAIR = "agentlearn store repair --store DIR"
_BACKUP = "restore the store's directory from a backup"
_INSTALL = "pip install --upgrade agentlearn-lib"
_TABLES = "SELECT table_name FROM duckdb_tables() WHERE database_name = 'store' ORDER BY table_name"

_LINKS = {
    "rollout_without_body": (
        "rollouts have no text",
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
        "commits have more or fewer rows than were written",
        """
        SELECT count(*) FROM commit_log c LEFT JOIN ({rows}) r USING (seq) WHERE c.n_rows <> coalesce(r.n, 0)
        """,
    ),
    "rows_without_commit": (
        "commits have rows but are not in the table commit_log",
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
        return None, [_problem("damaged_watermark", str(error).partition(";")[0], _REPAIR)]


def _journal(directory: Path) -> tuple[int, list[StoreProblem]]:
    file = directory / JOURNAL_FILE
    content = file.read_bytes() if file.exists() else b""
    if not content:
        return 0, []
    state = read_state(content)
    if not state.marked:
        return 0, [
            _problem("damaged_journal", f"{JOURNAL_FILE} does not start with the header of a journal file", _REPAIR)
        ]
    if state.end < state.acknowledged_end:
        lost = state.acknowledged_end - state.end
        words = f"{JOURNAL_FILE} is readable for {state.end} bytes, and {lost} more were acknowledged"
        return len(state.entries), [_problem("damaged_journal", words, _REPAIR)]
    try:
        for entry in state.entries:
            entry_rows(entry)
    except StoreDamaged as error:
        return len(state.entries), [_problem("unreadable_entry", str(error), _INSTALL)]
    return len(state.entries), []


def _missing_commits(commits: int, acknowledged: int | None) -> Iterator[StoreProblem]:
    if acknowledged is not None and commits < acknowledged:
        words = f"the database holds commits up to {commits}, but {acknowledged} were acknowledged"
        yield _problem("missing_commits", words, _REPAIR)


def _count_rows(directory: Path, table: str, problems: list[StoreProblem]) -> dict[str, int]:
    """Number of rows of a table, after reading all its blocks; adds to `problems` and returns {} when that fails.

    Opens the database again for each table, because reading a damaged block can invalidate the whole connection.
    """
    try:
        with open_read_only(directory / DATABASE) as connection:
            # the table name comes from the database itself
            found = connection.execute(f"SELECT count(*), bit_xor(hash(t)) FROM {_quoted(table)} t").fetchone()  # noqa: S608
            return {table: 0 if found is None else int(found[0])}
    except duckdb.Error as error:
        problems.append(_problem("unreadable_table", f"table {table} cannot be read: {error_line(error)}", _BACKUP))
        return {}


def _relations(connection: duckdb.DuckDBPyConnection) -> Iterator[StoreProblem]:
    """Contradictions between tables. All tables must be readable."""
    counted = "SELECT DISTINCT table_name FROM duckdb_columns() WHERE database_name = 'store' AND column_name = 'seq'"
    names = [name for (name,) in connection.execute(counted).fetchall() if name != "commit_log"]
    parts = " UNION ALL ".join(f"SELECT seq FROM {_quoted(name)}" for name in sorted(names))  # noqa: S608
    rows = f"SELECT seq, count(*) AS n FROM ({parts}) GROUP BY seq"  # noqa: S608
    for code, (words, query) in _LINKS.items():
        found = connection.execute(query.format(rows=rows)).fetchone()
        if found is not None and found[0]:
            yield _problem(code, f"{found[0]} {words}", _BACKUP)


def _problem(code: str, words: str, fix: str) -> StoreProblem:
    return StoreProblem(code=code, words=words, mend=fix)


def _quoted(table: str) -> str:
    quoted = table.replace('"', '""')
    return f'"{quoted}"'
