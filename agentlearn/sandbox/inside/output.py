"""Output of a session: in one file, so that it survives a kill; past a size limit only the end is kept, in memory.

Descriptors 1 and 2 of a session are this file (a memfd), so text printed by C code appears in the right order.
"""

import io
import os
import threading
import time

FILE_ROOM_BYTES = 1 << 18
"""Size up to which output goes to the file; of later output only the end is kept, in memory."""


_WRITE_S = 0.1
"""Longest time that a call waits for the last write of a thread of an earlier call."""


class Output:
    """Output of one call. Keeps the first and the last `kept_bytes`."""

    def __init__(self, fd: int, *, kept_bytes: int) -> None:
        self._fd = fd
        self._kept_bytes = kept_bytes
        self._room = FILE_ROOM_BYTES
        self._tail = bytearray()
        self._tail_bytes = 0
        self._silent: frozenset[int] = frozenset()
        self._writing: set[int] = set()
        """System ids of the threads that are in `write`. Not a lock, which a fork could leave closed for ever."""

    def begin(self, silent: frozenset[int]) -> None:
        """Start the output of a call. silent: system ids of threads of earlier calls, whose text is dropped."""
        self._silent = silent
        deadline = time.monotonic() + _WRITE_S
        while self._writing & silent and time.monotonic() < deadline:  # they have passed the test for silence before
            time.sleep(0)
        os.ftruncate(self._fd, 0)
        self._room, self._tail, self._tail_bytes = FILE_ROOM_BYTES, bytearray(), 0

    def write(self, chunk: bytes) -> None:
        """Add printed bytes."""
        thread = threading.get_native_id()
        self._writing.add(thread)
        try:
            if thread not in self._silent:
                self._add(chunk)
        finally:
            self._writing.discard(thread)

    def _add(self, chunk: bytes) -> None:
        size = len(chunk)
        if size <= self._room:
            os.write(self._fd, chunk)
            self._room -= size
            return
        if self._room:
            os.write(self._fd, chunk[: self._room])
            chunk = chunk[self._room :]
            self._room = 0
        self._tail_bytes += len(chunk)
        self._tail += chunk[-self._kept_bytes :]
        if len(self._tail) > 2 * self._kept_bytes:
            del self._tail[: -self._kept_bytes]

    def take(self, limit_chars: int) -> tuple[str, int]:
        """Return the text printed since `begin`, shortened to the limit, and its full size in bytes."""
        head, tail, stored_bytes = read_ends(self._fd, self._kept_bytes)
        total = stored_bytes + self._tail_bytes
        tail = (tail if stored_bytes > self._kept_bytes else b"") + bytes(self._tail)
        return cut_middle(head, tail[-self._kept_bytes :], total, limit_chars), total


class Stream(io.TextIOBase):
    """`sys.stdout` and `sys.stderr` of a session: unbuffered, and `close` does nothing."""

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
        """Do nothing: later calls print too."""


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
        """Do nothing: later calls print too."""


def read_ends(fd: int, kept_bytes: int) -> tuple[bytes, bytes, int]:
    """The first `kept_bytes` of a file, at most `kept_bytes` of the end of the rest, and the file's size."""
    size = os.fstat(fd).st_size
    head = os.pread(fd, kept_bytes, 0) if size else b""
    tail = os.pread(fd, kept_bytes, max(kept_bytes, size - kept_bytes)) if size > kept_bytes else b""
    return head, tail, size


def cut_middle(head: bytes, tail: bytes, total: int, limit_chars: int) -> str:
    """The text if it has at most `limit_chars` characters, else its start and end around a line that marks the gap.

    head, tail: start and end of the output, without overlap. total: full size of the output in bytes.
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
