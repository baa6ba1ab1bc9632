"""Write the store's tables as Parquet files (zstd): all tables without long texts, or selected rollouts with all text.

Text is escaped as in the database, see `store.codec`. All files of one call come from one transaction. The process
that has the store open writes drafts to the staging folder; the process that asked moves them to their destination.
The rows of a file are in no particular order: DuckDB would have to hold a large table in memory to keep one. It cannot
sort long texts in little memory either. So `SelectedTexts` first copies the rows to files without a name, which
disappear with the process, and reads them from there in order. In memory are four numbers per rollout and one batch of
rows.
"""

import json
import os
import secrets
import shutil
from array import array
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Literal

import duckdb

from agentlearn.config.outputs import ANY_RUN, Outputs
from agentlearn.errors import DataError, StoreDamaged, StoreError
from agentlearn.store.codec import error_line, sql_string, unescape
from agentlearn.store.database import STAGING, Database
from agentlearn.store.queries import JUDGED, Query, SelectedText, Selection
from agentlearn.store.store_files import restrict
from agentlearn.text.files import put

ColumnType = Literal["VARCHAR", "VARCHAR[]", "BIGINT", "DOUBLE"]

_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "threads": 2,
    "memory_limit": "2GB",
    "temp_directory": "",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
}
_BATCH_ROWS = 1_024


def parquet_rows(path: Path, name: str | None = None) -> Generator[dict[str, object]]:
    """Yield the rows of a file as dicts by column. Raises DataError for a file that is damaged or not Parquet.

    name: what messages call the file. Default: its name without folders.
    """
    with _database(f"{name or path.name} cannot be read as Parquet") as connection:
        # Folders with names such as `split=train` are no columns.
        literal = "".join(f"[{sign}]" if sign in "*?[" else sign for sign in str(path))  # no wildcards
        result = connection.execute("SELECT * FROM read_parquet(?, hive_partitioning = false)", [literal])
        names = [column[0] for column in result.description or ()]
        while batch := result.fetchmany(_BATCH_ROWS):
            for row in batch:
                yield dict(zip(names, row, strict=True))


def write_parquet(path: Path, columns: Mapping[str, tuple[ColumnType, Sequence[object]]]) -> None:
    """Write columns of equal length as one file (zstd), atomically. Raises DataError, OSError."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.draft")
    selected = ", ".join(f'unnest(?::{kind}[]) AS "{name}"' for name, (kind, _) in columns.items())
    try:
        with _database(f"{path.name} cannot be written as Parquet") as connection:
            connection.execute(
                f"COPY (SELECT {selected}) TO {sql_string(draft)} (FORMAT parquet, COMPRESSION zstd)",
                [list(cells) for _, cells in columns.values()],
            )
        put(draft, path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def _database(what: str) -> Generator[duckdb.DuckDBPyConnection]:
    try:
        with duckdb.connect(":memory:", config=_SETTINGS) as connection:
            yield connection
    except duckdb.Error as error:
        raise DataError(f"{what} ({error_line(error)}); write it again") from error


# ruff: noqa: S608 - only constants of this module are put together; values are bound


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
    "live": "*",
    "feedback": "* EXCLUDE (demonstration)",
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
    "live": "rollout IN (SELECT id FROM chosen)",
    "feedback": """
        rollout IN (SELECT id FROM chosen) OR rollout IS NULL
        AND (name, episode) IN (SELECT (name, episode) FROM live WHERE rollout IN (SELECT id FROM chosen))""",
    "blob": "kind = 'prompt'",
}
"""Condition that picks the rows of each table that belong to the selected rollouts."""

HEADS, TEXTS = "heads", "texts"
"""The tables of texts: ids and numbers of each rollout, and its messages. `rank` is its place, from 1."""

_HEADS = """
    SELECT c.rank, c.id, t.run, t.phase, t.batch, t.task, c.reward, t.model, t.library_version AS library, t.arm,
           t.weights_step, t.answer, k.answer AS expected
    FROM trajectory t JOIN chosen c ON c.id = t.id JOIN task k ON k.id = t.task
"""
_TEXTS = "SELECT c.rank, b.messages FROM trajectory_body b JOIN chosen c ON c.id = b.rollout"

COPY_OPTIONS = "FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 2048, PRESERVE_ORDER false"
"""DuckDB holds only a few groups of rows in memory, because it need not wait for those that come before."""


@dataclass(frozen=True, slots=True)
class _TableDraft:
    """A table file in the staging folder, written by the process that has the store open."""

    table: str
    rows: int


@dataclass(frozen=True, slots=True)
class TableDrafts:
    """The table files of one transaction, in one folder."""

    folder: str
    """Name of the folder inside the store's staging folder."""
    tables: tuple[_TableDraft, ...]


@dataclass(frozen=True, slots=True)
class TableFile:
    """A table file at its destination."""

    table: str
    path: Path
    rows: int
    size_bytes: int


def draft_tables(database: Database, selection: Selection | None, *, texts: bool = False) -> TableDrafts:
    """Write draft files: the selected rollouts with all related rows, or with None every table without long texts.

    texts: write the tables HEADS and TEXTS of the selected rollouts instead. Raises DataError when the selection is
    empty; StoreError.
    """
    if texts:
        queries = {HEADS: _HEADS, TEXTS: _TEXTS}
    elif selection is None:
        queries = {table: f"SELECT {columns} FROM {_rows_of(table)}" for table, columns in _SHORT.items()}
    else:
        queries = {table: f"FROM {_rows_of(table)} WHERE {which}" for table, which in _OF_SELECTED.items()}
    folder, drafts = database.staging / secrets.token_hex(8), list[_TableDraft]()
    try:
        folder.mkdir(parents=True)
        restrict(database.staging, 0o700)
        with database.cursor() as cursor:
            cursor.begin()
            if selection is not None:
                # for texts in the order of the rollouts; sorting takes memory
                ranking = f"SELECT row_number() OVER () AS rank, id, reward FROM ({Query.SELECTED.value})"
                chosen = ranking if texts else Query.SELECTED_IDS.value
                cursor.execute(f"CREATE TEMP TABLE chosen AS {chosen}", list(selection.parameters))
                cursor.execute(
                    "CREATE TEMP TABLE chosen_version AS"
                    " SELECT DISTINCT library_version FROM trajectory WHERE id IN (SELECT id FROM chosen)"
                )
                if not cursor.execute("FROM chosen LIMIT 1").fetchone():
                    raise nothing_selected()  # noqa: TRY301
            for table, query in queries.items():
                file = folder / f"{table}.parquet"
                copied = cursor.execute(f"COPY ({query}) TO {sql_string(file)} ({COPY_OPTIONS})").fetchone()
                restrict(file)
                drafts.append(_TableDraft(table=table, rows=0 if copied is None else int(copied[0])))
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if not isinstance(error, (duckdb.Error, OSError)):
            raise
        raise StoreError(
            f"the tables of {str(database.directory)!r} could not be written: {error_line(error)}"
        ) from error
    return TableDrafts(folder.name, tuple(drafts))


def move_tables(
    directory: Path, drafts: TableDrafts, out: Path, runs: Iterable[str] = (ANY_RUN,)
) -> tuple[TableFile, ...]:
    """Move the drafts to the folder `out`, replacing tables that this store wrote there before.

    runs: the runs whose rollouts they hold.

    Raises ConfigError where another file of such a name is there; StoreError.
    """
    folder, own, outputs = directory / STAGING / drafts.folder, out.parent == directory, Outputs(directory)
    try:
        if not own:
            outputs.refuse_others(*(out / f"{draft.table}.parquet" for draft in drafts.tables))
        out.mkdir(parents=True, exist_ok=True)
        if own:
            restrict(out, 0o700)
        moved: list[TableFile] = []
        for draft in drafts.tables:
            written, file = folder / f"{draft.table}.parquet", out / f"{draft.table}.parquet"
            moved.append(TableFile(draft.table, file, draft.rows, written.stat().st_size))
            put(written, file)
        if not own:
            outputs.remember(*(one.path for one in moved), runs=runs)
    except OSError as error:
        raise StoreError(f"the tables could not be written to {str(out)!r}: {error}") from error
    else:
        return tuple(moved)
    finally:
        remove_drafts(directory, drafts)


def remove_drafts(directory: Path, drafts: TableDrafts) -> None:
    """Remove the drafts from the staging folder of a store."""
    shutil.rmtree(directory / STAGING / drafts.folder, ignore_errors=True)


def _rows_of(table: str) -> str:
    """The rows of a table, those of rollouts with the verdicts that feedback gave."""
    return f"({JUDGED})" if table == "trajectory" else table


def nothing_selected() -> DataError:
    """The error for a selection that matches no rollout."""
    return DataError(
        "no stored rollout matches; leave out some of --run, --domain, --outcome and --min-reward"
        " (`agentlearn runs list` shows the stored runs)",
        code="nothing_selected",
    )


class _Pieces:
    """A file of `count` pieces of bytes without a name, written in any order and read by number."""

    def __init__(self, count: int, near: Path) -> None:
        self._starts, self._sizes = array("Q", bytes(8 * count)), array("Q", bytes(8 * count))
        self._end = 0
        self.file = TemporaryFile(dir=near)  # noqa: SIM115 - closed by `SelectedTexts`

    def put(self, number: int, piece: bytes) -> None:
        self._starts[number], self._sizes[number] = self._end, self.file.write(piece)
        self._end += len(piece)

    def get(self, number: int) -> bytes:
        """Return a piece; empty when it was never put. Call it when the file is flushed."""
        return os.pread(self.file.fileno(), self._sizes[number], self._starts[number])


class SelectedTexts:
    """The selected rollouts in order, copied from draft files. Close it after use. Raises DataError, OSError."""

    def __init__(self, directory: Path, drafts: TableDrafts, near: Path) -> None:
        self._directory, folder = directory, directory / STAGING / drafts.folder
        self.count = next(one.rows for one in drafts.tables if one.table == HEADS)
        """Number of the selected rollouts."""
        with ExitStack() as opened:
            self._heads, self._texts = _Pieces(self.count, near), _Pieces(self.count, near)
            for pieces in (self._heads, self._texts):
                opened.callback(pieces.file.close)
            for row in parquet_rows(folder / f"{HEADS}.parquet"):
                self._heads.put(int(str(row.pop("rank"))) - 1, json.dumps(row).encode())
            for row in parquet_rows(folder / f"{TEXTS}.parquet"):
                self._texts.put(int(str(row["rank"])) - 1, unescape(str(row["messages"])).encode())
            for pieces in (self._heads, self._texts):
                pieces.file.flush()
            self.close = opened.pop_all().close

    def __iter__(self) -> Iterator[SelectedText]:
        """Yield the rollouts. Raises StoreDamaged for one whose messages are missing."""
        for number in range(self.count):
            head: dict[str, Any] = {
                name: unescape(value) if isinstance(value, str) else value
                for name, value in json.loads(self._heads.get(number)).items()
            }
            messages = self._texts.get(number)
            if not messages:
                raise StoreDamaged(
                    f"the store {str(self._directory)!r} has no messages of the rollout {head['id']!r};"
                    " run `agentlearn store check`"
                )
            yield SelectedText(**head, messages=messages)
