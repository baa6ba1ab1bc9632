"""Export of rollouts for other trainers, and import of rollouts from other programs' logs."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentlearn.formats.export import LineFormat, export_atif, export_lines
    from agentlearn.formats.import_logs import Imported, import_file

_HOMES = {
    "Imported": "agentlearn.formats.import_logs",
    "LineFormat": "agentlearn.formats.export",
    "export_atif": "agentlearn.formats.export",
    "export_lines": "agentlearn.formats.export",
    "import_file": "agentlearn.formats.import_logs",
}

__all__ = ["Imported", "LineFormat", "export_atif", "export_lines", "import_file"]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
