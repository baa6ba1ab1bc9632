"""The simulated world over HTTP refuses what real services refuse."""

import asyncio

import httpx2
import pytest

from agentlearn_demo.sim.server import World
from tests.support.cases import cases


def test_a_bad_request_gets_the_error_that_services_send(subtests: pytest.Subtests) -> None:
    async def answers() -> None:
        async with World([], seed=1).serve() as url, httpx2.AsyncClient(timeout=60) as client:
            for body, status, code, words in cases(__file__, "bad_requests"):
                with subtests.test(body):
                    response = await client.post(f"{url}/chat/completions", content=body.encode())
                    error = response.json()["error"]
                    found = (response.status_code, error["code"], error["type"])
                    assert found == (status, code, "invalid_request_error")
                    assert words in error["message"]

    asyncio.run(answers())
