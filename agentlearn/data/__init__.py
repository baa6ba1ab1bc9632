"""Sources of tasks (files, the Hugging Face hub, reasoning-gym), and checks of whether they are fit to learn from.

This package knows no domain: how an answer is read and judged is passed in.
"""

from agentlearn.data.answer_cells import boxed_answer
from agentlearn.data.check import ReadableTasks, readable_tasks
from agentlearn.data.gym import scorer
from agentlearn.data.reading import StartAndPath, name_of, read_tasks
from agentlearn.data.row import ColumnChoice, Columns, SourceRow, cell, parse_columns

__all__ = [
    "ColumnChoice",
    "Columns",
    "ReadableTasks",
    "SourceRow",
    "StartAndPath",
    "boxed_answer",
    "cell",
    "name_of",
    "parse_columns",
    "read_tasks",
    "readable_tasks",
    "scorer",
]
