"""One open tab: its page, the watch on its activity, and the snapshot that was shown last."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from agentlearn_web.browser.liveness import BrowserLink, browser_error, is_timeout
from agentlearn_web.browser.page_events import PageEvents
from agentlearn_web.browser.page_watch import PageWatch, watch_page
from agentlearn_web.browser.pdf_page import PdfPage, is_pdf
from agentlearn_web.browser.shown_snapshot import ShownSnapshot, compose_snapshot, needs_every_ref, text_snapshot
from agentlearn_web.browser.snapshot import parse_snapshot
from agentlearn_web.browser.walk_settings import WalkSettings
from agentlearn_web.observation import TabLine
from agentlearn_web.reading.page_text import PageText, TextBlock, TextRun, dense

if TYPE_CHECKING:
    from playwright.async_api import Download, Page

BLANK = "about:blank"
_ERROR_PAGE = "chrome-error:"
_CLOSE_S = 2.0
_FRAMES_S = 2.0
_FRAME_SECRETS = """() => [...document.querySelectorAll("input")].filter((one) => one.type === "password"
  || !/^(none|)$/.test(getComputedStyle(one).webkitTextSecurity ?? "")).map((one) => one.value)"""
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

    async def snapshot(self, settings: WalkSettings) -> ShownSnapshot:
        """Take a fresh snapshot. Raises PageHung, or Playwright's error if the page is gone.

        Waits for a turn among the walks of the browser. If the browser gives no snapshot in time, the text of the page
        is shown.
        """
        document = self.watch.document
        if self.pdf is not None:
            return text_snapshot(document, self.pdf.text, settings.page_chars)
        if self.is_error_page:
            return ShownSnapshot(document)
        if (alone := self.watch.text_only) is not None:
            text = PageText((TextBlock((TextRun(alone),), pre=1),) if alone.strip() else ())
            return text_snapshot(document, text, settings.page_chars)
        await self.watch.require_alive(settings)
        waits = self.watch.link.turns.locked()
        async with self.watch.link.turns:
            if waits:
                await self.watch.require_alive(settings)
            changes = self.watch.changes
            text, elements = await self._read(settings)
        if elements is None:
            return text_snapshot(document, text, settings.page_chars, changes=changes)
        scripted = not self.watch.is_static

        def compose() -> ShownSnapshot:
            kept = _cut(elements, settings.snapshot_chars)
            lines = parse_snapshot(kept, self.id, scripted=scripted)
            every_ref = parse_snapshot(kept, self.id, every_ref=True) if needs_every_ref(text) else ()
            return compose_snapshot(
                document,
                lines,
                text,
                settings.page_chars,
                truncated=len(elements) - len(kept),
                changes=changes,
                every_ref=every_ref,
            )

        return await asyncio.to_thread(compose) if len(elements) > _LONG_CHARS else compose()

    async def has_changed(self, shown: ShownSnapshot, settings: WalkSettings) -> bool:
        """Return whether the page may differ from a snapshot. Changes in frames are not observed. Raises PageHung."""
        if self.is_error_page or self.pdf is not None:
            return shown.document != self.watch.document
        return await self.watch.has_changed(shown.document, shown.changes, settings) or shown.text.partial

    async def _read(self, settings: WalkSettings) -> tuple[PageText, str | None]:
        """Return the text of the page, and Playwright's snapshot. Raises PageHung.

        Both are asked for at once: the browser makes the snapshot while the text is parsed.
        """
        text, elements = asyncio.ensure_future(self._text(settings)), asyncio.ensure_future(self._elements(settings))
        try:
            found, snapshot = await text, await elements
            return (found if len(self.page.frames) < 2 else await self._with_frame_secrets(found)), snapshot
        finally:
            text.cancel()
            elements.cancel()
            await asyncio.gather(text, elements, return_exceptions=True)

    async def _text(self, settings: WalkSettings) -> PageText:
        """Return the text of the page; empty if it could not be read. Raises PageHung."""
        try:
            return await self.watch.read_text(settings)
        except TimeoutError:
            await self.watch.require_alive(settings)
        except browser_error():
            if self.page.is_closed() or self.watch.crashed:
                raise
        return PageText(secrets=None)

    async def _with_frame_secrets(self, text: PageText) -> PageText:
        """Return the text with what stands in the password fields of frames, whose elements the snapshot has too."""
        secrets = set(text.secrets or ())
        try:
            async with asyncio.timeout(_FRAMES_S):
                for frame in self.page.frames[1:]:
                    found: object = await frame.evaluate(_FRAME_SECRETS)
                    secrets.update(dense(str(one)) for one in cast("list[object]", found) if one)
        except (TimeoutError, TypeError, browser_error()):
            return replace(text, secrets=None)
        return text if text.secrets is None else replace(text, secrets=frozenset(secrets))

    async def _elements(self, settings: WalkSettings) -> str | None:
        """Return Playwright's snapshot; None if it would take too long, or there was none in time. Raises PageHung."""
        if self.watch.elements > settings.snapshot_elements:
            return None
        try:
            return await self.page.aria_snapshot(mode="ai", timeout=settings.snapshot_s * 1000)
        except browser_error() as error:
            if self.page.is_closed() or self.watch.crashed:
                raise
            if is_timeout(error):
                await self.watch.require_alive(settings)
        return None

    async def close(self) -> None:
        """Close the tab, whatever state it is in."""
        with suppress(browser_error(), TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await self.page.close()


def _cut(snapshot: str, most: int) -> str:
    """Return as many whole lines of a snapshot as fit."""
    return snapshot if len(snapshot) <= most else snapshot[:most].rpartition("\n")[0]


async def attach_tab(page: "Page", number: int, events: PageEvents, link: BrowserLink) -> Tab:
    """Create the Tab of a page and listen to its events. Raises Playwright's error if the page is gone."""

    tab = Tab(f"t{number}", page, await watch_page(page, link))

    def downloads(download: "Download") -> None:
        name = download.suggested_filename
        if is_pdf(download.url, name):
            tab.pdf_link = (download.url, name)
        else:
            events.add("download", "a download was refused", name)

    page.on("download", downloads)

    page.on("crash", lambda _: tab.watch.on_crash())
    return tab
