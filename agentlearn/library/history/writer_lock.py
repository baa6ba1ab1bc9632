"""A lock between processes and threads that change one library.

It is a `flock` on a file, which ends with the process. Where `fcntl` does not exist, it is a file that only one process
can create; after a crash that file stays, and the error says so.
"""

import errno
import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from agentlearn.errors import LibraryError
from agentlearn.files import own

try:
    import fcntl
except ImportError:  # pragma: no cover  not a POSIX system
    fcntl = None

LOCK_FILE = "history.lock"
WAIT_S = 30.0
"""Seconds to wait for another process before giving up."""
_PAUSE_S = 0.01


@contextmanager
def writer_lock(folder: Path, *, wait_s: float = WAIT_S) -> Generator[None]:
    """Hold the lock of a library's folder. Raises LibraryError after `wait_s`; OSError where it cannot be made."""
    file = folder / LOCK_FILE
    locks = fcntl
    if locks is None:
        with _created(file, wait_s):
            yield
        return
    fd = os.open(own(file, folder), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        _until_free(lambda: locks.flock(fd, locks.LOCK_EX | locks.LOCK_NB), file, wait_s)
        yield
    finally:
        os.close(fd)


@contextmanager
def _created(file: Path, wait_s: float) -> Generator[None]:
    held = file.with_suffix(".held")
    _until_free(lambda: os.close(os.open(held, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)), held, wait_s)
    try:
        yield
    finally:
        with suppress(OSError):
            held.unlink()


def _until_free(attempt: Callable[[], None], file: Path, wait_s: float) -> None:
    ends = time.monotonic() + wait_s
    while True:
        try:
            attempt()
        except OSError as error:
            if error.errno not in {errno.EAGAIN, errno.EACCES, errno.EEXIST}:
                raise
            if time.monotonic() > ends:
                raise LibraryError(
                    f"another process has changed {str(file.parent)!r} for {wait_s:.0f} seconds; wait until it ends,"
                    f" or delete {str(file)!r} if no such process exists",
                    code="library_locked",
                ) from error
            time.sleep(_PAUSE_S)
        else:
            return
