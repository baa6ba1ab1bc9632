"""What a session prints: one file for everything, so that prints survive a kill; a tail kept in memory past its room.

Descriptors 1 and 2 of a session are this file (a memfd), so text that C code prints lands in its place between prints.
"""

import io
import os

FILE_ROOM_BYTES = 1 << 18
"""Prints go to the file up to here; what comes later only keeps its tail, in memory."""


class Output:
    """Everything one call prints. `kept_bytes` of head and as many of tail survive."""

    def __init__(self, fd: int, *, kept_bytes: int) -> None:
        self._fd = fd
        self._kept_bytes = kept_bytes
        self._room = FILE_ROOM_BYTES
        self._late = bytearray()
        self._late_bytes = 0

    def write(self, chunk: bytes) -> None:
        """Take printed bytes."""
        size = len(chunk)
        if size <= self._room:
            os.write(self._fd, chunk)
            self._room -= size
            return
        if self._room:
            os.write(self._fd, chunk[: self._room])
            chunk = chunk[self._room :]
            self._room = 0
        self._late_bytes += len(chunk)
        self._late += chunk[-self._kept_bytes :]
        if len(self._late) > 2 * self._kept_bytes:
            del self._late[: -self._kept_bytes]

    def take(self, limit_chars: int) -> tuple[str, int]:
        """The text printed since the last time, cut to the limit, and how many bytes it had in all."""
        head, tail, filed_bytes = read_ends(self._fd, self._kept_bytes)
        os.ftruncate(self._fd, 0)
        total = filed_bytes + self._late_bytes
        tail = (tail if filed_bytes > self._kept_bytes else b"") + bytes(self._late)
        self._room, self._late, self._late_bytes = FILE_ROOM_BYTES, bytearray(), 0
        return cut(head, tail[-self._kept_bytes :], total, limit_chars), total


class Stream(io.TextIOBase):
    """`sys.stdout` and `sys.stderr` of a session: unbuffered, cannot be closed."""

    def __init__(self, output: Output, fd: int) -> None:
        self._output = output
        self._fd = fd
        self.buffer = _Bytes(output, fd)

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return "utf-8"

    @property
    def errors(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return "backslashreplace"

    def write(self, s: str, /) -> int:
        self._output.write(s.encode("utf-8", "backslashreplace"))
        return len(s)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        """Nothing: later calls print too."""


class _Bytes(io.RawIOBase):
    """`sys.stdout.buffer` of a session."""

    def __init__(self, output: Output, fd: int) -> None:
        self._output = output
        self._fd = fd

    def write(self, chunk: "bytes | bytearray | memoryview", /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        taken = bytes(chunk)
        self._output.write(taken)
        return len(taken)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        """Nothing: later calls print too."""


def read_ends(fd: int, kept_bytes: int) -> tuple[bytes, bytes, int]:
    """First and last `kept_bytes` of a file (the last only past the first), and its size."""
    size = os.fstat(fd).st_size
    head = os.pread(fd, kept_bytes, 0)
    start = max(kept_bytes, size - kept_bytes)
    return head, os.pread(fd, kept_bytes, start), size


def cut(head: bytes, tail: bytes, total: int, limit_chars: int) -> str:
    """Text of at most `limit_chars` characters, or its head and tail around a line that says what is missing.

    head and tail follow each other without overlap; total counts what was printed in all, in bytes.
    """
    if len(head) + len(tail) >= total:
        text = (head + tail).decode("utf-8", "replace")
        if len(text) <= limit_chars:
            return text
        first, last = text[: limit_chars // 2], text[-(limit_chars // 2) :]
    else:
        first = head.decode("utf-8", "replace")[: limit_chars // 2]
        last = (head + tail).decode("utf-8", "replace")[-(limit_chars // 2) :]
    return f"{first}\n[… cut: {total} bytes were printed in all …]\n{last}"
