"""Compares agents with statistics: which arm is better, and how sure that is. Also for logs of other programs.

from agentlearn_evals import compare_sync

found = compare_sync("math", arms=("none", "math"), k=8)
print(found.contrasts[0].sentence)
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentlearn.measure.contrast import Contrast
    from agentlearn.measure.score_table import Observation
    from agentlearn_evals.compare_objects import compare, compare_sync
    from agentlearn_evals.compare_settings import CompareSettings, PowerSettings
    from agentlearn_evals.comparing import Compared, run_comparison, run_comparison_sync
    from agentlearn_evals.comparison import Comparison
    from agentlearn_evals.designing import PowerReport, power
    from agentlearn_evals.log_comparison import compare_logs
    from agentlearn_evals.page import comparison_page
    from agentlearn_evals.terminal import CompareCallbacks

_HOMES = {
    "CompareSettings": "compare_settings",
    "Compared": "comparing",
    "Comparison": "comparison",
    "Contrast": "agentlearn.measure.contrast",
    "Observation": "agentlearn.measure.score_table",
    "PowerReport": "designing",
    "PowerSettings": "compare_settings",
    "CompareCallbacks": "terminal",
    "compare": "compare_objects",
    "compare_logs": "log_comparison",
    "compare_sync": "compare_objects",
    "comparison_page": "page",
    "power": "designing",
    "run_comparison": "comparing",
    "run_comparison_sync": "comparing",
}

__all__ = [
    "CompareCallbacks",
    "CompareSettings",
    "Compared",
    "Comparison",
    "Contrast",
    "Observation",
    "PowerReport",
    "PowerSettings",
    "compare",
    "compare_logs",
    "compare_sync",
    "comparison_page",
    "power",
    "run_comparison",
    "run_comparison_sync",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES[name]
    return getattr(import_module(home if "." in home else f"agentlearn_evals.{home}"), name)
