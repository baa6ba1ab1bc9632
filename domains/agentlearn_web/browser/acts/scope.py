"""What an act may use, and how it reaches the element that a ref names."""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from agentlearn_web.browser.act_result import ActResult
from agentlearn_web.browser.element_lookup import failed_action, find_element
from agentlearn_web.browser.page_events import PageEvents
from agentlearn_web.browser.playwright_errors import browser_error
from agentlearn_web.browser.tab import Tab
from agentlearn_web.browser.tabs import Tabs
from agentlearn_web.browser.walk_settings import WalkSettings
from agentlearn_web.task_files import TaskFile

if TYPE_CHECKING:
    from playwright.async_api import Locator


@dataclass(frozen=True, slots=True)
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
        """Return the element that a ref named in the last view, or why there is none."""
        return await find_element(self.tab, ref, self.tabs, self.settings)

    async def wait_for_lists(self) -> None:
        """Wait until the page has reacted to typed keys, for example with a list of suggestions. Raises PageHung."""
        await self.tab.watch.wait_until_settled(self.settings, time.monotonic(), effects_started=False, typed=True)

    async def on_element(self, ref: str, act: "Callable[[Locator], Awaitable[ActResult]]") -> ActResult:
        """Do an act on the element of a ref. Errors that concern the element become a result."""
        element = await self.find(ref)
        if isinstance(element, ActResult):
            return element
        try:
            return replace(await act(element), near_ref=ref)
        except browser_error() as error:
            return failed_action(error, ref)
