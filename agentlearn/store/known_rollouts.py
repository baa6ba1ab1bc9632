"""Which rollouts the database holds, remembered, so that storing a rollout needs no query."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

import duckdb

MOST_REMEMBERED = 100_000
"""Largest number of ids that are remembered. A larger store is asked each time."""


class KnownRollouts:
    """The ids of the stored rollouts. They are read once, and again after `forget`."""

    def __init__(self) -> None:
        self._ids: set[str] | None = None
        self._too_many = False

    def among(self, connection: duckdb.DuckDBPyConnection, rollouts: AbstractSet[str]) -> set[str]:
        """Return those of the rollouts that the database holds. Raises duckdb.Error."""
        if not rollouts:
            return set()
        if self._ids is None and not self._too_many:
            found = connection.execute("SELECT id FROM trajectory LIMIT ?", [MOST_REMEMBERED + 1]).fetchall()
            self._keep({rollout for (rollout,) in found})
        if self._ids is not None:
            return self._ids & rollouts
        places = ", ".join("?" * len(rollouts))
        query = f"SELECT id FROM trajectory WHERE id IN ({places})"  # noqa: S608
        return {rollout for (rollout,) in connection.execute(query, sorted(rollouts)).fetchall()}

    def add(self, rollouts: Iterable[str]) -> None:
        """Remember rollouts that the database holds now."""
        if self._ids is not None:
            self._ids.update(rollouts)
            self._keep(self._ids)

    def forget(self) -> None:
        """Forget everything, after a commit of which it is not known whether it is in the database."""
        self._ids = None

    def _keep(self, ids: set[str]) -> None:
        self._too_many = len(ids) > MOST_REMEMBERED
        self._ids = None if self._too_many else ids
