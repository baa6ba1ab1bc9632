"""Filling form fields: text fields, drop-down lists and editable elements."""

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from agentlearn_web.browser.act_result import ActResult
from agentlearn_web.browser.list_options import choose_options
from agentlearn_web.browser.playwright_errors import browser_error, failure_reason, is_timeout

if TYPE_CHECKING:
    from playwright.async_api import Locator

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
