"""Filling a field, and choosing options of a list."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentlearn_web.browser.act_result import ActResult
from agentlearn_web.browser.acts.scope import ActScope
from agentlearn_web.browser.fill_field import fill_field
from agentlearn_web.browser.list_options import choose_options

if TYPE_CHECKING:
    from playwright.async_api import Locator


async def type_text(scope: ActScope, ref: str, text: str, *, submit: bool) -> ActResult:
    """Fill a field, or choose a list option by its name or value; then submit the form if `submit` is set."""

    async def fill(element: "Locator") -> ActResult:
        waits = None if scope.tab.watch.is_static else scope.wait_for_lists
        return await fill_field(element, text, submit=submit, limit_s=scope.settings.action_s, wait_for_lists=waits)

    return await scope.on_element(ref, fill)


async def choose_in_list(scope: ActScope, ref: str, options: Sequence[str]) -> ActResult:
    """Choose exactly these options of a list, each by label or value."""

    async def choose(element: "Locator") -> ActResult:
        return await choose_options(element, options, limit_ms=scope.action_ms)

    return await scope.on_element(ref, choose)
