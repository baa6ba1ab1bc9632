"""Clicking, hovering, dragging and scrolling, and what every act may use."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from agentlearn_web.browser.shown_snapshot import bare_ref, refs_in
from agentlearn_web.browser.tabs import Tab, Tabs
from agentlearn_web.browser.walk_settings import (
    ActResult,
    PageEvents,
    TaskFile,
    WalkSettings,
    browser_error,
    failure_reason,
    is_timeout,
)
from agentlearn_web.scripts import page_script

if TYPE_CHECKING:
    from playwright.async_api import ElementHandle, FloatRect, Page, Position


_TAB = re.compile(r"(t[0-9]+):")
_GONE = (
    "does not match any element",
    "Failed to find element",
    "Invalid frame in aria-ref",
    "strict mode violation",
    "not attached",
)
_STALE = ActResult("stale_ref", "the page has changed since this ref was shown; take a ref from the view below")


def _is_element_gone(error: Exception) -> bool:
    """Return whether the ref no longer matches exactly one element."""
    return any(phrase in str(error) for phrase in _GONE)


@dataclass(frozen=True, slots=True)
class _Named:
    """An element by its selector, which is looked up with each act on it, so that it needs no message of its own."""

    page: "Page"
    selector: str

    async def evaluate(self, script: str, given: object = None) -> Any:
        """Return what a function in the page returns for the element."""
        return await self.page.eval_on_selector(self.selector, script, given)

    async def click(self, **how: Any) -> None:
        """Click it."""
        await self.page.click(self.selector, **how)

    async def hover(self, **how: Any) -> None:
        """Move the mouse over it."""
        await self.page.hover(self.selector, **how)


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

    async def find(self, ref: str) -> "ElementHandle | ActResult":
        """Return the element that a ref named in the last view, or an ActResult that says why there is none.

        The document must be the one that was shown, and the element must still have the same role and name. The browser
        gives an element a new ref when its role or name changes, and no ref while it is invisible.
        """
        return await self._find(ref)

    async def _find(self, ref: str, *, is_named: bool = False) -> "Any":
        """Return what `find` does. is_named: whether a name is enough, if nothing can have changed."""
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
        number = bare.removeprefix("w")  # of an empty editor, which the browser gives no ref
        selector = f"aria-ref={bare}" if number == bare else f"css:light=[contenteditable] >> nth={number}"
        is_fixed = tab.watch.is_static and not shown.text.partial
        changed = not is_fixed and (await tab.watch.has_changed(shown.document, shown.changes) or shown.text.partial)
        if is_named and not changed:
            return _Named(tab.page, selector)
        try:
            handle = await tab.page.query_selector(selector)
            if handle is None:
                return _STALE
            if not changed or number != bare:  # nothing can have been renamed
                return handle
            element = tab.page.locator(selector)
            refs = refs_in(await element.aria_snapshot(mode="ai", depth=1, timeout=self.action_ms))
        except browser_error() as error:
            if _is_element_gone(error):
                return _STALE
            raise
        if bare in refs:
            return handle
        if refs:  # the element was renamed
            return _STALE
        return await self._wait_until_visible(ref, handle) or handle

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
        await self.tab.watch.wait_until_settled(time.monotonic(), effects_started=False, delayed=True)

    async def on_element(
        self, ref: str, act: "Callable[[Any], Awaitable[ActResult]]", *, is_named: bool = False
    ) -> ActResult:
        """Do an act on the element of a ref. Errors that concern the element become a result."""
        element = await self._find(ref, is_named=is_named)
        if isinstance(element, ActResult):
            return element
        try:
            return replace(await act(element), near_ref=ref)
        except browser_error() as error:
            return self.failed(error, ref)


_CLICK_DONE = ("click action done", "waiting for scheduled navigations")
"""What Playwright says when the click itself was made, and only its consequences took too long."""

_DRAG_STEPS = 12
"""Mouse moves between the two elements. Many pages take a drag only after several moves."""

_HOLD_S = 0.35
"""How long the mouse is held before it moves. Some pages take a shorter press for a click, and start no drag."""

_START_PIXELS = 6
"""How far the mouse moves to start a drag."""

_PAST_MIDDLE = 0.4
"""How far past the middle of the other item a drag goes before it returns, as a part of the item's width or height.
Items of a sortable list change places only when the dragged one has passed the middle of the other one."""

_ANIMATION_S = 0.15
"""Time between two moves over another item. While items of a sortable list change places, they take no further one."""

_MORE_TRIES = 3
"""How often the mouse moves again over an item that has not made room."""


ClickKind = Literal["single", "double", "right"]
"""One click, a double click, or one click with the right button, with which pages open menus of their own."""


def _has_moved(before: "FloatRect", after: "FloatRect") -> bool:
    """Return whether an item has made room for the dragged one."""
    across, down = abs(after["x"] - before["x"]), abs(after["y"] - before["y"])
    return across > before["width"] / 4 or down > before["height"] / 4


def _past_middle(item: "FloatRect", start: "FloatRect") -> tuple[float, float]:
    """Return a point of the item past its middle, as seen from where the drag starts."""
    x, y = _middle(item)
    x += _PAST_MIDDLE * item["width"] * _direction(start["x"], start["width"], item["x"], item["width"])
    y += _PAST_MIDDLE * item["height"] * _direction(start["y"], start["height"], item["y"], item["height"])
    return x, y


def _direction(begin: float, size: float, other: float, other_size: float) -> int:
    """Return where the other element lies on an axis: 1 after the first one, -1 before it, 0 if they overlap."""
    return int(other >= begin + size) - int(other + other_size <= begin)


def _middle(box: "FloatRect") -> tuple[float, float]:
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


Direction = Literal["down", "up", "left", "right", "start", "end"]
_DIRECTIONS = ", ".join(get_args(Direction))


def _result(moved: Any) -> ActResult:
    if moved == "moved":
        return ActResult(seeks_new=True, delayed=True)
    if moved == "none":
        return ActResult("no_more", "nothing was scrolled: all of it is visible; `more` shows the rest of a long page")
    return ActResult("no_more", "nothing was scrolled: there is nothing further in this direction")


class PointerActs(ActScope):
    """Acts with the mouse."""

    async def click(self, ref: str, kind: ClickKind = "single") -> ActResult:
        """Click an element, where no other element covers it."""
        if kind not in get_args(ClickKind):
            known = ", ".join(get_args(ClickKind))
            note = f"nothing was clicked: there is no click {str(kind)[:40]!r}; give one of {known}"
            return ActResult("bad_click", note, acted=False)

        async def click(element: "ElementHandle | _Named") -> ActResult:
            try:
                at, force = await self._reach(element)
                button, times = "right" if kind == "right" else "left", 2 if kind == "double" else 1
                await element.click(timeout=self.action_ms, position=at, button=button, click_count=times, force=force)
            except browser_error() as error:
                answered = self.tabs.dialogs.answered  # of the script that the click started, while it has not ended
                if not answered and not any(words in str(error) for words in _CLICK_DONE):
                    raise
            return ActResult()

        return await self.on_element(ref, click, is_named=True)

    async def hover(self, ref: str) -> ActResult:
        """Move the mouse over an element, and leave it there."""

        async def hover(element: "ElementHandle") -> ActResult:
            at, _ = await self._place(element)
            if at is None:
                why = "another element covers it" if await element.is_visible() else "it is not visible"
                return ActResult("not_actionable", f"nothing was done: {why}")
            await element.hover(timeout=self.action_ms, position=at, force=True)  # what it opens may cover the element
            return ActResult(delayed=True)

        return await self.on_element(ref, hover)

    async def drag(self, ref: str, to: str) -> ActResult:
        """Press the mouse on one element, move it to the middle of another one, and release it there."""
        try:
            target = await self._fixed(to)
        except browser_error() as error:
            target = self.failed(error, to)
        if isinstance(target, ActResult):
            return replace(target, note=f"`to`: {target.note}")

        async def drag(element: "ElementHandle") -> ActResult:
            mouse = self.tab.page.mouse
            at, force = await self._place(element)
            await element.hover(force=force, timeout=self.action_ms, position=at)
            # Both are read before the press: many pages hide or move the element as soon as a drag starts.
            found = await target.evaluate_handle(page_script("sortable_item"), element)
            start, item = await element.bounding_box(), found.as_element()
            await mouse.down()
            try:
                await asyncio.sleep(_HOLD_S)
                if start is not None:  # start before the page scrolls
                    x, y = _middle(start) if at is None else (start["x"] + at["x"], start["y"] + at["y"])
                    await mouse.move(x + _START_PIXELS, y + _START_PIXELS, steps=2)
                return await self._move_to(target, item, start)
            except browser_error() as error:
                return self.failed(error, to)
            finally:
                await mouse.up()

        return await self.on_element(ref, drag)

    async def scroll(self, direction: str, ref: str | None = None) -> ActResult:
        """Scroll by nine tenths of what is visible, or to the start or end.

        Without a ref, the page is scrolled, or the largest part that scrolls if the page itself does not.
        """
        if direction not in get_args(Direction):
            note = f"nothing was scrolled: there is no direction {direction[:40]!r}; give one of {_DIRECTIONS}"
            return ActResult("bad_direction", note, acted=False)
        if ref is None:
            return _result(
                await self.tab.page.evaluate(f"(direction) => ({page_script('scroll')})(null, direction)", direction)
            )

        async def scroll(element: "ElementHandle") -> ActResult:
            return _result(await element.evaluate(page_script("scroll"), direction))

        return await self.on_element(ref, scroll)

    @staticmethod
    async def _place(element: "ElementHandle | _Named", *, waits: bool = False) -> "tuple[Position | None, bool]":
        """Return where to press an element, and whether it can be pressed there without a further check."""
        found = await element.evaluate(page_script("uncovered"), waits)
        return (None, False) if found is None else (found["point"], found["sure"])

    async def _reach(self, element: "ElementHandle | _Named") -> "tuple[Position | None, bool]":
        """Return what `_place` does, with the mouse over the element and the pictures loaded that the page then shows.

        Until they have come, the element can have no size, and a press would hit what lies next to it.
        """
        if self.tab.watch.is_static:
            return await self._place(element)
        since = time.monotonic()
        with suppress(browser_error(), TimeoutError):  # the click that follows says why it cannot be reached
            found = await element.evaluate(page_script("uncovered"))
            if found and found["window"]:
                await self.tab.page.mouse.move(**found["window"])
            else:
                await element.hover(timeout=self.action_ms, force=True)
            async with asyncio.timeout(self.settings.settle_s):
                place = await self._place(element, waits=True)
            return place if not await self.tab.watch.wait_for_pictures(since) else await self._place(element)
        return await self._place(element)

    async def _fixed(self, ref: str) -> "ElementHandle | ActResult":
        """Return the element of a ref as a handle, which stays valid while another ref is looked up."""
        handle = await self.find(ref)
        if isinstance(handle, ActResult):
            return handle
        # Looking up a ref makes the browser forget all other refs, until it takes a snapshot of the whole page.
        await self.tab.page.aria_snapshot(mode="ai", timeout=self.settings.hung_s * 1000)
        return handle

    async def _move_to(
        self, target: "ElementHandle", item: "ElementHandle | None", start: "FloatRect | None"
    ) -> ActResult:
        """Move the mouse to the middle of the target. item: what changes places with the dragged element, if any."""
        mouse = self.tab.page.mouse
        await target.scroll_into_view_if_needed(timeout=self.action_ms)
        box = await target.bounding_box()
        if box is None:
            return ActResult("not_actionable", "nothing was dropped: the element to drag to is not visible")
        if start is not None:
            place = (await item.bounding_box() if item else None) or box
            for steps in (_DRAG_STEPS, *([2] * _MORE_TRIES)):
                await mouse.move(*_past_middle(place, start), steps=steps)
                await asyncio.sleep(_ANIMATION_S)
                if not item or _has_moved(place, await item.bounding_box() or place):
                    break
                await mouse.move(*_middle(place), steps=2)
        await mouse.move(*_middle(box), steps=2)  # an HTML drop needs a second move over its target
        return ActResult(effects_started=False)
