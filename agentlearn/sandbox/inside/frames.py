"""Messages between a session and our process: four bytes of length, then JSON. Neither side trusts the other."""

import json
import os
from typing import Any

MAX_FRAME_BYTES = 1 << 20
HEADER_BYTES = 4


def pack(message: dict[str, Any]) -> bytes:
    """The message as a frame. Raises ValueError when it is larger than MAX_FRAME_BYTES."""
    body = json.dumps(message, separators=(",", ":")).encode()
    if len(body) > MAX_FRAME_BYTES:
        raise ValueError(f"a frame of {len(body)} bytes is over the limit of {MAX_FRAME_BYTES}")
    return len(body).to_bytes(HEADER_BYTES, "big") + body


def read_frame(fd: int) -> dict[str, Any] | None:
    """Read the next message from a blocking descriptor; None at the end."""
    header = _read_exactly(fd, HEADER_BYTES)
    if header is None:
        return None
    body = _read_exactly(fd, int.from_bytes(header, "big"))
    return None if body is None else json.loads(body)


def write_frame(fd: int, message: dict[str, Any]) -> None:
    """Write one message to a blocking descriptor."""
    left = memoryview(pack(message))
    while left:
        left = left[os.write(fd, left) :]


def _read_exactly(fd: int, size: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        part = os.read(fd, size - len(parts))
        if not part:
            return None
        parts += part
    return bytes(parts)
