"""The service of docs/examples: many clients, feedback, learning in the background, new lessons without a restart."""

import asyncio
import importlib.util
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from agentlearn import read_store
from agentlearn.store import Selection
from agentlearn_demo.endpoints import sim_endpoint

pytestmark = pytest.mark.slow
httpx = pytest.importorskip("httpx")
pytest.importorskip("fastapi")

SOURCE = Path(__file__).parents[2] / "docs/examples/support_service.py"
RIGHT = {
    f"Find the number of integers from -{low} to {high}, inclusive, that are divisible by 3 or by 5.": sum(
        n % 3 == 0 or n % 5 == 0 for n in range(-low, high + 1)
    )
    for low in (15, 18, 20, 21)
    for high in (60, 66, 72, 78, 84, 90)
}
"""Questions with their answers."""


def loaded_service() -> Any:
    """Import the example anew; it reads its environment then."""
    spec = importlib.util.spec_from_file_location("support_service", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


async def ask(client: Any, text: str) -> tuple[dict[str, str], bool]:
    """Ask a question and give feedback on the answer. Returns the service's reply, and whether it is right."""
    asked = await client.post("/ask", json={"text": text})
    reply = asked.raise_for_status().json()
    right = f"{{{RIGHT[text]}}}" in reply["text"]
    comment = "an end of the range, or zero, may have been left out"
    feedback = {"rollout": reply["rollout"], "reward": float(right), "comment": comment}
    (await client.post("/feedback", json=feedback)).raise_for_status()
    return reply, right


def test_a_service_records_learns_and_uses_new_lessons_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ask_all(client: Any, texts: list[str]) -> tuple[list[dict[str, str]], int]:
        answers = await asyncio.gather(*(ask(client, text) for text in texts))
        return [reply for reply, _ in answers], sum(right for _, right in answers)

    async def story() -> set[str]:
        async with sim_endpoint("novice") as service:
            monkeypatch.chdir(tmp_path)
            monkeypatch.setenv("OPENAI_BASE_URL", service.base_url)
            monkeypatch.setenv("OPENAI_API_KEY", "none")
            monkeypatch.setenv("SUPPORT_MODEL", f"openai-chat:{service.model}")
            monkeypatch.setenv("SUPPORT_LEARN_AFTER", str(len(RIGHT)))
            module = loaded_service()
            transport = httpx.ASGITransport(app=module.app)
            async with (
                module.app.router.lifespan_context(module.app),
                httpx.AsyncClient(transport=transport, base_url="http://service", timeout=60) as client,
            ):
                first, right = await ask_all(client, list(RIGHT))
                deadline = time.monotonic() + 120
                while not len(module.lessons.library) and time.monotonic() < deadline:
                    await ask_all(client, list(RIGHT)[:4])
                    await asyncio.sleep(0.2)
                again, right_again = await ask_all(client, list(RIGHT))
            module.recorder.close()
        (before,) = {reply["library"] for reply in first}
        assert before not in {reply["library"] for reply in again}
        assert right_again > right
        return {reply["rollout"] for reply in (*first, *again)}

    acknowledged = asyncio.run(story())  # waits for a learner that is still at work
    with read_store(tmp_path / ".agentlearn") as reader:
        assert acknowledged <= {row.id for row in reader.selected(Selection(domain="support"))}
