"""Logs of other harnesses in, our results out: `read_logs`, `write_observations`, `to_pydantic_evals`."""

from agentlearn_evals.foreign.logs import LogFile, Logs
from agentlearn_evals.foreign.pydantic_evals import to_pydantic_evals
from agentlearn_evals.foreign.reading import read_logs
from agentlearn_evals.foreign.writing import write_observations

__all__ = ["LogFile", "Logs", "read_logs", "to_pydantic_evals", "write_observations"]
