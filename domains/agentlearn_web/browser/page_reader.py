"""Acts that only read the page of the current tab: finding a text, showing another part, waiting."""

from collections.abc import Awaitable, Callable

from agentlearn_web.browser.act_result import ActResult, plural
from agentlearn_web.browser.acts.scope import ActScope
from agentlearn_web.browser.shown_snapshot import ShownSnapshot
from agentlearn_web.browser.tab import Tab
from agentlearn_web.browser.text_search import BadPattern, find_pattern, find_text, fitting
from agentlearn_web.browser.wait_for_text import wait_for_text
from agentlearn_web.observation import PageObservation

_WAIT_S = 10.0
_MOST_WAIT_S = 30.0


class PageReader:
    """Reads the page of the current tab, again if it has changed.

    Its methods raise PageHung and Playwright's errors.
    """

    def __init__(
        self,
        scope: ActScope,
        view: Callable[[ActResult], Awaitable[PageObservation]],
        observe: Callable[[Tab, ShownSnapshot, ActResult], PageObservation],
    ) -> None:
        """view: takes a fresh view of the current tab. observe: shows a part of a snapshot."""
        self._scope = scope
        self._view = view
        self._observe = observe

    async def _current_snapshot(self) -> ShownSnapshot:
        """Return the shown snapshot, or a fresh one if the page has changed since. Raises PageHung."""
        tab = self._scope.tab
        shown = tab.shown
        if shown is None or await tab.has_changed(shown, self._scope.settings):
            await self._scope.tabs.tidy()
            await self._view(ActResult())
        return self._scope.tab.shown or ShownSnapshot(self._scope.tab.watch.document)

    async def find(self, text: str, *, regex: bool) -> PageObservation:
        """Show where the page holds a text, or matches a regular expression, with the text around each match."""
        shown = await self._current_snapshot()
        try:
            found = await find_pattern(shown, text) if regex else tuple(find_text(shown, text))
        except BadPattern as error:
            found, result = (), ActResult("bad_pattern", str(error))
        else:
            result = ActResult() if found else ActResult("not_found", "the page does not hold this text")
        kept = fitting(found, self._scope.settings)
        if len(found) > len(kept):
            more = plural(len(found) - len(kept), "more place")
            self._scope.events.add("truncated", f"{more} of the page held it; look for something longer")
        lines = tuple(line for one in kept for line in one.lines)
        pages = tuple(number for one in kept for number in one.pages)
        view = self._observe(self._scope.tab, shown, result)
        return view.model_copy(update={"lines": lines, "found": pages})

    async def more(self, page: int | None) -> PageObservation:
        """Show another part of the page, by default the next one."""
        shown = await self._current_snapshot()
        tab = self._scope.tab
        wanted = tab.page_number + 1 if page is None else page
        if not 1 <= wanted <= len(shown.pages):
            note = f"there is no page {wanted}; the snapshot has {plural(len(shown.pages), 'page')}"
            return self._observe(tab, shown, ActResult("no_more", note))
        tab.page_number = wanted
        return self._observe(tab, shown, ActResult())

    async def wait(self, text: str | None, seconds: float | None) -> PageObservation:
        """Wait until the page holds a text, and show it; or until the seconds have passed."""
        limit_s = _WAIT_S if seconds is None else seconds
        if not 0 <= limit_s <= _MOST_WAIT_S:
            note = f"{seconds!r} seconds cannot be waited; give a number from 0 to {_MOST_WAIT_S:g}"
            return await self._view(ActResult("bad_wait", note, acted=False))
        found = await wait_for_text(self._scope.tab, text or "", limit_s, self._scope.settings)
        await self._scope.tabs.tidy()
        if found or not text:
            view = await self._view(ActResult())
            first = next(iter(find_text(self._scope.tab.shown or ShownSnapshot(0), text or "")), None)
            return await self.more(first.pages[0]) if first else view
        return await self._view(ActResult("not_found", f"the text did not appear within {limit_s:g} s"))
