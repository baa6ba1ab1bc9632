"""The browser's end of one connection to the proxy: its requests, one at a time, and what it is answered."""

import asyncio
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus

import h11

from agentlearn_web.boundary.access_policy import RefusalCode
from agentlearn_web.boundary.proxy_session import RequestBlocked
from agentlearn_web.boundary.resolve import READ_BYTES

MAX_HEAD_BYTES = 65_536
"""Of a request or response line with its headers."""
_STATUS: dict[RefusalCode, HTTPStatus] = {
    "bad_request": HTTPStatus.BAD_REQUEST,
    "unresolvable": HTTPStatus.BAD_GATEWAY,
    "unreachable": HTTPStatus.BAD_GATEWAY,
    "too_slow": HTTPStatus.GATEWAY_TIMEOUT,
}
"""All others are answered with 403."""


class WatchedReader(asyncio.StreamReader):
    """A stream reader that tells at once, also while nobody reads, that its peer has gone."""

    gone = False
    on_gone: Callable[[], None] | None = None

    def feed_eof(self) -> None:
        """As in the base class."""
        super().feed_eof()
        self._notify()

    def set_exception(self, exc: Exception) -> None:
        """As in the base class."""
        super().set_exception(exc)
        self._notify()

    def _notify(self) -> None:
        self.gone = True
        if self.on_gone is not None:
            self.on_gone()


class ClientConnection:
    """A browser's connection."""

    def __init__(self, reader: WatchedReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._wire = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)

    async def next_request(self) -> h11.Request | None:
        """The head of the next request; None when there is none. Raises h11.RemoteProtocolError for what is no HTTP."""
        event = await self._next_event()
        return event if isinstance(event, h11.Request) else None

    async def body(self) -> AsyncIterator[bytes]:
        """The pieces of the request's body. Raises ConnectionError when the browser goes away in the middle."""
        while isinstance(event := await self._next_event(), h11.Data):
            yield bytes(event.data)
        if not isinstance(event, h11.EndOfMessage):
            raise ConnectionAbortedError

    async def end(self) -> None:
        """Read past the end of a request that has no body."""
        async for _ in self.body():
            pass

    def early_bytes(self) -> bytes:
        """What came behind the head of a CONNECT or an upgrade, before it was answered."""
        return self._wire.trailing_data[0]

    def encode(self, event: h11.InformationalResponse | h11.Response | h11.Data | h11.EndOfMessage) -> bytes:
        """The bytes of a part of the answer, in the framing that this browser understands."""
        return self._wire.send(event) or b""

    def end_bytes(self) -> bytes:
        """The bytes that end an answer before its time; none where its length was told."""
        try:
            return self.encode(h11.EndOfMessage())
        except h11.LocalProtocolError:
            return b""

    async def send(self, data: bytes) -> None:
        """Send bytes, as fast as the browser takes them."""
        self.writer.write(data)
        await self.writer.drain()

    async def refuse(self, refused: RequestBlocked) -> None:
        """Answer with one line of plain text. An answer that has begun already is cut; one that has ended stays."""
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
            ("connection", "close"),
        ]
        head = h11.Response(status_code=status, headers=headers, reason=status.phrase)
        await self.send(b"".join(map(self.encode, (head, h11.Data(data=body), h11.EndOfMessage()))))

    def next_cycle(self) -> bool:
        """Make ready for the next request; False when this connection has had its last."""
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
