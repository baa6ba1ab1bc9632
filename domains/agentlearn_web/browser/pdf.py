"""PDF files: loaded in place of the page that led to one, and read by a separate process with limits on time and
memory.

The browser itself only offers such a file for download. It is requested through the proxy of the walk like everything
else.
"""

import asyncio
import json
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from agentlearn_web.boundary.access_policy import scheme_allowed
from agentlearn_web.browser.walk_settings import browser_error, load_failure_reason
from agentlearn_web.reading.page_text import PageText, TextBlock, TextRun
from agentlearn_web.reading.worker import BAD_INPUT, LOCKED, WorkerFailed, run_worker

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext

_MOST_BYTES = 20_000_000
"""Largest PDF file that is read."""
_WALL_S = 90.0
_MOST_REDIRECTS = 5
_REASONS = {LOCKED: "the file needs a password", BAD_INPUT: "the file is damaged or no PDF file"}


class UnreadablePdf(Exception):
    """Raised for a file whose text cannot be read; says why in a sentence."""


@dataclass(frozen=True, slots=True)
class PdfPage:
    """A PDF file that a tab shows."""

    url: str
    title: str
    text: PageText

    @staticmethod
    def is_one(url: str, name: str) -> bool:
        """Return whether a download is a PDF file by its address or name."""
        return scheme_allowed(url) and (name.lower().endswith(".pdf") or urlsplit(url).path.lower().endswith(".pdf"))

    @classmethod
    async def load(cls, context: "BrowserContext", url: str, name: str, limit_s: float) -> Self:
        """Return a PDF file with its text. Raises UnreadablePdf."""
        try:
            async with asyncio.timeout(2 * limit_s):
                answer = await context.request.get(url, timeout=limit_s * 1000, max_redirects=_MOST_REDIRECTS)
                try:
                    if not answer.ok:
                        raise UnreadablePdf(f"the server answered with the code {answer.status}")
                    file = await answer.body()
                finally:
                    await answer.dispose()
        except TimeoutError:
            raise UnreadablePdf("it did not load in time") from None
        except browser_error() as error:
            raise UnreadablePdf(f"it did not load: {load_failure_reason(error)}") from None
        return cls(url, name, await read_pdf(file))


async def read_pdf(file: bytes) -> PageText:
    """Return the text of a PDF file of at most 20 MB, with a heading for each page. Raises UnreadablePdf."""
    if len(file) > _MOST_BYTES:
        raise UnreadablePdf(f"the file has {len(file):,} bytes; at most {_MOST_BYTES:,} are read")
    if b"%PDF-" not in file[:1024]:
        raise UnreadablePdf("the file is no PDF file")
    if find_spec("pypdf") is None:
        raise UnreadablePdf("reading PDF files needs pypdf: pip install 'agentlearn-lib[web]'")
    try:
        found = json.loads(await run_worker("pdf", file, _WALL_S))
    except WorkerFailed as failed:
        reason = _REASONS.get(failed.status or 0, "reading the file took more time or memory than it may")
        raise UnreadablePdf(reason) from None
    blocks = list[TextBlock]()
    for number, text in enumerate(found["texts"], 1):
        blocks.append(TextBlock((TextRun(f"Page {number} of {found['pages']}"),), heading=True))
        if text.strip():
            blocks.append(TextBlock((TextRun(text.encode("utf-8", "replace").decode()),), pre=number))
    return PageText(tuple(blocks))
