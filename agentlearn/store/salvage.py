"""Copy what can still be read of a damaged database file into a new one."""
# ruff: noqa: S608 - names of tables and columns come from our own schema

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import duckdb

from agentlearn.store.database import open_draft, open_read_only
from agentlearn.store.text import sql_string

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
