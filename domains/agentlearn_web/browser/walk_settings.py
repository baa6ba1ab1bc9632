"""The settings of a walk: sizes of page views and waiting times."""

from dataclasses import dataclass

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
    """A page counts as settled after this long without a request or a change when keys were typed. Many lists of
    suggestions wait for about 300 ms after the last key."""
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
