"""Trajectories in the formats of others: out, as lines of chat for trainers, and in, from other programs' logs."""

from agentlearn.exchange.export import LineFormat, export_lines
from agentlearn.exchange.foreign import Imported, import_file

__all__ = ["Imported", "LineFormat", "export_lines", "import_file"]
