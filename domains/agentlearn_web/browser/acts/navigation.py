"""Opening an address, going back, answering dialogs, showing a PDF file, and taking a picture of the window."""

import re
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from agentlearn.errors import ConfigError
from agentlearn_web.boundary.access_policy import SCHEMES, host_port, scheme_allowed
from agentlearn_web.browser.acts.pointer import ActScope
from agentlearn_web.browser.pdf import PdfPage, UnreadablePdf
from agentlearn_web.browser.shown_snapshot import bare_ref
from agentlearn_web.browser.tabs import BLANK, Tab
from agentlearn_web.browser.walk_settings import ActResult, browser_error, is_timeout, load_failure_reason
from agentlearn_web.observation import PageObservation

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


_MAX_WIDTH, _MAX_HEIGHT = 1280, 900
"""Largest picture in pixels. A larger one is made smaller."""
_MAX_PNG_BYTES = 400_000
"""Largest picture that is stored as PNG. A larger one is stored as JPEG."""
_JPEG_QUALITY = 70
_LINE = (214, 40, 40)
_TEXT = (255, 255, 255)


_Box = tuple[float, float, float, float]
"""Where an element lies in the window: left, top, width and height in pixels."""


def _draw_refs(picture: bytes, boxes: Iterable[tuple[str, _Box]]) -> bytes:
    """Return the picture with a frame and the ref at each box, as PNG, or as JPEG if that is much smaller.

    picture: PNG. Boxes outside of it are left out.
    """
    from PIL import Image, ImageDraw, ImageFont

    with Image.open(BytesIO(picture)) as opened:
        drawn = opened.convert("RGB")
    pen, font = ImageDraw.Draw(drawn), ImageFont.load_default(size=11)
    for ref, (left, top, width, height) in boxes:
        right, bottom = left + width, top + height
        if right <= 0 or bottom <= 0 or left >= drawn.width or top >= drawn.height or not (width and height):
            continue
        pen.rectangle((left, top, right, bottom), outline=_LINE)
        at = (max(left, 0), max(top, 0))
        pen.rectangle(pen.textbbox(at, ref, font=font), fill=_LINE)
        pen.text(at, ref, fill=_TEXT, font=font)
    drawn.thumbnail((_MAX_WIDTH, _MAX_HEIGHT))
    png, jpeg = BytesIO(), BytesIO()
    drawn.save(png, "PNG")
    if png.tell() <= _MAX_PNG_BYTES:
        return png.getvalue()
    drawn.save(jpeg, "JPEG", quality=_JPEG_QUALITY)
    return jpeg.getvalue()


_BOX = re.compile(r"\[ref=(e\d+)\](?: \[[^\[\]\"]*\])*? \[box=(-?[\d.]+),(-?[\d.]+),([\d.]+),([\d.]+)\]")
_MAX_REFS = 150
"""Most refs that are drawn."""
_IN_FRAME = re.compile(r"f\d+e\d+")
_MAX_IN_FRAMES = 30
"""Most elements in frames whose refs are drawn. Each is measured on its own."""
_BOX_MS = 300


@dataclass(frozen=True, slots=True)
class Screenshot:
    """A view of a page together with its picture."""

    view: PageObservation
    picture: bytes
    """PNG or JPEG, at most 1280 x 900 pixels; empty if the browser gave none."""

    @property
    def media_type(self) -> str:
        """Type of the picture."""
        return "image/png" if self.picture.startswith(b"\x89PNG") else "image/jpeg"


class NavigationActs(ActScope):
    """Acts that lead to another page, and pictures."""

    async def open(self, url: str) -> ActResult:
        """Open an address in the current tab."""
        page = self.tab.page
        address = resolve_url(url, page.url)
        if address is None:
            note = "no web address; give one that begins with http:// or https://"
            return ActResult("bad_url", note, acted=False)
        return await self._navigate(lambda limit_ms: page.goto(address, wait_until="commit", timeout=limit_ms))

    async def back(self) -> ActResult:
        """Leave a PDF file, or go back to the last address in the history that may be shown."""
        tab = self.tab
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
        return await self._navigate(lambda limit_ms: tab.page.go_back(wait_until="commit", timeout=limit_ms))

    async def _navigate(self, load: "Callable[[float], Awaitable[Response | None]]") -> ActResult:
        """Run a navigation and classify its result."""
        tab = self.tab
        try:
            await load(self.settings.load_s * 1000)
        except browser_error() as error:
            if tab.page.is_closed() or not self.tabs.is_alive():
                raise
            if is_timeout(error):
                await tab.watch.stop()
            if "interrupted by another navigation" in str(error):
                return ActResult()
            if self.events.has_refused(tab.watch.target_url):
                return BLOCKED
            return ActResult("load_failed", f"the page did not load: {load_failure_reason(error)}")
        return ActResult()

    async def show_pdf(self, begun: Tab, result: ActResult) -> ActResult:
        """Read the PDF file that the act has led to, if there is one. begun: the tab in which the act began."""
        tab = next((one for one in (begun, self.tab) if one.pdf_link is not None), None)
        if tab is None or tab.pdf_link is None:
            return result
        (url, name), tab.pdf_link = tab.pdf_link, None
        try:
            tab.pdf = await PdfPage.load(tab.page.context, url, name, self.settings.load_s)
        except UnreadablePdf as error:
            return BLOCKED if self.events.has_refused(url) else ActResult("bad_pdf", f"the PDF file: {error}")
        return ActResult()

    async def dialog(self, *, accept: bool, text: str | None) -> ActResult:
        """Say how the next dialog of the current tab is answered. text: the answer to a prompt."""
        self.tabs.dialogs.set_next(self.tab.page, accept=accept, text=text)
        return ActResult(acted=False)

    async def picture(self) -> bytes | None:
        """Return a picture of the current tab with the refs of its last view; None if the browser gave none."""
        tab = self.tab
        if tab.shown is None:
            return None
        part = tab.shown.pages[tab.page_number - 1].lines
        refs = [line.ref for line in part if line.ref]
        boxes: dict[str, _Box] = {}
        try:
            snapshot = await tab.page.aria_snapshot(mode="ai", boxes=True, timeout=self.action_ms)
            for ref, *box in _BOX.findall(snapshot):  # elements in frames are measured from the corner of their frame
                left, top, width, height = map(float, box)
                boxes[f"{tab.id}:{ref}"] = (left, top, width, height)
            for ref in [one for one in refs if _IN_FRAME.fullmatch(bare_ref(one))][:_MAX_IN_FRAMES]:
                with suppress(browser_error()):
                    found = await tab.page.locator(f"aria-ref={bare_ref(ref)}").bounding_box(timeout=_BOX_MS)
                    if found is not None:
                        boxes[ref] = (found["x"], found["y"], found["width"], found["height"])
            picture = await tab.page.screenshot(scale="css", caret="initial", timeout=self.action_ms)
        except browser_error():
            return None
        return _draw_refs(picture, [(ref, boxes[ref]) for ref in refs if ref in boxes][:_MAX_REFS])
