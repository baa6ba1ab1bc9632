"""A finding: one thing looked at, how it is, and the line that mends it."""

from typing import Literal

from agentlearn.types.value import Value


class CheckResult(Value):
    """One thing looked at."""

    what: str
    state: Literal["ok", "missing", "broken", "note"]
    words: str
    mend: str = ""
    """The line that mends it; empty when nothing needs mending."""
