"""Sources of tasks (files, the Hugging Face hub, reasoning-gym), and checks of whether they are fit to learn from.

This package knows no domain: how an answer is read and judged is passed in.
"""

from agentlearn.data.answer_cell import boxed_answer
from agentlearn.data.check import AnswerRules, DataReport, check_source, detectable
from agentlearn.data.column_choice import ColumnChoice, parse_columns
from agentlearn.data.gym import scorer
from agentlearn.data.reading import StartAndPath, read_tasks
from agentlearn.data.row import Columns, SourceRow, cell
from agentlearn.data.sources import name_of, rows
from agentlearn.data.unreadable import ReadableTasks, readable_tasks

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
