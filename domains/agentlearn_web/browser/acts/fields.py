"""Filling fields, choosing options of a list and files, and pressing keys."""

import asyncio
import base64
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agentlearn_web.browser.acts.pointer import ActScope
from agentlearn_web.browser.walk_settings import ActResult, FileChanged, browser_error, failure_reason, is_timeout
from agentlearn_web.scripts import page_script

if TYPE_CHECKING:
    from playwright.async_api import ElementHandle, FilePayload

_MAX_OPTIONS = 20_000
_NO_LIST = ActResult(
    "no_list", "nothing was chosen: this is not a list of the browser's own; click it, and then the options it shows"
)


def _option_index(options: Sequence[tuple[str, str, bool]], text: str) -> int | None:
    """Return the index of an option: exact label or value first, then the label with any case and spacing."""
    labels, wanted = [" ".join(label.split()) for label, _, _ in options], " ".join(text.split())
    for given, offered in ((wanted, labels), (text, [value for _, value, _ in options])):
        if given in offered:
            return offered.index(given)
    folded = [label.casefold() for label in labels]
    return folded.index(wanted.casefold()) if wanted.casefold() in folded else None


_TEXT_TYPES = frozenset({
    "color", "date", "datetime-local", "email", "month", "number", "password", "range", "search", "tel", "text", "time",
    "url", "week",
})  # fmt: skip
_VALIDATED_TYPES = frozenset({"date", "datetime-local", "month", "number", "time", "week"})
"""Types of input fields that silently drop values they do not accept."""
_MALFORMED = ("Malformed value", "Cannot type text into input")
_EDITOR = "(one) => [...one.querySelectorAll('[contenteditable]')].find((inner) => inner.isContentEditable) ?? null"
"""Gives the editor in an element. The browser's snapshot can leave out the editor, and show what is around it."""
_VALUE = "(named) => (named instanceof HTMLLabelElement && named.control || named).value"
_SUBMIT = """(named) => {
  const one = named instanceof HTMLLabelElement && named.control || named;
  if (one.form) one.form.requestSubmit();
  return Boolean(one.form);
}"""


def _malformed_value(kind: str) -> ActResult:
    forms = {
        "color": "#ff8800",
        "date": "2026-01-31",
        "datetime-local": "2026-01-31T13:45",
        "month": "2026-01",
        "time": "13:45",
        "week": "2026-W05",
    }
    form = f"write it like {forms[kind]}" if kind in forms else "write a number"
    return ActResult("not_typable", f"a field of the type {kind} does not take that text; {form}")


_CHOOSER_S = 1.5
"""Longest time to wait until a click on a button opens the choice of a file."""
_TOO_MANY = ActResult("not_uploadable", "nothing was uploaded: the page takes one file here")


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
        # the last part can be `+` itself, as in `Control++`
        split = [*combination[:-2].split("+"), "+"] if combination.endswith("++") else combination.split("+")
        split = ["+"] if combination == "+" else split
        parts = [part if _PRINTED.fullmatch(part) else KEYS.get(part.casefold(), "") for part in split]
        named = [part for part in parts if part]
        *held, last = named or [""]
        if len(named) < len(parts) or not last or not set(held) <= set(_MODIFIERS.values()):
            note = f"nothing was pressed: there is no key {combination[:40]!r}; {_EXAMPLES}; `text` types letters"
            return ActResult("unknown_key", note, acted=False)
        if refusal := _refusal(frozenset(held), last):
            return ActResult("refused_key", f"nothing was pressed: {combination[:40]} {refusal}", acted=False)
        pressed.append("+".join(named))
    return tuple(pressed)


def _refusal(held: frozenset[str], key: str) -> str:
    plain = frozenset("Control" if one in {"Meta", "ControlOrMeta"} else one for one in held)
    combination = (plain, key.lower() if len(key) == 1 else key)
    if combination in _OF_THE_BROWSER:
        return "is a command to the browser and not to the page; use the acts open, tabs and back"
    if combination in _PASTES:
        return "would paste from a clipboard that other walks share; use type"
    return ""


_MAX_TYPED_CHARS = 500
"""Most characters that are typed key by key in one act."""
_NO_FOCUS = ActResult(
    "not_actionable", "nothing was pressed: this element takes no keys; click it, then press without a ref"
)
_ERASES = frozenset({"Backspace", "Delete"})


class FieldActs(ActScope):
    """Acts with fields, lists and keys."""

    async def type(self, ref: str, text: str, *, submit: bool) -> ActResult:
        """Fill a field, or choose a list option by its name or value; then submit the form if `submit` is set."""

        async def fill(element: "ElementHandle") -> ActResult:
            kind: dict[str, Any] = await element.evaluate(page_script("field_kind"))
            tag, type_ = kind["tag"], kind["type"]
            is_field = tag in {"select", "textarea"} or (tag == "input" and type_ in _TEXT_TYPES)
            inside = None if is_field or kind["editable"] else await element.evaluate_handle(_EDITOR)
            if inside is not None and (editor := inside.as_element()) is not None:
                element, kind = editor, {**kind, "editable": True}
            if not is_field and not kind["editable"]:
                return ActResult("not_typable", "no text can be typed into this element; click it, or choose a field")
            try:
                if tag == "select":
                    chosen = await self._choose_options(element, [text])
                    if chosen.status != "ok":
                        return chosen
                else:
                    value = text.strip() if type_ in _VALIDATED_TYPES else text
                    if type_ == "color" and re.fullmatch(r"#?[0-9a-fA-F]{6}", text.strip()):
                        value = f"#{text.strip().removeprefix('#').lower()}"
                    await element.fill(value, timeout=self.action_ms)
                    dropped = type_ in _VALIDATED_TYPES and text.strip()
                    if dropped and not await element.evaluate(_VALUE):
                        return _malformed_value(type_)
            except browser_error() as error:
                if any(phrase in str(error) for phrase in _MALFORMED):
                    return _malformed_value(type_)
                if is_timeout(error):
                    return ActResult("not_actionable", f"the field could not be filled: {failure_reason(error)}")
                raise
            if not submit:
                return ActResult(delayed=tag != "select")
            if not self.tab.watch.is_static:  # Enter would choose one of the suggestions shown before
                await self.wait_for_lists()
            if tag == "input" or kind["editable"]:
                try:
                    await element.press("Enter", timeout=self.action_ms)
                except browser_error() as error:
                    if not is_timeout(error):
                        raise
                return ActResult()
            if await element.evaluate(_SUBMIT):
                return ActResult(effects_started=False)
            return ActResult("not_submitted", "the text stands in the field, but there is no form to submit")

        return await self.on_element(ref, fill)

    async def choose(self, ref: str, options: Sequence[str]) -> ActResult:
        """Choose exactly these options of a list, each by label or value."""

        return await self.on_element(ref, lambda element: self._choose_options(element, options))

    async def upload(self, ref: str, files: Sequence[str]) -> ActResult:
        """Choose files in a file field, or through the button that opens the choice of a file."""
        unknown = [name for name in files if name not in self.files]
        if unknown or not files:
            known = f"this task names only {', '.join(map(repr, self.files))}; give one or more of these names"
            note = f"nothing was uploaded: {known if self.files else 'this task names no files'}"
            return ActResult("no_file", note, acted=False)
        try:
            payloads = [await asyncio.to_thread(self.files[name].payload) for name in dict.fromkeys(files)]
        except FileChanged as error:
            return ActResult("no_file", f"nothing was uploaded: {error}", acted=False)

        async def upload(element: "ElementHandle") -> ActResult:
            field = await element.evaluate(page_script("file_field"))
            if field is None:
                return await self._through_button(element, payloads)
            if field["disabled"] or field["folder"]:
                why = "this field is disabled" if field["disabled"] else "this field takes folders only"
                return ActResult("not_uploadable", f"nothing was uploaded: {why}")
            if len(payloads) > 1 and not field["multiple"]:
                return _TOO_MANY
            await element.set_input_files(payloads, timeout=self.action_ms)
            return ActResult()

        return await self.on_element(ref, upload)

    async def press(self, keys: str, ref: str | None = None, text: str = "") -> ActResult:
        """Type a text key by key, then press keys; on the element of a ref, or else where the page has its focus."""
        names = parse_keys(keys)
        if isinstance(names, ActResult):
            return names
        if not names and not text:
            return ActResult("unknown_key", "nothing was pressed: give `keys`, `text`, or both", acted=False)
        if len(text) > _MAX_TYPED_CHARS:
            note = (
                f"nothing was pressed: `text` has {len(text)} characters; give at most {_MAX_TYPED_CHARS}, or use type"
            )
            return ActResult("unknown_key", note, acted=False)
        if ref is None:
            await self.tab.watch.has_changed(-1, -1)  # counts the timers that the page has started so far
            return await self._press(names, text)

        async def press(element: "ElementHandle") -> ActResult:
            if not await element.evaluate(page_script("focus")):
                return _NO_FOCUS
            return await self._press(names, text)

        return await self.on_element(ref, press)

    async def _through_button(self, element: "ElementHandle", payloads: "Sequence[FilePayload]") -> ActResult:
        """Click an element that opens the choice of a file, and choose the files there."""
        page = self.tab.page
        try:
            async with page.expect_file_chooser(timeout=_CHOOSER_S * 1000) as opened:
                await element.click(timeout=self.action_ms)
            chooser = await opened.value
        except browser_error() as error:
            if is_timeout(error) and "filechooser" in str(error):
                files = [(one["name"], one["mimeType"], base64.b64encode(one["buffer"]).decode()) for one in payloads]
                if await element.evaluate(page_script("drop_files"), files):
                    return ActResult(effects_started=False)
                note = (
                    "nothing was uploaded: this element was clicked and asked for no file, and none can be dropped on "
                    "it; take the page's file field"
                )
                return ActResult("not_uploadable", note)
            raise
        if len(payloads) > 1 and not chooser.is_multiple():
            return _TOO_MANY
        await chooser.set_files(payloads, timeout=self.action_ms)
        return ActResult()

    async def _press(self, names: Sequence[str], text: str) -> ActResult:
        """Type and press. Before a key that may choose from a list, wait for the list of what was typed."""
        keyboard = self.tab.page.keyboard
        typed = ever_typed = bool(text)
        await keyboard.type(text)
        for name in names:
            types = len(name) == 1 or name in _ERASES
            if typed and not types:
                await self.wait_for_lists()
            typed, ever_typed = types, ever_typed or types
            await keyboard.press(name)
        return ActResult(effects_started=False, delayed=ever_typed)

    async def _choose_options(self, element: "ElementHandle", wanted: Sequence[str]) -> ActResult:
        """Choose exactly these options of a list, each by label or value. What was chosen before is no longer chosen.

        Raises Playwright's error if the element is gone.
        """
        found: dict[str, Any] | None = await element.evaluate(page_script("list_options"), _MAX_OPTIONS)
        if found is None:
            return _NO_LIST
        if found["disabled"]:
            return ActResult("not_actionable", "nothing was chosen: it is disabled")
        if not found["multiple"] and len(wanted) != 1:
            return ActResult(
                "no_option", f"nothing was chosen: the list takes one option, and {len(wanted)} were given"
            )
        options: list[tuple[str, str, bool]] = found["options"]
        chosen: list[int] = []
        for text in wanted:
            index = _option_index(options, text)
            if index is None:
                which = f" {text[:80]!r}" if len(wanted) > 1 else " of that name"
                return ActResult("no_option", f"the list has no option{which}; give one as the page shows it")
            if options[index][2]:
                return ActResult("not_actionable", f"nothing was chosen: the option {text[:80]!r} is disabled")
            chosen.append(index)
        await element.select_option(index=chosen, timeout=self.action_ms)
        return ActResult()
