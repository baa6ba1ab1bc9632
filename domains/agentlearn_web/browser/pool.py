"""The browser of a run: one Chromium, a fresh context for each walk, a limit on how many are open at once.

A browser is replaced by a fresh one after `recycle_after` walks, as what contexts leave behind is never given back
whole; and when it died, which costs the walks on it and no others.
"""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from agentlearn.errors import ConfigError, ToolError
from agentlearn.log import get_log
from agentlearn_web.boundary.access_policy import AccessPolicy
from agentlearn_web.boundary.flags import FLAGS, context_options
from agentlearn_web.boundary.proxy import NetworkLimits, open_proxy
from agentlearn_web.browser.find import Chromium, find_chromium, require_playwright
from agentlearn_web.browser.lost import BrowserLost
from agentlearn_web.browser.walk import Walk, WalkSettings

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Playwright

WALKERS = "AGENTLEARN_WALKERS"
_LAUNCH_S = 60.0
_CONTEXT_S = 60.0
_CLOSE_S = 10.0


@dataclass(frozen=True, slots=True)
class BrowserOptions:
    """How a run's browser is kept."""

    walkers: int = 0
    """Contexts open at once; 0: as `$AGENTLEARN_WALKERS` says, else eight per core, 32 at most."""
    recycle_after: int = 200
    """Walks on one browser."""
    walk: WalkSettings = field(default_factory=WalkSettings)
    limits: NetworkLimits = field(default_factory=NetworkLimits)
    chromium: Chromium | None = None
    """None: the one that `find_chromium` finds."""


@dataclass(slots=True)
class _Living:
    """One browser process, and the walks on it."""

    browser: "Browser"
    begun: int = 0
    open: int = 0
    broken: bool = False


class Browsers:
    """Contexts for walks. Made by `open_browsers`."""

    def __init__(self, playwright: "Playwright", chromium: Chromium, options: BrowserOptions) -> None:
        self._playwright = playwright
        self._chromium = chromium
        self._options = options
        self.walkers = options.walkers or default_walkers()
        """Walks open at once."""
        self._slots = asyncio.Semaphore(self.walkers)
        self._launching = asyncio.Lock()
        self._current: _Living | None = None
        self.launched = 0
        """Browsers started so far."""

    @asynccontextmanager
    async def walk(self, places: AccessPolicy, *, nonce: str, record: Path | None = None) -> AsyncGenerator[Walk]:
        """A walk in a fresh context behind a lane of its own. Waits for a free place. Raises BrowserLost, ToolError.

        nonce: marks the fence around what sites wrote. record: a folder for screenshots and a trace.
        """
        async with self._slots, open_proxy(places, self._options.limits) as lane, AsyncExitStack() as stack:
            living = await self._living()
            living.begun += 1
            living.open += 1
            stack.push_async_callback(self._left, living)
            context = await self._context(living, context_options(lane))
            stack.push_async_callback(self._closed, living, context)
            walk = Walk(context, lane, self._options.walk, nonce=nonce, record=record)
            await walk.begin()
            stack.push_async_callback(walk.end)
            yield walk

    async def start(self) -> None:
        """Start the browser now rather than at the first walk. Raises ConfigError when it does not start."""
        try:
            await self._living()
        except ToolError as error:
            raise ConfigError(
                f"{self._chromium.path} did not start: {error.message}; `agentlearn doctor` says what was found",
                code="browser_broken",
            ) from error

    async def close(self) -> None:
        """End the browser; walks that are open lose it."""
        if self._current is not None:
            await _ended(self._current.browser)

    async def _living(self) -> _Living:
        """The browser for the next walk: the current one, unless it is used up or gone."""
        async with self._launching:
            current = self._current
            if current is not None and self._fit(current):
                return current
            if current is not None and current.open == 0:
                await _ended(current.browser)
            self._current = _Living(await self._launch())
            return self._current

    def _fit(self, living: _Living) -> bool:
        fresh = living.begun < self._options.recycle_after
        return fresh and not living.broken and living.browser.is_connected()

    async def _launch(self) -> "Browser":
        from playwright.async_api import Error

        try:
            browser = await self._playwright.chromium.launch(
                executable_path=self._chromium.path,
                args=list(FLAGS),
                chromium_sandbox=has_sandbox(),
                timeout=_LAUNCH_S * 1000,
                handle_sigint=False,  # ending is ours: walks are ended first
                handle_sigterm=False,
                handle_sighup=False,
            )
        except Error as error:
            first = error.message.strip().partition("\n")[0]
            raise ToolError(f"the browser did not start: {first}", code="browser_failed") from error
        self.launched += 1
        get_log().debug("browser.launched", path=str(self._chromium.path), number=self.launched)
        return browser

    async def _context(self, living: _Living, options: dict[str, object]) -> "BrowserContext":
        from playwright.async_api import Error

        try:
            async with asyncio.timeout(_CONTEXT_S):
                return await living.browser.new_context(**options)  # pyright: ignore[reportArgumentType]
        except (Error, TimeoutError) as error:
            living.broken = True
            raise BrowserLost(f"the browser gave no context: {error or 'it took too long'}") from error

    async def _closed(self, living: _Living, context: "BrowserContext") -> None:
        """Close a walk's context. One that does not close takes its browser with it, once the others have left."""
        from playwright.async_api import Error

        try:
            async with asyncio.timeout(_CLOSE_S):
                await context.close()
        except (Error, TimeoutError):
            living.broken = True

    async def _left(self, living: _Living) -> None:
        living.open -= 1
        if living is not self._current and living.open == 0:
            await _ended(living.browser)


@asynccontextmanager
async def open_browsers(options: BrowserOptions | None = None) -> AsyncGenerator[Browsers]:
    """Browsers for the walks of one run, the first one started; all of them end with the block.

    Raises MissingExtra without Playwright, ConfigError without a Chromium that starts.
    """
    require_playwright()
    from playwright.async_api import async_playwright

    chosen = options or BrowserOptions()
    chromium = chosen.chromium or find_chromium()
    async with async_playwright() as playwright:
        browsers = Browsers(playwright, chromium, chosen)
        try:
            await browsers.start()
            yield browsers
        finally:
            await browsers.close()


def default_walkers() -> int:
    """How many contexts may be open at once, unless told otherwise. Raises ConfigError for a bad variable."""
    told = os.environ.get(WALKERS, "")
    if not told:
        return min(8 * (os.cpu_count() or 1), 32)
    if not told.isdecimal() or int(told) < 1:
        raise ConfigError(f"{WALKERS} is {told!r}; give the number of browser contexts open at once, at least 1")
    return int(told)


def has_sandbox() -> bool:
    """Whether Chromium's own sandbox is on: not for root, for whom it refuses to start."""
    return os.geteuid() != 0


async def _ended(browser: "Browser") -> None:
    from playwright.async_api import Error

    try:
        async with asyncio.timeout(_CLOSE_S):
            await browser.close()
    except (Error, TimeoutError) as error:
        get_log().warning("browser.not_closed", reason=str(error))
