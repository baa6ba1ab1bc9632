"""Finds the element that a ref named when it was shown, and never another element."""

import re
from collections.abc import Container
from typing import TYPE_CHECKING

from agentlearn_web.browser.act_result import ActResult
from agentlearn_web.browser.playwright_errors import browser_error, failure_reason, is_element_gone, is_timeout
from agentlearn_web.browser.snapshot import bare_ref, refs_in
from agentlearn_web.browser.tab import Tab
from agentlearn_web.browser.walk_settings import WalkSettings

if TYPE_CHECKING:
    from playwright.async_api import ElementHandle, Locator

_TAB = re.compile(r"(t[0-9]+):")
_STALE = ActResult("stale_ref", "the page has changed since this ref was shown; take a ref from the view below")


async def find_element(tab: Tab, ref: str, others: Container[str], settings: WalkSettings) -> "Locator | ActResult":
    """Return the element, or an ActResult that says why there is none. others: ids of the other open tabs.

    The document must be the one that was shown, and the element must still have the same role and name. The browser
    gives an element a new ref when its role or name changes, and no ref while it is invisible.
    """
    shown, bare = tab.shown, bare_ref(ref)
    if shown is None or ref not in shown.refs:
        return _unknown_ref(tab, ref, others)
    if shown.document != tab.watch.document:
        return _STALE
    element = tab.page.locator(f"aria-ref={bare}")
    limit_ms = settings.action_s * 1000
    try:
        handle = await tab.page.query_selector(f"aria-ref={bare}")
        if handle is None:
            return _STALE
        refs = refs_in(await element.aria_snapshot(mode="ai", depth=1, timeout=limit_ms))
    except browser_error() as error:
        if is_element_gone(error):
            return _STALE
        raise
    if bare in refs:
        return element
    if refs:  # the element was renamed
        return _STALE
    return await _wait_until_visible(tab, ref, handle, settings) or element


def failed_action(error: Exception, ref: str) -> ActResult:
    """Return why an element could not be acted on. Re-raises errors that do not concern the element."""
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


async def _wait_until_visible(tab: Tab, ref: str, handle: "ElementHandle", settings: WalkSettings) -> ActResult | None:
    """Wait until the element is visible. Returns an ActResult if it does not become visible, or has another name then.

    Takes one snapshot of the page, because a snapshot of an invisible element makes the browser forget its ref.
    """
    try:
        await handle.wait_for_element_state("visible", timeout=settings.action_s * 1000)
    except browser_error() as error:
        if is_timeout(error):
            return ActResult("not_actionable", "nothing was done: it is not visible", ref)
        return failed_action(error, ref)
    refs = refs_in(await tab.page.aria_snapshot(mode="ai", timeout=settings.snapshot_s * 1000))
    return None if bare_ref(ref) in refs else _STALE
