"""The open tabs of a walk: the current one, windows that pages open, broken tabs, and pages that must not be shown."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from agentlearn_web.boundary.proxy_session import scheme_allowed
from agentlearn_web.browser.act_result import ActResult, BrowserLost, plural
from agentlearn_web.browser.liveness import BrowserLink, browser_error
from agentlearn_web.browser.page_events import Dialogs, PageEvents
from agentlearn_web.browser.tab import BLANK, Tab, attach_tab
from agentlearn_web.browser.walk_settings import WalkSettings
from agentlearn_web.observation import TabLine

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page

_POPUP_S = 1.0
"""Longest time to wait for a window that a page has requested."""


class Tabs:
    """The tabs of one browser context. The number of a closed tab is never used again."""

    def __init__(
        self, context: "BrowserContext", events: PageEvents, settings: WalkSettings, link: BrowserLink
    ) -> None:
        self._context = context
        self._link = link
        self._events = events
        self._settings = settings
        self._open: dict[str, Tab] = {}
        self._current = ""
        self._numbers = 0
        self._opening = 0
        """Number of pages that we are opening ourselves; they are not popups."""
        self._arrived: list[Page] = []
        self._page_opened = asyncio.Event()
        self._closed = False
        self.dialogs = Dialogs(events, self._stop_script)
        """How dialogs are answered."""

    def __iter__(self) -> Iterator[Tab]:
        return iter(self._open.values())

    def __contains__(self, name: object) -> bool:
        return name in self._open

    def __len__(self) -> int:
        return len(self._open)

    @property
    def current(self) -> Tab:
        """The tab on which acts are done."""
        return self._open[self._current]

    @property
    def lines(self) -> tuple[TabLine, ...]:
        """The tabs as shown in an observation."""
        return tuple(tab.line for tab in self)

    async def begin(self) -> None:
        """Listen to the context and open the first tab. Raises BrowserLost."""
        self._context.on("page", self._on_page)
        self._context.on("dialog", self.dialogs.answer)
        self._context.on("close", self._on_close)
        await self.open_blank()

    async def open_blank(self) -> Tab:
        """Open a blank tab and make it the current one. Raises BrowserLost."""
        self._opening += 1
        try:
            page = await self._context.new_page()
            self._numbers += 1
            tab = await attach_tab(page, self._numbers, self._events, self._link)
        except browser_error() as error:
            raise BrowserLost(f"the browser opened no page: {str(error).partition(chr(10))[0]}") from error
        finally:
            self._opening -= 1
        self._open[tab.id] = tab
        self._current = tab.id
        return tab

    def select(self, name: str) -> None:
        """Make another tab the current one."""
        self._current = name

    async def close(self, name: str) -> None:
        """Close a tab. If it was current, the newest other tab becomes current, or a blank one if it was the last."""
        await self._open[name].close()
        await self.forget(name)

    async def forget(self, name: str) -> None:
        """Remove a closed tab from the list."""
        del self._open[name]
        if not self._open:
            await self.open_blank()
        elif self._current == name:
            self._current = next(reversed(self._open))

    async def replace_current(self, status: str, why: str) -> ActResult:
        """Close the broken current tab and open a blank one instead."""
        self.require_browser()
        broken = self.current
        await broken.close()
        await self.open_blank()
        self._open.pop(broken.id, None)
        return ActResult(status, f"{why}; its tab was closed, and a blank one took its place")

    async def replace_hung(self) -> ActResult:
        """Replace the current tab after it stopped answering."""
        if self.current.watch.crashed:
            return await self.replace_current("crashed", "the page crashed")
        return await self.replace_current("hung", "the page hung")

    async def handle_error(self, error: Exception | None) -> ActResult:
        """Return the result of an act that raised `error` in the current tab. Raises BrowserLost."""
        self.require_browser()
        tab = self.current
        if tab.watch.crashed or "crashed" in str(error):
            return await self.replace_current("crashed", "the page crashed")
        if tab.page.is_closed():
            self._events.add("closed", f"the tab {tab.id} was closed by its page")
            await self.forget(tab.id)
            return ActResult("closed", f"the tab {tab.id} was closed; the view is of {self._current}")
        return ActResult("not_done", f"the browser did not do it ({type(error).__name__}); look at the view below")

    def windows(self) -> int:
        """Return how many windows the pages have requested so far."""
        return len(self._requested_windows())

    async def add_windows(self, windows: int, since: float) -> None:
        """Add windows that pages opened as tabs; the first one becomes the current tab. Raises PageHung.

        windows: number of requested windows when the act began. since: when the act began.
        """
        await self._wait_for_windows(windows)
        has_url = any(url and url != BLANK for url in self._requested_windows()[windows:])
        first = None
        while self._arrived:
            tab = await self._add_window(self._arrived.pop(0))
            first = first or tab
        if first is not None:
            self._current = first.id
            if has_url:
                await first.watch.wait_for_document(self._settings)
            await first.watch.wait_until_settled(self._settings, since)

    async def tidy(self) -> None:
        """Remove closed tabs from the list, and leave pages whose address may not be shown."""
        for tab in tuple(self):
            if tab.page.is_closed():
                self._events.add("closed", f"the tab {tab.id} was closed by its page")
                await self.forget(tab.id)
            elif not tab.is_error_page and not scheme_allowed(tab.page.url or BLANK):
                self._events.add("blocked", "a page led to an address that is not of the web", tab.page.url)
                await self._leave_page(tab)

    def is_alive(self) -> bool:
        """Return whether the browser is still connected."""
        browser = self._context.browser
        return not self._closed and (browser is None or browser.is_connected())

    def require_browser(self) -> None:
        """Raise BrowserLost if the browser is gone."""
        if not self.is_alive():
            raise BrowserLost("the browser of this walk is gone; run the rollout again in a new browser")

    def _requested_windows(self) -> list[str]:
        return [url for tab in self for url in tab.watch.windows]

    async def _stop_script(self, page: "Page") -> None:
        for tab in self:
            if tab.page is page:
                with suppress(browser_error()):
                    await tab.watch.cdp.send("Runtime.terminateExecution")

    async def _leave_page(self, tab: Tab) -> None:
        try:
            await tab.page.goto(BLANK, timeout=self._settings.action_s * 1000)
        except browser_error():
            await self.close(tab.id)

    async def _wait_for_windows(self, windows: int) -> None:
        until = time.monotonic() + _POPUP_S
        while self.windows() - windows > len(self._arrived) and (left_s := until - time.monotonic()) > 0:
            self._page_opened.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._page_opened.wait()

    async def _add_window(self, page: "Page") -> Tab | None:
        if len(self) >= self._settings.tabs:
            self._events.add("closed", f"a further window was closed at once: {plural(len(self), 'tab')} are open")
            with suppress(browser_error()):
                await page.close()
            return None
        try:
            tab = await attach_tab(page, self._numbers + 1, self._events, self._link)
        except browser_error():
            return None  # the window has closed itself
        self._numbers += 1
        self._open[tab.id] = tab
        self._events.add("popup", f"the page opened the tab {tab.id}, which is now the current one")
        return tab

    def _on_page(self, page: "Page") -> None:
        if not self._opening:
            self._arrived.append(page)
            self._page_opened.set()

    def _on_close(self, _: "BrowserContext") -> None:
        self._closed = True
