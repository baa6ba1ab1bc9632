"""The rules by which a library changes: parse what a model wrote, check it against one version, apply the plan.

Everything here is pure. What the rules must know comes as a frozen `CheckContext`; refusals are values with a stable
code and a sentence; only `check` makes a `Plan` that `apply` accepts.
"""

from agentlearn.curate.apply import apply
from agentlearn.curate.check import Checked, check
from agentlearn.curate.codes import Code, DropReason, Flag
from agentlearn.curate.context import CheckContext
from agentlearn.curate.ends import EndCounts, count_ends
from agentlearn.curate.parse import Parsed, parse_item

__all__ = [
    "CheckContext",
    "Checked",
    "Code",
    "DropReason",
    "EndCounts",
    "Flag",
    "Parsed",
    "apply",
    "check",
    "count_ends",
    "parse_item",
]
