"""agentlearn: `learn` with its defaults, on lessons and on instructions, and with the published settings.

The tasks to choose by are more tasks to learn from: it takes its validation from them.
"""

import json
import re
import tempfile
from pathlib import Path
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agentlearn import Task, learn_sync
from agentlearn.library import LibraryStore
from agentlearn_demo.sim.lessons import experiences_in
from agentlearn_demo.sim.prompts import ConsolidatePrompt
from scripts.bench.arena.merging import merged
from scripts.bench.arena.proxy import Proxy

_EDIT = re.compile(
    r'^\[(P\d+)\] edit (G\d+): (?:old ("(?:[^"\\]|\\.)*"))?(?:, )?(?:new ("(?:[^"\\]|\\.)*"))?', re.MULTILINE
)
PUBLISHED = {"group_size": 5, "stop_after": 5, "revisit_every": 1, "end_when_settled": 1, "reward_margin": 0}
PUBLISHED |= {"batch_size": 100, "all_wrong": "skip", "select": "last", "validation_rollouts": 0, "max_proposals": 3}


def lessons(proxy: Proxy) -> str:
    """`learn` with its defaults."""
    return _learned(proxy)


def document(proxy: Proxy) -> str:
    """`learn --on SKILL.md` with its defaults."""
    return _learned(proxy, on=True)


def published(proxy: Proxy) -> str:
    """Training-free GRPO as published (the recipe `math/published`): three epochs of one batch, G = 5, no selection.

    A group costs up to eleven calls. As many tasks as the calls allow in three epochs.
    """
    return _learned(proxy, limit=max(1, min(len(proxy.ground.train), proxy.left // 3 // 9)), **PUBLISHED)


def _learned(proxy: Proxy, *, on: bool = False, **options: Any) -> str:
    ground = proxy.ground

    def asked(messages: list[ModelMessage]) -> str:
        parts = (part for one in messages if isinstance(one, ModelRequest) for part in one.parts)
        return "\n".join(str(part.content) for part in parts if isinstance(part, UserPromptPart))

    async def shop(task: Task, read: str) -> str:
        return proxy.solve(read if on else f"{ground.start}\n{read}", task.problem)

    def reflector(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        question = asked(messages)
        reply = proxy.reflect((info.instructions or "") + question, lambda: json.dumps(_reply(proxy, question, on)))
        return ModelResponse(parts=[ToolCallPart("submit", json.loads(reply))])

    tasks = [*ground.train] if "limit" in options else [*ground.train, *ground.choose]
    with tempfile.TemporaryDirectory() as folder:
        document = Path(folder) / "SKILL.md"
        document.write_text(ground.start, encoding="utf-8")
        report = learn_sync(
            shop,
            tasks,
            reward=lambda task, answer: ground.right(answer, task.answer or ""),
            model=None,
            reflector=FunctionModel(reflector),
            trust=["function"],
            seed=ground.seed,
            test=[],
            evaluate=False,
            store=folder,
            progress=False,
            **({"on": str(document)} if on else {}),
            **options,
        )
        libraries = LibraryStore(f"{folder}/libraries")
        known = report.library.name in libraries.names()
        found = libraries.load(report.library.name).render().text if known else ""
    return found if on else f"{ground.start}\n{found}"


def _reply(proxy: Proxy, question: str, on: bool) -> dict[str, Any]:
    if "<trajectory>" in question:
        return {"steps": [{"text": "It answered from what it had read."}]}
    labels = {one.text: one.label for one in experiences_in(question)}
    document = re.search(r"<document>\n(.*?)</document>", question, re.DOTALL)

    def item(change: tuple[str, str]) -> dict[str, Any]:
        old, new = change
        if on:
            return {"op": "edit", "target": "G1", "old": old, "new": new} if old else {"op": "add", "target": "G1", "new": new}
        return {"op": "modify", "target": labels[old], "lesson": new} if old in labels else {"op": "add", "lesson": new}

    key = "edits" if on else "proposals"
    if "<proposals>" not in question:
        text = document[1] if document else "\n".join([proxy.ground.start, *labels])
        return {key: [item(one) for one in proxy.concluded(question, text)]}
    if on:
        given = [(label, (json.loads(old or '""'), json.loads(new or '""'))) for label, _, old, new in _EDIT.findall(question)]
    else:
        texts = {label: text for text, label in labels.items()}
        found = ConsolidatePrompt.read(question).suggestions
        given = [(one.label, (texts.get("".join(one.targets), ""), one.lesson)) for one in found]
    about = proxy.ground.about
    return {key: [{**item(change), "rests_on": names} for change, names in merged(given, about)]}
