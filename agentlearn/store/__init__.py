"""The trajectory store: runs, rollouts, lessons and every model call, in one DuckDB directory.

Open it with `open_store` (asynchronous, reads and writes) or `read_store`. No other code may open the database file.
"""

# ruff: noqa: E402
from agentlearn.learn_extra import require_learn

require_learn("agentlearn.store")

from agentlearn.store.integrity import StoreProblem, StoreReport, check_store
from agentlearn.store.parquet import TableFile
from agentlearn.store.reader import StoreReader
from agentlearn.store.repair import Repaired, repair_store
from agentlearn.store.trajectory_store import Store, open_store, read_store
from agentlearn.store.views import (
    EvaluatedRow,
    Exposure,
    LessonUnit,
    ProposalRow,
    RunCounts,
    RunRow,
    SelectedRow,
    Selection,
    StageTotals,
    TrajectoryRow,
    VersionRow,
    WholeRollout,
)

__all__ = [
    "EvaluatedRow",
    "Exposure",
    "LessonUnit",
    "ProposalRow",
    "Repaired",
    "RunCounts",
    "RunRow",
    "SelectedRow",
    "Selection",
    "StageTotals",
    "Store",
    "StoreProblem",
    "StoreReader",
    "StoreReport",
    "TableFile",
    "TrajectoryRow",
    "VersionRow",
    "WholeRollout",
    "check_store",
    "open_store",
    "read_store",
    "repair_store",
]
