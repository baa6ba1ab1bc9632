"""Pressing keys and typing key by key, so that a page's own handlers of keys run."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentlearn_web.browser.act_result import ActResult
from agentlearn_web.browser.acts.scope import ActScope

if TYPE_CHECKING:
    from playwright.async_api import Locator

MAX_KEYS = 50
"""Most keys in one act."""
_MODIFIERS = {
    "alt": "Alt", "cmd": "Meta", "command": "Meta", "control": "Control", "controlormeta": "ControlOrMeta",
    "ctrl": "Control", "meta": "Meta", "option": "Alt", "shift": "Shift",
}  # fmt: skip
_NAMED = (
    "ArrowDown", "ArrowLeft", "ArrowRight", "ArrowUp", "Backspace", "CapsLock", "ContextMenu", "Delete", "End", "Enter",
    "Escape", "Home", "Insert", "PageDown", "PageUp", "Space", "Tab", *(f"F{number}" for number in range(1, 13)),
)  # fmt: skip
_ALIASES = {
    "del": "Delete", "down": "ArrowDown", "esc": "Escape", "left": "ArrowLeft", "pgdn": "PageDown", "pgup": "PageUp",
    "return": "Enter", "right": "ArrowRight", "spacebar": "Space", "up": "ArrowUp",
}  # fmt: skip
KEYS = {**_MODIFIERS, **{name.casefold(): name for name in _NAMED}, **_ALIASES}
"""Playwright's name of each key that is written as a word, by the word in lower case."""
_PRINTED = re.compile(r"[!-~]")
"""Keys that are written as the character that they print."""
_EXAMPLES = "give keys such as Enter, Escape, ArrowDown, PageDown, Control+a or Shift+Tab, with spaces between"

_CONTROL = frozenset({"Control"})
_ALT = frozenset({"Alt"})
_SHIFT = frozenset({"Shift"})
_OF_THE_BROWSER = frozenset({
    *((_CONTROL, key) for key in ("n", "t", "w", "o", "u", "p", "s", "l", "F4", "F5", "F6")),
    *((_CONTROL | _SHIFT, key) for key in ("n", "t", "w", "i", "j", "c", "p", "Delete")),
    *((_ALT, key) for key in ("F4", "d", "Home")),
    *((frozenset[str](), key) for key in ("F6", "F10", "F11", "F12")),
})  # fmt: skip
"""Combinations with which a browser opens windows, files, its own tools or dialogs. A page is not meant by them."""
_PASTES = frozenset({(_CONTROL, "v"), (_CONTROL | _SHIFT, "v"), (_SHIFT, "Insert")})
"""The browser has one clipboard for all walks, so pasting would show one walk what another one has copied."""


def parse_keys(keys: str) -> tuple[str, ...] | ActResult:
    """Return the keys as Playwright names them, in order; or an ActResult that says why they are not pressed.

    keys: single keys or combinations with `+`, at most `MAX_KEYS`, with spaces between them.
    """
    written = keys.split()
    if len(written) > MAX_KEYS:
        note = f"nothing was pressed: {len(written)} keys are too many; give at most {MAX_KEYS}, or `text`"
        return ActResult("unknown_key", note, acted=False)
    pressed: list[str] = []
    for combination in written:
        parts = [_key_name(part) for part in _split(combination)]
        named = [part for part in parts if part]
        *held, last = named or [""]
        if len(named) < len(parts) or not last or not set(held) <= set(_MODIFIERS.values()):
            note = f"nothing was pressed: there is no key {combination[:40]!r}; {_EXAMPLES}; `text` types letters"
            return ActResult("unknown_key", note, acted=False)
        if refusal := _refusal(frozenset(held), last):
            return ActResult("refused_key", f"nothing was pressed: {combination[:40]} {refusal}", acted=False)
        pressed.append("+".join(named))
    return tuple(pressed)


def _split(combination: str) -> list[str]:
    """Return the parts of a combination. Its last part can be `+` itself, as in `Control++`."""
    if combination == "+":
        return ["+"]
    if combination.endswith("++"):
        return [*combination[:-2].split("+"), "+"]
    return combination.split("+")


def _key_name(part: str) -> str:
    """Return Playwright's name of one key; empty if there is no such key."""
    return part if _PRINTED.fullmatch(part) else KEYS.get(part.casefold(), "")


def _refusal(held: frozenset[str], key: str) -> str:
    plain = frozenset("Control" if one in {"Meta", "ControlOrMeta"} else one for one in held)
    combination = (plain, key.lower() if len(key) == 1 else key)
    if combination in _OF_THE_BROWSER:
        return "is a command to the browser and not to the page; use the acts open, tabs and back"
    if combination in _PASTES:
        return "would paste from a clipboard that other walks share; use type"
    return ""


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
