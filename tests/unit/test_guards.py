"""The guards of conftest.py hold, in this process and in the ones it starts."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import Callable

import pytest
from loopback_guard import NetworkBlocked, is_loopback

from tests.support.leftovers import no_asyncio_task_left, no_process_left

OUTSIDE = "192.0.2.1"  # TEST-NET-1: belongs to nobody


@pytest.fixture(autouse=True)
def _no_asyncio_task_left_behind() -> None:
    """Off in this file, which leaves a task behind on purpose."""


def _connect(host: str) -> None:
    with socket.socket() as outside:
        outside.settimeout(0.2)
        outside.connect((host, 80))


def _bind(host: str) -> None:
    with socket.socket() as everywhere:
        everywhere.bind((host, 0))


def _send(host: str) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as datagram:
        datagram.sendto(b"x", (host, 9))


@pytest.mark.parametrize("reach", [_connect, _send, _bind])
def test_nothing_reaches_past_loopback(reach: Callable[[str], None]) -> None:
    with pytest.raises(NetworkBlocked, match=r"192\.0\.2\.1"):
        reach(OUTSIDE)


def test_the_wildcard_address_is_refused() -> None:
    with pytest.raises(NetworkBlocked):
        _bind("")


def test_names_are_not_resolved() -> None:
    with pytest.raises(NetworkBlocked, match=r"example\.org"):
        socket.getaddrinfo("example.org", 443)


def test_loopback_works() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        with accepted:
            client.sendall(b"x")
            assert accepted.recv(1) == b"x"


@pytest.mark.parametrize(
    ("host", "verdict"),
    [("localhost", True), ("127.8.9.1", True), ("::1", True), (b"127.0.0.1", True), ("", False), ("0.0.0.0", False)],
)
def test_what_counts_as_loopback(host: str | bytes, verdict: bool) -> None:
    assert is_loopback(host) is verdict


def test_a_child_process_is_guarded_too() -> None:
    program = f"import socket; socket.socket().connect(({OUTSIDE!r}, 80))"
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=False)
    assert child.returncode == 1
    assert "NetworkBlocked" in child.stderr


def test_the_environment_holds_no_key_and_no_setting() -> None:
    for name in os.environ:
        assert not name.endswith("_API_KEY"), name
        assert not name.startswith("AGENTLEARN_"), name


def test_warnings_are_errors() -> None:
    with pytest.raises(UserWarning, match="noticed"):
        warnings.warn("noticed", stacklevel=1)


def test_a_process_left_running_is_noticed_and_ended() -> None:
    left: list[subprocess.Popen[bytes]] = []
    with pytest.raises(AssertionError, match="processes left running"), no_process_left(grace_s=0.05):
        left.append(subprocess.Popen(["sleep", "60"]))
    assert left[0].wait(timeout=60) == -signal.SIGKILL


def test_a_process_that_ended_is_no_leftover() -> None:
    with no_process_left(grace_s=0.05):
        subprocess.run(["true"], check=True)


def test_a_task_left_running_is_noticed() -> None:
    async def leave_one() -> asyncio.Task[None]:
        return asyncio.ensure_future(asyncio.sleep(60))

    with pytest.raises(AssertionError, match="still running"), no_asyncio_task_left():
        asyncio.run(leave_one())


def test_a_task_that_was_awaited_is_no_leftover() -> None:
    async def await_one() -> str:
        return await asyncio.ensure_future(asyncio.sleep(0, "value"))

    with no_asyncio_task_left():
        assert asyncio.run(await_one()) == "value"
