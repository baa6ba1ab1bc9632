"""The store's tables as Parquet files (zstd): a slim picture of all of it, or chosen rollouts with all their texts.

Texts stand in them as the database holds them, see `store.text`. All files of one call show the same moment. Whoever
holds the store writes drafts, in the one folder that SQL may write to; whoever asked moves them to their place.
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
from agentlearn.store.views import Selection

SNAPSHOTS = "snapshots"
"""Folder of a store where its snapshots stand, unless another is given."""

_SLIM = {
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
}
"""What a snapshot shows of each table: all but the long texts."""

_OF_CHOSEN = {
    "run_event": "run IN (SELECT run FROM chosen)",
    "task": "id IN (SELECT task FROM chosen)",
    "trajectory": "id IN (SELECT id FROM chosen)",
    "trajectory_body": "rollout IN (SELECT id FROM chosen)",
    "step": "rollout IN (SELECT id FROM chosen)",
    "journal": "unit IN (SELECT id FROM chosen)",
    "summary": "rollout IN (SELECT id FROM chosen)",
    "proposal": "run IN (SELECT run FROM chosen)",
    "metric": "run IN (SELECT run FROM chosen)",
    "library_version": "version IN (FROM chosen_version)",
    "experience": "id IN (SELECT unnest(experiences) FROM library_version WHERE version IN (FROM chosen_version))",
    "blob": "kind = 'prompt'",
}
"""Which rows of each table belong to the chosen rollouts."""

_ORDER = {"trajectory": " ORDER BY run, phase, batch, task, g, attempt"}


@dataclass(frozen=True, slots=True)
class TableDraft:
    """One table, written by the process that holds the store, not yet in its place."""

    table: str
    rows: int


@dataclass(frozen=True, slots=True)
class Drafts:
    """Tables of one moment, in a folder of their own."""

    folder: str
    """Its name in the store's staging folder."""
    tables: tuple[TableDraft, ...]


@dataclass(frozen=True, slots=True)
class TableFile:
    """One table, written."""

    table: str
    path: Path
    rows: int
    size_bytes: int


def draft_tables(database: Database, selection: Selection | None) -> Drafts:
    """Write the selected rollouts whole, with what belongs to them; with None every table without its long texts.

    Raises DataError where nothing is selected; StoreError.
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
        sentence = str(error).partition("\n")[0].rstrip(".")
        raise StoreError(f"the tables of {str(database.directory)!r} could not be written: {sentence}") from error
    return Drafts(folder.name, tuple(tables))


def put_tables(directory: Path, drafts: Drafts, out: Path) -> tuple[TableFile, ...]:
    """Move drafts to the folder `out`, over older files. Raises StoreError."""
    folder = directory / STAGING / drafts.folder
    try:
        out.mkdir(parents=True, exist_ok=True)
        return tuple(_put(folder, one, out) for one in drafts.tables)
    except OSError as error:
        raise StoreError(f"the tables could not be written to {str(out)!r}: {error}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _queries(selection: Selection | None) -> Mapping[str, str]:
    if selection is None:
        return {table: f"SELECT {columns} FROM {table}{_ORDER.get(table, '')}" for table, columns in _SLIM.items()}
    return {table: f"FROM {table} WHERE {which}{_ORDER.get(table, '')}" for table, which in _OF_CHOSEN.items()}


def _choose(cursor: duckdb.DuckDBPyConnection, parameters: Sequence[object]) -> None:
    cursor.execute(f"CREATE TEMP TABLE chosen AS {Query.SELECTED.value}", list(parameters))
    cursor.execute(
        "CREATE TEMP TABLE chosen_version AS"
        " SELECT DISTINCT library_version FROM trajectory WHERE id IN (SELECT id FROM chosen)"
    )
    if not cursor.execute("FROM chosen LIMIT 1").fetchone():
        raise nothing_selected()


def nothing_selected() -> DataError:
    """What is said when no rollout is meant."""
    return DataError(
        "no stored rollout is as asked for; leave out some of --run, --domain, --outcome and --min-reward"
        " (`agentlearn runs list` shows what there is)",
        code="nothing_selected",
    )


def _draft(cursor: duckdb.DuckDBPyConnection, folder: Path, table: str, query: str) -> TableDraft:
    quoted = str(folder / f"{table}.parquet").replace("'", "''")
    copied = cursor.execute(f"COPY ({query}) TO '{quoted}' (FORMAT parquet, COMPRESSION zstd)").fetchone()
    return TableDraft(table=table, rows=0 if copied is None else int(copied[0]))


def _put(folder: Path, draft: TableDraft, out: Path) -> TableFile:
    written, file = folder / f"{draft.table}.parquet", out / f"{draft.table}.parquet"
    size_bytes = written.stat().st_size
    put(written, file)
    return TableFile(draft.table, file, draft.rows, size_bytes)
