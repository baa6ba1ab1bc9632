"""A walk: the acts of one rollout in a browser, one after the other, each followed by a view of the page."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agentlearn.errors import ConfigError
from agentlearn_web.boundary.access_policy import HostPort, host_port
from agentlearn_web.boundary.flags import scheme_allowed
from agentlearn_web.browser.act_result import ActResult, plural
from agentlearn_web.browser.element_lookup import failed_action, find_element
from agentlearn_web.browser.fill_field import fill_field
from agentlearn_web.browser.page_events import PageEvents, RefusalSource
from agentlearn_web.browser.page_watch import PageHung
from agentlearn_web.browser.playwright_errors import browser_error, click_was_done, is_timeout, load_failure_reason
from agentlearn_web.browser.site_check import require_sites
from agentlearn_web.browser.tab import BLANK, ShownSnapshot, Tab
from agentlearn_web.browser.tabs import Tabs
from agentlearn_web.browser.text_search import search_snapshot
from agentlearn_web.browser.url_input import resolve_url
from agentlearn_web.browser.walk_recorder import WalkRecorder
from agentlearn_web.browser.walk_settings import WalkSettings
from agentlearn_web.observation import PageObservation

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Locator, Page, Response

__all__ = ["Walk", "WalkSettings"]

_BLOCKED = "this address may not be reached in this walk"
_VIEW_TRIES = 4
"""How often a view is attempted, because a page can break while its snapshot is taken."""
_BLOCKED_CODES = frozenset({"private_address", "not_served", "bad_request"})
"""Refusal codes that give the status `blocked`. Other refusals give `load_failed`."""

_Action = Callable[[], Awaitable[ActResult]]


class Walk:
    """The acts that a model can do in a browser context. Acts run one at a time.

    An act that cannot be done returns an observation with a status. Only a lost browser or a lost site of this run
    raises an error, BrowserLost or SiteLost.

    Statuses: `ok`; for refs `unknown_ref`, `foreign_ref`, `stale_ref`; for elements `not_actionable`, `not_typable`,
    `no_option`, `not_submitted`; for addresses `bad_url`, `load_failed`, `blocked`, and codes such as `http_404`, where
    the site's error page is shown; for history, pages and tabs `no_history`, `no_more`, `not_found`, `unknown_tab`; for
    broken pages `hung`, `crashed`, `closed`, `timeout`; `not_done` for everything else.
    """

    def __init__(
        self,
        context: "BrowserContext",
        refusals: RefusalSource,
        settings: WalkSettings | None = None,
        *,
        nonce: str = "",
        record: Path | None = None,
        served: Mapping[str, HostPort] | None = None,
    ) -> None:
        """Make a walk. served: the sites that this run serves, each with its loopback address."""
        self._served = served or {}
        self.settings = settings or WalkSettings()
        self.nonce = nonce
        self._events = PageEvents(refusals)
        self._recorder = WalkRecorder(context, record)
        self._tabs = Tabs(context, self._events, self.settings)
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
        """Save the recording. The caller closes the context."""
        await self._recorder.end()

    async def open(self, url: str) -> PageObservation:
        """Open an address in the current tab."""
        return await self._act(lambda: self._open(url))

    async def click(self, ref: str) -> PageObservation:
        """Click an element that was shown in the last view of the current tab."""
        return await self._act(lambda: self._click(ref))

    async def type(self, ref: str, text: str, submit: bool = False) -> PageObservation:
        """Fill a field, or choose a list option by its name or value; then submit the form if `submit` is set."""
        return await self._act(lambda: self._type(ref, text, submit=submit))

    async def back(self) -> PageObservation:
        """Go back in the history of the current tab."""
        return await self._act(self._back)

    async def tabs(self, select: str | None = None, close: str | None = None) -> PageObservation:
        """Close one tab and select another, if given, and show the current tab."""
        return await self._act(lambda: self._choose_tabs(select, close))

    async def find(self, text: str) -> PageObservation:
        """Show the lines of the last snapshot that contain a text, with their pages. Does not use the browser."""
        async with self._lock:
            self._tabs.require_browser()
            shown = self._tabs.current.shown
            return self._search_result(shown, text) if shown else await self._view(ActResult())

    async def more(self, page: int | None = None) -> PageObservation:
        """Show another page of the last snapshot, by default the next one. Does not use the browser."""
        async with self._lock:
            self._tabs.require_browser()
            tab, shown = self._tabs.current, self._tabs.current.shown
            if shown is None:
                return await self._view(ActResult())
            wanted = tab.page_number + 1 if page is None else page
            if not 1 <= wanted <= len(shown.pages):
                note = f"there is no page {wanted}; the snapshot has {plural(len(shown.pages), 'page')}"
                return self._observation(tab, shown, ActResult("no_more", note))
            tab.page_number = wanted
            return self._observation(tab, shown, ActResult())

    # shared by all acts

    async def _act(self, act: _Action) -> PageObservation:
        async with self._lock:
            self._tabs.require_browser()
            if self._tabs.current.watch.crashed:
                return await self._view(await self._tabs.replace_hung())
            try:
                result = await self._act_within_limit(act)
            except PageHung:
                result = await self._tabs.replace_hung()
            except browser_error() as error:
                result = await self._tabs.handle_error(error)
            return await self._view(result)

    async def _act_within_limit(self, act: _Action) -> ActResult:
        """Run an act, and abandon it after the time limit. Raises PageHung and Playwright's errors."""
        try:
            async with asyncio.timeout(self.settings.act_s):
                return await self._act_and_settle(act)
        except TimeoutError:
            await self._tabs.current.watch.stop(self.settings)
            note = f"the act did not come to an end within {self.settings.act_s:g} s and was given up"
            return ActResult("timeout", note)

    async def _act_and_settle(self, act: _Action) -> ActResult:
        """Run an act, wait until the page has settled, and update the tabs. Raises PageHung and Playwright's errors."""
        since, windows = time.monotonic(), self._tabs.windows()
        result = await act()
        if result.acted:
            await self._tabs.current.watch.wait_until_settled(
                self.settings, since, effects_started=result.effects_started
            )
            await self._tabs.add_windows(windows, since)
            await self._tabs.tidy()
        return result

    async def _view(self, result: ActResult) -> PageObservation:
        """Return a fresh view of the current tab."""
        for _ in range(_VIEW_TRIES):
            try:
                shown = await self._snapshot(self._tabs.current)
            except PageHung:
                result = await self._tabs.replace_hung()
            except browser_error() as error:
                fault = await self._tabs.handle_error(error)
                result = result if fault.status == "not_done" else fault
            else:
                return await self._show(self._tabs.current, shown, result)
        result = await self._tabs.replace_current("not_done", "the browser gave no view of the page")
        return await self._show(self._tabs.current, ShownSnapshot(self._tabs.current.watch.document), result)

    async def _snapshot(self, tab: Tab) -> ShownSnapshot:
        shown = await tab.snapshot(self.settings)
        if tab.watch.document != shown.document:  # the page navigated in the meantime
            await tab.watch.wait_until_settled(self.settings, time.monotonic())
            shown = await tab.snapshot(self.settings)
        return shown

    async def _show(self, tab: Tab, shown: ShownSnapshot, result: ActResult) -> PageObservation:
        same_document = tab.shown is not None and tab.shown.document == shown.document
        result = result if same_document else self._with_load_status(tab, result)
        tab.page_number = shown.page_of(result.near_ref) or (
            min(tab.page_number, len(shown.pages)) if same_document else 1
        )
        tab.shown = shown
        if shown.truncated:
            self._events.add("truncated", f"the last {shown.truncated} characters of the page were left out")
        if result.status not in {"blocked", "load_failed"} and tab.page.url.startswith("http"):
            self._remember(tab.page.url)
        await self._recorder.step(tab.page)
        await require_sites(self._events.refusals(), self._served)
        return self._observation(tab, shown, result)

    def _with_load_status(self, tab: Tab, result: ActResult) -> ActResult:
        """Return the result of the act, with a load failure or HTTP error of the new document."""
        if result.status not in {"ok", "load_failed"} or not (tab.is_error_page or tab.watch.status >= 400):
            return result
        if self._is_refused(tab.watch.target_url, tab.page.url):
            return ActResult("blocked", _BLOCKED)
        if tab.is_error_page:
            reason = load_failure_reason(Exception(tab.watch.failure))
            return (
                result
                if result.status == "load_failed"
                else ActResult("load_failed", f"the page did not load: {reason}")
            )
        return ActResult(f"http_{tab.watch.status}", "the server answered with this code; what it sent is shown below")

    def _is_refused(self, *urls: str) -> bool:
        """Return whether the proxy has refused one of these addresses."""
        hosts = {(one.host, one.port) for one in self._events.refusals() if one.code in _BLOCKED_CODES}
        return any(_host_port_of(url) in hosts for url in urls)

    def _remember(self, url: str) -> None:
        if self._visited[-1:] != [url]:
            self._visited.append(url)

    def _observation(self, tab: Tab, shown: ShownSnapshot, result: ActResult) -> PageObservation:
        return PageObservation(
            status=result.status,
            note=result.note,
            tab=tab.id,
            tabs=self._tabs.lines,
            page=tab.page_number,
            pages=len(shown.pages),
            lines=shown.pages[tab.page_number - 1].shown,
            events=self._events.drain(),
        )

    def _search_result(self, shown: ShownSnapshot, text: str) -> PageObservation:
        tab, found = self._tabs.current, search_snapshot(shown, text)
        first = found[: self.settings.found_lines]
        if len(found) > len(first):
            more = plural(len(found) - len(first), "more line")
            self._events.add("truncated", f"{more} of the page held it; look for something longer")
        result = ActResult() if found else ActResult("not_found", "no line of the page holds this text")
        view = self._observation(tab, shown, result)
        lines, pages = tuple(line for line, _ in first), tuple(page for _, page in first)
        return view.model_copy(update={"lines": lines, "found": pages})

    # the acts

    async def _open(self, url: str) -> ActResult:
        tab = self._tabs.current
        address = resolve_url(url, tab.page.url)
        if address is None:
            note = "no web address; give one that begins with http:// or https://"
            return ActResult("bad_url", note, acted=False)
        return await self._navigate(tab, lambda limit_ms: tab.page.goto(address, wait_until="commit", timeout=limit_ms))

    async def _navigate(self, tab: Tab, load: "Callable[[float], Awaitable[Response | None]]") -> ActResult:
        """Run a navigation and classify its result."""
        try:
            await load(self.settings.load_s * 1000)
        except browser_error() as error:
            if tab.page.is_closed() or not self._tabs.is_alive():
                raise
            if is_timeout(error):
                await tab.watch.stop(self.settings)
            if "interrupted by another navigation" in str(error):
                return ActResult()
            if self._is_refused(tab.watch.target_url):
                return ActResult("blocked", _BLOCKED)
            return ActResult("load_failed", f"the page did not load: {load_failure_reason(error)}")
        return ActResult()

    async def _click(self, ref: str) -> ActResult:
        element = await self._find_element(ref)
        if isinstance(element, ActResult):
            return element
        try:
            await element.click(timeout=self.settings.action_s * 1000)
        except browser_error() as error:
            if not click_was_done(error):
                return failed_action(error, ref)
        return ActResult(near_ref=ref)

    async def _type(self, ref: str, text: str, *, submit: bool) -> ActResult:
        element = await self._find_element(ref)
        if isinstance(element, ActResult):
            return element
        try:
            filled = await fill_field(element, text, submit=submit, limit_s=self.settings.action_s)
        except browser_error() as error:
            return failed_action(error, ref)
        return replace(filled, near_ref=ref)

    async def _find_element(self, ref: str) -> "Locator | ActResult":
        return await find_element(self._tabs.current, ref, self._tabs, self.settings)

    async def _back(self) -> ActResult:
        """Go back to the last address in the history that may be shown."""
        tab = self._tabs.current
        history = await tab.watch.cdp.send("Page.getNavigationHistory")
        before = history["entries"][: history["currentIndex"]]
        shown = [one for one in before if one["url"] != BLANK and scheme_allowed(one["url"])]
        if not shown:
            return ActResult("no_history", "there is no page before this one in this tab", acted=False)
        if shown[-1] is not before[-1]:
            await tab.watch.cdp.send("Page.navigateToHistoryEntry", {"entryId": shown[-1]["id"]})
            return ActResult(effects_started=False)
        return await self._navigate(tab, lambda limit_ms: tab.page.go_back(wait_until="commit", timeout=limit_ms))

    async def _choose_tabs(self, select: str | None, close: str | None) -> ActResult:
        for named in (close, select):
            if named is not None and named not in self._tabs:
                known = ", ".join(one.id for one in self._tabs)
                return ActResult("unknown_tab", f"no such tab is open; open are {known}", acted=False)
        if close is not None:
            await self._tabs.close(close)
        if select is not None and select == close:
            return ActResult("unknown_tab", "the tab to go to was closed", acted=False)
        if select is not None:
            self._tabs.select(select)
        return ActResult()


def _host_port_of(url: str) -> tuple[str, int] | None:
    try:
        return host_port(url)
    except ConfigError:
        return None
