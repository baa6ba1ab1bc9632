"""Watches the activity of a page: waits until it has settled after an act, and tells a hung page from a slow one.

What is waited for is what the page does, not a fixed time. A probe runs in an isolated world of the document, which the
page's own scripts can neither see nor change. Its mutation observer records when the document changed last. A document
without scripts cannot change by itself, so nothing is waited for there. Changes inside frames of other sites are not
observed, but their requests are.

A page is hung if its renderer does not evaluate a constant while the browser process answers at once. Only time in
which the browser answers at once counts. A renderer that computes for that long without a break is in an endless loop;
one that does not is waiting for its turn or for a site, and gets more time.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from agentlearn_web.boundary.access_policy import REFUSED_HEADER
from agentlearn_web.browser.walk_settings import WalkSettings, browser_error, plural
from agentlearn_web.reading.page_text import PageText
from agentlearn_web.scripts import page_script

if TYPE_CHECKING:
    from playwright.async_api import CDPSession, Page, Request, Response

TICK_S = 0.25
PROMPT_S = 0.15
"""The browser answers at once if it takes no longer than this."""
LOST_S = 120.0
"""A browser process that is silent for this long does not answer any more, and the page counts as hung."""
_BUSY_SHARE = 0.5
"""A renderer that used this share of the counted time computed without a break; walks share the cores."""


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
    counted_s = busiest_s = 0.0
    # time in which the browser answered at once and the page did not; most processor time of a renderer in it
    before: dict[int, float] = {}
    try:
        await asyncio.wait([probe], timeout=TICK_S)
        started = time.monotonic()
        while not probe.done():
            began = time.monotonic()
            now = await _processor_times(browser)
            prompt = time.monotonic() - began <= PROMPT_S
            await asyncio.wait([probe], timeout=TICK_S)
            if prompt and now is not None:
                before = before or now
                counted_s += TICK_S
                busiest_s = max((used - before.get(one, used) for one, used in now.items()), default=0.0)
            is_busy = busiest_s >= _BUSY_SHARE * settings.hung_s
            limit_s = settings.hung_s if is_busy else max(settings.hung_s, settings.snapshot_s)
            is_over = gone() or counted_s >= limit_s or time.monotonic() - started >= LOST_S
            if is_over and not probe.done():
                return False
        return True
    finally:
        probe.cancel()
        with suppress(asyncio.CancelledError, browser_error()):
            await probe


async def _processor_times(browser: "CDPSession | None") -> dict[int, float] | None:
    """Return the processor time of each renderer by process id; None if the browser does not answer."""
    if browser is None:
        return {}
    try:
        async with asyncio.timeout(LOST_S):
            found = await browser.send("SystemInfo.getProcessInfo")
    except (TimeoutError, browser_error()):
        return None
    return {one["id"]: one["cpuTime"] for one in found["processInfo"] if one["type"] == "renderer"}


_T = TypeVar("_T")

_WORLD = "agentlearn"
_RETRIES = 5
_RETRY_S = 0.02
_MIN_WAIT_S = 0.005
_FRESH_S = 0.2
"""Longest time for which the text that was read with the state of the page is taken for its text."""
_PATIENCE_S = 1.0
"""Time after which a page that has not answered is asked whether it is alive."""
_MAX_DOCUMENTS = 10
"""Most documents in a row within one act: some pages reload forever."""
_AWAITED_KINDS = frozenset({"document", "fetch", "script", "stylesheet", "xhr"})
"""Resource types of requests that must finish; images and streams may continue."""

_LATE_S = 0.1
"""A change this long after an act is not its first effect: a timer or an answer has made it."""


def _installed() -> str:
    """Return what stands in the isolated world of each document. It hides elements of the page that are named alike."""
    return f"kept = null; probe = {page_script('probe')}; readText = {page_script('page_text')};"


class PageHung(Exception):
    """Raised when a page no longer answers."""


@dataclass  # without slots: Playwright keeps a note on the object of each method that listens
class PageWatch:
    """The activity of one page, as the browser reports it. Made by `PageWatch.start`."""

    page: "Page"
    cdp: "CDPSession"
    frame: str
    """Id of the main frame."""
    link: BrowserLink
    settings: WalkSettings
    document: int = 0
    """Number of documents that the main frame has had."""
    arrived_at: float = 0.0
    """Monotonic time at which the current document arrived."""
    loading: bool = False
    windows: list[str] = field(default_factory=list[str])
    """Addresses of the windows that the page has requested."""
    last_request: float = 0.0
    """Monotonic time at which the page last started or finished a request."""
    target_url: str = ""
    """Address of the last navigation."""
    failure: str = ""
    """Why the last navigation failed; empty if it did not."""
    refusal: str = ""
    """Code with which the walk's proxy refused the last navigation; empty if a server answered it."""
    title: str = ""
    status: int = 0
    """HTTP status of the document; 0 if there is none."""
    unfinished: str = ""
    """What of the document had not arrived when it was shown, in our own words; empty if all had or it was told."""
    parsed: int = -1
    """Number of the last document whose own text has arrived completely."""
    last_arrival: float = 0.0
    """Monotonic time at which a part of the page last arrived, or the page itself."""
    restless: bool = False
    """Whether the document did not settle the last time."""
    is_static: bool = False
    """Whether the document has no scripts, so only links and fields react to acts."""
    elements: int = 0
    """Number of elements of the document."""
    text_only: str | None = None
    """Text of a document without a body, such as an SVG image; None if there is a body."""
    changes: int = 0
    """Number of times that the document has changed, as far as the probe could see."""
    timers: int = 0
    """Number of timers that the document has started."""
    probed_at: float = 0.0
    """Monotonic time at which the page last answered the probe."""
    crashed: bool = False
    pending: dict["Request", float] = field(default_factory=dict["Request", float])
    """Unfinished requests, with the monotonic time at which each started."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _world: tuple[int, int] = (-1, -1)
    """Execution context of the isolated world, and the number of its document."""
    _read: dict[str, Any] | None = None
    """The text of the document, if the last probe has read it."""

    async def wait_until_settled(self, since: float, *, effects_started: bool = True, delayed: bool = False) -> None:
        """Wait until the page has settled, or for as long as the settings allow. Raises PageHung.

        A page that has started timers in the act is given `timer_s` to change. since: when the act began.
        effects_started: whether everything that the act triggers directly has started. delayed: whether pages often
        react late to such an act, so that a change at once does not count as their reaction.
        """
        began, first, document = time.monotonic(), self.document, self.document
        settings, loaded, acted = self.settings, True, began
        limit_s = settings.restless_s if self.restless else settings.settle_s
        last, timers, started = began, self.timers, False
        while True:
            if self.loading and not self._is_stalled():
                loaded = await self._wait_until_loaded()
                last = time.monotonic()
            if self.document != document:
                document, self.restless, effects_started = self.document, False, True
                began, limit_s = last, settings.settle_s
            if self.document - first > _MAX_DOCUMENTS:
                await self.stop()
                loaded = False
            calm_s = self._calm_s(since, delayed=delayed)
            state = await self._probe(calm_s if effects_started or self.arrived_at >= since else None)
            if not loaded:
                return
            stalled = self.loading and self._is_stalled()
            if self.loading and not stalled:
                continue
            now = time.monotonic()
            new = [at for one, at in self.pending.items() if at >= since and one.resource_type in _AWAITED_KINDS]
            busy = any(not stalled or now - at < settings.stalled_s for at in new)
            if state["still"] and effects_started and not busy:
                return
            calm_s = self._calm_s(since, delayed=delayed)
            quiet_s = min(state["unchanged_s"], now - last, now - self.last_request)
            changed = now - state["unchanged_s"] > (acted + _LATE_S if delayed else since)
            if now - acted < 2 * _LATE_S:  # events of a scrolled page come with its next frame
                started = self.timers > timers
            started = started and self.document == first and not changed
            waits = started and now - acted < settings.timer_s
            if quiet_s >= calm_s and (state["ready"] or stalled) and not busy and not waits and not state["moving_s"]:
                if started and now - state["unchanged_s"] < since:
                    self.unfinished = (
                        "the page has started a timer and has not changed; `wait` shows what it does later"
                    )
                return
            if now - began >= limit_s and not waits:
                self.restless = True
                if busy:
                    self.unfinished = f"{plural(len(new), 'request')} of the page had not ended; `wait` shows it later"
                return
            left_s = max(calm_s - quiet_s, min(state["moving_s"], calm_s))
            if (early_s := acted + 1.5 * _LATE_S - now) > 0:  # whether it has started timers by then
                left_s = min(left_s, early_s)
            await self._wait_for_event(left_s if left_s > _MIN_WAIT_S else calm_s)

    def _calm_s(self, since: float, *, delayed: bool) -> float:
        """Return how long the page must have been quiet. since and delayed: as for `wait_until_settled`."""
        if self.arrived_at >= since:
            return self.settings.loaded_quiet_s
        return self.settings.typed_quiet_s if delayed else self.settings.quiet_s

    async def wait_for_document(self) -> None:
        """Wait until the first document of a new window has arrived, at most for the load time."""
        until = time.monotonic() + self.settings.load_s
        while not self.document and not self.page.is_closed() and self.page.url in {"", "about:blank"}:
            if (left_s := until - time.monotonic()) <= 0:
                return
            await self._wait_for_event(min(left_s, self.settings.quiet_s))

    async def wait_for_pictures(self, since: float) -> bool:
        """Wait until every request that began after `since` has ended, at most `settle_s`. Return whether any began."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.settings.settle_s):
                while any(at >= since for at in self.pending.values()):
                    await self._wait_for_event(self.settings.quiet_s)
        return self.last_request >= since

    async def stop(self) -> None:
        """Stop loading. Raises PageHung."""
        self.loading = False
        await self._answer(self.cdp.send("Page.stopLoading"))

    async def has_changed(self, document: int, changes: int) -> bool:
        """Return whether the page is no longer at this change of this document. Raises PageHung."""
        await self._probe()
        return (self.document, self.changes) != (document, changes)

    async def require_alive(self) -> None:
        """Raise PageHung if the page does not answer."""
        if not await is_alive(self.cdp, self.link.cdp, self.settings, lambda: self.crashed or self.page.is_closed()):
            raise PageHung

    async def read_text(self) -> PageText:
        """Return the text of the document. Raises PageHung, TimeoutError, or Playwright's error.

        Reading takes long on a long page, so liveness is asked for only when it did not end within `snapshot_s`.
        """
        found, self._read = self._read, None
        if found is None or time.monotonic() - self.probed_at > _FRESH_S:
            async with asyncio.timeout(self.settings.snapshot_s):
                found = await self._evaluate(f"readText({self.settings.snapshot_chars})")
        return PageText.parse(found)

    async def _wait_until_loaded(self) -> bool:
        """Return whether the page has loaded within the limit. Otherwise loading is stopped and the page is shown.

        A page whose own text has arrived may go on loading the parts of it that do not arrive.
        """
        until = time.monotonic() + self.settings.load_s
        while self.loading:
            if self._is_stalled():
                self.unfinished = f"the page is not complete: {plural(len(self.pending), 'part')} of it did not arrive"
                for frame in {one.frame for one in self.pending if one.is_navigation_request()}:
                    with suppress(browser_error()):  # a view would wait for the document of this frame
                        await frame.goto("about:blank", timeout=self.settings.stalled_s * 1000)
                return True
            if (left_s := until - time.monotonic()) <= 0:
                await self.stop()
                self.unfinished = f"the page is not complete: loading was stopped after {self.settings.load_s:g} s"
                return False
            await self._wait_for_event(min(left_s, self.settings.stalled_s) if self.parsed == self.document else left_s)
        return True

    def _is_stalled(self) -> bool:
        """Return whether the text of the document is there, and nothing else has arrived for some time."""
        return self.parsed == self.document and time.monotonic() - self.last_arrival >= self.settings.stalled_s

    async def _wait_for_event(self, limit_s: float) -> None:
        """Wait until the browser reports an event, or for `limit_s`."""
        self._changed.clear()
        try:
            async with asyncio.timeout(limit_s):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _probe(self, calm_s: float | None = None) -> dict[str, Any]:
        """Return the state of the page. calm_s: if it has been quiet for so long, its text is read with it."""
        asked = "" if calm_s is None else f"{calm_s}, () => readText({self.settings.snapshot_chars})"
        for attempt in range(2 * _RETRIES):
            try:
                state = await self._answer(self._evaluate(f"probe({asked})"))
            except browser_error():
                if self.page.is_closed():
                    raise
                self._world = (-1, -1)  # the document was replaced in the meantime
                if attempt >= _RETRIES:
                    await self.stop()
                await asyncio.sleep(_RETRY_S)
            else:
                self.title, self.status, self.changes = state["title"], state["status"], state["changes"]
                self._read = state["text"]
                self.is_static, self.text_only = state["still"], state["bodiless"]
                self.elements, self.timers, self.probed_at = state["elements"], state["timers"], time.monotonic()
                return state
        raise PageHung

    async def _answer(self, asked: Coroutine[Any, Any, _T]) -> _T:
        """Return what the page answers, however long that takes while it is alive. Raises PageHung."""
        answer = asyncio.ensure_future(asked)
        try:
            while not answer.done():
                await asyncio.wait([answer], timeout=_PATIENCE_S)
                if not answer.done():
                    await self.require_alive()
            return answer.result()
        finally:
            if not answer.done():
                answer.cancel()
                await asyncio.wait([answer])

    async def _evaluate(self, script: str) -> dict[str, Any]:
        """Return what a script returns in the isolated world of the document. Raises Playwright's error."""
        world, document = self._world
        if document != self.document:
            document = self.document
            options = {"frameId": self.frame, "worldName": _WORLD}
            world = (await self.cdp.send("Page.createIsolatedWorld", options))["executionContextId"]
            self._world = (world, document)
        request = {"expression": script, "contextId": world, "returnByValue": True, "awaitPromise": True}
        answer = await self.cdp.send("Runtime.evaluate", request)
        if answer.get("result", {}).get("className") == "ReferenceError":  # a document of the browser's own
            request["expression"] = f"{_installed()} {script}"
            answer = await self.cdp.send("Runtime.evaluate", request)
        if "exceptionDetails" in answer:
            raise browser_error()(f"the script failed: {answer['exceptionDetails'].get('text', '')}")
        return answer["result"]["value"]

    def on_crash(self) -> None:
        """Record that the page has crashed, which ends the running probe."""
        self.crashed = True
        self.notify()

    def notify(self) -> None:
        """Wake up the waiting method."""
        self._changed.set()

    @classmethod
    async def start(cls, page: "Page", link: BrowserLink, settings: WalkSettings) -> Self:
        """Start watching a page of the browser that `link` leads to."""
        cdp = await page.context.new_cdp_session(page)
        await cdp.send("Page.enable")
        tree = await cdp.send("Page.getFrameTree")
        watch = cls(page, cdp, tree["frameTree"]["frame"]["id"], link, settings)
        install = {"source": _installed(), "worldName": _WORLD, "runImmediately": True}
        await cdp.send("Page.addScriptToEvaluateOnNewDocument", install)
        cdp.on("Page.frameStartedLoading", partial(watch._on_loading, loading=True))
        cdp.on("Page.frameStoppedLoading", partial(watch._on_loading, loading=False))
        cdp.on("Page.domContentEventFired", watch._on_parsed)
        cdp.on("Page.frameNavigated", watch._on_navigated)
        cdp.on("Page.windowOpen", watch._on_window)
        page.on("response", watch._on_response)
        page.on("request", watch._on_request)
        page.on("requestfinished", watch._on_finished)
        page.on("requestfailed", watch._on_failed)
        return watch

    def _on_loading(self, event: dict[str, Any], *, loading: bool) -> None:
        if event["frameId"] == self.frame:
            self.loading = loading
            self.notify()

    def _on_parsed(self, _: dict[str, Any]) -> None:
        self.parsed, self.last_arrival = self.document, time.monotonic()
        self.notify()

    def _on_navigated(self, event: dict[str, Any]) -> None:
        if event["frame"]["id"] == self.frame:
            self.document += 1
            self.unfinished = ""
            self.arrived_at = time.monotonic()
            self.notify()

    def _on_window(self, event: dict[str, Any]) -> None:
        self.windows.append(event["url"])
        self.notify()

    def _on_request(self, request: "Request") -> None:
        self.last_request = self.pending[request] = time.monotonic()
        if request.is_navigation_request() and request.frame == self.page.main_frame:
            self.target_url, self.failure = request.url, ""
        self.notify()

    def _on_finished(self, request: "Request") -> None:
        self.last_request = self.last_arrival = time.monotonic()
        self.pending.pop(request, None)
        self.notify()

    def _on_failed(self, request: "Request") -> None:
        self._on_finished(request)
        if request.is_navigation_request() and request.url == self.target_url:
            self.failure = request.failure or ""

    def _on_response(self, response: "Response") -> None:
        if response.request.is_navigation_request() and response.frame == self.page.main_frame:
            self.refusal = response.headers.get(REFUSED_HEADER, "")
