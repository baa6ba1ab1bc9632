"""`CheckResult`: one line of `agentlearn doctor`."""

from typing import Literal

from agentlearn.types.value import Value


class CheckResult(Value):
    """One thing that was checked on this machine."""

    what: str
    state: Literal["ok", "missing", "broken", "note"]
    words: str
    """What was found."""
    mend: str = ""
    """Command or step that fixes it; empty when there is nothing to fix."""
