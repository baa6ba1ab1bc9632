"""Tells a page that hangs from one that is only slow because the machine is busy.

A page is hung if its renderer does not evaluate a constant while the browser process answers at once. Only time in
which the browser answers at once counts. A renderer that computes for that long without a break is in an endless loop;
one that does not is waiting for its turn or for a site, and gets more time.
"""

import asyncio
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agentlearn_web.browser.walk_settings import WalkSettings

if TYPE_CHECKING:
    from playwright.async_api import CDPSession

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
_CLICK_DONE_PHRASES = ("click action done", "waiting for scheduled navigations")
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


def click_was_done(error: Exception) -> bool:
    """Return whether the click itself was made, and only its consequences took too long."""
    return any(phrases in str(error) for phrases in _CLICK_DONE_PHRASES)


def is_browser_gone(error: Exception) -> bool:
    """Return whether the page, its browser, or Playwright's driver had ended before it was asked."""
    return any(phrase in str(error) for phrase in ("has been closed", "Connection closed"))


def is_element_gone(error: Exception) -> bool:
    """Return whether the ref no longer matches exactly one element."""
    message = str(error)
    phrases = ("does not match any element", "Invalid frame in aria-ref", "strict mode violation", "not attached")
    return any(phrase in message for phrase in phrases)


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
