"""The HTTP server of the gateway, the web app and MCP: uvicorn, with limits for clients that let it wait.

uvicorn has no limit of time for the head of a request. A connection waits for its client until a request is whole,
while none comes, and while nobody reads the reply. Each such wait has a limit, and so have the bytes that wait. A new
client takes the place of the one that has let us wait longest, so that slow connections keep nobody out.
"""

import asyncio
import re
import resource
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_HEAD = 64 * 1024
"""Largest size of the head of a request, in bytes."""
WAITS_S = {"head": 10.0, "body": 60.0, "idle": 75.0, "reader": 60.0}
"""Longest time for a client to send the head of a request, and its body; to send a next one; and to read a reply on."""
_MOST_FILES, _MOST_CONNECTIONS, _OTHER_FILES = 8_192, 2_000, 64
_PIECE, _MOST_UNREAD = 2**16, 2**27
"""Bytes of a reply that are given to the system at once; bytes that may wait for clients that do not read."""
_ODD = re.compile(rb"(?<!\r)\n|\r(?!\n)|\n[ \t]|[\0-\x08\x0b\x0c\x0e-\x1f\x7f]")
_LENGTH = re.compile(rb"\n(?:content-length|(transfer-encoding))[ \t]*:[^\r,]*(,?)", re.IGNORECASE)


def serve_app(app: Callable[..., Any], listener: socket.socket, **options: Any) -> None:
    """Serve an ASGI app until the process is stopped, see `server_of`. Blocks."""
    server_of(app, **options).run(sockets=[listener])


def server_of(app: Callable[..., Any], **options: Any) -> uvicorn.Server:
    """Return the server of an ASGI app, and let this process open more files. options: of `uvicorn.Config`.

    A connection to a service needs a second file, so there may be half as many connections as files.
    """
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    files = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    limits: dict[str, Any] = {"limit_concurrency": min(max((files - _OTHER_FILES) // 2, 8), _MOST_CONNECTIONS) + 1}
    limits |= {"http": _Connection, "h11_max_incomplete_event_size": MAX_HEAD, "timeout_keep_alive": WAITS_S["idle"]}
    silent: dict[str, Any] = {
        "access_log": False,
        "log_config": None,
        "server_header": False,
        "proxy_headers": False,
        "ws": "none",
    }
    return uvicorn.Server(uvicorn.Config(app, **{**limits, **silent, **options}))


def wrong_head(head: bytes) -> str:
    """Why a request is refused whose end a server in front of this one may see elsewhere (RFC 9112); empty: it is not.

    head: what has come of it. h11 takes such lines, other versions, and one of two lengths.
    """
    head, whole, _ = head.partition(b"\r\n\r\n")
    first, _, more = head.partition(b"\r\n")
    lengths = _LENGTH.findall(head)
    if len(head) > MAX_HEAD:
        return "The head of the request is too long."
    if more and not first.endswith((b" HTTP/1.1", b" HTTP/1.0")):
        return "The request is not in HTTP 1.1."
    if len(lengths) > 1 or any(comma or (chunks and first.endswith(b"1.0")) for chunks, comma in lengths):
        return "The length of the request is not clear."
    odd = _ODD.search(head if whole else head.removesuffix(b"\r"))
    return "A line of the request does not end as HTTP wants it, or holds a control character." if odd else ""


class _Connection(H11Protocol):
    """A connection of a client."""

    waits_for = ""
    """What the client has to do next: a key of `WAITS_S`, or nothing."""
    since = 0.0
    """When that began, in seconds of the event loop."""
    unread = 0
    """Bytes of a reply that wait for the client, apart from what the system has taken."""
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a client, in place of the one that has let us wait longest if there are too many."""
        super().connection_made(transport)
        self.app = partial(self._in_pieces, self.app)
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):  # without it, the system takes some megabytes for each client
            transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _PIECE)
        if len(self.connections) >= (self.limit_concurrency or 0):
            self._make_room()
        self._wait_for("head")

    def _make_room(self) -> None:
        """End the connections that have let us wait longest, while there are too many or too much is unread."""
        ours = [one for one in self.connections if isinstance(one, _Connection)]
        unread = sum(one.unread for one in ours)
        for one in sorted((one for one in ours if one.waits_for), key=lambda one: one.since):
            if len(self.connections) >= (self.limit_concurrency or 0) or (one.unread and unread > _MOST_UNREAD):
                unread -= one.unread
                self.connections.discard(one)
                one.transport.abort()

    async def _in_pieces(self, app: Callable[..., Any], scope: Any, receive: Any, send: Any) -> None:
        """Call the app. A long reply is sent in pieces, so that it is seen whether its client reads.

        A request in chunks is the last of its connection: servers do not agree where the last chunk ends.
        """
        last = (b"transfer-encoding", b"chunked") in scope.get("headers", ())

        async def sent(message: dict[str, Any]) -> None:
            if last and "headers" in message:
                message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
            body: bytes = message.get("body", b"")
            if (size := len(body)) > _PIECE:
                self.unread = size
                self._make_room()
                for begin in range(0, size, _PIECE):
                    self.unread = size - begin
                    more = message.get("more_body", False) or self.unread > _PIECE
                    await send({**message, "body": body[begin : begin + _PIECE], "more_body": more})
                self.unread = 0
            else:
                await send(message)

        await app(scope, receive, sent)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the client."""
        self._wait_for("")
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on."""
        super().data_received(data)
        self._look("head")

    def handle_events(self) -> None:
        """Go on with what was read, unless the head of a request is refused."""
        if self.conn.our_state is h11.DONE:  # the answer was sent before the request was whole; it is the last one
            with suppress(h11.RemoteProtocolError):
                while isinstance(event := self.conn.next_event(), h11.Data):
                    pass
                if event is h11.NEED_DATA:
                    return
            self.transport.close()
        elif self.conn.their_state is h11.IDLE and (why := wrong_head(self.conn.trailing_data[0])):
            self.send_400_response(why)
        else:
            super().handle_events()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._look("idle")

    def pause_writing(self) -> None:
        """Wait until the client reads on."""
        super().pause_writing()
        self._wait_for("reader")

    def resume_writing(self) -> None:
        """Write on."""
        super().resume_writing()
        self._look("idle")

    def _look(self, next_request: str) -> None:
        """Wait for what the client has to do now. next_request: what that is before a request."""
        if not self.flow.write_paused:
            state = self.conn.their_state
            self._wait_for(next_request if state is h11.IDLE else "body" if state is h11.SEND_BODY else "")

    def _wait_for(self, what: str) -> None:
        """Begin a wait, unless it has begun."""
        if what != self.waits_for:
            self.waits_for, self.since = what, self.loop.time()
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self.loop.call_later(WAITS_S[what], self.transport.abort) if what else None
