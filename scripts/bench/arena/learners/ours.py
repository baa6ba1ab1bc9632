"""agentlearn: `learn` with its defaults, on lessons and on a document, and with the published settings.

It gets all tasks and parts them itself: three in ten are held out, and what is worse there is not published.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agentlearn import Task, learn_sync
from agentlearn.library import LibraryStore
from scripts.bench.arena.proxy import Proxy
from scripts.bench.arena.reflecting import stage_reply

PUBLISHED: dict[str, Any] = {
    "group_size": 5,
    "stop_after": 5,
    "revisit_every": 1,
    "end_when_settled": 1,
    "reward_margin": 0,
    "batch_size": 100,
    "all_wrong": "skip",
    "select": "last",
    "validation_rollouts": 0,
    "max_proposals": 3,
}
"""The settings of the recipe `math/published`, without its model, tasks and temperatures."""


def lessons(proxy: Proxy) -> str:
    """`learn` with its defaults."""
    return _learned(proxy, {}, document=False)


def document(proxy: Proxy) -> str:
    """`learn --on SKILL.md` with its defaults."""
    return _learned(proxy, {}, document=True)


def published(proxy: Proxy) -> str:
    """Training-free GRPO as published: three epochs of one batch, G = 5, no selection.

    A group costs five to eleven calls: as many tasks as the calls allow in three epochs.
    """
    most = max(1, min(len(proxy.ground.train), proxy.left // 3 // 9))
    return _learned(proxy, {**PUBLISHED, "limit": most, "evaluate": False, "test": []}, document=False)


def _learned(proxy: Proxy, options: dict[str, Any], *, document: bool) -> str:
    ground = proxy.ground

    async def shop(task: Task, read: str) -> str:
        return proxy.solve(read if document else f"{ground.start}\n{read}", task.problem)

    def reflector(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        parts = (part for one in messages if isinstance(one, ModelRequest) for part in one.parts)
        asked = "\n".join(str(part.content) for part in parts if isinstance(part, UserPromptPart))
        prompt = (info.instructions or "") + asked
        reply = proxy.reflect(prompt, lambda: json.dumps(stage_reply(proxy, asked, document=document)))
        return ModelResponse(parts=[ToolCallPart("submit", json.loads(reply))])

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "SKILL.md"
        file.write_text(ground.start, encoding="utf-8")
        given: dict[str, Any] = {"seed": ground.seed, "trust": ["function"], **options}
        if document:
            given["on"] = str(file)
        report = learn_sync(
            shop,
            [*ground.train] if "limit" in options else [*ground.train, *ground.choose],
            reward=lambda task, answer: ground.right(str(answer), task.answer or ""),
            reflector=FunctionModel(reflector),
            store=folder,
            progress=False,
            **given,
        )
        libraries = LibraryStore(f"{folder}/libraries")
        known = report.library.name in libraries.names()
        found = libraries.load(report.library.name).render().text if known else ""
    return found if document else f"{ground.start}\n{found}"
