"""Read selected rollouts with their messages in order, from the drafts that `parquet.draft_tables` wrote.

DuckDB cannot sort long texts in little memory. So the rows are first copied to files without a name, which disappear
with the process, and then read from them in order. In memory are four numbers per rollout and one batch of rows.
"""

import json
from array import array
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import Any, Self

from agentlearn.errors import StoreDamaged
from agentlearn.store.database import STAGING
from agentlearn.store.parquet import HEADS, TEXTS, TableDrafts
from agentlearn.store.table_file import parquet_rows
from agentlearn.store.text import unescape
from agentlearn.store.views import SelectedText


class _Pieces:
    """A file of `count` pieces of bytes, written in any order and read by number."""

    def __init__(self, count: int, near: Path) -> None:
        self._starts, self._sizes = array("Q", bytes(8 * count)), array("Q", bytes(8 * count))
        self._end = 0
        self._file = TemporaryFile(dir=near)  # noqa: SIM115 - closed by `close`

    def put(self, number: int, piece: bytes) -> None:
        self._starts[number], self._sizes[number] = self._end, self._file.write(piece)
        self._end += len(piece)

    def get(self, number: int) -> bytes:
        """Return a piece; empty when it was never put. Call it after the last `put`."""
        self._file.seek(self._starts[number])
        return self._file.read(self._sizes[number])

    def close(self) -> None:
        self._file.close()


class SelectedTexts:
    """Iterates over selected rollouts in order. A context manager. Raises DataError, OSError."""

    def __init__(self, directory: Path, drafts: TableDrafts, near: Path) -> None:
        self._directory, self._folder = directory, directory / STAGING / drafts.folder
        self.count = next(one.rows for one in drafts.tables if one.table == HEADS)
        """Number of the selected rollouts."""
        with ExitStack() as opened:
            self._heads = _Pieces(self.count, near)
            opened.callback(self._heads.close)
            self._texts = _Pieces(self.count, near)
            opened.callback(self._texts.close)
            self._opened = opened.pop_all()

    def __enter__(self) -> Self:
        """Copy the rows to the files. Raises DataError, OSError."""
        try:
            for number, row in self._rows(HEADS):
                self._heads.put(number, json.dumps(row).encode())
            for number, row in self._rows(TEXTS):
                self._texts.put(number, unescape(row["messages"]).encode())
        except BaseException:
            self._opened.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the files."""
        self._opened.close()

    def __iter__(self) -> Iterator[SelectedText]:
        """Yield the rollouts. Raises StoreDamaged for one whose messages are missing."""
        for number in range(self.count):
            head = {name: _plain(one) for name, one in json.loads(self._heads.get(number)).items()}
            messages = self._texts.get(number)
            if not messages:
                raise StoreDamaged(
                    f"the store {str(self._directory)!r} has no messages of the rollout {head['id']!r};"
                    " run `agentlearn store check`"
                )
            yield SelectedText(**head, messages=messages)

    def _rows(self, table: str) -> Iterator[tuple[int, dict[str, Any]]]:
        for row in parquet_rows(self._folder / f"{table}.parquet"):
            yield int(str(row.pop("rank"))) - 1, row


def _plain(value: object) -> Any:
    return unescape(value) if isinstance(value, str) else value
