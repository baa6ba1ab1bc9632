"""One connection from the browser to the proxy: reads its requests one at a time and sends the responses."""

import asyncio
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus

import h11

from agentlearn_web.boundary.access_policy import RefusalCode
from agentlearn_web.boundary.proxy_session import RequestBlocked
from agentlearn_web.boundary.resolve import READ_BYTES

MAX_HEAD_BYTES = 65_536
"""Largest accepted request or response head (first line and headers)."""
REFUSED_HEADER = "proxy-refused"
"""Header of the proxy's own responses, with the code of the refusal. It is left out of the responses of servers."""
_STATUS: dict[RefusalCode, HTTPStatus] = {
    "bad_request": HTTPStatus.BAD_REQUEST,
    "unresolvable": HTTPStatus.BAD_GATEWAY,
    "unreachable": HTTPStatus.BAD_GATEWAY,
    "too_slow": HTTPStatus.GATEWAY_TIMEOUT,
}
"""HTTP status for each refusal code. All other codes get 403."""


class WatchedReader(asyncio.StreamReader):
    """A stream reader that reports immediately when its peer disconnects, even while nobody reads."""

    gone = False
    on_gone: Callable[[], None] | None = None

    def feed_eof(self) -> None:
        """Pass on to the base class and report the disconnect."""
        super().feed_eof()
        self._notify()

    def set_exception(self, exc: Exception) -> None:
        """Pass on to the base class and report the disconnect."""
        super().set_exception(exc)
        self._notify()

    def _notify(self) -> None:
        self.gone = True
        if self.on_gone is not None:
            self.on_gone()


class ClientConnection:
    """One connection that the browser opened to the proxy."""

    def __init__(self, reader: WatchedReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._wire = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)

    async def next_request(self) -> h11.Request | None:
        """Return the head of the next request, or None at the end. Raises h11.RemoteProtocolError for invalid HTTP."""
        event = await self._next_event()
        return event if isinstance(event, h11.Request) else None

    async def body(self) -> AsyncIterator[bytes]:
        """Yield the request body in pieces. Raises ConnectionError when the browser disconnects in the middle."""
        while isinstance(event := await self._next_event(), h11.Data):
            yield bytes(event.data)
        if not isinstance(event, h11.EndOfMessage):
            raise ConnectionAbortedError

    async def end(self) -> None:
        """Consume the end of a request that has no body."""
        async for _ in self.body():
            pass

    def early_bytes(self) -> bytes:
        """Return bytes that the browser sent after a CONNECT or upgrade request, before the response."""
        return self._wire.trailing_data[0]

    def encode(self, event: h11.InformationalResponse | h11.Response | h11.Data | h11.EndOfMessage) -> bytes:
        """Return a part of the response as bytes, in the framing that this browser understands."""
        return self._wire.send(event) or b""

    def end_bytes(self) -> bytes:
        """Return the bytes that end a response early; empty if a content length was sent."""
        try:
            return self.encode(h11.EndOfMessage())
        except h11.LocalProtocolError:
            return b""

    async def send(self, data: bytes) -> None:
        """Send bytes, and wait until the browser can take more."""
        self.writer.write(data)
        await self.writer.drain()

    async def refuse(self, refused: RequestBlocked) -> None:
        """Respond with one line of plain text. A response that has started is cut; a complete one is left alone."""
        if self._wire.our_state in {h11.DONE, h11.MUST_CLOSE}:
            return
        if self._wire.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            self.writer.transport.abort()
            return
        body = f"agentlearn: {refused}\n".encode()
        status = _STATUS.get(refused.code, HTTPStatus.FORBIDDEN)
        headers = [
            ("content-type", "text/plain; charset=utf-8"),
            ("content-length", str(len(body))),
            ("cache-control", "no-store"),
            ("x-content-type-options", "nosniff"),
            (REFUSED_HEADER, refused.code),
            ("connection", "close"),
        ]
        head = h11.Response(status_code=status, headers=headers, reason=status.phrase)
        await self.send(b"".join(map(self.encode, (head, h11.Data(data=body), h11.EndOfMessage()))))

    def next_cycle(self) -> bool:
        """Prepare for the next request. Returns False if the connection cannot take another one."""
        if self._wire.our_state is not h11.DONE or self._wire.their_state is not h11.DONE:
            return False
        self._wire.start_next_cycle()
        return True

    async def _next_event(self) -> object:
        while (event := self._wire.next_event()) is h11.NEED_DATA:
            if self._wire.they_are_waiting_for_100_continue:
                await self.send(self.encode(h11.InformationalResponse(status_code=100, headers=[])))
            self._wire.receive_data(await self.reader.read(READ_BYTES))
        return event
