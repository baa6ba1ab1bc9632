"""Reading rows from files and from folders of files. Every error names the file, the line and the next step."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from agentlearn.data.csv_rows import csv_rows
from agentlearn.data.file_text import PACKED, ending, is_packed, read_bytes, read_text
from agentlearn.data.json_rows import json_rows, jsonl_rows
from agentlearn.data.row import SourceRow
from agentlearn.data.xml_rows import xml_rows
from agentlearn.errors import DataError


@dataclass(frozen=True, slots=True)
class FolderFiles:
    """The files of a folder and of the folders in it, in the order of their names."""

    read: tuple[str, ...]
    """Paths of task files, relative to the folder."""
    other: tuple[str, ...]
    """Paths of all other files, without those whose name begins with a dot."""


def file_rows(path: Path) -> Iterator[SourceRow]:
    """Yield the rows of a file, whose ending gives the format, or of all task files in a folder.

    Raises DataError.
    """
    return _folder_rows(path) if path.is_dir() else _rows(path, path.name)


def files_in(folder: Path) -> FolderFiles:
    """Return the files in a folder and in the folders inside it."""
    found = sorted(
        Path(root, name).relative_to(folder).as_posix()
        for root, _, names in os.walk(folder)
        for name in names
        if not name.startswith(".")
    )
    known = {name for name in found if _is_task_file(Path(name))}
    return FolderFiles(tuple(name for name in found if name in known), tuple(one for one in found if one not in known))


def _is_task_file(path: Path) -> bool:
    return ending(path) in _TEXT_READERS or path.suffix.lower() == _TABLE


def _folder_rows(folder: Path) -> Iterator[SourceRow]:
    found = files_in(folder)
    if not found.read:
        raise DataError(f"the folder {str(folder)!r} holds no task file; give one with files that end in {_endings()}")
    for name in found.read:
        yield from _until_fault(_rows(folder / name, name), name)


def _until_fault(rows: Iterator[SourceRow], name: str) -> Iterator[SourceRow]:
    """Yield the rows of one file of a folder. Where reading stops, a row with that fault is the last."""
    try:
        yield from rows
    except DataError as error:
        yield SourceRow(f"{name}:1", {}, fault=f"{error.message} (nothing after it was read in this file)")


def _rows(path: Path, name: str) -> Iterator[SourceRow]:
    if path.suffix.lower() == _TABLE:
        return _parquet(path, name)
    if (read := _TEXT_READERS.get(ending(path))) is not None:
        return read(read_text(path, name), name)
    what = f"{ending(path)}{PACKED}" if is_packed(path) else path.suffix
    raise DataError(f"{name} has the ending {what!r}; give a file that ends in {_endings()}, also packed as '.gz'")


def _endings() -> str:
    *some, last = map(repr, (*_TEXT_READERS, _TABLE))
    return f"{', '.join(some)} or {last}"


def _parquet(path: Path, name: str) -> Iterator[SourceRow]:
    from agentlearn.store.table_file import parquet_rows  # imports DuckDB

    read_bytes(path, most=1)  # a missing file gets the same message as for other formats
    for number, fields in enumerate(parquet_rows(path, name)):
        yield SourceRow(f"{name}#{number}", fields)


def _tsv_rows(text: str, name: str) -> Iterator[SourceRow]:
    return csv_rows(text, name, delimiter="\t")


_TABLE = ".parquet"
_TEXT_READERS: dict[str, Callable[[str, str], Iterator[SourceRow]]] = {
    ".jsonl": jsonl_rows,
    ".json": json_rows,
    ".csv": csv_rows,
    ".tsv": _tsv_rows,
    ".xml": xml_rows,
}
