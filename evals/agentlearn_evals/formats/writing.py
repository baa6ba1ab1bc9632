"""Writes observations as a CSV or Parquet table, which `read_logs` can read again."""

import csv
import json
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

from agentlearn.errors import ConfigError, DataError
from agentlearn.files import write_whole
from agentlearn.measure.observation import Observation
from agentlearn.store.table_file import ColumnType, write_parquet
from agentlearn.text import storable
from agentlearn_evals.formats.plain import COLUMNS, COUNTS, NUMBERS
from agentlearn_evals.formats.spreadsheet_cells import spreadsheet_cell

_COLUMN_TYPES: dict[str, ColumnType] = {
    **dict.fromkeys(COLUMNS, "VARCHAR"),
    **dict.fromkeys(("g", *COUNTS), "BIGINT"),
    **dict.fromkeys(("score", *NUMBERS), "DOUBLE"),
    "tags": "VARCHAR[]",
}


def write_observations(observations: Sequence[Observation], path: Path) -> None:
    """Write a `.csv` or `.parquet` file with one column per field; an existing file is replaced.

    Lone surrogates are escaped. In CSV, an empty field means None or empty text, tags are a JSON array, and text that
    a spreadsheet program could run as a formula has an apostrophe in front, which our reader takes away. Raises
    ConfigError for another suffix, DataError when the file cannot be written.
    """
    write = {".csv": _write_csv, ".parquet": _write_parquet}.get(path.suffix.lower())
    if write is None:
        raise ConfigError(
            f"{path.name} has the suffix {path.suffix!r}; write a file that ends in '.csv' or '.parquet'",
            code="unknown_format",
        )
    try:
        write([one.model_dump() for one in observations], path)
    except OSError as error:
        raise DataError(
            f"{str(path)!r} cannot be written ({error.strerror}); choose another place", code="not_written"
        ) from error


def _write_csv(rows: list[dict[str, object]], path: Path) -> None:
    text = StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow([_csv_cell(row[name]) for name in COLUMNS])
    write_whole(path, text.getvalue().encode())


def _csv_cell(value: object) -> object:
    if isinstance(value, tuple):
        return json.dumps(value) if value else ""
    return spreadsheet_cell(storable(value)) if isinstance(value, str) else value


def _write_parquet(rows: list[dict[str, object]], path: Path) -> None:
    write_parquet(path, {name: (_COLUMN_TYPES[name], [_parquet_cell(row[name]) for row in rows]) for name in COLUMNS})


def _parquet_cell(value: object) -> object:
    if isinstance(value, tuple):
        return [storable(str(one)) for one in value]
    return storable(value) if isinstance(value, str) else value
