"""A walk: the acts of one rollout in a browser, one after the other, each followed by a view of the page.

A trace contains every request with its cookies. So a walk that starts with a session leaves no trace, only screenshots.
"""

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agentlearn.errors import ToolLost
from agentlearn.text.log import get_log
from agentlearn_web.boundary.access_policy import HostPort, ProxySession
from agentlearn_web.browser.acts.fields import FieldActs
from agentlearn_web.browser.acts.navigation import BLOCKED, NavigationActs, Screenshot
from agentlearn_web.browser.acts.pointer import ClickKind, PointerActs
from agentlearn_web.browser.page_reader import PageReader
from agentlearn_web.browser.page_watch import BrowserLink, PageHung
from agentlearn_web.browser.shown_snapshot import PagedLine, ShownSnapshot
from agentlearn_web.browser.tabs import Tab, Tabs
from agentlearn_web.browser.walk_settings import (
    ActResult,
    PageEvents,
    TaskFile,
    WalkSettings,
    browser_error,
    load_failure_reason,
    refusal_reason,
)
from agentlearn_web.observation import NEW, PageObservation

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page

__all__ = ["Walk", "WalkSettings"]

_CONNECT_S = 5.0


class _SiteLost(ToolLost):
    """Raised when a site that this run serves no longer answers. The walk itself did nothing wrong."""

    code = "site_lost"


_TRACE = "trace.zip"
_LEAST_FREE_BYTES = 500_000_000
"""With less free space on the disk, nothing more is recorded."""
_SCREENSHOT_S = 5.0
_TRACE_S = 30.0


class _WalkRecorder:
    """Writes `step-01.png`, … and `trace.zip` into a folder. Without a folder it does nothing."""

    def __init__(self, context: "BrowserContext", folder: Path | None) -> None:
        self._context = context
        self._folder = folder
        self._steps = 0
        self._tracing = False
        self._full = False
        self.lost = False
        """Whether the browser was gone before everything was saved."""

    async def begin(self) -> None:
        """Create the folder and start the trace."""
        if self._folder is None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if await self._has_session():
                return
            await self._context.tracing.start(screenshots=True, snapshots=True, sources=False)
            self._tracing = True
        except (OSError, browser_error()) as error:
            self._log_failure(error)

    async def step(self, page: "Page") -> None:
        """Save a screenshot of the page."""
        if self._folder is None:
            return
        self._steps += 1
        if not self._has_room():
            return
        try:
            async with asyncio.timeout(2 * _SCREENSHOT_S):
                screenshot = await page.screenshot(timeout=_SCREENSHOT_S * 1000)
            (self._folder / f"step-{self._steps:02}.png").write_bytes(screenshot)
        except (OSError, TimeoutError, browser_error()) as error:
            self._log_failure(error)

    async def end(self) -> None:
        """Stop and save the trace."""
        if not self._tracing or self._folder is None or not self._has_room():
            return
        self._tracing = False
        try:
            async with asyncio.timeout(_TRACE_S):
                await self._context.tracing.stop(path=self._folder / _TRACE)
        except (OSError, TimeoutError, browser_error()) as error:
            self._log_failure(error)
            with suppress(OSError):
                (self._folder / _TRACE).unlink()

    async def _has_session(self) -> bool:
        """Return whether the walk starts with cookies or local storage. Raises Playwright's errors."""
        state = await self._context.storage_state()
        return bool(state.get("cookies") or state.get("origins"))

    def _has_room(self) -> bool:
        """Return whether the disk has room for more, so that a recording never fills the disk of its run."""
        assert self._folder is not None
        try:
            free = shutil.disk_usage(self._folder).free
        except OSError as error:
            self._log_failure(error)
            return False
        if free < _LEAST_FREE_BYTES and not self._full:
            self._full = True
            self._log_failure(OSError(f"the disk has less than {_LEAST_FREE_BYTES // 10**6} MB left"))
        return free >= _LEAST_FREE_BYTES

    def _log_failure(self, error: Exception) -> None:
        """Log why something was not saved. A lost browser loses many recordings at once, so it is not logged here."""
        if any(words in str(error) for words in ("has been closed", "Connection closed")):
            self.lost = True
            return
        get_log().warning("recording.failed", folder=str(self._folder), reason=str(error).partition("\n")[0])


class _Acts(NavigationActs, FieldActs, PointerActs):
    """All acts of a walk. Each returns an ActResult."""


_VIEW_TRIES = 4
"""How often a view is attempted, because a page can break while its snapshot is taken."""

_MOST_NEW = 0.8
"""Largest part of the lines that are marked as new."""
_NOTHING_NEW = (
    "the page was scrolled and shows nothing new; a view has all of the page, so `more` shows the part after this one"
)
_Action = Callable[[], Awaitable[ActResult]]


class Walk:
    """The acts that a model can do in a browser context. Acts run one at a time.

    An act that cannot be done returns an observation with a status. Only a lost browser or a lost site of this run
    raises an error, BrowserLost or ToolLost with the code `site_lost`.

    Statuses: `ok`; for refs `unknown_ref`, `foreign_ref`, `stale_ref`; for elements `not_actionable`, `not_typable`,
    `no_option`, `no_list`, `not_submitted`; for keys `unknown_key`, `refused_key`; for clicks `bad_click`;
    for scrolling `bad_direction`, `nothing_new`, `no_more`; for files `no_file`, `not_uploadable`; for addresses
    `bad_url`, `load_failed`, `blocked`, and codes such as `http_404`, where the site's error page is shown; for
    history, pages and tabs `no_history`, `no_more`, `not_found`, `bad_pattern`, `bad_wait`, `bad_pdf`, `unknown_tab`;
    for broken pages `hung`, `crashed`, `closed`, `timeout`; `not_done` for everything else.
    """

    def __init__(
        self,
        context: "BrowserContext",
        refusals: ProxySession,
        settings: WalkSettings | None = None,
        *,
        record: Path | None = None,
        served: Mapping[str, HostPort] | None = None,
        files: Mapping[str, TaskFile] | None = None,
        link: BrowserLink | None = None,
    ) -> None:
        """Make a walk.

        served: the sites that this run serves, each with its loopback address. files: what may be uploaded, by name.
        link: what the walks of one browser share.
        """
        self._served = served or {}
        self.settings = settings or WalkSettings()
        self._events = PageEvents(refusals)
        self._recorder = _WalkRecorder(context, record)
        self._tabs = Tabs(context, self._events, self.settings, link or BrowserLink())
        self.files = files or {}
        self._acts = _Acts(self._tabs, self.settings, self._events, self.files)
        self._reader = PageReader(self._acts, self._refresh, self._observation)
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

    async def end(self) -> bool:
        """Save the recording, and return whether the browser was there to save it. The caller closes the context."""
        await self._recorder.end()
        return not self._recorder.lost

    async def open(self, url: str) -> PageObservation:
        """Open an address in the current tab."""
        return await self._act(lambda: self._acts.open(url))

    async def click(self, ref: str, kind: ClickKind = "single") -> PageObservation:
        """Click an element of the last view of the current tab: once, twice, or with the right button."""
        return await self._act(lambda: self._acts.click(ref, kind))

    async def type(self, ref: str, text: str, submit: bool = False) -> PageObservation:
        """Fill a field, or choose a list option by its name or value; then submit the form if `submit` is set."""
        return await self._act(lambda: self._acts.type(ref, text, submit=submit))

    async def choose(self, ref: str, options: Sequence[str]) -> PageObservation:
        """Choose exactly these options of a list, each by its name or value."""
        return await self._act(lambda: self._acts.choose(ref, options))

    async def press(self, keys: str = "", ref: str | None = None, text: str = "") -> PageObservation:
        """Type `text` key by key, then press `keys`, on an element or where the page has its focus."""
        return await self._act(lambda: self._acts.press(keys, ref, text))

    async def hover(self, ref: str) -> PageObservation:
        """Move the mouse over an element, and leave it there."""
        return await self._act(lambda: self._acts.hover(ref))

    async def drag(self, ref: str, to: str) -> PageObservation:
        """Drag one element to another one, and drop it there."""
        return await self._act(lambda: self._acts.drag(ref, to))

    async def scroll(self, direction: str, ref: str | None = None) -> PageObservation:
        """Scroll the page, or what scrolls around an element, and show the first line that is new.

        direction: `down`, `up`, `left`, `right`, or `start` and `end`.
        """
        return await self._act(lambda: self._acts.scroll(direction, ref))

    async def upload(self, ref: str, files: Sequence[str]) -> PageObservation:
        """Choose files of the task in a file field, or through the button that asks for them."""
        return await self._act(lambda: self._acts.upload(ref, files))

    async def dialog(self, accept: bool, text: str | None = None) -> PageObservation:
        """Say how the next dialog of the current tab is answered. text: the answer to a prompt."""
        return await self._act(lambda: self._acts.dialog(accept=accept, text=text))

    async def screenshot(self) -> Screenshot:
        """Show the current tab with a picture of its window. The picture is empty if the browser gives none."""
        picture = b""

        async def take() -> PageObservation:
            nonlocal picture
            view = await self._view(ActResult())
            picture = await self._acts.picture() or b""
            return view

        return Screenshot(await self._once(take), picture)

    async def back(self) -> PageObservation:
        """Go back in the history of the current tab."""
        return await self._act(self._acts.back)

    async def tabs(self, select: str | None = None, close: str | None = None) -> PageObservation:
        """Close one tab and select another, if given, and show the current tab."""
        return await self._act(lambda: self._choose_tabs(select, close))

    async def find(self, text: str, regex: bool = False) -> PageObservation:
        """Show where the page holds a text, or matches a regular expression, with the text around each match.

        Reads the page again if it has changed since it was shown.
        """
        return await self._once(lambda: self._reader.find(text, regex=regex))

    async def more(self, page: int | None = None) -> PageObservation:
        """Show another part of the page, by default the next one. Reads the page again if it has changed."""
        return await self._once(lambda: self._reader.more(page))

    async def wait(self, text: str | None = None, seconds: float | None = None) -> PageObservation:
        """Wait until the page holds a text, or until the seconds have passed: 0 to 30, by default 10."""
        return await self._once(lambda: self._reader.wait(text, seconds))

    # shared by all acts

    async def _once(self, act: Callable[[], Awaitable[PageObservation]]) -> PageObservation:
        """Run an act when no other one runs, in whatever state the page is, and record how it ended."""
        async with self._lock:
            self._tabs.require_browser()
            try:
                view = await act()
            except PageHung:
                view = await self._view(await self._tabs.replace_hung())
            except browser_error() as error:
                view = await self._view(await self._tabs.handle_error(error))
            await self._recorder.step(self.page)
            return view

    async def _act(self, act: _Action) -> PageObservation:
        """Run an act, abandon it after the time limit, and return a view of the page after it."""

        async def acted() -> PageObservation:
            if self._tabs.current.watch.crashed:
                return await self._view(await self._tabs.replace_hung())
            begun = self._tabs.current
            before = (begun.url, begun.shown)
            try:
                async with asyncio.timeout(self.settings.act_s):
                    result = await self._act_and_settle(act)
            except TimeoutError:
                await self._tabs.current.watch.stop()
                note = f"the act did not come to an end within {self.settings.act_s:g} s and was given up"
                result = ActResult("timeout", note)
            result = await self._refresh(result)
            now = (self._tabs.current.url, self._tabs.current.shown)
            if result.acted and result.status == "ok" and now[0] == before[0] and now[1] and before[1]:
                same = now[1].document == before[1].document and now[1].is_like(before[1])
                if same and self._tabs.current is begun and not len(self._events):
                    self._events.add("unchanged", "the act was done, and nothing visible changed")
            return self._observation(result)

        return await self._once(acted)

    async def _act_and_settle(self, act: _Action) -> ActResult:
        """Run an act, wait until the page has settled, and update the tabs. Raises PageHung and Playwright's errors."""
        since, windows, begun = time.monotonic(), self._tabs.windows(), self._tabs.current
        document, begun.pdf_link = begun.watch.document, None
        self._tabs.dialogs.begin_act()
        result = await act()
        if result.acted:
            watch = self._tabs.current.watch
            await watch.wait_until_settled(since, effects_started=result.effects_started, delayed=result.delayed)
            await self._tabs.add_windows(windows, since)
            await self._tabs.tidy()
            if begun.watch.document != document:
                begun.pdf = None
            result = await self._acts.show_pdf(begun, result)
        return result

    async def _view(self, result: ActResult) -> PageObservation:
        """Return a fresh view of the current tab."""
        return self._observation(await self._refresh(result))

    async def _refresh(self, result: ActResult) -> ActResult:
        """Take a fresh snapshot of the current tab, and return what came of the act with it."""
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
        shown = await tab.snapshot()
        if tab.watch.document != shown.document:  # the page navigated in the meantime
            await tab.watch.wait_until_settled(time.monotonic())
            shown = await tab.snapshot()
        return shown

    async def _show(self, tab: Tab, shown: ShownSnapshot, result: ActResult) -> ActResult:
        """Make a snapshot the one that the tab shows, and return what came of the act with it.

        The part shown is that of the first new line if the act looks for new content, else that of the element acted
        on, else the same as before, or the first one of a new document. Lines that the view before did not have are
        marked, unless hardly any line is old. Those of other parts are shown too, or the part with most of them.
        """
        same_document = tab.shown is not None and tab.shown.document == shown.document
        result = result if same_document else self._with_load_status(tab, result)
        before = tab.shown if same_document else None
        new = frozenset[int]() if before is None else shown.new_since(before)
        is_other = len(new) > _MOST_NEW * len(shown.lines)
        if before is not None and result.seeks_new and not new:
            result = replace(result, status="nothing_new", note=_NOTHING_NEW)
        same_page = min(tab.page_number, len(shown.pages)) if same_document and not is_other else 1
        tab.page_number, elsewhere = shown.page_of(result.near_ref) or same_page, ()
        if new and result.seeks_new:
            tab.page_number = shown.page_numbers[min(new)]
        elif new and not is_other:
            elsewhere, tab.page_number = shown.opened(new, tab.page_number, self.settings.page_chars // 2)
        shown = shown if before is None else shown.after(before)
        tab.shown = shown = shown.marked(new, NEW) if new and result.acted and not is_other else shown
        tab.opened = shown.lines_at(elsewhere)
        further = {shown.page_numbers[one] for one in new.difference(elsewhere)} - {tab.page_number}
        if further and not is_other and not result.seeks_new:
            self._events.add("new", f"there are further new lines on page {', '.join(map(str, sorted(further)))}")
        if tab.watch.unfinished:
            self._events.add("incomplete", tab.watch.unfinished)
            tab.watch.unfinished = ""
        if shown.is_plain and tab.watch.text_only is None and tab.pdf is None:
            self._events.add("truncated", "the elements of the page could not be read; this is its text, without refs")
        if shown.truncated:
            self._events.add("truncated", f"the last {shown.truncated} characters of the page were left out")
        elif shown.is_plain and shown.text.cut:
            self._events.add("truncated", "the page is too long to be read whole; the text at its end is left out")
        if result.status not in {"blocked", "load_failed", "bad_pdf"} and tab.url.startswith("http"):
            self._visited += [] if self._visited[-1:] == [tab.url] else [tab.url]
        await self._require_sites()
        return result

    async def _require_sites(self) -> None:
        """Raise ToolLost if one of the served sites was unreachable and still accepts no connection."""
        for host in {one.host for one in self._events.refusals() if one.code == "unreachable"} & self._served.keys():
            try:
                async with asyncio.timeout(_CONNECT_S):
                    _, writer = await asyncio.open_connection(*self._served[host])
            except (OSError, TimeoutError) as error:
                why = str(error) or "no answer in time"
                raise _SiteLost(f"the site {host!r}, which this run serves, no longer answers: {why}") from error
            writer.close()

    def _with_load_status(self, tab: Tab, result: ActResult) -> ActResult:
        """Return the result of the act, with a load failure or HTTP error of the new document."""
        if result.status not in {"ok", "load_failed"} or not (tab.is_error_page or tab.watch.status >= 400):
            return result
        if self._events.has_refused(tab.watch.target_url, tab.page.url):
            return BLOCKED
        if tab.is_error_page:
            reason = load_failure_reason(Exception(tab.watch.failure))
            failed = ActResult("load_failed", f"the page did not load: {reason}")
            return result if result.status == "load_failed" else failed
        if tab.watch.refusal:
            return ActResult("load_failed", f"the page did not load: {refusal_reason(tab.watch.refusal)}")
        return ActResult(f"http_{tab.watch.status}", "the server answered with this code; what it sent is shown below")

    def _observation(self, result: ActResult, found: Sequence[PagedLine] | None = None) -> PageObservation:
        """Return what the current tab shows: what was opened elsewhere, and what was found or else the current page."""
        tab = self._tabs.current
        shown = tab.shown or ShownSnapshot(tab.watch.document)
        placed, tab.opened = (*tab.opened, *(found or ())), ()
        return PageObservation(
            status=result.status,
            note=result.note,
            tab=tab.id,
            tabs=self._tabs.lines,
            page=tab.page_number,
            pages=len(shown.pages),
            found=tuple(page for page, _ in placed),
            lines=(
                *(line for _, line in placed),
                *(() if found is not None else shown.pages[tab.page_number - 1].shown),
            ),
            events=self._events.drain(),
        )

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
        return ActResult(acted=bool(close or select))
