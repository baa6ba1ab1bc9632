"""Program that reads a PDF file from its input and writes the text of its pages as JSON. It may take a fixed amount of
memory and processor time, because a file can be made to take for ever. Run by `read_pdf`."""

import contextlib
import io
import json
import logging
import sys

MOST_PAGES = 2_000
MOST_CHARS = 2_000_000
MEMORY_BYTES = 1 << 30
PROCESSOR_S = 30
NO_PDF, LOCKED = 3, 4
"""Exit statuses: the file cannot be read; it needs a password."""


def main() -> int:
    """Read the file and write the text; returns the exit status."""
    _limit()
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    logging.disable(logging.CRITICAL)
    texts: list[str] = []
    left = MOST_CHARS
    try:
        reader = PdfReader(io.BytesIO(sys.stdin.buffer.read()))
        if reader.is_encrypted and not reader.decrypt(""):
            return LOCKED
        for _, page in zip(range(MOST_PAGES), reader.pages, strict=False):
            text = ""
            with contextlib.suppress(Exception):  # one bad page does not cost the others
                text = page.extract_text()
            texts.append(text[:left])
            left -= len(texts[-1])
            if not left:
                break
        pages = len(reader.pages)
    except (PyPdfError, ValueError, LookupError, TypeError, AttributeError, RecursionError, OSError):
        return NO_PDF
    json.dump({"texts": texts, "pages": pages}, sys.stdout)
    return 0


def _limit() -> None:
    """Limit memory and processor time, where the system can."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_S, PROCESSOR_S))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


if __name__ == "__main__":
    sys.exit(main())
