"""Acts with the mouse: clicking, hovering and dragging."""

from dataclasses import replace
from typing import TYPE_CHECKING

from agentlearn_web.browser.act_result import ActResult
from agentlearn_web.browser.acts.scope import ActScope
from agentlearn_web.browser.element_lookup import failed_action
from agentlearn_web.browser.playwright_errors import browser_error, click_was_done

if TYPE_CHECKING:
    from playwright.async_api import ElementHandle, FloatRect, Locator

_DRAG_STEPS = 12
"""Mouse moves between the two elements. Many pages take a drag only after several moves."""

_START_PIXELS = 6
"""How far the mouse moves to start a drag."""


async def click_element(scope: ActScope, ref: str) -> ActResult:
    """Click an element."""

    async def click(element: "Locator") -> ActResult:
        try:
            await element.click(timeout=scope.action_ms)
        except browser_error() as error:
            if not click_was_done(error):
                raise
        return ActResult()

    return await scope.on_element(ref, click)


async def hover_element(scope: ActScope, ref: str) -> ActResult:
    """Move the mouse over an element, and leave it there."""

    async def hover(element: "Locator") -> ActResult:
        await element.hover(timeout=scope.action_ms)
        return ActResult()

    return await scope.on_element(ref, hover)


async def drag_element(scope: ActScope, ref: str, to: str) -> ActResult:
    """Press the mouse on one element, move it to the middle of another one, and release it there."""
    try:
        target = await _fixed(scope, to)
    except browser_error() as error:
        target = failed_action(error, to)
    if isinstance(target, ActResult):
        return replace(target, note=f"`to`: {target.note}")

    async def drag(element: "Locator") -> ActResult:
        mouse = scope.tab.page.mouse
        await element.hover(timeout=scope.action_ms)
        await mouse.down()
        try:
            if (
                box := await element.bounding_box(timeout=scope.action_ms)
            ) is not None:  # start before the page scrolls
                x, y = _middle(box)
                await mouse.move(x + _START_PIXELS, y + _START_PIXELS, steps=2)
            return await _move_to(scope, target)
        except browser_error() as error:
            return failed_action(error, to)
        finally:
            await mouse.up()

    return await scope.on_element(ref, drag)


async def _fixed(scope: ActScope, ref: str) -> "ElementHandle | ActResult":
    """Return the element of a ref as a handle, which stays valid while another ref is looked up."""
    element = await scope.find(ref)
    if isinstance(element, ActResult):
        return element
    handle = await element.element_handle(timeout=scope.action_ms)
    # Looking up a ref makes the browser forget all other refs, until it takes a snapshot of the whole page.
    await scope.tab.page.aria_snapshot(mode="ai", timeout=scope.settings.hung_s * 1000)
    return handle


async def _move_to(scope: ActScope, target: "ElementHandle") -> ActResult:
    mouse = scope.tab.page.mouse
    await target.scroll_into_view_if_needed(timeout=scope.action_ms)
    box = await target.bounding_box()
    if box is None:
        return ActResult("not_actionable", "nothing was dropped: the element to drag to is not visible")
    x, y = _middle(box)
    await mouse.move(x, y, steps=_DRAG_STEPS)
    await mouse.move(x, y)  # an HTML drop needs a second move over its target
    return ActResult(effects_started=False)


def _middle(box: "FloatRect") -> tuple[float, float]:
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
