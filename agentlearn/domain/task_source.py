"""Reading the tasks of a source for a run: in the columns that the user chose, without answers nobody can judge."""

import shlex
from pathlib import Path

from agentlearn.config import TaskFileOptions
from agentlearn.data import ReadableTasks, parse_columns, readable_tasks
from agentlearn.domain.base import Domain
from agentlearn.domain.custom import CustomTasks
from agentlearn.types.task import Split


def with_chosen_columns(domain: Domain, options: TaskFileOptions) -> Domain:
    """Return the domain, which reads the columns that the user chose, if any. Raises ConfigError."""
    return domain if options.columns is None else domain.with_columns(parse_columns(options.columns))


def read_source(
    domain: Domain, source: str, options: TaskFileOptions, *, split: Split, limit: int | None = None
) -> ReadableTasks:
    """Return the tasks of a source whose expected answer the verifier can read, and a note about the others.

    Raises DataError for a row that cannot be read, and when more answers than `max_unreadable` cannot be read.
    """
    return readable_tasks(
        domain.read(Path(source), split=split, limit=limit),
        source,
        domain.unreadable_gold,
        most=options.max_unreadable,
        check=_check_command(domain, source, options),
    )


def _check_command(domain: Domain, source: str, options: TaskFileOptions) -> str:
    """Return the command that lists what is wrong with the source."""
    own = isinstance(domain, CustomTasks)
    judge = ["--reward", domain.reward.name] if own else ["--domain", domain.name]
    columns = [] if options.columns is None else ["--columns", options.columns]
    return shlex.join(["agentlearn", "data", "check", source, *judge, *columns])
