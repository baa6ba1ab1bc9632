"""Draws the refs of elements on a picture of a page. The page itself is not touched. Needs Pillow."""

from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING

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
