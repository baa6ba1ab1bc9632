"""The service of docs/examples: many clients, feedback, learning in the background, new lessons without a restart."""

import asyncio
import time
from pathlib import Path

import pytest

from agentlearn import read_store
from agentlearn.store import Selection
from agentlearn_demo.endpoints import sim_endpoint
from tests.support.support_traffic import RIGHT, ask, client_of, is_right, loaded_service

pytestmark = pytest.mark.slow
pytest.importorskip("httpx")
pytest.importorskip("fastapi")
Replies = dict[str, dict[str, str]]


def share_right(replies: Replies) -> float:
    return sum(is_right(text, reply) for text, reply in replies.items()) / len(replies)


def test_a_service_records_learns_and_uses_new_lessons_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> set[str]:
        async with sim_endpoint("novice") as service:
            monkeypatch.chdir(tmp_path)
            monkeypatch.setenv("OPENAI_BASE_URL", service.base_url)
            monkeypatch.setenv("OPENAI_API_KEY", "none")
            monkeypatch.setenv("SUPPORT_MODEL", f"openai-chat:{service.model}")
            monkeypatch.setenv("SUPPORT_LEARN_AFTER", str(len(RIGHT)))
            module = loaded_service()
            async with client_of(module.app) as client:

                async def ask_all() -> Replies:
                    replies = await asyncio.gather(*(ask(client, text) for text in RIGHT))
                    return dict(zip(RIGHT, replies, strict=True))

                first = await ask_all()
                deadline = time.monotonic() + 120
                while not len(module.lessons.library) and time.monotonic() < deadline:
                    await asyncio.gather(*(ask(client, text) for text in list(RIGHT)[:4]))
                    await asyncio.sleep(0.2)
                again = await ask_all()
            module.recorder.close()
            (before,) = {reply["library"] for reply in first.values()}
            assert before not in {reply["library"] for reply in again.values()}
            assert share_right(again) > share_right(first)
            return {reply["rollout"] for reply in (*first.values(), *again.values())}

    acknowledged = asyncio.run(story())  # waits for a learner that is still at work
    with read_store(tmp_path / ".agentlearn") as reader:
        assert acknowledged <= {row.id for row in reader.selected(Selection(domain="support"))}
