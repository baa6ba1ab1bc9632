"""Sharing libraries: content ids, signatures, votes, channels and anchors. Needs the extra `share`, or `chain`."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from agentlearn.errors import LibraryError, MissingExtra
from agentlearn.text.files import readable

SKILLS = Path(".well-known", "skills")
"""Where the index of a channel and its packages are."""
MAX_BYTES = 16_000_000
"""Largest size of a file that is read, and of the files of a package together."""


def content_of(file: Path) -> bytes:
    """Return the first `MAX_BYTES` bytes of a file, and one more where there are more. Raises LibraryError."""
    try:
        with readable(file).open("rb") as stream:
            return stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise LibraryError(f"{str(file)!r} cannot be read: {error.strerror or error}", code="no_file") from error


def extra_package(extra: Literal["share", "chain"], name: str) -> Any:
    """Import a module of a package that an extra installs. Raises MissingExtra.

    A dependency of web3 raises the recursion limit to 100,000, with which nested JSON of a stranger would overflow the
    stack and end the process. The limit is put back.
    """
    limit = sys.getrecursionlimit()
    try:
        return import_module(name)
    except ImportError as error:
        how = f"pip install 'agentlearn-lib[{extra}]'"
        raise MissingExtra(f"sharing needs the package {error.name!r}: {how}") from error
    finally:
        sys.setrecursionlimit(limit)
