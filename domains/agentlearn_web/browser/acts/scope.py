"""What an act may use, and how it reaches the element that a ref names."""

import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from agentlearn_web.browser.page_events import PageEvents
from agentlearn_web.browser.snapshot import bare_ref, refs_in
from agentlearn_web.browser.tabs import Tab, Tabs
from agentlearn_web.browser.walk_settings import ActResult, WalkSettings, browser_error, failure_reason, is_timeout
from agentlearn_web.task_files import TaskFile

if TYPE_CHECKING:
    from playwright.async_api import ElementHandle, Locator

_TAB = re.compile(r"(t[0-9]+):")
_STALE = ActResult("stale_ref", "the page has changed since this ref was shown; take a ref from the view below")


def _is_element_gone(error: Exception) -> bool:
    """Return whether the ref no longer matches exactly one element."""
    phrases = ("does not match any element", "Invalid frame in aria-ref", "strict mode violation", "not attached")
    return any(phrase in str(error) for phrase in phrases)


@dataclass(frozen=True)
class ActScope:
    """The tabs, settings and events of a walk, and the files that its task names."""

    tabs: Tabs
    settings: WalkSettings
    events: PageEvents
    files: Mapping[str, TaskFile] = field(default_factory=dict[str, TaskFile])

    @property
    def tab(self) -> Tab:
        """The current tab."""
        return self.tabs.current

    @property
    def action_ms(self) -> float:
        """Longest time to wait until an element can be acted on, in milliseconds."""
        return self.settings.action_s * 1000

    async def find(self, ref: str) -> "Locator | ActResult":
        """Return the element that a ref named in the last view, or an ActResult that says why there is none.

        The document must be the one that was shown, and the element must still have the same role and name. The browser
        gives an element a new ref when its role or name changes, and no ref while it is invisible.
        """
        tab, shown, bare = self.tab, self.tab.shown, bare_ref(ref)
        if shown is None or ref not in shown.refs:
            named = _TAB.match(ref)
            if named and named[1] != tab.id and named[1] in self.tabs:
                note = f"this ref is of the tab {named[1]}, and {tab.id} is the current one; select that tab first"
                return ActResult("foreign_ref", note, acted=False)
            note = "the last view of this tab has no such ref; take one as the view below writes it, such as t1:e5"
            return ActResult("unknown_ref", note, acted=False)
        if shown.document != tab.watch.document:
            return _STALE
        element = tab.page.locator(f"aria-ref={bare}")
        try:
            handle = await tab.page.query_selector(f"aria-ref={bare}")
            if handle is None:
                return _STALE
            refs = refs_in(await element.aria_snapshot(mode="ai", depth=1, timeout=self.action_ms))
        except browser_error() as error:
            if _is_element_gone(error):
                return _STALE
            raise
        if bare in refs:
            return element
        if refs:  # the element was renamed
            return _STALE
        return await self._wait_until_visible(ref, handle) or element

    async def _wait_until_visible(self, ref: str, handle: "ElementHandle") -> ActResult | None:
        """Wait until an element is visible. Returns an ActResult if it does not become visible, or is renamed then.

        Takes one snapshot of the page, because a snapshot of an invisible element makes the browser forget its ref.
        """
        try:
            await handle.wait_for_element_state("visible", timeout=self.action_ms)
        except browser_error() as error:
            if is_timeout(error):
                return ActResult("not_actionable", "nothing was done: it is not visible", ref)
            return self.failed(error, ref)
        refs = refs_in(await self.tab.page.aria_snapshot(mode="ai", timeout=self.settings.snapshot_s * 1000))
        return None if bare_ref(ref) in refs else _STALE

    @staticmethod
    def failed(error: Exception, ref: str) -> ActResult:
        """Return why an element could not be acted on. Re-raises errors that do not concern the element."""
        if _is_element_gone(error):
            return _STALE
        if not is_timeout(error):
            raise error
        return ActResult("not_actionable", f"nothing was done: {failure_reason(error)}", ref)

    async def wait_for_lists(self) -> None:
        """Wait until the page has reacted to typed keys, for example with a list of suggestions. Raises PageHung."""
        await self.tab.watch.wait_until_settled(time.monotonic(), effects_started=False, typed=True)

    async def on_element(self, ref: str, act: "Callable[[Locator], Awaitable[ActResult]]") -> ActResult:
        """Do an act on the element of a ref. Errors that concern the element become a result."""
        element = await self.find(ref)
        if isinstance(element, ActResult):
            return element
        try:
            return replace(await act(element), near_ref=ref)
        except browser_error() as error:
            return self.failed(error, ref)
