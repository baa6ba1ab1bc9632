"""One open tab: its page, the watch on its activity, and the snapshot that was shown last."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from agentlearn_web.browser.page_events import PageEvents
from agentlearn_web.browser.page_watch import PageHung, PageWatch, watch_page
from agentlearn_web.browser.paging import SnapshotPage, split_pages
from agentlearn_web.browser.playwright_errors import browser_error, is_timeout
from agentlearn_web.browser.snapshot import parse_snapshot
from agentlearn_web.browser.walk_settings import WalkSettings
from agentlearn_web.observation import ElementLine, TabLine

if TYPE_CHECKING:
    from playwright.async_api import Download, Page

BLANK = "about:blank"
_ERROR_PAGE = "chrome-error:"
_CLOSE_S = 2.0


@dataclass(frozen=True)
class ShownSnapshot:
    """The last shown snapshot of a tab."""

    document: int
    """Number of the tab's document from which it was taken."""
    lines: tuple[ElementLine, ...] = ()
    pages: tuple[SnapshotPage, ...] = (SnapshotPage((), ()),)
    truncated: int = 0
    """Number of characters that were left out at the end."""

    @cached_property
    def refs(self) -> Mapping[str, ElementLine]:
        """The lines that have a ref, by ref."""
        return {line.ref: line for line in self.lines if line.ref}

    def page_of(self, ref: str) -> int:
        """Return the number of the page that contains a ref; 0 if there is none."""
        holds = (n for n, page in enumerate(self.pages, 1) if any(line.ref == ref for line in page.lines))
        return next(holds, 0) if ref else 0

    def page_numbers(self) -> tuple[int, ...]:
        """Return the page number of each line."""
        return tuple(n for n, page in enumerate(self.pages, 1) for _ in page.lines)


@dataclass(slots=True)
class Tab:
    """An open tab. Its id is never used for another tab of the same walk."""

    id: str
    page: "Page"
    watch: PageWatch
    shown: ShownSnapshot | None = None
    page_number: int = 1
    """The page of the snapshot that was shown last."""

    @property
    def is_error_page(self) -> bool:
        """Whether the tab shows the browser's own error page."""
        return self.page.url.startswith(_ERROR_PAGE)

    @property
    def line(self) -> TabLine:
        """The tab as shown in an observation."""
        return TabLine(id=self.id, url=BLANK if self.is_error_page else self.page.url, title=self.watch.title)

    async def snapshot(self, settings: WalkSettings) -> ShownSnapshot:
        """Take a fresh snapshot. Raises PageHung, or Playwright's error if the page is gone."""
        document = self.watch.document
        if self.is_error_page:
            return ShownSnapshot(document)
        if self.watch.text_only is not None:
            lines = (ElementLine(role="text", text=self.watch.text_only),) if self.watch.text_only.strip() else ()
            return ShownSnapshot(document, lines, split_pages(lines, settings.page_chars))
        try:
            text = await self.page.aria_snapshot(mode="ai", timeout=settings.hung_s * 1000)
        except browser_error() as error:
            if is_timeout(error):
                raise PageHung from None
            raise
        kept = text if len(text) <= settings.snapshot_chars else text[: settings.snapshot_chars].rpartition("\n")[0]
        lines = parse_snapshot(kept, self.id, scripted=not self.watch.is_static)
        return ShownSnapshot(document, lines, split_pages(lines, settings.page_chars), len(text) - len(kept))

    async def close(self) -> None:
        """Close the tab, whatever state it is in."""
        with suppress(browser_error(), TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await self.page.close()


async def attach_tab(page: "Page", number: int, events: PageEvents) -> Tab:
    """Create the Tab of a page and listen to its events. Raises Playwright's error if the page is gone."""

    def downloads(download: "Download") -> None:
        events.add("download", "a download was refused", download.suggested_filename)

    page.on("download", downloads)
    tab = Tab(f"t{number}", page, await watch_page(page))

    page.on("crash", lambda _: tab.watch.on_crash())
    return tab
