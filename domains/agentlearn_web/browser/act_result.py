"""How an act went, before its consequences are looked at."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ActResult:
    """How an act went."""

    status: str = "ok"
    """`ok`, or a stable code."""
    note: str = ""
    """What happened and what can be done, in our own words."""
    around: str = ""
    """The ref that was acted on: its page of the snapshot is shown, if it is still there."""
    certain: bool = True
    """Whether everything that the act led to at once has begun by now."""
    moved: bool = True
    """Whether the browser was asked to do anything."""


def many(count: int, what: str) -> str:
    """`1 tab`, `2 tabs`."""
    return f"{count} {what}{'' if count == 1 else 's'}"
