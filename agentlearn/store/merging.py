"""Take the records of another store in: its rows by id, in one transaction, and nothing that was erased here.

The other store may be whole, or only the journal that a recorder of another machine wrote. It is copied, opened as any
store is, with all checks, and attached. So a source that is damaged, or has another schema, is refused before anything
is written, and a kill leaves the store as it was or with all of the source.
"""
# ruff: noqa: S608 - names of tables and columns come from our own schema

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import duckdb

from agentlearn.errors import AgentlearnError, ConfigError, StoreError, StoreMissing
from agentlearn.store.archive import archived_store, is_archive
from agentlearn.store.codec import error_line, sql_string
from agentlearn.store.database import DATABASE, DATABASE_LOG, Database, DatabaseState
from agentlearn.store.erasure import GONE, WITHOUT, copied_store, plan_erased
from agentlearn.store.erasure_intent import INTENT, ErasureReceipt
from agentlearn.store.group_commit import GroupCommit
from agentlearn.store.journal_file import JOURNAL_PARTS
from agentlearn.store.store_files import WATERMARK, Acknowledged
from agentlearn.types.ids import content_hash
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
_READ = "merged"
"""Kind of the blobs that say how far another store was read. They are of this store alone."""
_DERIVED["blob"] = f"kind <> '{_READ}'"


@dataclass(frozen=True)
class _Read:
    """How far a store was read: what is up to there is in this store, as long as both hold what they held then."""

    journal: int
    """Last entry of a source that was never opened, and has only a journal; 0 for others."""
    entries: int
    """Sum of the checksums of the entries up to there."""
    seq: int
    """Last commit of the source."""
    theirs: str
    """What the source held up to that commit."""
    files: str
    """Its files, see `_files`."""
    our_seq: int
    """The commit of this store that took it in, and what it held then."""
    ours: str

    @classmethod
    def last(cls, cursor: duckdb.DuckDBPyConnection, identity: str) -> "_Read | None":
        """How far the store of that identity was read, unless this store has lost something since."""
        query = f"SELECT body FROM store.blob WHERE kind = '{_READ}' AND name = ? ORDER BY seq DESC LIMIT 1"
        found = cursor.execute(query, [identity]).fetchone()
        read = None if found is None else cls(**json.loads(found[0]))
        return read if read is not None and _held(cursor, "store", read.our_seq) == read.ours else None


def _held(cursor: duckdb.DuckDBPyConnection, store: str, seq: int) -> str:
    """Numbers of a store's rows up to a commit, with hashes of their keys. A row never changes, but can be gone."""
    query = " UNION ALL ".join(
        f"SELECT '{table}' AS name, count(*) AS n, bit_xor(hash({key})) AS keys FROM {store}.{table}"
        f" WHERE seq <= {seq} AND {_DERIVED.get(table, 'true').replace('FROM ', f'FROM {store}.')}"
        for table, (key, *_) in _RECORDS.items()
    )
    return str(
        cursor.execute(
            f"SELECT string_agg(concat_ws(' ', name, n, keys), ', ' ORDER BY name) FROM ({query})"
        ).fetchall()[0][0]
    )


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
            f" {source}`, then merge again"
        )
    copying = archived_store(source, database.staging) if is_archive(source) else copied_store(source, database.staging)
    try:
        files, mark = _files(source), Acknowledged.read(source / WATERMARK)
        with database.cursor() as cursor:
            read = None if mark is None else _Read.last(cursor, mark.identity)
        if read is not None and read.files == files:
            return {}
        with copying as copy:
            try:
                with closing(Database(copy, create=False)) as other:
                    begun = _begin(database, other, files)
                    with closing(GroupCommit(other)) as commits:
                        commits.flush()
            except AgentlearnError as error:
                raise type(error)(str(error).replace(str(copy), str(source)), code=error.code) from error
            return _merged(database, copy / DATABASE, source, receipts, None if is_archive(source) else begun)
    except (OSError, duckdb.Error) as error:
        raise StoreError(f"nothing was taken in from {str(source)!r}: {error_line(error)}") from error


class _Source(NamedTuple):
    """What is read of a source."""

    identity: str
    seq: int
    """Its last commit, before its journal was taken in."""
    after: int
    """The commit up to which this store has everything."""
    journal: int
    entries: int
    files: str


def _files(source: Path) -> str:
    """Sizes and times of the files of a store, and what it acknowledged: without a change nothing was added to it."""
    found = (
        (one, (source / one).stat()) for one in (DATABASE, DATABASE_LOG, *JOURNAL_PARTS[:2]) if (source / one).exists()
    )
    mark = source / WATERMARK
    said = mark.read_bytes().hex() if mark.exists() else ""
    return content_hash("files", said, *((name, one.st_size, one.st_mtime_ns) for name, one in found))


def _begin(database: Database, other: Database, files: str) -> _Source:
    """Look how far a source was read, and let it leave out the entries of its journal that were read."""
    mark = other.journal.acknowledged()
    with database.cursor() as ours, other.cursor() as theirs:
        state, read = DatabaseState.read(theirs, None), _Read.last(ours, mark.identity)
        if read is not None and other.journal.checksums(read.journal) != read.entries:
            read = None
        if read is not None and _held(theirs, "store", read.seq) != read.theirs:
            read = None
        journal = 0 if state.taken else other.journal.last()
        if read is not None and read.journal > state.taken:
            theirs.execute("INSERT INTO commit_log VALUES (?, now(), 0, ?)", [state.last + 1, read.journal])
    after = 0 if read is None else read.seq
    return _Source(mark.identity, state.last, after, journal, other.journal.checksums(journal), files)


def _merged(
    database: Database, copy: Path, source: Path, receipts: Sequence[ErasureReceipt], read: _Source | None
) -> dict[str, int]:
    added, after = dict[str, int](), 0 if read is None else read.after

    def insert(connection: duckdb.DuckDBPyConnection, seq: int) -> int:
        connection.execute("USE source")
        plan_erased(connection, receipts)
        for table, (key, compared, counted) in _RECORDS.items():
            stays = f"({GONE.get(table, 'false')}) IS NOT TRUE AND {_DERIVED.get(table, 'true')} AND seq > {after}"
            counting = _counting(table, "source", key, counted)
            rows = f"SELECT {WITHOUT.get(table, '*')} FROM {counting} WHERE {stays}"
            _refuse_conflict(connection, table, key, compared, counted, rows, source)
            done = connection.execute(
                f"INSERT INTO store.{table} BY NAME SELECT * REPLACE ({seq}::BIGINT AS seq) FROM ({rows})"
                f" ANTI JOIN store.{table} USING ({key})"
            ).fetchone()
            added[table] = int(done[0]) if done else 0
        if read is not None:
            held = _held(connection, "source", read.seq), _held(connection, "store", seq)
            body = json.dumps(asdict(_Read(read.journal, read.entries, read.seq, held[0], read.files, seq, held[1])))
            row = [content_hash(_READ, read.identity, seq), _READ, read.identity, body, seq]
            connection.execute("INSERT INTO store.blob VALUES (?, ?, ?, ?, ?)", row)
            return sum(added.values()) + 1
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
