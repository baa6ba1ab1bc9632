"""Where tasks come from: files, the Hugging Face hub, reasoning-gym; and whether they are fit to learn from.

It knows no domain: how an answer is read and judged is handed in.
"""

from agentlearn.data.check import DataReport, Judged, check, detectable
from agentlearn.data.gym import scorer
from agentlearn.data.reading import Way, read_tasks
from agentlearn.data.row import Columns, SourceRow, cell
from agentlearn.data.sources import name_of, rows

__all__ = [
    "Columns",
    "DataReport",
    "Judged",
    "SourceRow",
    "Way",
    "cell",
    "check",
    "detectable",
    "name_of",
    "read_tasks",
    "rows",
    "scorer",
]
