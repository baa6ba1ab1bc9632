"""Opening an address, and going back."""

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from agentlearn.errors import ConfigError
from agentlearn_web.boundary.access_policy import SCHEMES, host_port
from agentlearn_web.boundary.proxy_session import scheme_allowed
from agentlearn_web.browser.act_result import ActResult
from agentlearn_web.browser.acts.scope import ActScope
from agentlearn_web.browser.liveness import browser_error, is_timeout, load_failure_reason
from agentlearn_web.browser.pdf_page import load_pdf
from agentlearn_web.browser.tab import BLANK, Tab
from agentlearn_web.reading.pdf_text import UnreadablePdf

if TYPE_CHECKING:
    from playwright.async_api import Response

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):(?!\d+(?:[/?#]|$))", re.IGNORECASE)
_RELATIVE = ("/", "./", "../", "?", "#")
_MAX_CHARS = 8_000


def resolve_url(url: str, current_url: str) -> str | None:
    """Return a full http or https address, or None if the text is not one.

    Relative addresses such as `/people` are resolved against `current_url`. An address without a scheme gets the scheme
    of `current_url` if the host is the same, else https.
    """
    text = url.strip()
    if not text or len(text) > _MAX_CHARS:
        return None
    web = current_url.startswith(tuple(f"{scheme}:" for scheme in SCHEMES))
    scheme = _SCHEME.match(text)
    if text.startswith(_RELATIVE):
        full_url = urljoin(current_url, text) if web else f"https:{text}" if text.startswith("//") else ""
    elif scheme is None:
        same_host = web and _host(f"https://{text}") == _host(current_url)
        full_url = f"{urlsplit(current_url).scheme if same_host else 'https'}://{text}"
    else:
        full_url = text if scheme[1].lower() in SCHEMES else ""
    try:
        host_port(full_url)
    except ConfigError:
        return None
    return full_url


def _host(url: str) -> str | None:
    try:
        return urlsplit(url).netloc.lower()
    except ValueError:
        return None


BLOCKED = ActResult("blocked", "this address may not be reached in this walk")


async def open_url(scope: ActScope, url: str) -> ActResult:
    """Open an address in the current tab."""
    page = scope.tab.page
    address = resolve_url(url, page.url)
    if address is None:
        note = "no web address; give one that begins with http:// or https://"
        return ActResult("bad_url", note, acted=False)
    return await _navigate(scope, lambda limit_ms: page.goto(address, wait_until="commit", timeout=limit_ms))


async def go_back(scope: ActScope) -> ActResult:
    """Leave a PDF file, or go back to the last address in the history that may be shown."""
    tab = scope.tab
    if tab.pdf is not None:
        tab.pdf = None
        return ActResult()
    history = await tab.watch.cdp.send("Page.getNavigationHistory")
    before = history["entries"][: history["currentIndex"]]
    shown = [one for one in before if one["url"] != BLANK and scheme_allowed(one["url"])]
    if not shown:
        return ActResult("no_history", "there is no page before this one in this tab", acted=False)
    if shown[-1] is not before[-1]:
        await tab.watch.cdp.send("Page.navigateToHistoryEntry", {"entryId": shown[-1]["id"]})
        return ActResult(effects_started=False)
    return await _navigate(scope, lambda limit_ms: tab.page.go_back(wait_until="commit", timeout=limit_ms))


async def _navigate(scope: ActScope, load: "Callable[[float], Awaitable[Response | None]]") -> ActResult:
    """Run a navigation and classify its result."""
    tab = scope.tab
    try:
        await load(scope.settings.load_s * 1000)
    except browser_error() as error:
        if tab.page.is_closed() or not scope.tabs.is_alive():
            raise
        if is_timeout(error):
            await tab.watch.stop(scope.settings)
        if "interrupted by another navigation" in str(error):
            return ActResult()
        if scope.events.has_refused(tab.watch.target_url):
            return BLOCKED
        return ActResult("load_failed", f"the page did not load: {load_failure_reason(error)}")
    return ActResult()


async def show_pdf(scope: ActScope, begun: Tab, result: ActResult) -> ActResult:
    """Read the PDF file that the act has led to, if there is one. begun: the tab in which the act began."""
    tab = next((one for one in (begun, scope.tab) if one.pdf_link is not None), None)
    if tab is None or tab.pdf_link is None:
        return result
    (url, name), tab.pdf_link = tab.pdf_link, None
    try:
        tab.pdf = await load_pdf(tab.page.context, url, name, scope.settings.load_s)
    except UnreadablePdf as error:
        return BLOCKED if scope.events.has_refused(url) else ActResult("bad_pdf", f"the PDF file: {error}")
    return ActResult()


async def answer_next_dialog(scope: ActScope, *, accept: bool, text: str | None) -> ActResult:
    """Say how the next dialog of the current tab is answered. text: the answer to a prompt."""
    scope.tabs.dialogs.set_next(scope.tab.page, accept=accept, text=text)
    return ActResult(acted=False)
