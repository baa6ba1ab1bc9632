"""The result of one act in the browser, before the page is shown again; and the error for a browser that is gone."""

from dataclasses import dataclass

from agentlearn.errors import ToolLost


class BrowserLost(ToolLost):
    """Raised when the browser of a walk died or no longer answers. The walk itself did nothing wrong."""

    code = "browser_lost"


@dataclass(frozen=True, slots=True)
class ActResult:
    """Whether an act was done, and if not, why."""

    status: str = "ok"
    """`ok`, or a stable code."""
    note: str = ""
    """What happened and what can be done about it, in our own words."""
    near_ref: str = ""
    """Ref of the element that was acted on. The snapshot page with this ref is shown, if the element still exists."""
    effects_started: bool = True
    """Whether everything that the act triggers directly has started by now."""
    typed: bool = False
    """Whether keys were typed, to which many pages react late."""
    acted: bool = True
    """Whether the browser was asked to do anything."""
    seeks_new: bool = False
    """Whether the act looks for further content. The view then shows the first new line, or says that there is none."""


def plural(count: int, noun: str) -> str:
    """Return the count with its noun: `1 tab`, `2 tabs`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
