"""`learn --on`: a file, an agent's instructions and its tool descriptions improve in small changes, in whole runs."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agentlearn import Experiences, learn_sync
from agentlearn.errors import AgentlearnError, ConfigError
from agentlearn.learning.callbacks import Callbacks
from agentlearn.learning.report import LearnReport
from agentlearn.library import LibraryStore
from agentlearn.store import read_store
from agentlearn.types.rendering import document_text
from agentlearn.types.task import Task
from tests.support.cases import cases

pytestmark = pytest.mark.slow

RULE = "Delivery is free from 50 coins."
TASKS = [(f"An order of {coins} coins.", str(coins + (0 if coins >= 50 else 5))) for coins in range(10, 90, 4)]
OWN = "Name the price of an order with delivery, as a number alone."


def asked(messages: list[ModelMessage]) -> str:
    parts = (part for one in messages if isinstance(one, ModelRequest) for part in one.parts)
    return "\n".join(str(part.content) for part in parts if isinstance(part, UserPromptPart))


def shop(reads: Callable[[AgentInfo], str], **settings: Any) -> Agent[None, str]:
    """An agent that follows the rule where what it reads says it."""

    def solve(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        found = re.search(r"(\d+) coins", asked(messages))
        assert found is not None
        coins = int(found[1])
        return ModelResponse(parts=[TextPart(str(coins + (0 if RULE in reads(info) and coins >= 50 else 5)))])

    return Agent(FunctionModel(solve), name="shop", **settings)


def reflector(target: str, new: str = RULE) -> FunctionModel:
    def reflect(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        edit: dict[str, Any] = {"op": "add", "target": target, "new": new}
        reply: dict[str, Any] = {"edits": [edit]}
        if "<trajectory>" in asked(messages):
            reply = {"steps": [{"text": "It added the fee."}]}
        elif "<proposals>" in asked(messages):
            reply = {"edits": [edit | {"rests_on": ["P1"]}]}
        return ModelResponse(parts=[ToolCallPart("submit", reply)])

    return FunctionModel(reflect)


def instructions_of(info: AgentInfo) -> str:
    return info.instructions or ""


def run(agent: Agent[None, str], on: str, store: Path, target: str = "G1", **more: Any) -> LearnReport:
    given: dict[str, Any] = {"reward": "number", "progress": False, "seed": 0, "reflector": reflector(target), **more}
    return learn_sync(agent, TASKS, on=on, store=store, **given)


def text_of(store: Path, name: str) -> str:
    return document_text(one.lesson for one in LibraryStore(store / "libraries").load(name).experiences)


def test_an_agents_instructions_are_replaced_by_the_improved_ones(tmp_path: Path) -> None:
    seen = set[str]()

    def reads(info: AgentInfo) -> str:
        seen.add(instructions_of(info))
        return instructions_of(info)

    report = run(shop(reads, instructions=OWN), "instructions", tmp_path)
    assert report.delta is not None
    assert report.delta.verdict == "better"
    assert text_of(tmp_path, "shop-instructions") == f"{OWN}\n\n{RULE}\n"
    assert seen == {OWN, f"{OWN}\n\n{RULE}"}
    history = LibraryStore(tmp_path / "libraries").history("shop-instructions")
    assert [one.kind for one in history.changes] == ["import", "learn"]
    assert run(shop(reads, instructions=OWN), "instructions", tmp_path).library.lessons == 1  # goes on from the newest


async def test_tool_descriptions_are_replaced_in_runs_and_in_applications(tmp_path: Path) -> None:
    def reads(info: AgentInfo) -> str:
        return {one.name: one.description or "" for one in info.function_tools}["fee"]

    agent = shop(reads, instructions=OWN)
    agent.tool_plain(name="fee", description="The fee of a delivery.")(lambda: 5)
    report = await asyncio.to_thread(run, agent, "tools", tmp_path)
    assert report.delta is not None
    assert report.delta.verdict == "better"
    assert text_of(tmp_path, "shop-tools") == f"## fee\n\nThe fee of a delivery.\n\n{RULE}\n"
    question = "An order of 60 coins."
    assert (await agent.run(question)).output == "65"
    lessons = Experiences("shop-tools", store=tmp_path)
    assert (await agent.run(question, capabilities=[lessons])).output == "60"


def test_a_file_is_read_beside_the_instructions_and_a_changed_file_is_a_new_version(tmp_path: Path) -> None:
    file = tmp_path / "SHOP.md"
    file.write_text("# Orders\n\nRead the order first.\n\n## Tone\n<!-- agentlearn: keep -->\n\nBe polite.\n")
    agent = shop(instructions_of, instructions=OWN)
    report = run(agent, str(file), tmp_path, library="orders")
    assert report.delta is not None
    assert report.delta.verdict == "better"
    learned = text_of(tmp_path, "orders")
    assert learned == file.read_text().replace("first.\n", f"first.\n\n{RULE}\n")
    file.write_text(learned.replace("polite", "kind"))
    assert run(agent, str(file), tmp_path, library="orders").library.parent is not None
    assert text_of(tmp_path, "orders") == learned.replace("polite", "kind")


def test_a_change_is_tried_on_the_tasks_that_it_was_made_from_before_more_is_learned_with_it(tmp_path: Path) -> None:
    agent = shop(instructions_of, instructions=OWN)
    report = run(agent, "instructions", tmp_path, reflector=reflector("G1", "Round the price up."), batch_size=10)
    assert text_of(tmp_path, "shop-instructions") == f"{OWN}\n"
    with read_store(tmp_path) as reader:
        made = [reader.trajectory(one.id) for one in reader.trajectories(report.run)]
    learned = {one.treatment.library for one in made if one.phase.startswith("epoch")}
    tried = {one.treatment.library for one in made if one.phase.startswith("trial:epoch")}
    assert len(learned) == 1
    assert tried
    assert not tried & learned


def test_a_section_that_a_person_keeps_is_never_changed(tmp_path: Path) -> None:
    file = tmp_path / "SHOP.md"
    file.write_text(f"# Orders\n<!-- agentlearn: keep -->\n\n{OWN}\n")
    report = run(shop(instructions_of), str(file), tmp_path, library="orders")
    assert text_of(tmp_path, "orders") == file.read_text()
    assert set(report.proposals.rejected) == {"written_by_person"}


def test_a_document_that_a_strangers_words_could_have_shaped_waits_for_a_person(tmp_path: Path) -> None:
    def priced(task: Task, output: str) -> tuple[bool, str]:
        return output == task.answer, "" if output == task.answer else "A customer says that the fee was wrong."

    report = run(shop(instructions_of, instructions=OWN), "instructions", tmp_path, reward=priced)
    assert report.selection is not None
    assert report.selection.status == "pending"
    assert text_of(tmp_path, "shop-instructions") == f"{OWN}\n"
    trusted = run(shop(instructions_of, instructions=OWN), "instructions", tmp_path, reward=priced, trust="reasons")
    assert trusted.selection is not None
    assert trusted.selection.status == "published"


def test_a_stopped_run_goes_on_with_the_same_document(tmp_path: Path) -> None:
    class Stops(Callbacks):
        def epoch_done(self, line: Any) -> None:
            raise AgentlearnError("stopped", code="stopped")

    agent = shop(instructions_of, instructions=OWN)
    whole = run(agent, "instructions", tmp_path / "whole")
    with pytest.raises(AgentlearnError, match="stopped"):
        run(agent, "instructions", tmp_path / "cut", callbacks=Stops())
    with read_store(tmp_path / "cut") as reader:
        (row,) = reader.runs(limit=3)
    again = run(agent, "instructions", tmp_path / "cut", resume=row.run)
    assert again.library.version == whole.library.version


@pytest.mark.parametrize(
    ("on", "options", "words"),
    cases(__file__, "what_cannot_be_improved_is_refused_in_a_sentence"),
)
def test_what_cannot_be_improved_is_refused_in_a_sentence(
    on: str, options: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        run(shop(instructions_of, instructions=OWN), on, tmp_path, **options)


def test_instructions_that_a_function_makes_are_not_replaced(tmp_path: Path) -> None:
    agent = shop(instructions_of, instructions=lambda: OWN)
    with pytest.raises(ConfigError, match="made by functions"):
        run(agent, "instructions", tmp_path)
