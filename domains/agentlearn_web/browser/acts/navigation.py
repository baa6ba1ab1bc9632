"""Opening an address, and going back."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from agentlearn_web.boundary.flags import scheme_allowed
from agentlearn_web.browser.act_result import ActResult
from agentlearn_web.browser.acts.scope import ActScope
from agentlearn_web.browser.playwright_errors import browser_error, is_timeout, load_failure_reason
from agentlearn_web.browser.tab import BLANK
from agentlearn_web.browser.url_input import resolve_url

if TYPE_CHECKING:
    from playwright.async_api import Response

BLOCKED = ActResult("blocked", "this address may not be reached in this walk")


async def open_url(scope: ActScope, url: str) -> ActResult:
    """Open an address in the current tab."""
    page = scope.tab.page
    address = resolve_url(url, page.url)
    if address is None:
        note = "no web address; give one that begins with http:// or https://"
        return ActResult("bad_url", note, acted=False)
    return await _navigate(scope, lambda limit_ms: page.goto(address, wait_until="commit", timeout=limit_ms))


async def go_back(scope: ActScope) -> ActResult:
    """Leave a PDF file, or go back to the last address in the history that may be shown."""
    tab = scope.tab
    if tab.pdf is not None:
        tab.pdf = None
        return ActResult()
    history = await tab.watch.cdp.send("Page.getNavigationHistory")
    before = history["entries"][: history["currentIndex"]]
    shown = [one for one in before if one["url"] != BLANK and scheme_allowed(one["url"])]
    if not shown:
        return ActResult("no_history", "there is no page before this one in this tab", acted=False)
    if shown[-1] is not before[-1]:
        await tab.watch.cdp.send("Page.navigateToHistoryEntry", {"entryId": shown[-1]["id"]})
        return ActResult(effects_started=False)
    return await _navigate(scope, lambda limit_ms: tab.page.go_back(wait_until="commit", timeout=limit_ms))


async def _navigate(scope: ActScope, load: "Callable[[float], Awaitable[Response | None]]") -> ActResult:
    """Run a navigation and classify its result."""
    tab = scope.tab
    try:
        await load(scope.settings.load_s * 1000)
    except browser_error() as error:
        if tab.page.is_closed() or not scope.tabs.is_alive():
            raise
        if is_timeout(error):
            await tab.watch.stop(scope.settings)
        if "interrupted by another navigation" in str(error):
            return ActResult()
        if scope.events.has_refused(tab.watch.target_url):
            return BLOCKED
        return ActResult("load_failed", f"the page did not load: {load_failure_reason(error)}")
    return ActResult()
