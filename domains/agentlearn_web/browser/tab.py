"""One open tab: its page, what it does, and what of it was shown last."""

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
    """The snapshot of a tab that was shown last."""

    document: int
    """Which of the tab's documents it is of."""
    lines: tuple[ElementLine, ...] = ()
    pages: tuple[SnapshotPage, ...] = (SnapshotPage((), ()),)
    truncated: int = 0
    """Characters of the snapshot that were left out."""

    @cached_property
    def refs(self) -> Mapping[str, ElementLine]:
        """The lines that can be acted on, by their refs."""
        return {line.ref: line for line in self.lines if line.ref}

    def page_of(self, ref: str) -> int:
        """On which page a ref stands; 0 where it stands on none."""
        holds = (n for n, page in enumerate(self.pages, 1) if any(line.ref == ref for line in page.lines))
        return next(holds, 0) if ref else 0

    def page_numbers(self) -> tuple[int, ...]:
        """For each line the page on which it stands."""
        return tuple(n for n, page in enumerate(self.pages, 1) for _ in page.lines)


@dataclass(slots=True)
class Tab:
    """A tab with a number that no other tab of the walk ever has."""

    id: str
    page: "Page"
    watch: PageWatch
    shown: ShownSnapshot | None = None
    at: int = 1
    """The page of the snapshot that was shown last."""

    @property
    def is_error_page(self) -> bool:
        """Whether it shows the browser's own page about a failure."""
        return self.page.url.startswith(_ERROR_PAGE)

    @property
    def line(self) -> TabLine:
        """The tab as it is listed."""
        return TabLine(id=self.id, url=BLANK if self.is_error_page else self.page.url, title=self.watch.title)

    async def snapshot(self, settings: WalkSettings) -> ShownSnapshot:
        """A fresh snapshot. Raises Hung, and Playwright's errors of a page that is gone."""
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
        """Close it, whatever state it is in."""
        with suppress(browser_error(), TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await self.page.close()


async def attach_tab(page: "Page", number: int, events: PageEvents) -> Tab:
    """A tab for a page. Raises Playwright's errors of a page that is gone."""

    def downloads(download: "Download") -> None:
        events.add("download", "a download was refused", download.suggested_filename)

    page.on("download", downloads)
    tab = Tab(f"t{number}", page, await watch_page(page))

    page.on("crash", lambda _: tab.watch.on_crash())
    return tab
