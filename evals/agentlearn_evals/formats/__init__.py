"""Reads logs of other evaluation programs, and writes rollouts and reports that they can read."""

from agentlearn_evals.formats.log_file import LogFile, LogSet
from agentlearn_evals.formats.pydantic_evals import to_pydantic_evals
from agentlearn_evals.formats.read_logs import read_logs, write_observations

__all__ = ["LogFile", "LogSet", "read_logs", "to_pydantic_evals", "write_observations"]
