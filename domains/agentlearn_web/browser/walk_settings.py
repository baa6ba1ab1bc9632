"""What all parts of a walk share: its settings, the result of an act, and what Playwright's errors mean."""

import re
from dataclasses import dataclass

from agentlearn.errors import ToolLost

UPLOAD, SCREENSHOT = "upload", "screenshot"
ACTS = frozenset({
    "back", "choose", "click", "dialog", "drag", "find", "hover", "more", "open", "press", "scroll", "tabs", "type",
    "wait", SCREENSHOT, UPLOAD,
})  # fmt: skip
"""All acts that a model can be offered."""


@dataclass(frozen=True, slots=True)
class WalkSettings:
    """Sizes and time limits of one walk."""

    acts: frozenset[str] = ACTS - {SCREENSHOT}
    """The acts that the model is offered. Pictures cost many tokens, so a screenshot is offered only on request."""
    page_chars: int = 6_000
    """Most characters of one page of a snapshot."""
    snapshot_elements: int = 100_000
    """Most elements of a page whose refs are shown. A larger one is shown as text, which takes at most 20 s to read."""
    snapshot_chars: int = 2_000_000
    """Most characters of a whole snapshot. The rest is left out, and an event says so."""
    tabs: int = 4
    """Most tabs open at once."""
    act_s: float = 60.0
    """Longest time for one act without reading the page, after which it is abandoned. Longer than its parts take even
    on a busy machine."""
    action_s: float = 4.0
    """Longest time to wait until an element can be clicked or filled."""
    load_s: float = 20.0
    """Longest time for a page to load. Afterwards it is shown as far as it has loaded."""
    stalled_s: float = 3.0
    """A page whose own text has arrived is shown after this long without any further one of its parts arriving."""
    typed_quiet_s: float = 0.4
    """A page counts as settled after this long without a request or a change after typed keys, scrolling and the
    mouse over an element. Many lists of suggestions wait for about 300 ms after the last key."""
    timer_s: float = 0.8
    """Longest time to wait for a page that has started timers in an act and has not changed since."""
    quiet_s: float = 0.15
    """A page that stayed in place counts as settled after this long without a request or a change."""
    loaded_quiet_s: float = 0.05
    """A page that has just loaded counts as settled after this long without a request or a change."""
    settle_s: float = 2.0
    """Longest time to wait until a page has settled."""
    restless_s: float = 0.4
    """Longest time to wait for a page that did not settle the last time."""
    hung_s: float = 10.0
    """A page that computes for this long without answering counts as hung, while the browser itself answers."""
    snapshot_s: float = 60.0
    """Longest time to read a page, without the wait for a turn. Then its plain text is shown. A page that does not
    answer for this long counts as hung even if it does not compute."""
    found_matches: int = 30
    """Most matches that a search shows. They take at most `page_chars` characters."""


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
    delayed: bool = False
    """Whether many pages react late to such an act: to typed keys, scrolling, and the mouse over an element."""
    acted: bool = True
    """Whether the browser was asked to do anything."""
    seeks_new: bool = False
    """Whether the act looks for further content. The view then shows the first new line, or says that there is none."""


def plural(count: int, noun: str) -> str:
    """Return the count with its noun: `1 tab`, `2 tabs`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


_NET = re.compile(r"net::(ERR_\w+)")
_NETWORK_ERRORS = {
    "ERR_NAME_NOT_RESOLVED": "no such host",
    "ERR_CONNECTION_REFUSED": "the host refused the connection",
    "ERR_CONNECTION_RESET": "the host cut the connection",
    "ERR_CONNECTION_TIMED_OUT": "the host did not answer",
    "ERR_TIMED_OUT": "the host did not answer",
    "ERR_EMPTY_RESPONSE": "the host answered nothing",
    "ERR_TOO_MANY_REDIRECTS": "it redirects without end",
    "ERR_TUNNEL_CONNECTION_FAILED": "no connection to the host",
    "ERR_INVALID_URL": "it is no address",
}
_ACTION_REASONS = (
    ("intercepts pointer events", "another element covers it"),
    ("not enabled", "it is disabled"),
    ("not editable", "it is read-only"),
    ("not visible", "it is not visible"),
    ("not stable", "it does not stop moving"),
    ("outside of the viewport", "it is outside of the window"),
    ("inert", "it is inert"),
)


def browser_error() -> type[Exception]:
    """Return the base class of Playwright's errors, for `except browser_error()`."""
    from playwright.async_api import Error

    return Error


def is_timeout(error: Exception) -> bool:
    """Return whether Playwright's own time limit was reached."""
    from playwright.async_api import TimeoutError as PlaywrightTimeout

    return isinstance(error, PlaywrightTimeout)


def failure_reason(error: Exception) -> str:
    """Return why an element could not be acted on, in our own words: Playwright's messages quote the page."""
    message = str(error)
    return next((reason for phrase, reason in _ACTION_REASONS if phrase in message), "it did not become ready in time")


def load_failure_reason(error: Exception) -> str:
    """Return why a page did not load, in our own words."""
    if is_timeout(error):
        return "no answer in time"
    match = _NET.search(str(error))
    if "Download is starting" in str(error):
        return "it is a file to download, and downloads are refused"
    return _NETWORK_ERRORS.get(match[1], match[1]) if match else "the browser did not open it"
