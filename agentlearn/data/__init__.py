"""Sources of tasks (files, the Hugging Face hub, reasoning-gym), and checks of whether they are fit to learn from.

This package knows no domain: how an answer is read and judged is passed in.
"""

from agentlearn.data.check import AnswerRules, DataReport, ReadableTasks, check_source, detectable, readable_tasks
from agentlearn.data.gym import scorer
from agentlearn.data.reading import StartAndPath, name_of, read_tasks, rows
from agentlearn.data.row import ColumnChoice, Columns, SourceRow, boxed_answer, cell, parse_columns

__all__ = [
    "AnswerRules",
    "ColumnChoice",
    "Columns",
    "DataReport",
    "ReadableTasks",
    "SourceRow",
    "StartAndPath",
    "boxed_answer",
    "cell",
    "check_source",
    "detectable",
    "name_of",
    "parse_columns",
    "read_tasks",
    "readable_tasks",
    "rows",
    "scorer",
]
