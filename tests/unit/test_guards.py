"""The guards of conftest.py hold, in this process and in the ones it starts."""

import asyncio
import os
import signal
import socket
import subprocess
import sys

import pytest
from loopback_guard import NetworkBlocked, is_loopback

from tests.support.leftovers import no_asyncio_task_left, no_process_left

OUTSIDE = "192.0.2.1"  # TEST-NET-1: belongs to nobody


@pytest.fixture(autouse=True)
def _no_asyncio_task_left_behind() -> None:
    """Off in this file, which leaves a task behind on purpose."""


def test_nothing_reaches_past_loopback() -> None:
    with socket.socket() as stream, socket.socket(type=socket.SOCK_DGRAM) as datagram:
        for reach in (
            lambda: stream.connect((OUTSIDE, 80)),
            lambda: stream.bind((OUTSIDE, 0)),
            lambda: datagram.sendto(b"x", (OUTSIDE, 9)),
        ):
            with pytest.raises(NetworkBlocked, match=r"192\.0\.2\.1"):
                reach()
        with pytest.raises(NetworkBlocked):
            stream.bind(("", 0))
    with pytest.raises(NetworkBlocked, match=r"example\.org"):
        socket.getaddrinfo("example.org", 443)
    for host, verdict in {"localhost": True, "127.8.9.1": True, "::1": True, "": False, "0.0.0.0": False}.items():
        assert is_loopback(host) is verdict
    assert is_loopback(b"127.0.0.1")


def test_a_child_process_is_guarded_too() -> None:
    program = f"import socket; socket.socket().connect(({OUTSIDE!r}, 80))"
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=False)
    assert child.returncode == 1
    assert "NetworkBlocked" in child.stderr


def test_the_environment_holds_no_key_and_no_setting() -> None:
    for name in os.environ:
        assert not name.endswith("_API_KEY"), name
        assert not name.startswith("AGENTLEARN_"), name


def test_a_process_left_running_is_noticed_and_ended() -> None:
    left: list[subprocess.Popen[bytes]] = []
    with pytest.raises(AssertionError, match="processes left running"), no_process_left(grace_s=0.05):
        left.append(subprocess.Popen(["sleep", "60"]))
    assert left[0].wait(timeout=60) == -signal.SIGKILL
    with no_process_left(grace_s=0.05):
        subprocess.run(["true"], check=True)


def test_a_task_left_running_is_noticed() -> None:
    async def leave_one() -> asyncio.Task[None]:
        return asyncio.ensure_future(asyncio.sleep(60))

    async def await_one() -> str:
        return await asyncio.ensure_future(asyncio.sleep(0, "value"))

    with pytest.raises(AssertionError, match="still running"), no_asyncio_task_left():
        asyncio.run(leave_one())
    with no_asyncio_task_left():
        assert asyncio.run(await_one()) == "value"
