"""Reads the body of an HTTP response within a limit, compressed or not, before a library decodes it."""

import zlib
from contextlib import aclosing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx2

MOST_BYTES = 32 * 2**20
"""Largest body that is read. A chat completion with the log-probabilities of 50,000 tokens has a third of it."""
_WINDOWS = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
ACCEPTED = "gzip, deflate"
"""Encodings that are asked for."""


class BadBody(Exception):
    """Raised when a body is too large or cannot be decompressed."""


async def read_within_limit(response: "httpx2.Response") -> None:
    """Read the body and put it back without compression. For use as a response hook of an HTTP client.

    Of an error response the readable part is kept. Raises BadBody for any other that cannot be read whole.
    """
    import httpx2

    body = bytearray()
    try:
        decoder = _Decoder(response.headers.get("content-encoding", ""))
        async with aclosing(aiter(response.stream)) as parts:  # pyright: ignore[reportArgumentType, reportCallIssue]
            async for part in parts:
                body += decoder.decode(part, MOST_BYTES - len(body))
        decoder.check_end()
    except BadBody:
        if response.status_code < 400:
            raise
    finally:
        await response.stream.aclose()  # pyright: ignore[reportAttributeAccessIssue]
    response.headers.pop("content-encoding", None)
    response.stream = httpx2.ByteStream(bytes(body))


class _Decoder:
    """Decompresses the parts of a body."""

    def __init__(self, encoding: str) -> None:
        name = encoding.strip().lower()
        if name not in {"", "identity", *_WINDOWS}:
            raise BadBody(f"the body has the encoding {encoding!r}, which was not asked for")
        self._decompress = zlib.decompressobj(_WINDOWS[name]) if name in _WINDOWS else None

    def decode(self, part: bytes, most: int) -> bytes:
        """Return the next part. Raises BadBody when it has more bytes."""
        try:
            plain = part if self._decompress is None else self._decompress.decompress(part, most + 1)
        except zlib.error as error:
            raise BadBody(f"the body cannot be decompressed: {error}") from error
        if len(plain) > most:
            raise BadBody(f"the body is larger than {MOST_BYTES:,} bytes")
        return plain

    def check_end(self) -> None:
        """Raise BadBody when the compressed body was cut off."""
        if self._decompress is not None and not self._decompress.eof:
            raise BadBody("the compressed body is cut off")
