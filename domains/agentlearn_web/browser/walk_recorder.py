"""Optional recording of a walk: a screenshot of each act and a Playwright trace. A failure never ends the walk.

A trace contains every request with its cookies. So a walk that starts with a session leaves no trace, only screenshots.
"""

import asyncio
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from agentlearn.log import get_log
from agentlearn_web.browser.playwright_errors import browser_error, is_browser_gone

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page

TRACE = "trace.zip"
LEAST_FREE_BYTES = 500_000_000
"""With less free space on the disk, nothing more is recorded."""
_SCREENSHOT_S = 5.0
_TRACE_S = 30.0


class WalkRecorder:
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
                await self._context.tracing.stop(path=self._folder / TRACE)
        except (OSError, TimeoutError, browser_error()) as error:
            self._log_failure(error)
            with suppress(OSError):
                (self._folder / TRACE).unlink()

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
        if free < LEAST_FREE_BYTES and not self._full:
            self._full = True
            self._log_failure(OSError(f"the disk has less than {LEAST_FREE_BYTES // 10**6} MB left"))
        return free >= LEAST_FREE_BYTES

    def _log_failure(self, error: Exception) -> None:
        """Log why something was not saved. A lost browser loses many recordings at once, so it is not logged here."""
        if is_browser_gone(error):
            self.lost = True
            return
        get_log().warning("recording.failed", folder=str(self._folder), reason=str(error).partition("\n")[0])
