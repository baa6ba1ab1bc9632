"""What both sides share: the configuration of a zygote, messages, and how the files of sessions are removed.

A message between a session and our process is four bytes of length, then JSON. Neither side trusts the other.
"""

import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

MOST_OUTPUT_CHARS = 1 << 23
"""Most printed text that a result can keep."""


@dataclass(frozen=True)
class SandboxLimits:
    """Resource limits of one session."""

    timeout_s: float = 10.0
    """Default limit of the wall time of one call."""
    cpu_s: int = 600
    """Limit of the processor time of a whole session."""
    memory_bytes: int = 1 << 30
    """Limit of address space, in addition to what the interpreter with its preloaded modules uses."""
    file_bytes: int = 16 << 20
    """Largest size of a file."""
    scratch_bytes: int = 64 << 20
    """Largest total size of a session's files. With namespaces the kernel refuses more; otherwise a session that
    exceeds it is killed soon after."""
    open_files: int = 64
    """Largest number of open files."""
    threads: int = 256
    """Largest number of threads; a session that exceeds it is killed soon after."""
    output_chars: int = 8_000
    """Printed text that a result keeps; longer text is shortened in the middle."""

    def __post_init__(self) -> None:
        """Refuse to keep so much text that a session would have no memory for it."""
        if not 0 < self.output_chars <= MOST_OUTPUT_CHARS:
            raise ValueError(f"output_chars is {self.output_chars!r}; give a number from 1 to {MOST_OUTPUT_CHARS:,}")


@dataclass(frozen=True)
class Config:
    """Configuration of a zygote."""

    parent: int
    """Process id of the parent; the zygote ends when the parent does."""
    scratch: str
    """An existing directory that nothing else uses; each session gets a directory inside."""
    packages: tuple[str, ...]
    """Folders and files of the packages that sessions may import besides the standard library."""
    modules: tuple[str, ...]
    """Modules that are imported once, before the first fork."""
    warm_up: tuple[str, ...]
    """Programs that are then run once, in one scope. One that fails is left out."""
    sealed: bool
    """Whether the kernel isolates sessions; otherwise they only have resource limits."""
    limits: SandboxLimits

    @property
    def package_folder(self) -> str:
        """The folder of links to the packages, on the search path of sessions."""
        return f"{self.scratch}/packages"

    def to_json(self) -> str:
        """The configuration as one line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> "Config":
        """The configuration in a line written by `to_json`."""
        fields = json.loads(line)
        tuples = {name: tuple(fields[name]) for name in ("packages", "modules", "warm_up")}
        return cls(**fields | tuples | {"limits": SandboxLimits(**fields["limits"])})


MAX_FRAME_BYTES = 1 << 20
HEADER_BYTES = 4
READ_BYTES = 1 << 16
"""How much to read at once; most messages are shorter."""
_CHAR_BYTES = 12
"""Most bytes of one character in JSON."""


def reply_bytes(chars: int) -> int:
    """Largest size of a reply with that much printed text."""
    return MAX_FRAME_BYTES + _CHAR_BYTES * chars


def pack(message: dict[str, Any], *, most_bytes: int = MAX_FRAME_BYTES) -> bytes:
    """The message as a frame. Raises ValueError when it is larger than `most_bytes`."""
    body = json.dumps(message, separators=(",", ":")).encode()
    if len(body) > most_bytes:
        raise ValueError(f"a frame of {len(body)} bytes is over the limit of {most_bytes}")
    return len(body).to_bytes(HEADER_BYTES, "big") + body


class FrameReader:
    """Reads messages from a blocking descriptor."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._received = bytearray()

    def read(self) -> dict[str, Any] | None:
        """Read the next message; None at the end."""
        header = self._take(HEADER_BYTES)
        body = None if header is None else self._take(int.from_bytes(header, "big"))
        return None if body is None else json.loads(body)

    def _take(self, size: int) -> bytes | None:
        while len(self._received) < size:
            part = os.read(self._fd, max(READ_BYTES, size - len(self._received)))
            if not part:
                return None
            self._received += part
        taken = bytes(self._received[:size])
        del self._received[:size]
        return taken


def write_frame(fd: int, message: dict[str, Any], *, most_bytes: int = MAX_FRAME_BYTES) -> None:
    """Write one message to a blocking descriptor. Raises ValueError when it is larger than `most_bytes`."""
    left = memoryview(pack(message, most_bytes=most_bytes))
    while left:
        left = left[os.write(fd, left) :]


def remove_tree(top: Path) -> None:
    """Remove a directory with everything in it, even below paths that are too long to open. Ignores a missing one.

    No process may still write to it. Links are removed, not followed.
    """
    prefix, moved = secrets.token_hex(8), 0
    if not top.exists():
        return
    while entries := list(top.iterdir()):
        for entry in entries:
            if not _opened_up(entry):
                entry.unlink()
                continue
            for inner in list(entry.iterdir()):
                _opened_up(inner)  # a read-only directory cannot be moved
                moved += 1
                inner.rename(top / f"{prefix}-{moved}")
            entry.rmdir()
    top.rmdir()


def _opened_up(path: Path) -> bool:
    """Make a directory readable and writable. Returns False for anything else, also for links."""
    if path.is_symlink() or not path.is_dir():
        return False
    path.chmod(0o700)
    return True
