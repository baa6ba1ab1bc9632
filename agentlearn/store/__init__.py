"""The trajectory store: runs, rollouts, lessons and every model call, in one DuckDB directory.

Open it with `open_store` (asynchronous, reads and writes) or `read_store`. Nothing else may open the database file.
"""

from agentlearn.store.reader import StoreReader
from agentlearn.store.store import Store, open_store, read_store
from agentlearn.store.views import Exposure, ProposalRow, RunCounts, RunRow, StageTotals, TrajectoryRow

__all__ = [
    "Exposure",
    "ProposalRow",
    "RunCounts",
    "RunRow",
    "StageTotals",
    "Store",
    "StoreReader",
    "TrajectoryRow",
    "open_store",
    "read_store",
]
