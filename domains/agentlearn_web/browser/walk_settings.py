"""How a walk behaves: sizes of views, and how long it waits for what."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WalkSettings:
    """Limits of one walk."""

    page_chars: int = 6_000
    """Characters of one page of a snapshot."""
    snapshot_chars: int = 2_000_000
    """Characters of a snapshot that are read; what is beyond is left out and told."""
    tabs: int = 4
    """Tabs open at once."""
    act_s: float = 15.0
    """Longest time of an act, after which it is given up."""
    action_s: float = 4.0
    """How long an element may take until it can be clicked or filled."""
    load_s: float = 10.0
    """How long a page may take until it has loaded; then what is there is shown."""
    quiet_s: float = 0.15
    """A page that stayed is at rest once nothing was requested and nothing changed for so long."""
    loaded_quiet_s: float = 0.05
    """The same of a page that has just loaded: what it still lacks it has asked for by then."""
    settle_s: float = 2.0
    """How long rest is waited for."""
    restless_s: float = 0.4
    """How long it is waited for on a page that did not come to rest before."""
    hung_s: float = 5.0
    """A page that says nothing for so long hangs."""
    found_lines: int = 30
    """Lines that a search shows."""
