"""The text of PDF files, read by a separate process with limits on time and memory."""

import json
from dataclasses import dataclass
from importlib.util import find_spec

from agentlearn_web.reading import pdf_worker
from agentlearn_web.reading.page_text import PageText, TextBlock, TextRun
from agentlearn_web.reading.worker_process import WorkerFailed, run_worker

MOST_BYTES = 20_000_000
"""Largest PDF file that is read."""
_WALL_S = 90.0
_MAGIC = b"%PDF-"


class UnreadablePdf(Exception):
    """Raised for a file whose text cannot be read; says why in a sentence."""


@dataclass(frozen=True, slots=True)
class PdfText:
    """The text of a PDF file."""

    texts: tuple[str, ...]
    """The text of each page."""
    pages: int
    """Number of pages, of which the last can be left out."""

    def page_text(self) -> PageText:
        """Return the text as that of a web page, with a heading for each page."""
        blocks = list[TextBlock]()
        for number, text in enumerate(self.texts, 1):
            blocks.append(TextBlock((TextRun(f"Page {number} of {self.pages}"),), heading=True))
            if text.strip():
                blocks.append(TextBlock((TextRun(text),), pre=number))
        return PageText(tuple(blocks))


async def read_pdf(file: bytes) -> PdfText:
    """Return the text of a PDF file of at most 20 MB. Raises UnreadablePdf."""
    if len(file) > MOST_BYTES:
        raise UnreadablePdf(f"the file has {len(file):,} bytes; at most {MOST_BYTES:,} are read")
    if _MAGIC not in file[:1024]:
        raise UnreadablePdf("the file is no PDF file")
    if find_spec("pypdf") is None:
        raise UnreadablePdf("reading PDF files needs pypdf: pip install 'agentlearn-lib[web]'")
    try:
        written = await run_worker(pdf_worker, file, _WALL_S)
    except WorkerFailed as failed:
        raise UnreadablePdf(_reason(failed.status)) from None
    found = json.loads(written)
    return PdfText(tuple(text.encode("utf-8", "replace").decode() for text in found["texts"]), found["pages"])


def _reason(status: int | None) -> str:
    if status == pdf_worker.LOCKED:
        return "the file needs a password"
    if status == pdf_worker.NO_PDF:
        return "the file is damaged or no PDF file"
    return "reading the file took more time or memory than it may"
