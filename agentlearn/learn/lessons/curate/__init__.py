"""The rules by which a library changes: parse what a model wrote, check it against one version, apply the plan.

Everything here is pure. What the rules must know comes as a frozen `CheckContext`; refusals are values with a stable
code and a sentence; only `check` makes a `Plan` that `apply` accepts.
"""

from agentlearn.learn.lessons.curate.apply import apply
from agentlearn.learn.lessons.curate.check import Checked, check
from agentlearn.learn.lessons.curate.codes import DropReason, LessonFlag, RejectionCode
from agentlearn.learn.lessons.curate.context import CheckContext
from agentlearn.learn.lessons.curate.ends import EndCounts, count_ends
from agentlearn.learn.lessons.curate.parse import Parsed, parse_item

__all__ = [
    "CheckContext",
    "Checked",
    "DropReason",
    "EndCounts",
    "LessonFlag",
    "Parsed",
    "RejectionCode",
    "apply",
    "check",
    "count_ends",
    "parse_item",
]
