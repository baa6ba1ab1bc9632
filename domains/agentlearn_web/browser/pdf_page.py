"""Shows a PDF file in place of the page that led to it. The browser itself only offers such a file for download.

The file is requested through the proxy of the walk like everything else.
"""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from agentlearn_web.boundary.proxy_session import scheme_allowed
from agentlearn_web.browser.liveness import browser_error, load_failure_reason
from agentlearn_web.reading.page_text import PageText
from agentlearn_web.reading.pdf_text import UnreadablePdf, read_pdf

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext

_PDF = ".pdf"
_MOST_REDIRECTS = 5


@dataclass(frozen=True, slots=True)
class PdfPage:
    """A PDF file that a tab shows."""

    url: str
    title: str
    text: PageText


def is_pdf(url: str, name: str) -> bool:
    """Return whether a download is a PDF file by its address or name."""
    return scheme_allowed(url) and (name.lower().endswith(_PDF) or urlsplit(url).path.lower().endswith(_PDF))


async def load_pdf(context: "BrowserContext", url: str, name: str, limit_s: float) -> PdfPage:
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
    found = await read_pdf(file)
    return PdfPage(url, name, found.page_text())
