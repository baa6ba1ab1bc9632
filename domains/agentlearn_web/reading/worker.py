"""A program for work that files and patterns from outside can make take for ever, and `run_worker`, which runs it.

The program limits its own processor time and memory, and is killed after a time. It imports nothing of ours, which
would take longer than its work.
"""

import contextlib
import io
import json
import logging
import os
import re
import sys
from itertools import islice
from typing import Literal

BAD_INPUT, LOCKED = 3, 4
"""Exit statuses: the file or pattern cannot be read; the file needs a password."""
_MOST_PAGES = 2_000
_MOST_CHARS = 2_000_000
_MEMORY_BYTES = 1 << 30
_PROCESSOR_S = {"pattern": 3, "pdf": 30}
_KEPT_VARIABLES = ("PATH", "PYTHONPATH", "HOME", "LANG", "SYSTEMROOT")


class WorkerFailed(Exception):
    """Raised when the program did not end well; `status` is its exit status, None after the time limit."""

    def __init__(self, status: int | None) -> None:
        super().__init__(f"exit status {status}")
        self.status = status


async def run_worker(job: Literal["pattern", "pdf"], given: bytes, wall_s: float) -> bytes:
    """Return what the program writes for its input. Raises WorkerFailed.

    pattern: JSON with `pattern`, `text` and `most`, the number of matches; the result is their places.
    pdf: a PDF file; the result is JSON with `texts`, the text of each page, and `pages`, their number.
    """
    import asyncio  # the program itself does without

    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", __file__, job),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ},
    )
    try:
        async with asyncio.timeout(wall_s):
            written, _ = await process.communicate(given)
    except TimeoutError:
        raise WorkerFailed(None) from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode:
        raise WorkerFailed(process.returncode)
    return written


def _main(job: str) -> int:
    """Do the work on the input and write the result; returns the exit status."""
    with contextlib.suppress(ImportError, OSError, ValueError):  # where the system can
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (_PROCESSOR_S[job], _PROCESSOR_S[job]))
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    return _find_pattern() if job == "pattern" else _read_pdf()


def _find_pattern() -> int:
    given = json.load(sys.stdin)
    try:
        pattern = re.compile(given["pattern"], re.IGNORECASE | re.MULTILINE)
    except (re.error, RecursionError, OverflowError):
        return BAD_INPUT
    found = (one.span() for one in pattern.finditer(given["text"]) if one.end() > one.start())
    json.dump(list(islice(found, given["most"])), sys.stdout)
    return 0


def _read_pdf() -> int:
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    logging.disable(logging.CRITICAL)
    texts, left = list[str](), _MOST_CHARS
    try:
        reader = PdfReader(io.BytesIO(sys.stdin.buffer.read()))
        if reader.is_encrypted and not reader.decrypt(""):
            return LOCKED
        for page in islice(reader.pages, _MOST_PAGES):
            text = ""
            with contextlib.suppress(Exception):  # one bad page does not cost the others
                text = page.extract_text()
            texts.append(text[:left])
            left -= len(texts[-1])
            if not left:
                break
        pages = len(reader.pages)
    except (PyPdfError, ValueError, LookupError, TypeError, AttributeError, RecursionError, OSError):
        return BAD_INPUT
    json.dump({"texts": texts, "pages": pages}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1]))
