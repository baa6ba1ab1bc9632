"""The transport that uses aiohttp behaves like httpx2's own: the same requests, the same answers, the same errors."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import httpx2
import pytest

from agentlearn.models.chat_model import http_transport

pytest.importorskip("aiohttp")

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
KINDS = ("aiohttp", "httpx2")
DAY = timedelta(days=1)


def request_of(connection: socket.socket) -> bytes:
    """Read one request; httpx2 sends its head and its body apart."""
    request = b""
    while b"\r\n\r\n" not in request or (request.startswith(b"POST") and not request.endswith(b"}")):
        request += connection.recv(1 << 20)
    return request


@contextmanager
def service(*answers: bytes) -> Generator[tuple[str, list[bytes]]]:
    """Serve these raw answers, one per connection that sends a request; an empty one resets the connection."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for answer in answers:
                connection, _ = server.accept()
                with connection:
                    heard.append(request_of(connection))
                    if answer:
                        connection.sendall(answer)
                    else:
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1", heard
        thread.join(10)


def client(kind: str, *, connections: int = 4) -> httpx2.AsyncClient:
    transport = http_transport(connections, proxies=False) if kind == "aiohttp" else None
    return httpx2.AsyncClient(transport=transport, trust_env=False, timeout=httpx2.Timeout(5, read=0.3))


def ask(kind: str, url: str) -> httpx2.Response:
    async def asked() -> httpx2.Response:
        async with client(kind) as http:
            return await http.post(url, content=b'{"a": 1}', headers={"Authorization": "Bearer k"})

    return asyncio.run(asked())


def test_it_sends_the_headers_and_the_body_of_httpx2_and_nothing_else() -> None:
    sent = []
    for kind in KINDS:
        with service(OK) as (url, heard):
            ask(kind, url)
        head, _, body = heard[0].partition(b"\r\n\r\n")
        first, *headers = head.splitlines()
        named = sorted(one.lower() for one in headers if not one.lower().startswith(b"host:"))
        sent.append((first, named, body))
    assert sent[0] == sent[1]


@pytest.mark.parametrize("kind", KINDS)
def test_cookies_are_those_of_the_client_and_redirects_are_not_followed(kind: str) -> None:
    moved = b"HTTP/1.1 302 Found\r\nLocation: /x\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

    async def twice() -> list[int]:
        async with client(kind) as http:
            statuses = [(await http.get(url)).status_code]
            http.cookies.clear()
            return [*statuses, (await http.get(url)).status_code]

    with service(moved, OK) as (url, heard):
        assert asyncio.run(twice()) == [302, 200]
    assert b"cookie" not in heard[1].lower()


ERRORS = {
    "closed": (b" ", httpx2.RemoteProtocolError),
    "reset": (b"", httpx2.ReadError),
    "no http": (b"SSH-2.0-OpenSSH\r\n\r\n", httpx2.RemoteProtocolError),
    "bad length": (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", httpx2.RemoteProtocolError),
    "cut off": (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", httpx2.RemoteProtocolError),
    "bad chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", httpx2.RemoteProtocolError),
}


def test_what_is_no_answer_raises_the_error_of_httpx2(subtests: pytest.Subtests) -> None:
    for kind in KINDS:
        for case in ERRORS:
            with subtests.test(repr((kind, case))):
                answer, error = ERRORS[case]
                with service(answer) as (url, _), pytest.raises(httpx2.HTTPError) as caught:
                    ask(kind, url)
                assert type(caught.value) is error


def test_a_connection_that_is_closed_before_any_answer_says_so() -> None:
    closed = socket.create_server(("127.0.0.1", 0))

    def close() -> None:
        connection, _ = closed.accept()
        connection.recv(1 << 20)
        connection.close()

    thread = threading.Thread(target=close, daemon=True)
    thread.start()
    with closed, pytest.raises(httpx2.RemoteProtocolError, match="without sending a response"):
        ask("aiohttp", f"http://127.0.0.1:{closed.getsockname()[1]}")
    thread.join(10)


@pytest.mark.parametrize("kind", KINDS)
def test_nobody_there_and_no_answer_in_time(kind: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with pytest.raises(httpx2.ReadTimeout):
            ask(kind, f"http://127.0.0.1:{silent.getsockname()[1]}")
        port = silent.getsockname()[1]
    with pytest.raises(httpx2.ConnectError):
        ask(kind, f"http://127.0.0.1:{port}")


@pytest.mark.parametrize("kind", KINDS)
def test_a_time_limit_of_the_caller_stays_a_timeout(kind: str) -> None:
    async def limited(url: str) -> None:
        async with client(kind) as http:
            async with asyncio.timeout(0.05):
                await http.get(url)

    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(TimeoutError):
        asyncio.run(limited(f"http://127.0.0.1:{silent.getsockname()[1]}"))


def test_no_more_connections_are_open_than_allowed() -> None:
    opened, most, lock = 0, 0, threading.Lock()

    def answer(connection: socket.socket) -> None:
        nonlocal opened, most
        with lock:
            opened += 1
            most = max(most, opened)
        with connection:
            request_of(connection)
            threading.Event().wait(0.02)
            with lock:
                opened -= 1
            connection.sendall(OK.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"))

    def serve(server: socket.socket) -> None:
        for _ in range(6):
            threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()

    async def many(url: str) -> None:
        async with client("aiohttp", connections=2) as http, asyncio.TaskGroup() as group:
            for _ in range(6):
                group.create_task(http.get(url))

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, args=(server,), daemon=True).start()
        asyncio.run(many(f"http://127.0.0.1:{server.getsockname()[1]}"))
    assert most == 2


def test_https_trusts_the_certificates_that_httpx2_trusts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, name, now = ec.generate_private_key(ec.SECP256R1()), x509.Name([]), datetime.now(UTC)
    made = x509.CertificateBuilder().issuer_name(name).subject_name(name).public_key(key.public_key())
    made = made.serial_number(x509.random_serial_number()).not_valid_before(now - DAY).not_valid_after(now + DAY)
    named = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    signed = made.add_extension(named, critical=True).sign(key, hashes.SHA256())
    file = tmp_path / "both.pem"
    pem = serialization.Encoding.PEM
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    file.write_bytes(signed.public_bytes(pem) + key.private_bytes(pem, *plain))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)

    def serve(server: socket.socket) -> None:
        for _ in range(2):
            connection, _ = server.accept()
            with suppress(OSError), context.wrap_socket(connection, server_side=True) as secret:
                request_of(secret)
                secret.sendall(OK)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, args=(server,), daemon=True).start()
        url = f"https://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(httpx2.ConnectError, match="certificate"):
            ask("aiohttp", url)
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
        assert ask("aiohttp", url).text == "ok"


def test_proxies_and_a_missing_aiohttp_leave_it_to_httpx2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    assert http_transport(1, proxies=True) is None
    assert http_transport(1, proxies=False) is not None
    monkeypatch.setattr("agentlearn.models.chat_model.find_spec", lambda name: None)
    assert http_transport(1, proxies=False) is None
