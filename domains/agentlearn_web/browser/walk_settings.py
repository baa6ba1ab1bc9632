"""The settings of a walk: sizes of page views and waiting times."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WalkSettings:
    """Sizes and time limits of one walk."""

    page_chars: int = 6_000
    """Most characters of one page of a snapshot."""
    snapshot_chars: int = 2_000_000
    """Most characters of a whole snapshot. The rest is left out, and an event says so."""
    tabs: int = 4
    """Most tabs open at once."""
    act_s: float = 15.0
    """Longest time for one act, after which it is abandoned."""
    action_s: float = 4.0
    """Longest time to wait until an element can be clicked or filled."""
    load_s: float = 10.0
    """Longest time for a page to load. Afterwards it is shown as far as it has loaded."""
    quiet_s: float = 0.15
    """A page that stayed in place counts as settled after this long without a request or a change."""
    loaded_quiet_s: float = 0.05
    """A page that has just loaded counts as settled after this long without a request or a change."""
    settle_s: float = 2.0
    """Longest time to wait until a page has settled."""
    restless_s: float = 0.4
    """Longest time to wait for a page that did not settle the last time."""
    hung_s: float = 5.0
    """A page that does not answer for this long counts as hung."""
    found_lines: int = 30
    """Most lines that a search shows."""
