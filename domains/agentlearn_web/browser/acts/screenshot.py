"""A picture of what the window shows, with the refs of the last view drawn on it."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING

from agentlearn_web.browser.acts.scope import ActScope
from agentlearn_web.browser.liveness import browser_error
from agentlearn_web.browser.snapshot import bare_ref
from agentlearn_web.browser.tab import Tab
from agentlearn_web.observation import PageObservation

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_WIDTH, MAX_HEIGHT = 1280, 900
"""Largest picture in pixels. A larger one is made smaller."""
MAX_PNG_BYTES = 400_000
"""Largest picture that is stored as PNG. A larger one is stored as JPEG."""
_JPEG_QUALITY = 70
_LINE = (214, 40, 40)
_TEXT = (255, 255, 255)


@dataclass(frozen=True, slots=True)
class RefBox:
    """Where an element lies in the window, in pixels from its upper left corner."""

    ref: str
    x: float
    y: float
    width: float
    height: float


def draw_refs(picture: bytes, boxes: Iterable[RefBox]) -> bytes:
    """Return the picture with a frame and the ref at each box, as PNG, or as JPEG if that is much smaller.

    picture: PNG. Boxes outside of it are left out.
    """
    from PIL import Image, ImageDraw, ImageFont

    with Image.open(BytesIO(picture)) as opened:
        drawn = opened.convert("RGB")
    pen, font = ImageDraw.Draw(drawn), ImageFont.load_default(size=11)
    for box in boxes:
        left, top, right, bottom = box.x, box.y, box.x + box.width, box.y + box.height
        if right <= 0 or bottom <= 0 or left >= drawn.width or top >= drawn.height or not (box.width and box.height):
            continue
        pen.rectangle((left, top, right, bottom), outline=_LINE)
        at = (max(left, 0), max(top, 0))
        pen.rectangle(pen.textbbox(at, box.ref, font=font), fill=_LINE)
        pen.text(at, box.ref, fill=_TEXT, font=font)
    drawn.thumbnail((MAX_WIDTH, MAX_HEIGHT))
    return _encoded(drawn)


def _encoded(drawn: "Image") -> bytes:
    png = BytesIO()
    drawn.save(png, "PNG")
    if png.tell() <= MAX_PNG_BYTES:
        return png.getvalue()
    jpeg = BytesIO()
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


async def take_picture(scope: ActScope) -> bytes | None:
    """Return a picture of the current tab with the refs of its last view; None if the browser gave none."""
    tab = scope.tab
    if tab.shown is None:
        return None
    part = tab.shown.pages[tab.page_number - 1].lines
    refs = [line.ref for line in part if line.ref]
    try:
        snapshot = await tab.page.aria_snapshot(mode="ai", boxes=True, timeout=scope.action_ms)
        framed = await _boxes_in_frames(tab, refs)
        picture = await tab.page.screenshot(scale="css", caret="initial", timeout=scope.action_ms)
    except browser_error():
        return None
    boxes = {one.ref: one for one in (*_boxes(snapshot, tab.id), *framed)}
    return draw_refs(picture, [boxes[ref] for ref in refs if ref in boxes][:_MAX_REFS])


def _boxes(snapshot: str, tab: str) -> Iterator[RefBox]:
    """Yield the boxes of elements outside of frames: those inside are measured from the corner of their frame."""
    for found in _BOX.finditer(snapshot):
        x, y, width, height = map(float, found.groups()[1:])
        yield RefBox(f"{tab}:{found[1]}", x, y, width, height)


async def _boxes_in_frames(tab: Tab, refs: Sequence[str]) -> list[RefBox]:
    """Return the boxes of elements in frames, measured from the corner of the window."""
    found: list[RefBox] = []
    for ref in [one for one in refs if _IN_FRAME.fullmatch(bare_ref(one))][:_MAX_IN_FRAMES]:
        with suppress(browser_error()):
            box = await tab.page.locator(f"aria-ref={bare_ref(ref)}").bounding_box(timeout=_BOX_MS)
            if box is not None:
                found.append(RefBox(ref, box["x"], box["y"], box["width"], box["height"]))
    return found
