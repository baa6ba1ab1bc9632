"""The browser of a run: one Chromium, a fresh context for each walk, and a limit on the number of open contexts.

A browser is replaced after `recycle_after` walks, because closed contexts leave some memory behind, and when it has
died. A browser that dies ends only the walks that it was running.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentlearn.errors import ConfigError, ToolError
from agentlearn.text.log import get_log
from agentlearn_web.boundary.access_policy import FLAGS, AccessPolicy
from agentlearn_web.boundary.proxy import NetworkLimits, open_proxy
from agentlearn_web.boundary.upstream import UpstreamProxy
from agentlearn_web.browser.chromium import Chromium, find_chromium, has_sandbox, require_playwright
from agentlearn_web.browser.page_watch import BrowserLink
from agentlearn_web.browser.walk import Walk, WalkSettings
from agentlearn_web.browser.walk_settings import BrowserLost, TaskFile, browser_error

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Playwright

_StartDriver = Callable[[], Awaitable["Playwright"]]
"""Starts a driver process of Playwright, which is ended with the pool."""

_WALKERS_VARIABLE = "AGENTLEARN_WALKERS"
_LAUNCH_S = 60.0
_CONTEXT_S = 60.0
_CLOSE_S = 10.0
_MOST_DRIVERS = 5
"""How many driver processes a run may need. One that cannot start a browser is replaced."""
_DRIVER_DIED = "Connection closed while reading from the driver"


@dataclass(frozen=True, slots=True)
class BrowserOptions:
    """Options of a run's browser pool."""

    walkers: int = 0
    """Most contexts open at once. 0 takes `$AGENTLEARN_WALKERS`, or else eight per core and at most 32."""
    recycle_after: int = 200
    """Walks after which a browser is replaced."""
    walk: WalkSettings = field(default_factory=WalkSettings)
    limits: NetworkLimits = field(default_factory=NetworkLimits)
    chromium: Chromium | None = None
    """The Chromium to start. None takes the one that `find_chromium` finds."""
    upstream: UpstreamProxy | None = None
    """Proxy through which public hosts are reached. None: directly."""
    environment: Mapping[str, str] | None = None
    """Environment of the browsers. None: that of this process."""


@dataclass(slots=True)
class _BrowserProcess:
    """One browser process and its number of walks."""

    browser: "Browser"
    link: BrowserLink
    """What its walks share. As many pages are read at once as there are cores."""
    walks_started: int = 0
    open: int = 0
    broken: bool = False

    @staticmethod
    async def of(browser: "Browser") -> "_BrowserProcess":
        """Connect to a browser. Raises BrowserLost."""
        try:
            cdp = await browser.new_browser_cdp_session()
        except browser_error() as error:
            raise BrowserLost(f"the browser did not answer: {error}", code="browser_failed") from error
        return _BrowserProcess(browser, BrowserLink(cdp, asyncio.Semaphore(os.cpu_count() or 1)))

    async def close(self) -> None:
        """Close the browser."""
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self.browser.close()
        except (TimeoutError, browser_error()) as error:
            get_log().warning("browser.not_closed", reason=str(error))


class Browsers:
    """The browser pool of a run. Made by `open_browsers`."""

    def __init__(self, start_driver: _StartDriver, chromium: Chromium, options: BrowserOptions) -> None:
        self._start_driver = start_driver
        self._playwright: Playwright | None = None
        self._drivers = 0
        self._chromium = chromium
        self._options = options
        self.walkers = options.walkers or default_walkers()
        """Most walks open at once."""
        self._slots = asyncio.Semaphore(self.walkers)
        self._launching = asyncio.Lock()
        self._current: _BrowserProcess | None = None
        self._unsaved_recordings = 0
        self.launched = 0
        """Number of browsers started so far."""

    @asynccontextmanager
    async def walk(
        self,
        policy: AccessPolicy,
        *,
        record: Path | None = None,
        session: Mapping[str, object] | None = None,
        files: Mapping[str, TaskFile] | None = None,
    ) -> AsyncGenerator[Walk]:
        """Open a walk in a fresh context with a separate proxy. Waits for a free slot. Raises BrowserLost, ToolError.

        record: folder for screenshots and a trace. session: saved
        session to start with. files: what the walk may upload, by name.
        """
        proxy = open_proxy(policy, self._options.limits, upstream=self._options.upstream)
        async with self._slots, proxy as proxied, AsyncExitStack() as stack:
            process = await self._browser_process()
            process.walks_started += 1
            process.open += 1
            stack.push_async_callback(self._leave, process)
            options: dict[str, object] = proxied.context_options()
            if session is not None:
                options["storage_state"] = session
            context = await self._context(process, options)
            stack.push_async_callback(self._close_context, process, context)
            walk = Walk(
                context,
                proxied,
                self._options.walk,
                record=record,
                served=policy.served,
                files=files,
                link=process.link,
            )
            await walk.begin()
            stack.push_async_callback(self._end_walk, walk)
            yield walk

    async def start(self) -> None:
        """Start the browser now instead of at the first walk. Raises ConfigError if it does not start."""
        try:
            await self._browser_process()
        except ToolError as error:
            raise ConfigError(
                f"{self._chromium.path} did not start: {error.message}; run `agentlearn doctor` to see what was found"
            ) from error

    async def close(self) -> None:
        """Close the browser. Open walks lose it."""
        if self._unsaved_recordings:
            reason = "the browser ended before these walks were saved"
            get_log().warning("recordings.lost", walks=self._unsaved_recordings, reason=reason)
        if self._current is not None:
            await self._current.close()

    async def _browser_process(self) -> _BrowserProcess:
        """Return the browser for the next walk: the current one, or a new one if that is used up or gone."""
        async with self._launching:
            current = self._current
            if current is not None:
                fresh = current.walks_started < self._options.recycle_after
                if fresh and not current.broken and current.browser.is_connected():
                    return current
                if current.open == 0:
                    await current.close()
            self._current = await _BrowserProcess.of(await self._launch())
            return self._current

    async def _launch(self) -> "Browser":
        used = self._playwright
        try:
            if used is not None:
                with suppress(browser_error()):  # the driver process may have died, and then nothing starts
                    return await self._launched_by(used)
            if self._drivers == _MOST_DRIVERS:
                raise BrowserLost(
                    f"the browser did not start: {_MOST_DRIVERS} drivers could not", code="browser_failed"
                )
            self._drivers += 1
            self._playwright = await self._start_driver()
            return await self._launched_by(self._playwright)
        except (OSError, browser_error()) as error:
            first = str(error).strip().partition("\n")[0]
            raise BrowserLost(f"the browser did not start: {first}", code="browser_failed") from error

    async def _launched_by(self, playwright: "Playwright") -> "Browser":
        browser = await playwright.chromium.launch(
            executable_path=self._chromium.path,
            args=list(FLAGS),
            env=None if self._options.environment is None else dict(self._options.environment),
            chromium_sandbox=has_sandbox(),
            timeout=_LAUNCH_S * 1000,
            handle_sigint=False,  # we close the browser ourselves, after the walks
            handle_sigterm=False,
            handle_sighup=False,
        )
        self.launched += 1
        get_log().debug("browser.launched", path=str(self._chromium.path), number=self.launched)
        return browser

    async def _context(self, process: _BrowserProcess, options: dict[str, object]) -> "BrowserContext":
        try:
            async with asyncio.timeout(_CONTEXT_S):
                return await process.browser.new_context(**options)  # pyright: ignore[reportArgumentType]
        except (TimeoutError, browser_error()) as error:
            process.broken = True
            raise BrowserLost(f"the browser gave no context: {error or 'it took too long'}") from error

    async def _end_walk(self, walk: Walk) -> None:
        if not await walk.end():
            self._unsaved_recordings += 1

    async def _close_context(self, process: _BrowserProcess, context: "BrowserContext") -> None:
        """Close a walk's context. If that fails, the browser is closed as soon as its other walks have ended."""
        try:
            async with asyncio.timeout(_CLOSE_S):
                await context.close()
        except (TimeoutError, browser_error()):
            process.broken = True

    async def _leave(self, process: _BrowserProcess) -> None:
        process.open -= 1
        if process is not self._current and process.open == 0:
            await process.close()


@asynccontextmanager
async def open_browsers(options: BrowserOptions | None = None) -> AsyncGenerator[Browsers]:
    """Start a browser pool for the walks of one run, and close all its browsers at the end of the block.

    Raises MissingExtra without Playwright, ConfigError if no Chromium is found or it does not start.
    """
    require_playwright()
    from playwright.async_api import async_playwright

    chosen = options or BrowserOptions()
    chromium = chosen.chromium or find_chromium()
    async with AsyncExitStack() as drivers:

        async def start_driver() -> "Playwright":
            return await drivers.enter_async_context(async_playwright())

        _expect_dead_drivers()
        browsers = Browsers(start_driver, chromium, chosen)
        try:
            await browsers.start()
            yield browsers
        finally:
            await browsers.close()


def _expect_dead_drivers() -> None:
    """Print no warning when the process of Playwright's driver has died: the walks report what they lost."""
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()

    def report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if _DRIVER_DIED in str(context.get("exception")):
            return
        if before is None:
            loop.default_exception_handler(context)
        else:
            before(loop, context)

    loop.set_exception_handler(report)


def default_walkers() -> int:
    """Return the default number of contexts open at once. Raises ConfigError for a bad `$AGENTLEARN_WALKERS`."""
    value = os.environ.get(_WALKERS_VARIABLE, "")
    if not value:
        return min(8 * (os.cpu_count() or 1), 32)
    if not value.isdecimal() or int(value) < 1:
        raise ConfigError(
            f"{_WALKERS_VARIABLE} is {value!r}; give the number of browser contexts open at once, at least 1"
        )
    return int(value)
