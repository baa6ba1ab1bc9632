"""Limits of a session that the kernel does not enforce: its threads and, without namespaces, its files.

They are counted from outside, so code can exceed them for the moment until the next count, and is then killed.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agentlearn.sandbox.inside.config import SandboxLimits
from agentlearn.sandbox.inside.namespaces import most_files

_BLOCK_BYTES = 512
_DELETED = " (deleted)"


class _Excess(Exception):
    """Raised with a sentence about the limit that a session exceeds."""


@dataclass
class WatchedSession:
    """One session, as seen from outside."""

    pid: int
    scratch: Path
    limits: SandboxLimits
    own_disk: bool
    """Whether its files are on a file system of their own, where the kernel enforces their limit."""
    _ran_for: str = ""
    """How long it had run when its files were last counted, in the kernel's words."""

    def excess(self) -> str:
        """Which limit the session exceeds; empty if none."""
        try:
            fields = _text(f"/proc/{self.pid}/stat").rpartition(")")[2].split()
            state, threads = fields[0], int(fields[17])
            if threads > self.limits.threads:
                return f"the session had more than {self.limits.threads} threads"
            if not self.own_disk and (state != "T" or self._ran()):
                self._count_files()
        except _Excess as excess:
            return str(excess)
        except OSError:  # it has ended
            return ""
        return ""

    def _ran(self) -> bool:
        """Whether it ran since this was last asked. Its first thread runs in every call."""
        before, self._ran_for = self._ran_for, ""
        with contextlib.suppress(OSError):
            self._ran_for = _text(f"/proc/{self.pid}/schedstat")
        return not before or before != self._ran_for

    def _count_files(self) -> None:
        """Raises Excess; OSError when the session has ended."""
        total, files = 0, 0
        for size in (*self._deleted_files().values(), *_sizes(str(self.scratch))):
            total, files = total + size, files + 1
            if total > self.limits.scratch_bytes:
                raise _Excess(f"the session's files took more than {self.limits.scratch_bytes:,} bytes")
            if files > most_files(self.limits):
                raise _Excess(f"the session had more than {most_files(self.limits):,} files and folders")

    def _deleted_files(self) -> dict[int, int]:
        """Bytes of the deleted files that the session keeps open or mapped, by inode."""
        found: dict[int, int] = {}
        for fd in os.listdir(f"/proc/{self.pid}/fd"):  # noqa: PTH208
            path = f"/proc/{self.pid}/fd/{fd}"
            with contextlib.suppress(OSError):  # it was closed
                if self._is_deleted(os.readlink(path)):  # noqa: PTH115
                    kept = os.stat(path)  # noqa: PTH116
                    found[kept.st_ino] = kept.st_blocks * _BLOCK_BYTES
        for line in _text(f"/proc/{self.pid}/maps").splitlines():
            if line.endswith(_DELETED) and self._is_deleted("/" + line.partition("/")[2]):
                addresses, _, offset, _, inode, *_ = line.split()
                first, last = (int(address, 16) for address in addresses.split("-"))
                found[int(inode)] = max(found.get(int(inode), 0), int(offset, 16) + last - first)
        return found

    def _is_deleted(self, path: str) -> bool:
        return path.endswith(_DELETED) and path.startswith(f"{self.scratch}{os.sep}")


def _sizes(folder: str) -> Iterator[int]:
    """Bytes on the disk of each file and folder below this one. Raises Excess where they cannot be counted."""
    folders = [folder]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    with contextlib.suppress(FileNotFoundError):  # it was removed
                        yield entry.stat(follow_symlinks=False).st_blocks * _BLOCK_BYTES
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(entry.path)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise _Excess(f"the session's files could not be counted ({error.strerror})") from error


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        return file.read()
