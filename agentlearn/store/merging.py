"""Take the records of another store in: its rows by id, in one transaction, and nothing that was erased here.

The other store may be whole, or only the journal that a recorder of another machine wrote. It is copied, opened as any
store is, with all checks, and attached. So a source that is damaged, or has another schema, is refused before anything
is written, and a kill leaves the store as it was or with all of the source.
"""
# ruff: noqa: S608 - names of tables and columns come from our own schema

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import duckdb

from agentlearn.errors import AgentlearnError, ConfigError, StoreError, StoreMissing
from agentlearn.store.archive import archived_store, is_archive
from agentlearn.store.codec import error_line, sql_string
from agentlearn.store.database import DATABASE, Database
from agentlearn.store.erasure import GONE, WITHOUT, copied_store, plan_erased
from agentlearn.store.erasure_intent import INTENT, ErasureReceipt
from agentlearn.store.group_commit import GroupCommit
from agentlearn.store.store_files import WATERMARK
from agentlearn.types.trajectory import DEMONSTRATION

_OTHERS = f"NOT IN (SELECT id FROM trajectory WHERE phase = '{DEMONSTRATION}')"
_RECORDS = {
    # table: its key, the columns that must be the same in both stores (empty: all), and which of several rows counts
    "run_event": ("run, state, happened_at", "", "max"),
    "task": ("id", "domain, problem, answer", ""),
    "trajectory": ("id", "", ""),
    "trajectory_body": ("rollout", "", ""),
    "step": ("rollout, ordinal", "", ""),
    "journal": ("id", "", "min"),
    "summary": ("id", "", "max"),
    "proposal": ("run, phase, batch, id", "", "max"),
    "decision": ("run, phase, batch, proposal, decided_at", "", "max"),
    "experience": ("id", "lesson", ""),
    "library_version": ("version", "parent", ""),
    "metric": ("run, step, name", "", "max"),
    "live": ("rollout", "", "max"),
    "feedback": ("id", "", "max"),
    "blob": ("hash", "body", ""),
}
_DERIVED = {"trajectory": f"id {_OTHERS}", "trajectory_body": f"rollout {_OTHERS}", "step": f"rollout {_OTHERS}"}
"""Rows that are not taken in: a demonstration is made from its feedback, with the next number in this store."""


def merge_rows(database: Database, source: Path, receipts: Sequence[ErasureReceipt]) -> dict[str, int]:
    """Add the records of a store, a recorder's journal or an archive; return the number of new rows by table.

    receipts: of what was erased here or in the source, which is left out. The records of an id that both stores have
    must be the same. Raises ConfigError for two different ones; StoreMissing, StoreLocked, StoreDamaged, UnknownSchema
    and StoreError when the source cannot be read. Then nothing of it was taken in.
    """
    database.staging.mkdir(mode=0o700, exist_ok=True)
    if not is_archive(source) and not (source / WATERMARK).exists() and not (source / DATABASE).exists():
        raise StoreMissing(f"there is no store and no archive at {str(source)!r}, and nothing of it was taken in")
    if (source / INTENT).exists():
        raise StoreError(
            f"an erasure of the store {str(source)!r} is unfinished; finish it with `agentlearn runs list --store"
            f" {source}`, then merge again",
            code="erasure_unfinished",
        )
    copying = archived_store(source, database.staging) if is_archive(source) else copied_store(source, database.staging)
    try:
        with copying as copy:
            try:
                with closing(Database(copy, create=False)) as other, closing(GroupCommit(other)) as commits:
                    commits.flush()
            except AgentlearnError as error:
                raise type(error)(str(error).replace(str(copy), str(source)), code=error.code) from error
            return _merged(database, copy / DATABASE, source, receipts)
    except (OSError, duckdb.Error) as error:
        raise StoreError(f"nothing was taken in from {str(source)!r}: {error_line(error)}") from error


def _merged(database: Database, copy: Path, source: Path, receipts: Sequence[ErasureReceipt]) -> dict[str, int]:
    added = dict[str, int]()

    def insert(connection: duckdb.DuckDBPyConnection, seq: int) -> int:
        connection.execute("USE source")
        plan_erased(connection, receipts)
        for table, (key, compared, counted) in _RECORDS.items():
            stays = f"({GONE.get(table, 'false')}) IS NOT TRUE AND {_DERIVED.get(table, 'true')}"
            counting = _counting(table, "source", key, counted)
            rows = f"SELECT {WITHOUT.get(table, '*')} FROM {counting} WHERE {stays}"
            _refuse_conflict(connection, table, key, compared, counted, rows, source)
            done = connection.execute(
                f"INSERT INTO store.{table} BY NAME SELECT * REPLACE ({seq}::BIGINT AS seq) FROM ({rows})"
                f" ANTI JOIN store.{table} USING ({key})"
            ).fetchone()
            added[table] = int(done[0]) if done else 0
        return sum(added.values())

    with database.cursor() as attaching:
        attaching.execute(f"ATTACH {sql_string(copy)} AS source (READ_ONLY)")
        try:
            with closing(GroupCommit(database)) as commits:
                commits.add(insert)
        finally:
            attaching.execute("DETACH source")
    database.checkpoint()
    return {table: count for table, count in added.items() if count}


def _counting(table: str, store: str, key: str, counted: str) -> str:
    """The rows of a table that count, where an id can have several."""
    if not counted:
        return f"{store}.{table}"
    rows = f"SELECT {counted}(rowid) FROM {store}.{table} GROUP BY {key}"
    return f"(FROM {store}.{table} WHERE rowid IN ({rows}))"


def _refuse_conflict(
    connection: duckdb.DuckDBPyConnection, table: str, key: str, compared: str, counted: str, rows: str, source: Path
) -> None:
    """Raise ConfigError when both stores have an id with different content. Hashes are compared: texts take memory."""
    query = "SELECT column_name FROM duckdb_columns() WHERE database_name = 'store' AND table_name = ?"
    columns = compared or ", ".join(name for (name,) in connection.execute(query, [table]).fetchall() if name != "seq")
    hashed = f"SELECT {key}, hash({columns}) AS content FROM"
    found = connection.execute(
        f"SELECT {key.partition(',')[0]} FROM ({hashed} ({rows})) a"
        f" JOIN ({hashed} {_counting(table, 'store', key, counted)}) b USING ({key})"
        " WHERE a.content <> b.content LIMIT 1"
    ).fetchone()
    if found is not None:
        raise ConfigError(
            f"{str(source)!r} has another {table} {found[0]!r} than this store, and nothing of it was taken in; an id"
            " names one record, so keep the two stores apart: each can be given as --store"
        )
