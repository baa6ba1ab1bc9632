"""Export of rollouts for other trainers, and import of rollouts from other programs' logs."""

from agentlearn.formats.export import LineFormat, export_lines
from agentlearn.formats.import_logs import Imported, import_file

__all__ = ["Imported", "LineFormat", "export_lines", "import_file"]
