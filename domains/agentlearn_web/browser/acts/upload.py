"""Giving files of the task to a page. No other file of this machine can be given."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentlearn_web.browser.act_result import ActResult
from agentlearn_web.browser.acts.scope import ActScope
from agentlearn_web.browser.playwright_errors import browser_error, is_timeout
from agentlearn_web.task_files import FileChanged

if TYPE_CHECKING:
    from playwright.async_api import FilePayload, Locator

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
