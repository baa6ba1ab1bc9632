"""Where a reader sends its queries: to the database in this process, or to another process that has it open."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import duckdb

from agentlearn.errors import StoreDamaged, StoreError
from agentlearn.store.database import Database
from agentlearn.store.parquet import TableDrafts, draft_tables
from agentlearn.store.queries import Query
from agentlearn.store.text import error_line
from agentlearn.store.views import RolloutTexts, Selection
from agentlearn.types.ids import RunId

Parameter = str | int | float | Sequence[str] | None
"""A value that can be bound to a query parameter; sequences hold ids."""


class QuerySource(Protocol):
    """Answers queries about one store."""

    @property
    def directory(self) -> Path:
        """Directory of the store."""
        ...

    @property
    def live(self) -> frozenset[RunId]:
        """Runs in progress in the process that has the store open, as of its last answer."""
        ...

    def rows(self, query: Query, parameters: Sequence[Parameter]) -> list[dict[str, Any]]:
        """The rows of a query, with text still escaped. Blocks. Raises StoreError, StoreDamaged."""
        ...

    def draft_tables(self, selection: Selection | RolloutTexts | None) -> TableDrafts:
        """Write draft files, see `parquet.draft_tables`."""
        ...


class LocalSource:
    """The database in this process. Thread-safe: each query uses a new cursor."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.live: frozenset[RunId] = frozenset()

    @property
    def directory(self) -> Path:
        """Directory of the store."""
        return self._database.directory

    def rows(self, query: Query, parameters: Sequence[Parameter]) -> list[dict[str, Any]]:
        """The rows of a query, with text still escaped. Raises StoreError, StoreDamaged."""
        try:
            with self._database.cursor() as cursor:
                found = cursor.execute(query.value, list(parameters))
                columns = [column[0] for column in found.description]
                return [dict(zip(columns, values, strict=True)) for values in found.fetchall()]
        except duckdb.Error as error:
            kind = StoreDamaged if "Corrupt" in str(error) else StoreError
            raise kind(f"the store {str(self.directory)!r} could not be read: {error_line(error)}") from error

    def draft_tables(self, selection: Selection | RolloutTexts | None) -> TableDrafts:
        """Write draft files, see `parquet.draft_tables`."""
        return draft_tables(self._database, selection)
