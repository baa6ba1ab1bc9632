"""Tells a page that hangs from one that is only slow because the machine is busy.

A page is hung if its renderer does not evaluate a constant while the browser process answers at once. Only time in
which the browser answers at once counts. A renderer that computes for that long without a break is in an endless loop;
one that does not is waiting for its turn or for a site, and gets more time.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agentlearn_web.browser.playwright_errors import browser_error
from agentlearn_web.browser.walk_settings import WalkSettings

if TYPE_CHECKING:
    from playwright.async_api import CDPSession

_TICK_S = 0.25
_PROMPT_S = 0.15
"""The browser answers at once if it takes no longer than this."""
_LOST_S = 120.0
"""A browser process that is silent for this long does not answer any more, and the page counts as hung."""
_BUSY_SHARE = 0.5
"""A renderer that used this share of the counted time computed without a break; walks share the cores."""


@dataclass(slots=True)
class _Ticks:
    counted_s: float = 0.0
    """Time in which the browser answered at once and the page did not answer."""
    busiest_s: float = 0.0
    """Most processor time of one renderer in that time."""


@dataclass(frozen=True, slots=True)
class BrowserLink:
    """What the walks of one browser share."""

    cdp: "CDPSession | None" = None
    """Session of the browser process, without which every browser counts as answering."""
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    """Most pages that are read at once, because reading a long page takes a core."""


async def is_alive(
    page: "CDPSession", browser: "CDPSession | None", settings: WalkSettings, gone: Callable[[], bool]
) -> bool:
    """Return whether the renderer of a page answers; an error is an answer, too.

    Takes until the page answers, or until it counts as hung: after `hung_s` for a page that computes, and after
    `snapshot_s` for one that does not. gone: whether the page has crashed or was closed, which ends the waiting.
    """
    probe = asyncio.ensure_future(page.send("Runtime.evaluate", {"expression": "1", "returnByValue": True}))
    try:
        return await _answers(probe, browser, settings, gone)
    finally:
        probe.cancel()
        with suppress(asyncio.CancelledError, browser_error()):
            await probe


async def _answers(
    probe: "asyncio.Future[Any]", browser: "CDPSession | None", settings: WalkSettings, gone: Callable[[], bool]
) -> bool:
    await asyncio.wait([probe], timeout=_TICK_S)
    started, ticks, before = time.monotonic(), _Ticks(), dict[int, float]()
    while not probe.done():
        began = time.monotonic()
        now = await _processor_times(browser)
        prompt = now is not None and time.monotonic() - began <= _PROMPT_S
        await asyncio.wait([probe], timeout=_TICK_S)
        if prompt and now is not None:
            before = before or now
            ticks.counted_s += _TICK_S
            ticks.busiest_s = max((used - before.get(one, used) for one, used in now.items()), default=0.0)
        if probe.done():
            break
        is_busy = ticks.busiest_s >= _BUSY_SHARE * settings.hung_s
        limit_s = settings.hung_s if is_busy else max(settings.hung_s, settings.snapshot_s)
        if gone() or ticks.counted_s >= limit_s or time.monotonic() - started >= _LOST_S:
            return False
    return True


async def _processor_times(browser: "CDPSession | None") -> dict[int, float] | None:
    """Return the processor time of each renderer by process id; None if the browser does not answer."""
    if browser is None:
        return {}
    try:
        async with asyncio.timeout(_LOST_S):
            found = await browser.send("SystemInfo.getProcessInfo")
    except (TimeoutError, browser_error()):
        return None
    return {one["id"]: one["cpuTime"] for one in found["processInfo"] if one["type"] == "renderer"}
