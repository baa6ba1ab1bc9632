"""Pressing keys and typing key by key, so that a page's own handlers of keys run."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentlearn_web.browser.act_result import ActResult
from agentlearn_web.browser.acts.key_names import parse_keys
from agentlearn_web.browser.acts.scope import ActScope

if TYPE_CHECKING:
    from playwright.async_api import Locator

MAX_TYPED_CHARS = 500
"""Most characters that are typed key by key in one act."""
_NO_FOCUS = ActResult(
    "not_actionable", "nothing was pressed: this element takes no keys; click it, then press without a ref"
)
_ERASES = frozenset({"Backspace", "Delete"})
_HAS_FOCUS = """(one) => {
  const focused = one.getRootNode().activeElement;
  return focused !== null && (one === focused || one.contains(focused));
}"""


async def press_keys(scope: ActScope, keys: str, ref: str | None = None, text: str = "") -> ActResult:
    """Type a text key by key, then press keys; on the element of a ref, or else where the page has its focus."""
    names = parse_keys(keys)
    if isinstance(names, ActResult):
        return names
    if not names and not text:
        return ActResult("unknown_key", "nothing was pressed: give `keys`, `text`, or both", acted=False)
    if len(text) > MAX_TYPED_CHARS:
        note = f"nothing was pressed: `text` has {len(text)} characters; give at most {MAX_TYPED_CHARS}, or use type"
        return ActResult("unknown_key", note, acted=False)
    if ref is None:
        return await _press(scope, names, text)

    async def press(element: "Locator") -> ActResult:
        await element.focus(timeout=scope.action_ms)
        if not await element.evaluate(_HAS_FOCUS, timeout=scope.action_ms):
            return _NO_FOCUS
        return await _press(scope, names, text)

    return await scope.on_element(ref, press)


async def _press(scope: ActScope, names: Sequence[str], text: str) -> ActResult:
    """Type and press. Before a key that may choose from a list, wait for the list that belongs to what was typed."""
    keyboard, typed = scope.tab.page.keyboard, bool(text)
    await keyboard.type(text)
    for name in names:
        types = len(name) == 1 or name in _ERASES
        if typed and not types:
            await scope.wait_for_lists()
        typed = types
        await keyboard.press(name)
    return ActResult(effects_started=False, typed=bool(text) or any(len(one) == 1 or one in _ERASES for one in names))
