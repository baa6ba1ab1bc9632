"""Clients of the example service in docs/examples, which runs on the simulated model."""

import asyncio
import importlib.util
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

SOURCE = Path(__file__).parents[2] / "docs/examples/support_service.py"
_WORDING = "Find the number of integers from -{} to {}, inclusive, that are divisible by 3 or by 5."
RIGHT = {
    _WORDING.format(low, high): sum(n % 3 == 0 or n % 5 == 0 for n in range(-low, high + 1))
    for low in (15, 18, 20, 21)
    for high in (60, 66, 72, 78, 84, 90)
}
"""Questions with their answers."""


def loaded_service() -> ModuleType:
    """Import the example anew; it reads its environment then."""
    spec = importlib.util.spec_from_file_location("support_service", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@asynccontextmanager
async def client_of(app: Any) -> AsyncGenerator[Any]:
    """Start the application, and yield a client that calls it in this process."""
    import httpx

    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://service", timeout=60) as client,
    ):
        yield client


async def ask(client: Any, text: str) -> dict[str, str]:
    """Ask a question and give feedback on the answer. Returns the service's reply."""
    asked = await client.post("/ask", json={"text": text})
    assert asked.status_code == 200, asked.text
    reply: dict[str, str] = asked.json()
    comment = "an end of the range, or zero, may have been left out"
    feedback = {"rollout": reply["rollout"], "reward": float(is_right(text, reply)), "comment": comment}
    said = await client.post("/feedback", json=feedback)
    assert said.status_code == 200, said.text
    return reply


def is_right(text: str, reply: dict[str, str]) -> bool:
    """Whether the reply to a question is right."""
    return f"{{{RIGHT[text]}}}" in reply["text"]


@asynccontextmanager
async def watched_loop(late: list[float], *, every_s: float = 0.005) -> AsyncGenerator[None]:
    """Note during the block by how many seconds a timer is late, each time."""

    async def watch() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(every_s)
            late.append(time.perf_counter() - before - every_s)

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()
