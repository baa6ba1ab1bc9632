"""The open tabs of a walk: the current one, windows that pages open, broken tabs, and pages that must not be shown."""

import asyncio
import re
import time
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from agentlearn_web.boundary.access_policy import scheme_allowed
from agentlearn_web.browser.page_watch import BrowserLink, PageWatch
from agentlearn_web.browser.pdf import PdfPage
from agentlearn_web.browser.shown_snapshot import PagedLine, ShownSnapshot, parse_snapshot
from agentlearn_web.browser.walk_settings import (
    ActResult,
    BrowserLost,
    Dialogs,
    PageEvents,
    WalkSettings,
    browser_error,
    is_timeout,
    plural,
)
from agentlearn_web.observation import TabLine
from agentlearn_web.reading.page_text import PageText, TextBlock, TextRun, dense
from agentlearn_web.scripts import page_script

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Download, Page

BLANK = "about:blank"
_ERROR_PAGE = "chrome-error:"
_CLOSE_S = 2.0
_FRAMES_S = 2.0
_FRESH_S = 0.2
"""A page that answered the probe this short a time ago is not asked again whether it is alive."""
_BOX = re.compile(r" \[box=[-\d,]+\]")
"""Where an element lies, as a snapshot says it. Left out of snapshots that are too long."""
_FEW_ELEMENTS = 3_000
"""A page with no more elements is read at once, without a turn."""
_LONG_CHARS = 30_000
"""A longer snapshot is parsed in a thread, so that other walks go on meanwhile."""


@dataclass(slots=True)
class Tab:
    """An open tab. Its id is never used for another tab of the same walk."""

    id: str
    page: "Page"
    watch: PageWatch
    shown: ShownSnapshot | None = None
    page_number: int = 1
    """The page of the snapshot that was shown last."""
    opened: tuple[PagedLine, ...] = ()
    """What the last act has opened on other pages of the snapshot, until it is shown."""
    pdf: PdfPage | None = None
    """The PDF file that is shown in place of the page."""
    pdf_link: tuple[str, str] | None = None
    """Address and name of a PDF file that the page has led to."""

    @property
    def is_error_page(self) -> bool:
        """Whether the tab shows the browser's own error page."""
        return self.page.url.startswith(_ERROR_PAGE)

    @property
    def url(self) -> str:
        """Address of what the tab shows."""
        return self.pdf.url if self.pdf is not None else BLANK if self.is_error_page else self.page.url

    @property
    def line(self) -> TabLine:
        """The tab as shown in an observation."""
        return TabLine(id=self.id, url=self.url, title=self.pdf.title if self.pdf is not None else self.watch.title)

    async def snapshot(self) -> ShownSnapshot:
        """Take a fresh snapshot. Raises PageHung, or Playwright's error if the page is gone.

        Waits for a turn among the walks of the browser if the page is long. If the browser gives no snapshot in time,
        the text of the page is shown.
        """
        document = self.watch.document
        if self.pdf is not None:
            return ShownSnapshot.of_text(document, self.pdf.text, self.watch.settings.page_chars)
        if self.is_error_page:
            return ShownSnapshot(document)
        if (alone := self.watch.text_only) is not None:
            text = PageText((TextBlock((TextRun(alone),), pre=1),) if alone.strip() else ())
            return ShownSnapshot.of_text(document, text, self.watch.settings.page_chars)
        if time.monotonic() - self.watch.probed_at > _FRESH_S:
            await self.watch.require_alive()
        is_small = self.watch.elements <= _FEW_ELEMENTS
        waits = not is_small and self.watch.link.turns.locked()
        async with nullcontext() if is_small else self.watch.link.turns:
            if waits:
                await self.watch.require_alive()
            changes = self.watch.changes
            text, elements = await self._read()
        if elements is None:
            return ShownSnapshot.of_text(document, text, self.watch.settings.page_chars, changes=changes)
        scripted = not self.watch.is_static

        def compose() -> ShownSnapshot:
            whole, most = elements, self.watch.settings.snapshot_chars
            if len(elements) > most:
                whole = _BOX.sub("", elements)
            kept = whole if len(whole) <= most else whole[:most].rpartition("\n")[0]  # as many whole lines as fit
            lines = parse_snapshot(kept, self.id, scripted=scripted, editors=text.editors, gone=text.gone)
            every_ref = (
                parse_snapshot(kept, self.id, every_ref=True, editors=text.editors, gone=text.gone)
                if text.needs_every_ref
                else ()
            )
            return ShownSnapshot.compose(
                document,
                lines,
                text,
                self.watch.settings.page_chars,
                truncated=len(whole) - len(kept),
                changes=changes,
                every_ref=every_ref,
                tab=self.id,
            )

        return await asyncio.to_thread(compose) if len(elements) > _LONG_CHARS else compose()

    async def has_changed(self, shown: ShownSnapshot) -> bool:
        """Return whether the page may differ from a snapshot. Changes in frames are not observed. Raises PageHung."""
        if self.is_error_page or self.pdf is not None:
            return shown.document != self.watch.document
        return await self.watch.has_changed(shown.document, shown.changes) or shown.text.partial

    async def _read(self) -> tuple[PageText, str | None]:
        """Return the text of the page, and Playwright's snapshot. Raises PageHung.

        Both are asked for at once: the browser makes the snapshot while the text is parsed.
        """
        text, elements = asyncio.ensure_future(self._text()), asyncio.ensure_future(self._elements())
        try:
            found, snapshot = await text, await elements
            found = found if len(self.page.frames) < 2 else await self._with_frame_fields(found)
            return found, snapshot
        finally:
            text.cancel()
            elements.cancel()
            await asyncio.gather(text, elements, return_exceptions=True)

    async def _text(self) -> PageText:
        """Return the text of the page; empty if it could not be read. Raises PageHung."""
        try:
            return await self.watch.read_text()
        except TimeoutError:
            await self.watch.require_alive()
        except browser_error():
            if self.page.is_closed() or self.watch.crashed:
                raise
        return PageText(secrets=None)

    async def _with_frame_fields(self, text: PageText) -> PageText:
        """Return the text with the password fields and editors of frames, whose elements the snapshot has too."""
        secrets, editors = set(text.secrets or ()), set(text.editors)
        try:
            async with asyncio.timeout(_FRAMES_S):
                for frame in self.page.frames[1:]:
                    found: object = await frame.evaluate(page_script("frame_fields"))
                    hidden, boxes = cast("tuple[list[str], list[str]]", found)
                    secrets.update(dense(str(one)) for one in hidden)
                    editors.update(map(str, boxes))
        except (TimeoutError, TypeError, ValueError, browser_error()):
            return replace(text, secrets=None)
        return replace(text, secrets=None if text.secrets is None else frozenset(secrets), editors=frozenset(editors))

    async def _elements(self) -> str | None:
        """Return Playwright's snapshot, which says where each element lies. Raises PageHung.

        None if it would take too long, or there was none in time.
        """
        if self.watch.elements > self.watch.settings.snapshot_elements:
            return None
        try:
            return await self.page.aria_snapshot(mode="ai", boxes=True, timeout=self.watch.settings.snapshot_s * 1000)
        except browser_error() as error:
            if self.page.is_closed() or self.watch.crashed:
                raise
            if is_timeout(error):
                await self.watch.require_alive()
        return None

    async def close(self) -> None:
        """Close the tab, whatever state it is in."""
        with suppress(browser_error(), TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await self.page.close()


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
            tab = await self._attach(page, self._numbers)
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

    async def _attach(self, page: "Page", number: int) -> Tab:
        """Create the Tab of a page and listen to its events. Raises Playwright's error if the page is gone."""
        tab = Tab(f"t{number}", page, await PageWatch.start(page, self._link, self._settings))

        def downloads(download: "Download") -> None:
            name = download.suggested_filename
            if PdfPage.is_one(download.url, name):
                tab.pdf_link = (download.url, name)
            else:
                self._events.add("download", "a download was refused", name)

        page.on("download", downloads)
        page.on("crash", lambda _: tab.watch.on_crash())
        return tab

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
        crashed = self.current.watch.crashed
        return await self.replace_current(*(("crashed", "the page crashed") if crashed else ("hung", "the page hung")))

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
        until = time.monotonic() + _POPUP_S
        while self.windows() - windows > len(self._arrived) and (left_s := until - time.monotonic()) > 0:
            self._page_opened.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._page_opened.wait()
        has_url = any(url and url != BLANK for url in self._requested_windows()[windows:])
        first = None
        while self._arrived:
            tab = await self._add_window(self._arrived.pop(0))
            first = first or tab
        if first is not None:
            self._current = first.id
            if has_url:
                await first.watch.wait_for_document()
            await first.watch.wait_until_settled(since)

    async def tidy(self) -> None:
        """Remove closed tabs from the list, and leave pages whose address may not be shown."""
        for tab in tuple(self):
            if tab.page.is_closed():
                self._events.add("closed", f"the tab {tab.id} was closed by its page")
                await self.forget(tab.id)
            elif not tab.is_error_page and not scheme_allowed(tab.page.url or BLANK):
                self._events.add("blocked", "a page led to an address that is not of the web", tab.page.url)
                try:
                    await tab.page.goto(BLANK, timeout=self._settings.action_s * 1000)
                except browser_error():
                    await self.close(tab.id)

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

    async def _add_window(self, page: "Page") -> Tab | None:
        if len(self) >= self._settings.tabs:
            self._events.add("closed", f"a further window was closed at once: {plural(len(self), 'tab')} are open")
            with suppress(browser_error()):
                await page.close()
            return None
        try:
            tab = await self._attach(page, self._numbers + 1)
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
