"""The forward proxy of a walk: one loopback port per walk, which connects only to hosts that the walk may reach.

Every request passes through here and is checked separately, including redirects, WebSockets and requests of workers.
Host names are resolved once, and the connection goes to the address that was checked. https and WebSockets are
tunnelled without being read, so only their host, port and size are known.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import h11

from agentlearn_web.boundary.access_policy import AccessPolicy
from agentlearn_web.boundary.client_connection import ClientConnection, WatchedReader
from agentlearn_web.boundary.proxy_session import NetworkLimits, ProxySession, RequestBlocked
from agentlearn_web.boundary.relay import Relay, has_body
from agentlearn_web.boundary.resolve import READ_BYTES, Dial, Resolve, system_dial, system_resolve
from agentlearn_web.boundary.route import ProxyTarget, Routes, read_target
from agentlearn_web.boundary.upstream import UpstreamProxy

__all__ = ["NetworkLimits", "ProxySession", "open_proxy"]

_HOST = "127.0.0.1"
_DEFAULT = NetworkLimits()
_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


@asynccontextmanager
async def open_proxy(
    policy: AccessPolicy,
    limits: NetworkLimits = _DEFAULT,
    *,
    resolve: Resolve = system_resolve,
    dial: Dial = system_dial,
    upstream: UpstreamProxy | None = None,
) -> AsyncGenerator[ProxySession]:
    """Run a proxy for one walk while the block runs, and close all its connections at the end.

    upstream: proxy through which public hosts are reached; None: directly.
    Raises ConfigError if the policy names an invalid host, or a served site that is not on loopback.
    """
    connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
    loop = asyncio.get_running_loop()
    session = ProxySession(0, limits)
    routes = Routes(policy, session, resolve, dial, upstream)

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        assert isinstance(reader, WatchedReader)
        if not server.is_serving():
            writer.transport.abort()  # it connected while the block was ending
            return
        connections[task] = writer
        try:
            await _serve_connection(
                ClientConnection(reader, writer), routes, session, crowded=len(connections) > limits.connections
            )
        except (OSError, asyncio.CancelledError):
            writer.transport.abort()  # the browser disconnected, or the walk is over
        finally:
            del connections[task]
            writer.close()

    def protocol() -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(WatchedReader(limit=READ_BYTES, loop=loop), connection, loop=loop)

    server = await loop.create_server(protocol, _HOST, 0, backlog=256)
    session.port = server.sockets[0].getsockname()[1]
    try:
        yield session
    finally:
        server.close()
        await _close_connections(connections)
        await server.wait_closed()


async def _close_connections(connections: dict[asyncio.Task[None], asyncio.StreamWriter]) -> None:
    for task, writer in connections.items():
        writer.transport.abort()
        task.cancel()
    if connections:
        await asyncio.wait(tuple(connections))
    await asyncio.sleep(0)  # transports close in the next iteration of the loop


async def _serve_connection(client: ClientConnection, routes: Routes, session: ProxySession, *, crowded: bool) -> None:
    """Serve the requests of one connection until either side closes it."""
    while (request := await _next_request(client, session)) is not None:
        await _handle_request(client, request, routes, session, crowded=crowded)
        if not client.next_cycle():
            return


async def _next_request(client: ClientConnection, session: ProxySession) -> h11.Request | None:
    """Return the next request; None when the browser closes the connection, is idle too long, or sends invalid HTTP."""
    try:
        async with asyncio.timeout(session.limits.idle_s):
            return await client.next_request()
    except TimeoutError:
        return None
    except h11.RemoteProtocolError:
        session.requests += 1
        session.add_refusal("bad_request", "", "", 0)
        await client.refuse(RequestBlocked("bad_request", "this is no HTTP/1.1 request"))
        return None


async def _handle_request(
    client: ClientConnection, request: h11.Request, routes: Routes, session: ProxySession, *, crowded: bool
) -> None:
    """Forward one request, or refuse it."""
    method, target = request.method.decode("ascii"), None
    session.requests += 1
    try:
        target = read_target(method, request.target.decode("ascii"))
        session.check_limits(crowded=crowded)
        await _forward_request(client, request, target, routes, session)
    except RequestBlocked as refused:
        host, port = (str(target.host), target.port) if target else ("", 0)
        if not (client.reader.gone and refused.code in {"unreachable", "too_slow"}):
            session.add_refusal(refused.code, method, host, port)
        await client.refuse(refused)


async def _forward_request(
    client: ClientConnection, request: h11.Request, target: ProxyTarget, routes: Routes, session: ProxySession
) -> None:
    """Forward one request. Raises RequestBlocked, and OSError when the browser disconnects."""
    is_tunnel, with_body = request.method == b"CONNECT", has_body(request)
    if is_tunnel and with_body:
        raise RequestBlocked("bad_request", "a CONNECT has no body")
    server = await routes.connect(target)
    try:
        async with asyncio.timeout(session.limits.idle_s) as deadline:
            loop = asyncio.get_running_loop()
            relay = Relay(client, server, session, lambda: deadline.reschedule(loop.time() + session.limits.idle_s))
            if is_tunnel:
                await client.end()
                await client.send(_ESTABLISHED)
                await relay.tunnel(client.early_bytes())
            else:
                await relay.exchange(request, target, with_body=with_body)
    except TimeoutError:
        raise _idle_error(target, session, is_tunnel=is_tunnel) from None
    except (OSError, h11.ProtocolError) as error:
        if is_tunnel or client.reader.gone:
            raise ConnectionAbortedError from error
        raise RequestBlocked("unreachable", f"{target.host} broke off, or speaks no HTTP/1.1") from None
    finally:
        server[1].transport.abort()


def _idle_error(target: ProxyTarget, session: ProxySession, *, is_tunnel: bool) -> Exception:
    """Return the error for an idle connection. An idle tunnel is just closed; the next request opens a new one."""
    if is_tunnel:
        return ConnectionAbortedError()
    return RequestBlocked("too_slow", f"{target.host} kept silent for {session.limits.idle_s:g} s")
