"""The trajectory store: runs, rollouts, lessons and every model call, in one DuckDB directory.

Open it with `open_store` (asynchronous, reads and writes) or `read_store`. No other code may open the database file.
Names are loaded when they are first used: recorders append to the journal without DuckDB.
"""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentlearn.store.integrity import check_store, repair_store
    from agentlearn.store.queries import (
        EvaluatedRow,
        ExposedRow,
        LiveMark,
        LiveRow,
        ProposalRow,
        RunRow,
        Selection,
        ServedEpisode,
        StageTotals,
        TrajectoryRow,
    )
    from agentlearn.store.reader import StoreReader
    from agentlearn.store.trajectory_store import Store, open_store, read_store

_HOMES = {
    "Store": "trajectory_store",
    "StoreReader": "reader",
    "check_store": "integrity",
    "open_store": "trajectory_store",
    "read_store": "trajectory_store",
    "repair_store": "integrity",
}
"""The modules of names that are not in `queries`."""

__all__ = [
    "EvaluatedRow",
    "ExposedRow",
    "LiveMark",
    "LiveRow",
    "ProposalRow",
    "RunRow",
    "Selection",
    "ServedEpisode",
    "StageTotals",
    "Store",
    "StoreReader",
    "TrajectoryRow",
    "check_store",
    "open_store",
    "read_store",
    "repair_store",
]


def __getattr__(name: str) -> object:
    if name in __all__:
        from importlib import import_module

        if "duckdb" not in sys.modules:  # looking for the packages takes longer than the import
            from agentlearn.plugins import require_learn

            require_learn("agentlearn.store")
        return getattr(import_module(f"agentlearn.store.{_HOMES.get(name, 'queries')}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
