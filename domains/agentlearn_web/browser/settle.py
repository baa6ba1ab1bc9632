"""Waiting until a page is at rest after an act: by what it does, never by a fixed time.

What a document does is asked of it in an isolated world, which its own scripts neither see nor change: there an
observer of the document notes when it changed last. A document without scripts cannot change by itself, so that nothing
is waited for there. Changes inside frames of other sites are not observed; their requests are.
"""

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agentlearn_web.browser.faults import browser_error
from agentlearn_web.browser.walk_settings import WalkSettings

if TYPE_CHECKING:
    from playwright.async_api import CDPSession, Page, Request

_WORLD = "agentlearn"
_RETRIES = 5
_RETRY_S = 0.02
_LEAST_S = 0.005
_DOCUMENTS = 10
"""Documents that may follow each other within one act: some pages reload for ever."""
_AWAITED = frozenset({"document", "fetch", "script", "stylesheet", "xhr"})
"""Kinds of requests whose answers are waited for; images and streams may go on."""
_PROBE = r"""(() => {
  const kept = globalThis.kept ??= (() => {
    const kept = { changed: performance.now(), still: null };
    const options = { subtree: true, childList: true, attributes: true, characterData: true };
    new MutationObserver(() => { kept.changed = performance.now(); kept.still = null; }).observe(document, options);
    return kept;
  })();
  const ready = document.readyState === "complete";
  const acting = 'script,iframe,frame,object,embed,marquee,audio,video,meta[http-equiv="refresh" i],' +
    '[href^="javascript:" i],[action^="javascript:" i],[formaction^="javascript:" i]';
  if (ready && kept.still === null) {
    kept.still = !document.querySelector(acting) && !document.evaluate(
      "boolean(//@*[starts-with(local-name(), 'on')])", document, null, XPathResult.BOOLEAN_TYPE, null).booleanValue;
  }
  return {
    ready, still: ready && kept.still, title: document.title.slice(0, 300),
    status: performance.getEntriesByType("navigation")[0]?.responseStatus ?? 0,
    unchanged_s: (performance.now() - kept.changed) / 1000,
    bodiless: document.querySelector("body, frameset") ? null
      : (document.documentElement?.textContent ?? "").slice(0, 20000),
  };
})()"""


class Hung(Exception):
    """A page that says nothing any more."""


@dataclass(slots=True)
class Watch:
    """What one page does, as the browser tells it. Made by `watched`."""

    page: "Page"
    session: "CDPSession"
    frame: str
    """The main frame's id."""
    document: int = 0
    """How many documents the main frame has had."""
    arrived: float = 0.0
    """When the last of them came, by the monotonic clock."""
    loading: bool = False
    windows: list[str] = field(default_factory=list[str])
    """Addresses of the windows that the page has asked for."""
    asked: float = 0.0
    """When it last began a request or got an answer, by the monotonic clock."""
    aim: str = ""
    """Where its last navigation went."""
    failure: str = ""
    """Why its last navigation failed."""
    title: str = ""
    status: int = 0
    """HTTP status of its document; 0 where there is none."""
    restless: bool = False
    """Whether its document has not come to rest when it was waited for."""
    still: bool = False
    """Whether its document has no scripts, so that nothing but links and fields can be acted on."""
    bodiless: str | None = None
    """The text of a document without a body, such as a drawing; None where there is a body."""
    crashed: bool = False
    pending: dict["Request", float] = field(default_factory=dict["Request", float])
    """Requests without an answer, and when they were begun."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _world: tuple[int, int] = (-1, -1)
    """The isolated world, and the document that it belongs to."""
    _clock: asyncio.Timeout | None = None

    async def rest(self, settings: WalkSettings, since: float, *, certain: bool = True) -> None:
        """Wait until the page is at rest, or for as long as the settings allow. Raises Hung.

        since: when the act began. certain: whether everything that the act led to at once has begun by now.
        """
        began, first, document = time.monotonic(), self.document, self.document
        limit_s, loaded = settings.restless_s if self.restless else settings.settle_s, True
        last = began
        while True:
            if self.loading:
                loaded = await self._loaded(settings)
                last = time.monotonic()
            if self.document != document:
                document, self.restless, certain = self.document, False, True
                began, limit_s = last, settings.settle_s
            if self.document - first > _DOCUMENTS:
                await self.stop(settings)
                loaded = False
            state = await self._probe(settings)
            if not loaded:
                return
            if self.loading:
                continue
            busy = any(at >= since and one.resource_type in _AWAITED for one, at in self.pending.items())
            if state["still"] and certain and not busy:
                return
            now, calm_s = time.monotonic(), settings.loaded_quiet_s if self.arrived >= since else settings.quiet_s
            quiet_s = min(state["unchanged_s"], now - last, now - self.asked)
            if quiet_s >= calm_s and state["ready"] and not busy:
                return
            if now - began >= limit_s:
                self.restless = True
                return
            left_s = calm_s - quiet_s
            await self._something(left_s if left_s > _LEAST_S else calm_s)

    async def arrive(self, settings: WalkSettings) -> None:
        """Wait until the first document of a new window has come, as long as it may take to load."""
        until = time.monotonic() + settings.load_s
        while not self.document and not self.page.is_closed() and self.page.url in {"", "about:blank"}:
            if (left_s := until - time.monotonic()) <= 0:
                return
            await self._something(min(left_s, settings.quiet_s))

    async def stop(self, settings: WalkSettings) -> None:
        """Stop loading. Raises Hung."""
        self.loading = False
        try:
            async with asyncio.timeout(settings.hung_s):
                await self.session.send("Page.stopLoading")
        except TimeoutError:
            raise Hung from None

    async def _loaded(self, settings: WalkSettings) -> bool:
        """Whether the page has loaded within the limit. One that has not is stopped: what is there is shown."""
        until = time.monotonic() + settings.load_s
        while self.loading:
            if (left_s := until - time.monotonic()) <= 0:
                await self.stop(settings)
                return False
            await self._something(left_s)
        return True

    async def _something(self, limit_s: float) -> None:
        """Wait until the browser tells anything new."""
        self._changed.clear()
        try:
            async with asyncio.timeout(limit_s):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _probe(self, settings: WalkSettings) -> dict[str, Any]:
        try:
            async with asyncio.timeout(settings.hung_s) as self._clock:
                for attempt in range(2 * _RETRIES):
                    try:
                        state = await self._asked_of_it()
                    except browser_error():
                        if self.page.is_closed():
                            raise
                        self._world = (-1, -1)  # the document was replaced meanwhile
                        if attempt >= _RETRIES:
                            await self.stop(settings)
                        await asyncio.sleep(_RETRY_S)
                    else:
                        self.title, self.status = state["title"], state["status"]
                        self.still, self.bodiless = state["still"], state["bodiless"]
                        return state
        except TimeoutError:
            raise Hung from None
        raise Hung

    async def _asked_of_it(self) -> dict[str, Any]:
        world, document = self._world
        if document != self.document:
            document = self.document
            options = {"frameId": self.frame, "worldName": _WORLD}
            world = (await self.session.send("Page.createIsolatedWorld", options))["executionContextId"]
            self._world = (world, document)
        asked = {"expression": _PROBE, "contextId": world, "returnByValue": True}
        return (await self.session.send("Runtime.evaluate", asked))["result"]["value"]

    def crash(self) -> None:
        """The page has crashed: it answers nothing any more."""
        self.crashed = True
        self.tell()
        if self._clock is not None:
            with suppress(RuntimeError):  # nothing is being asked of it
                self._clock.reschedule(asyncio.get_running_loop().time())

    def tell(self) -> None:
        """Something has happened."""
        self._changed.set()


async def watched(page: "Page") -> Watch:
    """Begin to watch a page."""
    session = await page.context.new_cdp_session(page)
    await session.send("Page.enable")
    tree = await session.send("Page.getFrameTree")
    watch = Watch(page, session, tree["frameTree"]["frame"]["id"])
    _hear_frames(watch)
    _hear_requests(watch)
    return watch


def _hear_frames(watch: Watch) -> None:
    def started(told: dict[str, Any]) -> None:
        if told["frameId"] == watch.frame:
            watch.loading = True
            watch.tell()

    def stopped(told: dict[str, Any]) -> None:
        if told["frameId"] == watch.frame:
            watch.loading = False
            watch.tell()

    def navigated(told: dict[str, Any]) -> None:
        if told["frame"]["id"] == watch.frame:
            watch.document += 1
            watch.arrived = time.monotonic()
            watch.tell()

    def window(told: dict[str, Any]) -> None:
        watch.windows.append(told["url"])
        watch.tell()

    watch.session.on("Page.frameStartedLoading", started)
    watch.session.on("Page.frameStoppedLoading", stopped)
    watch.session.on("Page.frameNavigated", navigated)
    watch.session.on("Page.windowOpen", window)


def _hear_requests(watch: Watch) -> None:
    def begun(request: "Request") -> None:
        watch.asked = watch.pending[request] = time.monotonic()
        if request.is_navigation_request() and request.frame == watch.page.main_frame:
            watch.aim, watch.failure = request.url, ""
        watch.tell()

    def done(request: "Request") -> None:
        watch.asked = time.monotonic()
        watch.pending.pop(request, None)
        watch.tell()

    def failed(request: "Request") -> None:
        done(request)
        if request.is_navigation_request() and request.url == watch.aim:
            watch.failure = request.failure or ""

    watch.page.on("request", begun)
    watch.page.on("requestfinished", done)
    watch.page.on("requestfailed", failed)
