"""Messages between a session and our process: four bytes of length, then JSON. Neither side trusts the other."""

import json
import os
from typing import Any

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
