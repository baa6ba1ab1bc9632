"""Filling a field, and choosing options of a list."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentlearn_web.browser.act_result import ActResult
from agentlearn_web.browser.acts.scope import ActScope
from agentlearn_web.browser.liveness import browser_error, failure_reason, is_timeout
from agentlearn_web.task_files import FileChanged

if TYPE_CHECKING:
    from playwright.async_api import FilePayload, Locator

_MAX_OPTIONS = 20_000
_LIST = """(named, most) => {
  const one = named instanceof HTMLLabelElement && named.control || named;
  if (!(one instanceof HTMLSelectElement)) return null;
  const off = (option) => option.disabled || option.parentElement?.disabled === true;
  const options = [...one.options].slice(0, most).map((option) => [option.label, option.value, off(option)]);
  return { options, multiple: one.multiple, disabled: one.disabled };
}"""
_NO_LIST = ActResult(
    "no_list", "nothing was chosen: this is not a list of the browser's own; click it, and then the options it shows"
)


@dataclass(frozen=True, slots=True)
class ListOption:
    """One option of a list."""

    label: str
    value: str
    disabled: bool = False


async def choose_options(element: "Locator", wanted: Sequence[str], *, limit_ms: float) -> ActResult:
    """Choose exactly these options of a list, each by label or value. What was chosen before is no longer chosen.

    Raises Playwright's error if the element is gone.
    """
    found: dict[str, Any] | None = await element.evaluate(_LIST, _MAX_OPTIONS, timeout=limit_ms)
    if found is None:
        return _NO_LIST
    if found["disabled"]:
        return ActResult("not_actionable", "nothing was chosen: it is disabled")
    if not found["multiple"] and len(wanted) != 1:
        return ActResult("no_option", f"nothing was chosen: the list takes one option, and {len(wanted)} were given")
    options = [ListOption(*one) for one in found["options"]]
    chosen: list[int] = []
    for text in wanted:
        index = option_index(options, text)
        if index is None:
            which = f" {text[:80]!r}" if len(wanted) > 1 else " of that name"
            return ActResult("no_option", f"the list has no option{which}; give one as the page shows it")
        if options[index].disabled:
            return ActResult("not_actionable", f"nothing was chosen: the option {text[:80]!r} is disabled")
        chosen.append(index)
    await element.select_option(index=chosen, timeout=limit_ms)
    return ActResult()


def option_index(options: Sequence[ListOption], text: str) -> int | None:
    """Return the index of an option: exact label or value first, then the label with any case and spacing."""
    labels, wanted = [_normal_space(one.label) for one in options], _normal_space(text)
    for given, offered in ((wanted, labels), (text, [one.value for one in options])):
        if given in offered:
            return offered.index(given)
    folded = [label.casefold() for label in labels]
    return folded.index(wanted.casefold()) if wanted.casefold() in folded else None


def _normal_space(phrase: str) -> str:
    return " ".join(phrase.split())


_TEXT_TYPES = frozenset({
    "color", "date", "datetime-local", "email", "month", "number", "password", "range", "search", "tel", "text", "time",
    "url", "week",
})  # fmt: skip
_VALIDATED_TYPES = frozenset({"date", "datetime-local", "month", "number", "time", "week"})
"""Types of input fields that silently drop values they do not accept."""
_MALFORMED = ("Malformed value", "Cannot type text into input")
_KIND = """(named) => {
  const one = named instanceof HTMLLabelElement && named.control || named;
  const editable = one.isContentEditable === true;
  return { tag: one.localName, type: one.type ?? "", editable };
}"""
_VALUE = "(named) => (named instanceof HTMLLabelElement && named.control || named).value"
_SUBMIT = """(named) => {
  const one = named instanceof HTMLLabelElement && named.control || named;
  if (one.form) one.form.requestSubmit();
  return Boolean(one.form);
}"""


async def fill_field(
    element: "Locator",
    text: str,
    *,
    submit: bool,
    limit_s: float,
    wait_for_lists: Callable[[], Awaitable[None]] | None = None,
) -> ActResult:
    """Replace the text of a field, or choose the option of that name; then submit the form if `submit` is set.

    wait_for_lists: waits for suggestions before Enter is pressed, which would choose one of those shown before.
    Raises Playwright's error if the element is gone.
    """
    kind: dict[str, Any] = await element.evaluate(_KIND, timeout=limit_s * 1000)
    limit_ms = limit_s * 1000
    if not _accepts_text(kind):
        return ActResult("not_typable", "no text can be typed into this element; click it, or choose a field")
    try:
        if kind["tag"] == "select":
            chosen = await choose_options(element, [text], limit_ms=limit_ms)
            if chosen.status != "ok":
                return chosen
        else:
            await element.fill(_field_value(kind, text), timeout=limit_ms)
            if (
                kind["type"] in _VALIDATED_TYPES
                and text.strip()
                and not await element.evaluate(_VALUE, timeout=limit_ms)
            ):
                return _malformed_value(kind["type"])
    except browser_error() as error:
        if any(phrase in str(error) for phrase in _MALFORMED):
            return _malformed_value(kind["type"])
        if is_timeout(error):
            return ActResult("not_actionable", f"the field could not be filled: {failure_reason(error)}")
        raise
    if submit and wait_for_lists is not None:
        await wait_for_lists()
    return await _submit(element, kind, limit_ms) if submit else ActResult(typed=kind["tag"] != "select")


async def _submit(element: "Locator", kind: dict[str, Any], limit_ms: float) -> ActResult:
    if kind["tag"] == "input" or kind["editable"]:
        try:
            await element.press("Enter", timeout=limit_ms)
        except browser_error() as error:
            if not is_timeout(error):
                raise
        return ActResult()
    if await element.evaluate(_SUBMIT, timeout=limit_ms):
        return ActResult(effects_started=False)
    return ActResult("not_submitted", "the text stands in the field, but there is no form to submit")


def _accepts_text(kind: dict[str, Any]) -> bool:
    field = kind["tag"] in {"select", "textarea"} or (kind["tag"] == "input" and kind["type"] in _TEXT_TYPES)
    return field or kind["editable"]


def _field_value(kind: dict[str, Any], text: str) -> str:
    if kind["type"] == "color" and re.fullmatch(r"#?[0-9a-fA-F]{6}", text.strip()):
        return f"#{text.strip().removeprefix('#').lower()}"
    return text.strip() if kind["type"] in _VALIDATED_TYPES else text


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


_CHOOSER_S = 1.5
"""Longest time to wait until a click on a button opens the choice of a file."""
_INPUT = """(named) => {
  const one = named instanceof HTMLLabelElement && named.control || named;
  if (!(one instanceof HTMLInputElement) || one.type !== "file") return null;
  return { multiple: one.multiple, disabled: one.disabled, folder: one.webkitdirectory === true };
}"""
_TOO_MANY = ActResult("not_uploadable", "nothing was uploaded: the page takes one file here")


async def upload_files(scope: ActScope, ref: str, files: Sequence[str]) -> ActResult:
    """Choose files in a file field, or through the button that opens the choice of a file."""
    unknown = [name for name in files if name not in scope.files]
    if unknown or not files:
        return ActResult("no_file", f"nothing was uploaded: {_named_files(scope)}", acted=False)
    try:
        payloads = [await asyncio.to_thread(scope.files[name].payload) for name in dict.fromkeys(files)]
    except FileChanged as error:
        return ActResult("no_file", f"nothing was uploaded: {error}", acted=False)

    async def upload(element: "Locator") -> ActResult:
        field = await element.evaluate(_INPUT, timeout=scope.action_ms)
        if field is None:
            return await _through_button(scope, element, payloads)
        if field["disabled"] or field["folder"]:
            why = "this field is disabled" if field["disabled"] else "this field takes folders only"
            return ActResult("not_uploadable", f"nothing was uploaded: {why}")
        if len(payloads) > 1 and not field["multiple"]:
            return _TOO_MANY
        await element.set_input_files(payloads, timeout=scope.action_ms)
        return ActResult()

    return await scope.on_element(ref, upload)


async def _through_button(scope: ActScope, element: "Locator", payloads: "Sequence[FilePayload]") -> ActResult:
    """Click an element that opens the choice of a file, and choose the files there."""
    page = scope.tab.page
    try:
        async with page.expect_file_chooser(timeout=_CHOOSER_S * 1000) as opened:
            await element.click(timeout=scope.action_ms)
        chooser = await opened.value
    except browser_error() as error:
        if is_timeout(error) and "filechooser" in str(error):
            note = "nothing was uploaded: this element was clicked and asked for no file; take the page's file field"
            return ActResult("not_uploadable", note)
        raise
    if len(payloads) > 1 and not chooser.is_multiple():
        return _TOO_MANY
    await chooser.set_files(payloads, timeout=scope.action_ms)
    return ActResult()


def _named_files(scope: ActScope) -> str:
    if not scope.files:
        return "this task names no files"
    return f"this task names only {', '.join(map(repr, scope.files))}; give one or more of these names"
