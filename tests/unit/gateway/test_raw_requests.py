"""Requests as bytes on a socket, to a gateway that runs: each is refused, or read in one way, and no second one is.

After each comes an ordinary request, which a server would read that saw the end of the first one elsewhere.
"""

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="pip install 'agentlearn-lib[serve]'")

from agentlearn.serving.web_server import WAITS_S
from tests.support.cases import cases
from tests.support.raw_http import said, serving
from tests.unit.gateway.test_gateway import setting

SECOND = b"GET /v1/second HTTP/1.1\r\nHost: localhost\r\n\r\n"
ORDINARY = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


async def test_no_request_is_read_in_two_ways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    for name in WAITS_S:
        monkeypatch.setitem(WAITS_S, name, 0.3)
    async with setting(tmp_path, name="") as here, serving(here.gateway) as port:
        for name, raw, asked in cases(__file__, "requests"):
            here.asked.clear()
            with subtests.test(name):
                async with asyncio.timeout(5):
                    answer = await said(port, raw.replace("…", "a" * 70_000).encode("latin-1") + SECOND)
                found = [f"{one.method} {one.path} {one.body.decode('latin-1')}" for one in here.asked]
                assert found == asked
                refused = not answer or answer.startswith(b"HTTP/1.1 4")
                assert refused is not bool(asked)
                assert answer.count(b"HTTP/1.1 2") <= len(asked)
        assert b"HTTP/1.1 200" in await said(port, ORDINARY)
