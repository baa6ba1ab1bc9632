"""Write the store's tables as Parquet files (zstd): all tables without long texts, or selected rollouts with all text.

Text is escaped as in the database, see `store.text`. All files of one call come from one transaction. The process
that has the store open writes drafts to the staging folder; the process that asked moves them to their destination.
"""
# ruff: noqa: S608 - only constants of this module are put together; values are bound

import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from agentlearn.errors import DataError, StoreError
from agentlearn.files import put
from agentlearn.store.database import STAGING, Database
from agentlearn.store.queries import Query
from agentlearn.store.text import error_line, sql_string
from agentlearn.store.views import Selection

SNAPSHOTS = "snapshots"
"""Default folder for snapshots, inside the store's directory."""

_SHORT = {
    "run_event": "* EXCLUDE (settings, report)",
    "task": "* EXCLUDE (problem)",
    "trajectory": "*",
    "step": "*",
    "journal": "* EXCLUDE (response)",
    "summary": "* EXCLUDE (steps, raw)",
    "proposal": "* EXCLUDE (raw)",
    "experience": "*",
    "library_version": "*",
    "metric": "*",
    "decision": "*",
}
"""Columns of each table in a snapshot: all but the long texts."""

_OF_SELECTED = {
    "run_event": "run IN (SELECT run FROM chosen)",
    "task": "id IN (SELECT task FROM chosen)",
    "trajectory": "id IN (SELECT id FROM chosen)",
    "trajectory_body": "rollout IN (SELECT id FROM chosen)",
    "step": "rollout IN (SELECT id FROM chosen)",
    "journal": "unit IN (SELECT id FROM chosen)",
    "summary": "rollout IN (SELECT id FROM chosen)",
    "proposal": "run IN (SELECT run FROM chosen)",
    "metric": "run IN (SELECT run FROM chosen)",
    "decision": "run IN (SELECT run FROM chosen)",
    "library_version": "version IN (FROM chosen_version)",
    "experience": "id IN (SELECT unnest(experiences) FROM library_version WHERE version IN (FROM chosen_version))",
    "blob": "kind = 'prompt'",
}
"""Condition that picks the rows of each table that belong to the selected rollouts."""

_ORDER = {"trajectory": " ORDER BY run, phase, batch, task, g, attempt"}


@dataclass(frozen=True, slots=True)
class TableDraft:
    """A table file in the staging folder, written by the process that has the store open."""

    table: str
    rows: int


@dataclass(frozen=True, slots=True)
class TableDrafts:
    """The table files of one transaction, in one folder."""

    folder: str
    """Name of the folder inside the store's staging folder."""
    tables: tuple[TableDraft, ...]


@dataclass(frozen=True, slots=True)
class TableFile:
    """A table file at its destination."""

    table: str
    path: Path
    rows: int
    size_bytes: int


def draft_tables(database: Database, selection: Selection | None) -> TableDrafts:
    """Write draft files: the selected rollouts with all related rows, or with None every table without long texts.

    Raises DataError when the selection is empty; StoreError.
    """
    folder = database.staging / secrets.token_hex(8)
    try:
        folder.mkdir(parents=True)
        with database.cursor() as cursor:
            cursor.begin()
            if selection is not None:
                _choose(cursor, selection.parameters)
            tables = [_draft(cursor, folder, table, query) for table, query in _queries(selection).items()]
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if not isinstance(error, (duckdb.Error, OSError)):
            raise
        raise StoreError(
            f"the tables of {str(database.directory)!r} could not be written: {error_line(error)}"
        ) from error
    return TableDrafts(folder.name, tuple(tables))


def move_tables(directory: Path, drafts: TableDrafts, out: Path) -> tuple[TableFile, ...]:
    """Move the drafts to the folder `out`, replacing older files. Raises StoreError."""
    folder = directory / STAGING / drafts.folder
    try:
        out.mkdir(parents=True, exist_ok=True)
        return tuple(_move(folder, draft, out) for draft in drafts.tables)
    except OSError as error:
        raise StoreError(f"the tables could not be written to {str(out)!r}: {error}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _queries(selection: Selection | None) -> Mapping[str, str]:
    if selection is None:
        return {table: f"SELECT {columns} FROM {table}{_ORDER.get(table, '')}" for table, columns in _SHORT.items()}
    return {table: f"FROM {table} WHERE {which}{_ORDER.get(table, '')}" for table, which in _OF_SELECTED.items()}


def _choose(cursor: duckdb.DuckDBPyConnection, parameters: Sequence[object]) -> None:
    cursor.execute(f"CREATE TEMP TABLE chosen AS {Query.SELECTED.value}", list(parameters))
    cursor.execute(
        "CREATE TEMP TABLE chosen_version AS"
        " SELECT DISTINCT library_version FROM trajectory WHERE id IN (SELECT id FROM chosen)"
    )
    if not cursor.execute("FROM chosen LIMIT 1").fetchone():
        raise nothing_selected()


def nothing_selected() -> DataError:
    """The error for a selection that matches no rollout."""
    return DataError(
        "no stored rollout matches; leave out some of --run, --domain, --outcome and --min-reward"
        " (`agentlearn runs list` shows the stored runs)",
        code="nothing_selected",
    )


def _draft(cursor: duckdb.DuckDBPyConnection, folder: Path, table: str, query: str) -> TableDraft:
    file = sql_string(folder / f"{table}.parquet")
    copied = cursor.execute(f"COPY ({query}) TO {file} (FORMAT parquet, COMPRESSION zstd)").fetchone()
    return TableDraft(table=table, rows=0 if copied is None else int(copied[0]))


def _move(folder: Path, draft: TableDraft, out: Path) -> TableFile:
    written, file = folder / f"{draft.table}.parquet", out / f"{draft.table}.parquet"
    size_bytes = written.stat().st_size
    put(written, file)
    return TableFile(draft.table, file, draft.rows, size_bytes)
