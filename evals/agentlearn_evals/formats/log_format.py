"""What the reader of one log format has to provide."""

from collections.abc import Callable
from typing import NamedTuple

from agentlearn_evals.formats.content import Content
from agentlearn_evals.formats.log_file import LogFile, ParsedLog


class LogFormat(NamedTuple):
    """A log format that agentlearn can read."""

    name: str
    """Name of the format in error messages."""
    matches: Callable[[Content], bool]
    """Returns whether a file with this content has the format."""
    read: Callable[[LogFile, Content], ParsedLog]
    """Reads the file. Raises DataError or ConfigError."""
