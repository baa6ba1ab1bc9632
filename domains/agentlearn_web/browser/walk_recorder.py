"""Optional recording of a walk: a screenshot of each act and a Playwright trace. A failure never ends the walk."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from agentlearn.log import get_log
from agentlearn_web.browser.playwright_errors import browser_error

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page

TRACE = "trace.zip"
_SCREENSHOT_S = 5.0
_TRACE_S = 30.0


class WalkRecorder:
    """Writes `step-01.png`, … and `trace.zip` into a folder. Without a folder it does nothing."""

    def __init__(self, context: "BrowserContext", folder: Path | None) -> None:
        self._context = context
        self._folder = folder
        self._steps = 0
        self._tracing = False

    async def begin(self) -> None:
        """Create the folder and start the trace."""
        if self._folder is None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            await self._context.tracing.start(screenshots=True, snapshots=True, sources=False)
            self._tracing = True
        except (OSError, browser_error()) as error:
            self._log_failure(error)

    async def step(self, page: "Page") -> None:
        """Save a screenshot of the page."""
        if self._folder is None:
            return
        self._steps += 1
        try:
            async with asyncio.timeout(2 * _SCREENSHOT_S):
                screenshot = await page.screenshot(timeout=_SCREENSHOT_S * 1000)
            (self._folder / f"step-{self._steps:02}.png").write_bytes(screenshot)
        except (OSError, TimeoutError, browser_error()) as error:
            self._log_failure(error)

    async def end(self) -> None:
        """Stop and save the trace."""
        if not self._tracing or self._folder is None:
            return
        self._tracing = False
        try:
            async with asyncio.timeout(_TRACE_S):
                await self._context.tracing.stop(path=self._folder / TRACE)
        except (OSError, TimeoutError, browser_error()) as error:
            self._log_failure(error)
            with suppress(OSError):
                (self._folder / TRACE).unlink()

    def _log_failure(self, error: Exception) -> None:
        get_log().warning("recording.failed", folder=str(self._folder), reason=str(error).partition("\n")[0])
