"""A walk: the acts of one rollout in a browser, one after another, each with a view of what came of it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agentlearn.errors import ConfigError
from agentlearn_web.boundary.access_policy import host_port
from agentlearn_web.boundary.flags import scheme_allowed
from agentlearn_web.browser.act_result import ActResult, many
from agentlearn_web.browser.addresses import meant
from agentlearn_web.browser.element_lookup import not_acted, reached
from agentlearn_web.browser.events import Happened, RefusalLane
from agentlearn_web.browser.faults import browser_error, is_timeout, was_done, why_not_loaded
from agentlearn_web.browser.filling import fill
from agentlearn_web.browser.record import Recorder
from agentlearn_web.browser.settle import Hung
from agentlearn_web.browser.tab import BLANK, ShownSnapshot, Tab
from agentlearn_web.browser.tabs import Tabs
from agentlearn_web.browser.text_search import found_in
from agentlearn_web.browser.walk_settings import WalkSettings
from agentlearn_web.observation import PageObservation

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Locator, Page, Response

__all__ = ["Walk", "WalkSettings"]

_BLOCKED = "this address may not be reached in this walk"
_VIEWS = 4
"""How often a view is tried, as pages can break while they are looked at."""
_FORBIDDEN = frozenset({"private_address", "not_served", "bad_request"})
"""Refusals after which a page's address is said to be blocked; others are a load that failed."""

_Act = Callable[[], Awaitable[ActResult]]


class Walk:
    """A browser's context as a person uses it: tabs, links, fields. Acts wait for each other.

    What cannot be done is an observation with a status, never an exception; only a browser that is gone raises
    BrowserLost. Statuses: `ok`; of refs `unknown_ref`, `foreign_ref`, `stale_ref`; of elements `not_actionable`,
    `not_typable`, `no_option`, `not_submitted`; of addresses `bad_url`, `load_failed`, `blocked`, and `http_404` and
    the like, where the view is the site's error page; of history, pages and tabs `no_history`, `no_more`, `not_found`,
    `unknown_tab`; of pages that break `hung`, `crashed`, `closed`, `timeout`; `not_done` for what has no other name.
    """

    def __init__(
        self,
        context: "BrowserContext",
        lane: RefusalLane,
        settings: WalkSettings | None = None,
        *,
        nonce: str = "",
        record: Path | None = None,
    ) -> None:
        self.settings = settings or WalkSettings()
        self.nonce = nonce
        self._happened = Happened(lane)
        self._recorder = Recorder(context, record)
        self._tabs = Tabs(context, self._happened, self.settings)
        self._lock = asyncio.Lock()
        self._visited: list[str] = []

    @property
    def visited(self) -> tuple[str, ...]:
        """Addresses of the pages that were shown, in order."""
        return tuple(self._visited)

    @property
    def page(self) -> "Page":
        """The page of the current tab."""
        return self._tabs.current.page

    async def begin(self) -> None:
        """Open the first tab. Raises BrowserLost."""
        await self._recorder.begin()
        await self._tabs.begin()

    async def end(self) -> None:
        """Write what was recorded. The context is closed by whoever opened it."""
        await self._recorder.end()

    async def open(self, url: str) -> PageObservation:
        """Open an address in the current tab."""
        return await self._act(lambda: self._open(url))

    async def click(self, ref: str) -> PageObservation:
        """Click an element of the last view of the current tab."""
        return await self._act(lambda: self._click(ref))

    async def type(self, ref: str, text: str, submit: bool = False) -> PageObservation:
        """Put a text into a field, or choose an option of a list by its name or value; then submit, if asked."""
        return await self._act(lambda: self._type(ref, text, submit=submit))

    async def back(self) -> PageObservation:
        """Go back in the history of the current tab."""
        return await self._act(self._back)

    async def tabs(self, select: str | None = None, close: str | None = None) -> PageObservation:
        """View the current tab anew, after closing one tab and going to another, if asked."""
        return await self._act(lambda: self._choose(select, close))

    async def find(self, text: str) -> PageObservation:
        """The lines of the last snapshot that hold a text, whatever its case, each with its page. Asks no browser."""
        async with self._lock:
            self._tabs.living()
            shown = self._tabs.current.shown
            return self._found(shown, text) if shown else await self._viewed(ActResult())

    async def more(self, page: int | None = None) -> PageObservation:
        """Another page of the last snapshot, the next one if none is named. Asks no browser."""
        async with self._lock:
            self._tabs.living()
            tab, shown = self._tabs.current, self._tabs.current.shown
            if shown is None:
                return await self._viewed(ActResult())
            wanted = tab.at + 1 if page is None else page
            if not 1 <= wanted <= len(shown.pages):
                note = f"there is no page {wanted}; the snapshot has {many(len(shown.pages), 'page')}"
                return self._observation(tab, shown, ActResult("no_more", note))
            tab.at = wanted
            return self._observation(tab, shown, ActResult())

    # what every act has in common

    async def _act(self, act: _Act) -> PageObservation:
        async with self._lock:
            self._tabs.living()
            if self._tabs.current.watch.crashed:
                return await self._viewed(await self._tabs.hung())
            try:
                done = await self._within_limit(act)
            except Hung:
                done = await self._tabs.hung()
            except browser_error() as error:
                done = await self._tabs.broken(error)
            return await self._viewed(done)

    async def _within_limit(self, act: _Act) -> ActResult:
        """Do it, and give up what takes too long. Raises Hung and Playwright's errors."""
        try:
            async with asyncio.timeout(self.settings.act_s):
                return await self._followed(act)
        except TimeoutError:
            await self._tabs.current.watch.stop(self.settings)
            note = f"the act did not come to an end within {self.settings.act_s:g} s and was given up"
            return ActResult("timeout", note)

    async def _followed(self, act: _Act) -> ActResult:
        """Do it, wait for what comes of it, and keep to what may be shown. Raises Hung and Playwright's errors."""
        since, windows = time.monotonic(), self._tabs.windows()
        done = await act()
        if done.moved:
            await self._tabs.current.watch.rest(self.settings, since, certain=done.certain)
            await self._tabs.take_in(windows, since)
            await self._tabs.tidy()
        return done

    async def _viewed(self, done: ActResult) -> PageObservation:
        """A fresh view of the current tab."""
        for _ in range(_VIEWS):
            try:
                shown = await self._snapshot(self._tabs.current)
            except Hung:
                done = await self._tabs.hung()
            except browser_error() as error:
                fault = await self._tabs.broken(error)
                done = done if fault.status == "not_done" else fault
            else:
                return await self._show(self._tabs.current, shown, done)
        done = await self._tabs.replaced("not_done", "the browser gave no view of the page")
        return await self._show(self._tabs.current, ShownSnapshot(self._tabs.current.watch.document), done)

    async def _snapshot(self, tab: Tab) -> ShownSnapshot:
        shown = await tab.snapshot(self.settings)
        if tab.watch.document != shown.document:  # it moved on meanwhile
            await tab.watch.rest(self.settings, time.monotonic())
            shown = await tab.snapshot(self.settings)
        return shown

    async def _show(self, tab: Tab, shown: ShownSnapshot, done: ActResult) -> PageObservation:
        seen = tab.shown is not None and tab.shown.document == shown.document
        done = done if seen else self._judged(tab, done)
        tab.at = shown.page_of(done.around) or (min(tab.at, len(shown.pages)) if seen else 1)
        tab.shown = shown
        if shown.truncated:
            self._happened.note("truncated", f"the last {shown.truncated} characters of the page were left out")
        if done.status not in {"blocked", "load_failed"} and tab.page.url.startswith("http"):
            self._remember(tab.page.url)
        await self._recorder.step(tab.page)
        return self._observation(tab, shown, done)

    def _judged(self, tab: Tab, done: ActResult) -> ActResult:
        """How the load of a new document went."""
        if done.status not in {"ok", "load_failed"} or not (tab.failed or tab.watch.status >= 400):
            return done
        if self._is_refused(tab.watch.aim, tab.page.url):
            return ActResult("blocked", _BLOCKED)
        if tab.failed:
            reason = why_not_loaded(Exception(tab.watch.failure))
            return (
                done if done.status == "load_failed" else ActResult("load_failed", f"the page did not load: {reason}")
            )
        return ActResult(f"http_{tab.watch.status}", "the server answered with this code; what it sent is shown below")

    def _is_refused(self, *urls: str) -> bool:
        """Whether the boundary has refused one of these addresses."""
        hosts = {(one.host, one.port) for one in self._happened.refusals() if one.code in _FORBIDDEN}
        return any(_place(url) in hosts for url in urls)

    def _remember(self, url: str) -> None:
        if self._visited[-1:] != [url]:
            self._visited.append(url)

    def _observation(self, tab: Tab, shown: ShownSnapshot, done: ActResult) -> PageObservation:
        return PageObservation(
            status=done.status,
            note=done.note,
            tab=tab.id,
            tabs=self._tabs.lines,
            page=tab.at,
            pages=len(shown.pages),
            lines=shown.pages[tab.at - 1].shown,
            events=self._happened.told(),
        )

    def _found(self, shown: ShownSnapshot, text: str) -> PageObservation:
        tab, found = self._tabs.current, found_in(shown, text)
        first = found[: self.settings.found_lines]
        if len(found) > len(first):
            more = many(len(found) - len(first), "more line")
            self._happened.note("truncated", f"{more} of the page held it; look for something longer")
        done = ActResult() if found else ActResult("not_found", "no line of the page holds this text")
        view = self._observation(tab, shown, done)
        lines, pages = tuple(line for line, _ in first), tuple(page for _, page in first)
        return view.model_copy(update={"lines": lines, "found": pages})

    # the acts

    async def _open(self, url: str) -> ActResult:
        tab = self._tabs.current
        address = meant(url, tab.page.url)
        if address is None:
            note = "no web address; give one that begins with http:// or https://"
            return ActResult("bad_url", note, moved=False)
        return await self._loaded(tab, lambda limit_ms: tab.page.goto(address, wait_until="commit", timeout=limit_ms))

    async def _loaded(self, tab: Tab, load: "Callable[[float], Awaitable[Response | None]]") -> ActResult:
        """How a load went that was asked for."""
        try:
            await load(self.settings.load_s * 1000)
        except browser_error() as error:
            if tab.page.is_closed() or not self._tabs.is_alive():
                raise
            if is_timeout(error):
                await tab.watch.stop(self.settings)
            if "interrupted by another navigation" in str(error):
                return ActResult()
            if self._is_refused(tab.watch.aim):
                return ActResult("blocked", _BLOCKED)
            return ActResult("load_failed", f"the page did not load: {why_not_loaded(error)}")
        return ActResult()

    async def _click(self, ref: str) -> ActResult:
        element = await self._reached(ref)
        if isinstance(element, ActResult):
            return element
        try:
            await element.click(timeout=self.settings.action_s * 1000)
        except browser_error() as error:
            if not was_done(error):
                return not_acted(error, ref)
        return ActResult(around=ref)

    async def _type(self, ref: str, text: str, *, submit: bool) -> ActResult:
        element = await self._reached(ref)
        if isinstance(element, ActResult):
            return element
        try:
            filled = await fill(element, text, submit=submit, limit_s=self.settings.action_s)
        except browser_error() as error:
            return not_acted(error, ref)
        return replace(filled, around=ref)

    async def _reached(self, ref: str) -> "Locator | ActResult":
        return await reached(self._tabs.current, ref, self._tabs, self.settings)

    async def _back(self) -> ActResult:
        """Back to the last address in the history that may be shown."""
        tab = self._tabs.current
        history = await tab.watch.session.send("Page.getNavigationHistory")
        before = history["entries"][: history["currentIndex"]]
        shown = [one for one in before if one["url"] != BLANK and scheme_allowed(one["url"])]
        if not shown:
            return ActResult("no_history", "there is no page before this one in this tab", moved=False)
        if shown[-1] is not before[-1]:
            await tab.watch.session.send("Page.navigateToHistoryEntry", {"entryId": shown[-1]["id"]})
            return ActResult(certain=False)
        return await self._loaded(tab, lambda limit_ms: tab.page.go_back(wait_until="commit", timeout=limit_ms))

    async def _choose(self, select: str | None, close: str | None) -> ActResult:
        for named in (close, select):
            if named is not None and named not in self._tabs:
                known = ", ".join(one.id for one in self._tabs)
                return ActResult("unknown_tab", f"no such tab is open; open are {known}", moved=False)
        if close is not None:
            await self._tabs.close(close)
        if select is not None and select == close:
            return ActResult("unknown_tab", "the tab to go to was closed", moved=False)
        if select is not None:
            self._tabs.select(select)
        return ActResult()


def _place(url: str) -> tuple[str, int] | None:
    try:
        return host_port(url)
    except ConfigError:
        return None
