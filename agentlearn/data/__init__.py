"""Sources of tasks (files, the Hugging Face hub, reasoning-gym), and checks of whether they are fit to learn from.

This package knows no domain: how an answer is read and judged is passed in.
"""

from agentlearn.data.check import AnswerRules, DataReport, check_source, detectable
from agentlearn.data.gym import scorer
from agentlearn.data.reading import StartAndPath, read_tasks
from agentlearn.data.row import Columns, SourceRow, cell
from agentlearn.data.sources import name_of, rows

__all__ = [
    "AnswerRules",
    "Columns",
    "DataReport",
    "SourceRow",
    "StartAndPath",
    "cell",
    "check_source",
    "detectable",
    "name_of",
    "read_tasks",
    "rows",
    "scorer",
]
