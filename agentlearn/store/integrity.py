"""Check a store for damage: its lock, DuckDB log, journal and every table. Nothing is changed."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb

from agentlearn.errors import AgentlearnError, StoreDamaged, StoreMissing
from agentlearn.store.consistency import (
    DatabaseState,
    database_contradictions,
    database_state,
    file_contradictions,
    journal_contradictions,
    read_journal,
)
from agentlearn.store.database import DATABASE, has_schema, open_read_only
from agentlearn.store.journal_entries import entry_rows
from agentlearn.store.journal_file import JOURNAL
from agentlearn.store.store_files import WATERMARK, Acknowledged, StoreLock, read_watermark
from agentlearn.store.text import error_line
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
    mark, problems = _watermark(directory)
    problems += [_problem(*one, _REPAIR) for one in file_contradictions(mark, directory / DATABASE)]
    tables: dict[str, int] = {}
    state: DatabaseState | None = None
    try:
        if (directory / DATABASE).exists():
            with open_read_only(directory / DATABASE) as connection:
                has_schema(connection, directory)
                state = database_state(connection, mark)
                names = [name for (name,) in connection.execute(_TABLES).fetchall()]
            problems += [_problem(*one, _REPAIR) for one in database_contradictions(mark, state)]
            tables = _count_all(directory, names) or {}
            for name in () if tables else names:
                tables.update(_count_rows(directory, name, problems))
            if tables.keys() >= set(names):
                with open_read_only(directory / DATABASE) as connection:
                    problems += _relations(connection)
        elif mark is not None and mark.only_journal:  # a recorder began the store, and nobody has opened it yet
            state = DatabaseState(None, 0, 0, 0)
        else:
            raise StoreDamaged(f"{DATABASE} is missing")
    except duckdb.Error as error:
        code = "unreadable_log" if "WAL" in str(error) else "unreadable_database"
        problems.append(_problem(code, error_line(error), _REPAIR))
    except AgentlearnError as error:
        fix = _BACKUP if isinstance(error, StoreDamaged) else _INSTALL
        problems.append(_problem(error.code, str(error), fix))
    waiting, journal_problems = _journal(directory, mark, None if state is None else state.taken)
    return StoreReport(
        store=str(directory),
        findings=(*problems, *journal_problems),
        commits=None if state is None else state.last,
        acknowledged=None if mark is None else mark.commit,
        journal_entries=waiting,
        tables=dict(sorted(tables.items())),
        size_bytes=sum(file.stat().st_size for file in _files(directory)),
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


def _files(directory: Path) -> list[Path]:
    return [file for name in ("store.*", f"{JOURNAL}*") for file in directory.glob(name) if file.is_file()]


def _watermark(directory: Path) -> tuple[Acknowledged | None, list[StoreProblem]]:
    try:
        mark = read_watermark(directory / WATERMARK)
    except StoreDamaged as error:
        return None, [_problem("damaged_watermark", str(error).partition(";")[0], _REPAIR)]
    return mark, [_problem("missing_watermark", f"{WATERMARK} is missing", _REPAIR)] if mark is None else []


def _journal(directory: Path, mark: Acknowledged | None, taken: int | None) -> tuple[int, list[StoreProblem]]:
    """How many intact entries wait in the journal, and its problems."""
    if mark is None:
        return 0, []
    journal = read_journal(directory, expected_last=mark.journal)
    if taken is None:  # the database cannot be read: its number of the last entry taken in is unknown
        taken = max([mark.journal, journal.last])
    waiting = [content for number, content in journal.entries.items() if number > taken]
    found = journal_contradictions(mark, taken, journal)
    return len(waiting), [*(_problem(*one, _REPAIR) for one in found), *_unreadable(waiting)]


def _unreadable(contents: Sequence[bytes]) -> Iterator[StoreProblem]:
    """The first intact entry that this version cannot read, if there is one."""
    try:
        for content in contents:
            entry_rows(content)
    except StoreDamaged as error:
        yield _problem("unreadable_entry", str(error), _INSTALL)


def _count_all(directory: Path, names: Sequence[str]) -> dict[str, int] | None:
    """Number of rows of each table, after reading all blocks; None if one of them cannot be read."""
    try:
        with open_read_only(directory / DATABASE) as connection:
            return {name: _count(connection, name) for name in names}
    except duckdb.Error:
        return None


def _count(connection: duckdb.DuckDBPyConnection, table: str) -> int:
    # the table name comes from the database itself
    found = connection.execute(f"SELECT count(*), bit_xor(hash(t)) FROM {_quoted(table)} t").fetchone()  # noqa: S608
    return 0 if found is None else int(found[0])


def _count_rows(directory: Path, table: str, problems: list[StoreProblem]) -> dict[str, int]:
    """Number of rows of a table, after reading all its blocks; adds to `problems` and returns {} when that fails.

    Opens the database again for each table, because reading a damaged block can invalidate the whole connection.
    """
    try:
        with open_read_only(directory / DATABASE) as connection:
            return {table: _count(connection, table)}
    except duckdb.Error as error:
        problems.append(_problem("unreadable_table", f"table {table} cannot be read: {error_line(error)}", _REPAIR))
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
