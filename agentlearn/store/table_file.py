"""Read and write single Parquet files with an in-memory DuckDB, without a store."""

import secrets
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import duckdb

from agentlearn.errors import DataError
from agentlearn.files import put
from agentlearn.store.text import error_line, sql_string

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
        result = connection.execute("SELECT * FROM read_parquet(?, hive_partitioning = false)", [_literal(path)])
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
        raise DataError(f"{what} ({error_line(error)}); write it again", code="bad_parquet") from error


def _literal(path: Path) -> str:
    """The path with its wildcard characters escaped."""
    return "".join(f"[{sign}]" if sign in "*?[" else sign for sign in str(path))
