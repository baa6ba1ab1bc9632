"""Where a reader's answers come from: the database that this process holds, or the process that holds it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import duckdb

from agentlearn.errors import StoreDamaged, StoreError
from agentlearn.store.database import Database
from agentlearn.store.parquet import Drafts, draft_tables
from agentlearn.store.queries import Query
from agentlearn.store.views import Selection
from agentlearn.types.ids import RunId

Parameter = str | int | float | Sequence[str] | None
"""What may stand for a place in a query; lists hold ids."""


class QuerySource(Protocol):
    """Answers queries about one store."""

    @property
    def directory(self) -> Path:
        """The store's."""
        ...

    @property
    def live(self) -> frozenset[RunId]:
        """Runs that go on in the process that holds the store, as known when it last answered."""
        ...

    def rows(self, query: Query, parameters: Sequence[Parameter]) -> list[dict[str, Any]]:
        """The rows, with texts as they are stored. Blocks. Raises StoreError, StoreDamaged."""
        ...

    def draft_tables(self, selection: Selection | None) -> Drafts:
        """As `parquet.draft_tables`."""
        ...


class LocalSource:
    """The database that this process holds, each query on a cursor of its own; for any number of threads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.live: frozenset[RunId] = frozenset()

    @property
    def directory(self) -> Path:
        """The store's."""
        return self._database.directory

    def rows(self, query: Query, parameters: Sequence[Parameter]) -> list[dict[str, Any]]:
        """The rows, with texts as they are stored. Raises StoreError, StoreDamaged."""
        try:
            with self._database.cursor() as cursor:
                found = cursor.execute(query.value, list(parameters))
                columns = [column[0] for column in found.description]
                return [dict(zip(columns, values, strict=True)) for values in found.fetchall()]
        except duckdb.Error as error:
            kind = StoreDamaged if "Corrupt" in str(error) else StoreError
            sentence = str(error).partition("\n")[0].rstrip(".")
            raise kind(f"the store {str(self.directory)!r} could not be read: {sentence}") from error

    def draft_tables(self, selection: Selection | None) -> Drafts:
        """As `parquet.draft_tables`."""
        return draft_tables(self._database, selection)
