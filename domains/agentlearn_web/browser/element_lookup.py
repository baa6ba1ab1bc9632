"""From a ref to the element that it stood for when it was shown, and to no other element."""

import asyncio
import re
import time
from collections.abc import Container
from typing import TYPE_CHECKING

from agentlearn_web.browser.act_result import ActResult
from agentlearn_web.browser.playwright_errors import browser_error, failure_reason, is_element_gone, is_timeout
from agentlearn_web.browser.snapshot import bare_ref, refs_in
from agentlearn_web.browser.tab import Tab
from agentlearn_web.browser.walk_settings import WalkSettings

if TYPE_CHECKING:
    from playwright.async_api import Locator

_TAB = re.compile(r"(t[0-9]+):")
_STALE = ActResult("stale_ref", "the page has changed since this ref was shown; take a ref from the view below")


async def find_element(tab: Tab, ref: str, others: Container[str], settings: WalkSettings) -> "Locator | ActResult":
    """The element, or why there is none. others: ids of the other open tabs.

    It is looked for in the document that was shown, and taken if it still has the role and the name it was shown with:
    the browser gives an element another ref with another role or name, and none while it cannot be seen.
    """
    shown, bare = tab.shown, bare_ref(ref)
    if shown is None or ref not in shown.refs:
        return _unknown_ref(tab, ref, others)
    if shown.document != tab.watch.document:
        return _STALE
    element = tab.page.locator(f"aria-ref={bare}")
    try:
        refs = refs_in(await element.aria_snapshot(mode="ai", timeout=settings.action_s * 1000))
    except browser_error() as error:
        if is_element_gone(error):
            return _STALE
        raise
    if bare in refs:
        return element
    patience_s = 0.0 if refs else settings.action_s  # one that has a ref has another one now: it was renamed
    return await _wait_until_visible(tab, ref, element, settings, patience_s)


def failed_action(error: Exception, ref: str) -> ActResult:
    """Why an element that was reached could not be acted on. Raises what has nothing to do with the element."""
    if is_element_gone(error):
        return _STALE
    if not is_timeout(error):
        raise error
    return ActResult("not_actionable", f"nothing was done: {failure_reason(error)}", ref)


def _unknown_ref(tab: Tab, ref: str, others: Container[str]) -> ActResult:
    named = _TAB.match(ref)
    if named and named[1] != tab.id and named[1] in others:
        note = f"this ref is of the tab {named[1]}, and {tab.id} is the current one; select that tab first"
        return ActResult("foreign_ref", note, acted=False)
    note = "the last view of this tab has no such ref; take one as the view below writes it, such as t1:e5"
    return ActResult("unknown_ref", note, acted=False)


async def _wait_until_visible(
    tab: Tab, ref: str, element: "Locator", settings: WalkSettings, patience_s: float
) -> "Locator | ActResult":
    """An element that could not be seen, as soon as it can be."""
    until = time.monotonic() + patience_s
    while bare_ref(ref) not in refs_in(await tab.page.aria_snapshot(mode="ai", timeout=settings.hung_s * 1000)):
        if time.monotonic() >= until:
            return ActResult("not_actionable", "nothing was done: it is not visible", ref) if patience_s else _STALE
        await asyncio.sleep(settings.quiet_s)
    return element
