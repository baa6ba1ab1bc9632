"""Waits until a page holds a text, looking again whenever the page has changed."""

import asyncio
import time

from agentlearn_web.browser.playwright_errors import browser_error
from agentlearn_web.browser.tab import Tab
from agentlearn_web.browser.text_search import holds_text
from agentlearn_web.browser.walk_settings import WalkSettings
from agentlearn_web.reading.page_text import PageText

_POLL_S = 0.2


async def wait_for_text(tab: Tab, text: str, limit_s: float, settings: WalkSettings) -> bool:
    """Return whether the page held the text within `limit_s`; without a text, wait that long. Raises PageHung.

    The text must be one that a person can see.
    """
    until, read_at = time.monotonic() + limit_s, (-1, -1)
    while True:
        await tab.watch.require_alive(settings)
        if text and await tab.watch.has_changed(*read_at, settings):
            read_at = (tab.watch.document, tab.watch.changes)
            page = await _text(tab, settings)
            if page is not None and holds_text(page, text):
                return True
            if page is None or page.partial:
                read_at = (-1, -1)
        left_s = until - time.monotonic()
        if left_s <= 0 or tab.page.is_closed():
            return False
        await asyncio.sleep(min(_POLL_S, left_s))


async def _text(tab: Tab, settings: WalkSettings) -> PageText | None:
    """Return the text of the page; None if it could not be read."""
    try:
        async with tab.watch.link.turns:
            return await tab.watch.read_text(settings)
    except (TimeoutError, browser_error()):
        return None
